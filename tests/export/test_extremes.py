"""Exported models on rows that no model was made for: NaN, infinities, the ends of number types."""

import subprocess

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from tests.export.test_c import (
    COMPILER,
    FLAGS,
    near_boundary,
    needs_compiler,
    raw_decisions,
    scaled,
)
from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.divide import kernel_kmeans as partition
from widemargin.export import to_c, to_onnx
from widemargin.export.description import describe
from widemargin.kernels import Poly, PowerMean

SANITIZERS = ["-fsanitize=float-cast-overflow,float-divide-by-zero"]
LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).smallest_subnormal)
WILD = [np.nan, np.inf, -np.inf, LARGEST, -LARGEST, 1e20, -1e20, TINY, -TINY, 1e-38, -0.0]
#: What `model_decide` is asked in fixed point, whatever `model_quantise` gives.
WHOLE = [-32768, -32767, 32767, -1]
#: Several clusters on top of a background, and one cluster alone, which fixed point needs.
MIXTURE = {"background": 20, "n_nearest": 2}
NEAREST = {"background": 0, "n_nearest": 1}
EARLY = {
    "n_clusters": 3, "n_levels": 1, "stop_level": 1, "sample_size": 60, "random_state": 0, **NEAREST
}  # fmt: skip

#: Reads rows, prints decisions and the class; then the same for whole numbers.
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "model.h"

static void print(const %(number)s *decisions)
{
    for (int p = 0; p < MODEL_N_FUNCTIONS; p++) {
        printf("%%.9g ", (double)decisions[p]);
    }
    printf("%%d\\n", model_classify(decisions));
}

int main(void)
{
    float x[MODEL_N_FEATURES];
    %(number)s decisions[MODEL_N_FUNCTIONS];
    while (fread(x, sizeof x, 1, stdin) == 1) {
        %(decide)s
        print(decisions);
        if (model_classify(decisions) != model_predict(x)) {
            return 1;
        }
    }
    %(whole)s
    return 0;
}
"""
FIXED = {
    "number": "int32_t",
    "decide": "int16_t q[MODEL_N_FEATURES]; model_quantise(x, q); model_decide(q, decisions);",
    "whole": f"""const int16_t whole[] = {{{", ".join(map(str, WHOLE))}}};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {{
        int16_t q[MODEL_N_FEATURES];
        for (int j = 0; j < MODEL_N_FEATURES; j++) {{
            q[j] = whole[i];
        }}
        model_decide(q, decisions);
        print(decisions);
    }}""",
}
FLOAT = {"number": "float", "decide": "model_decide(x, decisions);", "whole": ""}


def run(model, X, folder, **options):
    """Decisions and classes for rows and, in fixed point, for `WHOLE`; and the files."""
    files = to_c(model, folder / "model.c", verbose=False, **options)
    text = FIXED if options.get("dtype") == "int16" else FLOAT
    (folder / "main.c").write_text(MAIN % text)
    sources = [str(folder / "main.c"), str(folder / "model.c")]
    subprocess.run(
        [COMPILER, *FLAGS, *SANITIZERS, *sources, "-o", str(folder / "program"), "-lm"],
        check=True, capture_output=True,
    )  # fmt: skip
    rows = np.ascontiguousarray(X, np.float32)
    done = subprocess.run(
        [str(folder / "program")], input=rows.tobytes(), capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    table = np.array([line.split() for line in done.stdout.decode().splitlines()], float)
    return table[:, :-1], table[:, -1].astype(int), files


def make_rows(X):
    """Ordinary rows; these with a wild value in one place; and rows of wild values only."""
    mixed = np.repeat(X[: len(WILD)], 2, axis=0)
    for i, value in enumerate(np.repeat(WILD, 2)):
        mixed[i, i % X.shape[1]] = value
    whole = np.full((len(WILD), X.shape[1]), np.array(WILD)[:, None])
    signs = np.where(np.arange(X.shape[1]) % 2, 1.0, -1.0)
    return np.vstack([X, mixed, whole, np.inf * signs, LARGEST * signs])


def zero_for_nan(model, rows):
    """The rows with the value that scaling makes zero of in the place of NaN."""
    zero = np.zeros(rows.shape[1])
    if hasattr(model, "steps"):
        zero = model[0].inverse_transform(zero[None])[0]
    return np.where(np.isnan(rows), zero, rows)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((150, 5))
    X[::7] = np.rint(X[::7])
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.6).astype(int) + (X[:, 3] > 0.7)
    return np.float32(X).astype(np.float64), y


KERNELS = [
    "linear", "rbf", "poly", "sigmoid", "chi2", "exp_chi2", "intersection", "hellinger",
    "jensen_shannon", PowerMean(-2.5),
]  # fmt: skip
MODELS = {
    **{f"KernelSVC-{kernel}": KernelSVC(kernel=kernel, coef0=0.5, C=10.0) for kernel in KERNELS},
    "KernelSVC-poly-7": KernelSVC(kernel="poly", degree=7, C=10.0),
    "KernelSVC-scaled": make_pipeline(StandardScaler(), KernelSVC(C=10.0)),
    "KernelSVC-clipped": make_pipeline(MinMaxScaler(clip=True), KernelSVC(kernel="chi2")),
    "DCSVC-early": DCSVC(**EARLY, gamma=1.0),
    "DCSVC-early-linear": DCSVC(**EARLY, kernel="linear"),
    "DCSVC-background": DCSVC(**{**EARLY, "background": 20}, gamma=1.0),
    "DCSVC-mixture": DCSVC(**{**EARLY, **MIXTURE}, gamma=1.0),
    "DCSVC-mixture-linear": DCSVC(**{**EARLY, **MIXTURE}, kernel="linear"),
    "DCSVC-mixture-poly": DCSVC(**{**EARLY, **MIXTURE}, kernel="poly", coef0=1.0),
    "DCSVC-naive": DCSVC(**EARLY, gamma=1.0, combine="naive"),
    "DCSVC-scaled": make_pipeline(StandardScaler(), DCSVC(**EARLY, kernel="poly", coef0=1.0)),
    "AdditiveSVC": AdditiveSVC(),
    "AdditiveSVC-bins": AdditiveSVC(kernel="intersection", n_bins=40),
    "AdditiveSVC-quantile": AdditiveSVC(binning="quantile"),
    "AdditiveSVC-scaled": make_pipeline(MinMaxScaler(), AdditiveSVC()),
    "IntersectionSVC": IntersectionSVC(),
    "PowerMeanSVC": PowerMeanSVC(),
    "PowerMeanSVC-lut": PowerMeanSVC(lut=True),
    "LRSVC": LRSVC(kernel="rbf", n_anchors=10),
    "LRSVC-scaled": make_pipeline(MinMaxScaler(), LRSVC(kernel="chi2", n_anchors=10)),
    "ProjectedSVC": ProjectedSVC(n_basis=8),
    "ProjectedSVC-scaled": make_pipeline(StandardScaler(), ProjectedSVC(n_basis=8)),
}
NO_FIXED = {"KernelSVC-sigmoid", "KernelSVC-jensen_shannon", "PowerMeanSVC"} | {
    name
    for name in MODELS
    if "PowerMean(" in name or "mixture" in name or name == "DCSVC-background"
}


#: Models whose C has a table in the place of ``expf`` without libm.
EXPONENTIAL = [
    "KernelSVC-rbf", "KernelSVC-exp_chi2", "KernelSVC-sigmoid", f"KernelSVC-{PowerMean(-2.5)}",
    "DCSVC-early", "LRSVC", "ProjectedSVC-scaled",
]  # fmt: skip


def assert_ordinary_rows_same(model, X, decisions, classes, limit):
    """Decisions and classes are Python's, but for a row on the border of two bins or clusters."""
    expected = raw_decisions(model, scaled(model, X))
    off = (np.abs(decisions - expected) > limit).any(axis=1)
    assert off.sum() <= 1
    differs = model.classes_[classes] != model.predict(X)
    assert not (differs & ~off & ~near_boundary(expected, limit)).any()


def assert_extremes_in_float(model, rows, folder, *, libm=True):
    X, y = rows
    model.fit(X, y)
    queries = make_rows(X)
    decisions, classes, files = run(model, queries, folder, libm=libm)
    assert np.isfinite(decisions).all()
    limit = 2e-4 * np.abs(decisions[: len(X)]).max()
    assert_ordinary_rows_same(model, X, decisions[: len(X)], classes[: len(X)], limit)
    assert "that is NaN after scaling\n * counts as zero" in files.header.read_text()
    replaced, _, _ = run(model, zero_for_nan(model, queries), folder, libm=libm)
    # A scaler makes zero of its own zero but for rounding.
    if hasattr(model, "steps"):
        has_nan = np.isnan(queries).any(axis=1)
        assert np.abs(replaced - decisions)[has_nan].max() <= limit
    else:
        assert_array_equal(replaced, decisions)
    # Infinities are what the largest numbers are.
    assert_array_equal(decisions[-1], decisions[-2])


@needs_compiler
@pytest.mark.parametrize("name", MODELS)
def test_float(name, rows, tmp_path):
    assert_extremes_in_float(MODELS[name], rows, tmp_path)


@needs_compiler
@pytest.mark.parametrize("name", EXPONENTIAL)
def test_float_without_libm(name, rows, tmp_path):
    assert_extremes_in_float(MODELS[name], rows, tmp_path, libm=False)


@needs_compiler
@pytest.mark.parametrize("name", [name for name in MODELS if name not in NO_FIXED])
@pytest.mark.filterwarnings("ignore:decisions in int16 may be off")
def test_fixed_point(name, rows, tmp_path):
    X, y = rows
    model = MODELS[name].fit(X, y)
    queries = make_rows(X)
    decisions, classes, files = run(model, queries, tmp_path, dtype="int16")
    ordinary = decisions[: len(X)] * files.unit
    limit = files.error_bound + 1e-6 * np.abs(ordinary).max()
    assert_ordinary_rows_same(model, X, ordinary, classes[: len(X)], limit)
    assert "that is NaN after scaling\n * counts as zero" in files.header.read_text()
    replaced, _, _ = run(model, zero_for_nan(model, queries), tmp_path, dtype="int16")
    assert_array_equal(replaced, decisions)
    assert_array_equal(decisions[-1 - len(WHOLE)], decisions[-2 - len(WHOLE)])
    if "clipped" not in name:
        # Whole numbers beyond the range count as its ends, which infinities come to as well.
        first = len(queries) - 2 - len(WILD)
        up, down = (decisions[first + WILD.index(value)] for value in (np.inf, -np.inf))
        assert_array_equal(decisions[-len(WHOLE) : -1], [down, down, up])


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_clusters_within_clusters(dtype, tmp_path, monkeypatch):
    """Every fork has groups of its own to fall back on, however small all values are."""
    monkeypatch.setattr(partition, "GROUP_POINTS", 1000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    X[:1500] = [3.0, 3.0] + 0.1 * X[:1500]
    y = rng.random(2000) > 0.5
    model = DCSVC(
        kernel="linear", n_clusters=8, n_levels=1, stop_level=1, random_state=0, **NEAREST
    ).fit(X, y)
    assert len(describe(model).functions.forks) > 1
    decisions, _, _ = run(model, make_rows(X[::20]), tmp_path, dtype=dtype)
    assert np.isfinite(decisions).all()


def test_backgrounds_and_several_clusters_are_refused_in_fixed_point(rows, tmp_path):
    for more in ({"background": 10}, {"n_clusters": 8, "n_nearest": 2}):
        model = DCSVC(**{**EARLY, **more}, gamma=1.0).fit(*rows)
        with pytest.raises(ValueError, match="background=0 and n_nearest=1"):
            to_c(model, tmp_path / "model.c", dtype="int16")


def test_committees_are_refused(rows, tmp_path):
    model = DCSVC(**EARLY, gamma=1.0, combine="bcm").fit(*rows)
    with pytest.raises(ValueError, match='combine="early" or "naive"'):
        to_c(model, tmp_path / "model.c")


@pytest.mark.parametrize("kernel", ["sigmoid", "poly"])
def test_a_constant_kernel(kernel, rows, tmp_path):
    X, y = rows
    model = KernelSVC(kernel=kernel, gamma=0.0, coef0=0.5).fit(X, y)
    to_c(model, tmp_path / "model.c")
    assert "model_decide" in (tmp_path / "model.c").read_text()


def test_clusters_of_a_precomputed_kernel_are_refused(rows, tmp_path):
    X, y = rows
    model = DCSVC(kernel="precomputed", **EARLY).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="kernel is a Precomputed"):
        to_c(model, tmp_path / "model.c")
    pytest.importorskip("onnx")
    with pytest.raises(ValueError, match="kernel is a Precomputed"):
        to_onnx(model)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("size", [1e-200, 1e-320])
def test_features_too_small_for_int16_are_refused(kernel, size, tmp_path):
    X, y = np.array([[0.0], [size], [0.0], [size]]), [0, 1, 0, 1]
    model = KernelSVC(kernel=kernel, gamma=1.0, coef0=-0.5).fit(X, y)
    with pytest.raises(ValueError, match=r"dtype: features .* too small"):
        to_c(model, tmp_path / "model.c", dtype="int16")


@pytest.mark.parametrize("gamma", [0.0, 1e-300])
def test_huge_features_of_a_gaussian_kernel(gamma, tmp_path):
    """The square of the scale of the features is zero in float64."""
    X, y = 1e200 * np.array([[0.0], [1.0], [0.5], [0.9]]), [0, 1, 0, 1]
    model = LRSVC(gamma=gamma, n_anchors=2, anchors="random").fit(X, y)
    if gamma > 0:
        with pytest.raises(ValueError, match=r"dtype: gamma=1e-300 is too large"):
            to_c(model, tmp_path / "model.c", dtype="int16")
    else:
        to_c(model, tmp_path / "model.c", dtype="int16")
        assert "model_decide" in (tmp_path / "model.c").read_text()


@pytest.mark.parametrize("coef0", [1e9, 1e-9])
def test_polynomials_beyond_float64_are_refused_in_int16(coef0, tmp_path):
    X, y = np.array([[0.0], [1e-9], [0.0], [1e-9]]), [0, 1, 0, 1]
    model = KernelSVC(kernel="poly", gamma=1.0, degree=3, coef0=0.0).fit(X, y)
    model.kernel_ = Poly(gamma=1.0, degree=60, coef0=coef0)
    model.restore_model()
    with pytest.raises(ValueError, match=r"dtype: .* to the power 60"):
        to_c(model, tmp_path / "model.c", dtype="int16")


def test_codes_beyond_16_bits_are_refused(rows, tmp_path):
    model = AdditiveSVC(n_bins=32769).fit(*rows)
    with pytest.raises(ValueError, match=r"dtype: 'int16' codes of 32,769 bins .* export float32"):
        to_c(model, tmp_path / "model.c", dtype="int16")


def run_graph(model, X, dtype):
    """Labels and scores of the exported graph."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(
        to_onnx(model, dtype=dtype).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    with np.errstate(over="ignore"):
        return session.run(["label", "scores"], {"X": np.asarray(X, dtype)})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_graph(name, dtype, rows):
    """Rows of NaN and infinities have finite scores and leave the others alone."""
    X, y = rows
    model = MODELS[name].fit(X, y)
    queries = make_rows(X)
    labels, scores = run_graph(model, queries, dtype)
    assert np.isfinite(scores).all()
    alone, scores_alone = run_graph(model, X, dtype)
    assert_array_equal(labels[: len(X)], alone)
    assert_array_equal(scores[: len(X)], scores_alone)
    assert_array_equal(alone, model.predict(X))
    replaced, _ = run_graph(model, zero_for_nan(model, queries), dtype)
    assert_array_equal(replaced, labels)


@needs_compiler
def test_nan_is_zero_beyond_the_range_of_a_scaler(rows, tmp_path):
    X, y = rows
    scaler = MinMaxScaler((1.0, 2.0), clip=True)
    model = make_pipeline(scaler, KernelSVC(kernel="chi2", fit_intercept=True)).fit(X, y > 0)
    expected = model[-1].decision_function(np.zeros((1, 5)))
    row = np.full((1, 5), np.nan)
    decisions, _, _ = run(model, row, tmp_path)
    _, scores = run_graph(model, row, "float64")
    np.testing.assert_allclose(decisions[0], expected, rtol=1e-5)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
