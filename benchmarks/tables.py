"""Tables of results in Markdown."""

from collections.abc import Callable

from benchmarks import settings
from benchmarks.freshness import MARK, is_stale
from benchmarks.storage import Measurement
from benchmarks.suites import Suite
from benchmarks.summary import Summary, compare_objective, find_ratio, find_suite, round_down


def render_full_table(summary: Summary) -> str:
    """Render one row for each data set and solver."""
    quality = find_suite(next(iter(summary.values()))).quality[1]
    header = (
        "dataset", "n", "d", "solver", "fit s", "predict s", quality, "support vectors",
        "objective", "against LIBSVM", "duality gap", "peak GB", "repeats", "fit ratio",
        "predict ratio",
    )  # fmt: skip
    rows = [
        render_row(dataset, solver, results)
        for dataset, results in summary.items()
        for solver in results
    ]
    return render_table(header, rows, n_text=1)


def render_row(dataset: str, solver: str, results: dict[str, Measurement]) -> list[str]:
    """Render the row of one solver on one data set."""
    m = results[solver]
    suite = find_suite(results)
    field, _, form = suite.quality
    peer = solver != "widemargin"
    difference = compare_objective(results, solver) if solver != "sklearn" else None
    return [
        dataset,
        f"{m['n_train']:,}",
        str(m["n_features"]),
        settings.SOLVERS[solver],
        f"{m[suite.clock('fit')]:.2f}{mark_stale(suite, solver, m)}",
        f"{m[suite.clock('predict')]:.2f}",
        form.format(m[field]),
        f"{m['n_support']:,}",
        f"{m['objective']:.8g}",
        format_optional(difference, "{:+.1e}".format),
        format_optional(m["duality_gap"], "{:.3g}".format),
        f"{m['peak_rss_bytes'] / 1e9:.2f}",
        str(m["n_repeats"]),
        format_ratio(find_ratio(results, "fit", solver) if peer else None),
        format_ratio(find_ratio(results, "predict", solver) if peer else None),
    ]


def render_short_table(summary: Summary) -> str:
    """Render the table of the README and of guides: fit seconds and ratios."""
    suite = find_suite(next(iter(summary.values())))
    solvers = suite.solvers
    peers = [solver for solver in solvers if solver != "widemargin"]
    header = (
        "dataset", "rows x features", *(f"{settings.SOLVERS[s]} fit s" for s in solvers),
        *(f"{settings.SOLVERS[peer]} / widemargin" for peer in peers),
    )  # fmt: skip
    rows = []
    for dataset, results in summary.items():
        m = next(iter(results.values()))
        fits = [show_fit(suite, s, results.get(s)) for s in solvers]
        ratios = [find_ratio(results, "fit", peer) for peer in peers]
        rows.append(
            [dataset, f"{m['n_train']:,} x {m['n_features']}"]
            + fits
            + [format_ratio(ratio) for ratio in ratios]
        )
    return render_table(header, rows, n_text=1)


def show_fit(suite: Suite, solver: str, m: Measurement | None) -> str:
    """Seconds of a fit, marked if older code was measured; a dash where there are none."""
    return "-" if m is None else f"{m[suite.clock('fit')]:.1f}{mark_stale(suite, solver, m)}"


def mark_stale(suite: Suite, solver: str, m: Measurement) -> str:
    """The mark of measurements whose code has changed since; that of peers is not ours."""
    return MARK if solver == "widemargin" and is_stale(m["machine"], suite.module) else ""


def render_table(header: tuple[str, ...], rows: list[list[str]], n_text: int) -> str:
    """Render Markdown with numbers to the right, but for the first ``n_text`` columns."""
    rule = ["---"] * n_text + ["---:"] * (len(header) - n_text)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, rule, *rows))


def format_optional(value: float | None, write: Callable[[float], str]) -> str:
    """Format a number, or a dash where there is none."""
    return "-" if value is None else write(value)


def format_ratio(ratio: float | None) -> str:
    """Format a ratio, rounded down."""
    return format_optional(ratio, lambda value: f"{round_down(value):.1f}")
