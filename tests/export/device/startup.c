/* What a Cortex-M needs before main, and semihosting to print and to end. */
#include <stdint.h>

extern uint32_t stack_top, data_start, data_end, data_source, bss_start, bss_end;

int main(void);
void reset(void);

static int call_host(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void print_text(const char *text);
void print_text(const char *text)
{
    call_host(0x04, text);
}

void reset(void)
{
    const uint32_t *source = &data_source;
    for (uint32_t *at = &data_start; at < &data_end; at++) {
        *at = *source++;
    }
    for (uint32_t *at = &bss_start; at < &bss_end; at++) {
        *at = 0;
    }
#ifdef __ARM_FP
    /* Switch the floating point unit on. */
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
#endif
    main();
    call_host(0x18, (const void *)0x20026);
    for (;;) {
    }
}

static void fail(void)
{
    print_text("fault");
    call_host(0x18, (const void *)0x20023);
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))(uintptr_t)&stack_top, reset, fail, fail, fail, fail, fail,
};
