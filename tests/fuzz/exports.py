"""Exported C under sanitizers, on ordinary rows and on all that floats can hold."""

import re
import subprocess
import warnings

import numpy as np

from tests.export.clusters import reaches_class
from tests.export.test_c import COMPILER, DECIDE, FLAGS, FLOAT32, MAIN, near_boundary, raw_decisions
from tests.fuzz.cases import refusable, require
from tests.fuzz.oracles import largest_sum
from tests.fuzz.problems import draw_data, draw_estimator, kernel_rows, needs_histograms
from tests.reference.kernels import to_dense
from widemargin.export import to_c
from widemargin.export.description import ClusterSum, CurveSum, describe

#: Conversions of floats to integers out of range are not among "undefined" for gcc.
SANITIZERS = ["-fsanitize=float-cast-overflow"]
#: What a sanitizer complains about, without the numbers.
KIND = re.compile(r"(?:runtime error|AddressSanitizer): ([-a-z ]+)")
ODD_NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e30, -1e30, 32767.5, -32768, -32769, 65536, 1e-45,
     -1e-45, -0.0, 1e-30, 2.0**31, -(2.0**31), 1.0],
    np.float32,
)  # fmt: skip


def run(case):
    """Export a model, compile it, and compare it with the model."""
    if COMPILER is None:
        case.note("skipped", "there is no C compiler")
        return "skipped"
    model = draw_estimator(case, exported=True)
    nonnegative = needs_histograms(model)
    flawless = case.happens(0.7)
    n_rows = int(case.power(0.7, 1.9))
    data = draw_data(case, n_rows=n_rows, nonnegative=nonnegative, flawless=flawless)
    X = kernel_rows(model, data.X)
    options = {"dtype": case.choose("float32", "int16"), "libm": case.happens(0.5)}
    case.note("export", str(options))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refusable(model.fit, X, data.y, data.sample_weight)
        files = refusable(to_c, model, case.folder / "model.c", verbose=False, **options)
    X = to_dense(X)
    _compile(case.folder, options["dtype"])
    _, classes = _ask(case.folder, _odd_rows(case, X), "odd rows")
    require(((classes >= 0) & (classes < len(model.classes_))).all(), "class", f"{classes}")
    with np.errstate(over="ignore"):
        rows = X.astype(np.float32)
    if flawless:
        _compare(model, files, rows.astype(np.float64), *_ask(case.folder, rows, "rows"))
    return "right"


def _odd_rows(case, X):
    """Training rows with odd numbers in some of the places, or in all."""
    share = case.rng.choice([0.2, 1.0], size=(200, 1))
    odd = case.rng.choice(ODD_NUMBERS, size=(200, X.shape[1]))
    planted = case.rng.random(odd.shape) < share
    with np.errstate(over="ignore"):
        return np.where(planted, odd, X[case.rng.integers(len(X), size=200)]).astype(np.float32)


def _compile(folder, dtype):
    number, decide = DECIDE[dtype]
    (folder / "main.c").write_text(MAIN % {"number": number, "decide": decide})
    command = [
        COMPILER, *FLAGS, *SANITIZERS, str(folder / "main.c"), str(folder / "model.c"),
        "-o", str(folder / "program"), "-lm",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    require(done.returncode == 0, "compiler", done.stderr[:800])


def _ask(folder, rows, what):
    """Decisions and classes of the compiled model."""
    done = subprocess.run([str(folder / "program")], input=rows.tobytes(), capture_output=True)
    told = done.stderr.decode(errors="replace")
    error = KIND.search(told)
    place = f"sanitizer: {error[1]}" if error else f"exit {done.returncode}"
    require(done.returncode == 0, place, f"on {what}: {told[:800]}")
    table = np.array([line.split() for line in done.stdout.decode().splitlines()], float)
    require(np.array_equal(table[:, -1], table[:, -2]), "predict", "predict is not classify")
    return table[:, :-2], table[:, -1].astype(int)


def _at_a_border(model, X, expected, limit):
    """Rows with a value so near the border of two bins that float32 may put it into the other.

    With few rows, and the largest value of a column as last border, one such row is a large share.
    """
    if not hasattr(model, "quantiser_"):
        return np.zeros(len(X), bool)
    rounding = 4 * np.finfo(np.float32).eps * (np.abs(X) + np.abs(X).max())
    moved = [raw_decisions(model, np.maximum(X + way * rounding, 0.0)) for way in (-1, 1)]
    return np.any([np.abs(found - expected) > limit for found in moved], axis=(0, 2))


def _compare(model, files, X, decisions, classes):
    """Ordinary rows get the class of the model, unless a deviation within the bound changes it.

    Features beyond the range of int16 numbers saturate, as the header of the C file says.
    """
    if files.input_range is not None:
        inside = np.abs(X).max(axis=1) <= files.input_range
        X, decisions, classes = X[inside], decisions[inside], classes[inside]
    if not len(X):
        return
    expected = raw_decisions(model, X)
    limit = files.error_bound or FLOAT32 * largest_sum(model, X, expected)
    near = near_boundary(expected, limit) | _at_a_border(model, X, expected, limit)
    differs = (model.classes_[classes] != model.predict(X)) & ~near
    described = describe(model)
    if isinstance(described.functions, ClusterSum):
        rows = np.flatnonzero(differs)
        slack = files.route_bound or 0.0
        differs[rows] = ~reaches_class(described, X[rows], classes[rows], slack, limit)
    text = f"{differs.sum()} of {len(X)} ordinary rows get another class"
    # Float arithmetic may put a value on the border of two bins into the other.
    share = 0.05 if isinstance(described.functions, CurveSum) else 0.0
    require(differs.mean() <= share, "class", text)
