"""Exported models on an emulated Cortex-M: the classes must be Python's."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import DCSVC, AdditiveSVC, KernelSVC, PowerMeanSVC, ProjectedSVC, datasets
from widemargin.export import to_c
from widemargin.export.c_text import write_numbers

TOOLS = ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"needs {', '.join(MISSING)} (Debian: gcc-arm-none-eabi libnewlib-arm-none-eabi "
    "qemu-system-arm)",
)

DEVICE = Path(__file__).parent / "device"
#: Processor and board: without and with a floating point unit.
BOARDS = {
    "cortex-m3": (["-mcpu=cortex-m3", "-mfloat-abi=soft"], "mps2-an385"),
    "cortex-m4": (["-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"], "mps2-an386"),
}
FLAGS = ["-mthumb", "-Os", "-std=c99", "-Wall", "-Wextra", "-Werror", "-ffunction-sections"]
MAIN = """
#include "model.h"

void print_text(const char *text);

static const float rows[][MODEL_N_FEATURES] = {
%s
};

int main(void)
{
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int c = model_predict(rows[i]);
        const char text[] = {(char)('0' + c), 0};
        print_text(text);
    }
    return 0;
}
"""


def run_on_device(model, X, folder, board="cortex-m3", **options):
    """Classes of some rows, the flash of the whole program but for the rows, and the error bound."""
    files = to_c(model, folder / "model.c", verbose=False, **options)
    rows = np.ascontiguousarray(X, np.float32)
    listed = ",\n".join("    {\n" + write_numbers(row) + "\n    }" for row in rows)
    (folder / "main.c").write_text(MAIN % listed)
    processor, machine = BOARDS[board]
    compiler = ["arm-none-eabi-gcc", *processor, *FLAGS]
    part = folder / "model.o"
    subprocess.run([*compiler, "-c", str(files.source), "-o", str(part)], check=True)
    program = folder / "program.elf"
    sources = [str(folder / "main.c"), str(DEVICE / "startup.c"), str(part)]
    subprocess.run(
        [*compiler, *sources, "-nostartfiles", "-specs=nano.specs", "-specs=nosys.specs",
         "-Wl,--gc-sections", f"-T{DEVICE / 'device.ld'}", "-o", str(program), "-lm"],
        check=True, capture_output=True,
    )  # fmt: skip
    done = subprocess.run(
        ["qemu-system-arm", "-M", machine, "-nographic", "-monitor", "none", "-serial", "none",
         "-semihosting-config", "enable=on,target=native", "-kernel", str(program)],
        check=True, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    shown = (done.stdout + done.stderr).strip()
    assert shown.isdigit(), shown
    text, data, bss = measure(part)
    # Nothing is kept in memory between calls.
    assert (data, bss) == (0, 0)
    assert text >= files.flash_bytes
    flash = sum(measure(program)[:2]) - rows.nbytes
    return model.classes_[[int(c) for c in shown]], flash, files.error_bound


def measure(file):
    """Bytes of code and constants, of variables with a value, and of others."""
    done = subprocess.run(
        ["arm-none-eabi-size", str(file)], check=True, capture_output=True, text=True
    )
    return [int(size) for size in done.stdout.splitlines()[1].split()[:3]]


def make_model(name, digits):
    X, y = digits
    if name == "projected":
        return ProjectedSVC(n_basis=10).fit(X[:300], y[:300])
    if name == "pipeline":
        model = make_pipeline(StandardScaler(), ProjectedSVC(n_basis=20, shared_basis=True))
        return model.fit(X[:300], y[:300])
    if name == "exact":
        return KernelSVC(C=10.0).fit(X[:200], y[:200] % 4)
    if name == "additive":
        return AdditiveSVC(n_bins=16).fit(X[:300], y[:300])
    if name == "logarithms":
        return PowerMeanSVC().fit(X[:300], y[:300])
    params = {"n_clusters": 4, "n_levels": 1, "stop_level": 1, "fit_intercept": True}
    return DCSVC(**params, background=0, n_nearest=1, random_state=0).fit(X[:300], y[:300] % 3)


def is_in_range(model, queries):
    """Rows for which the bound holds: scaled features up to twice those of the vectors."""
    if not isinstance(model, Pipeline):
        return np.ones(len(queries), bool)
    scaled, vectors = model[:-1].transform(queries), model[-1].basis_vectors_
    return np.abs(scaled).max(axis=1) <= 2.0 * np.abs(vectors).max()


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("projected", {}),
        ("projected", {"libm": False}),
        ("projected", {"dtype": "int16"}),
        ("pipeline", {"dtype": "int16"}),
        ("exact", {"dtype": "int16"}),
        ("additive", {}),
        ("additive", {"dtype": "int16"}),
        ("logarithms", {}),
        ("clusters", {}),
        ("clusters", {"dtype": "int16"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_classes_are_those_of_python(digits, name, options, board, tmp_path):
    model = make_model(name, digits)
    queries = digits[0][400:650]
    classes, _, bound = run_on_device(model, queries, tmp_path, board, **options)
    agree = classes == model.predict(queries)
    if bound is None:
        assert agree.all()
        return
    # Whole numbers may change a class near the border of two, or a vote of one pair of classes.
    assert agree.mean() >= 0.99
    if name in ("projected", "pipeline", "additive"):
        scores = np.sort(model.decision_function(queries), axis=1)
        is_clear = scores[:, -1] - scores[:, -2] > 2.0 * bound
        assert agree[is_clear & is_in_range(model, queries)].all()


@pytest.mark.skipif("WIDEMARGIN_DATA" not in os.environ, reason="needs WIDEMARGIN_DATA")
def test_adult_fits_in_eight_kilobytes(tmp_path):
    data = datasets.load("a1a")
    model = ProjectedSVC(n_basis=28, C=8.0, gamma=2.0**-0.3 / 25).fit(data.X_train, data.y_train)
    assert model.n_basis_ == 28
    queries = data.X_test[:300].toarray()
    classes, size, _ = run_on_device(model, queries, tmp_path, dtype="int16")
    assert (classes == model.predict(queries)).all()
    assert size <= 8192
