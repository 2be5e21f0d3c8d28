"""Exported C, compiled with all warnings as errors, against the models it comes from."""

import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler, scale
from sklearn.svm import SVC

from tests.export.clusters import possible_clusters, reaches_class
from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.additive.curves import LogEncoder
from widemargin.divide import kernel_kmeans as partition
from widemargin.export import to_c
from widemargin.export.description import describe
from widemargin.kernels import RBF, Linear, PowerMean

COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
FLAGS = [
    "-std=c99", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow",
    "-Wdouble-promotion", "-Wstrict-prototypes", "-Werror", "-fsanitize=undefined,address",
    "-fno-sanitize-recover=all",
]  # fmt: skip
#: Largest deviation of float32, as a share of the largest decision.
FLOAT32 = 3e-5
KERNELS = [
    "linear", "rbf", "poly", "sigmoid", "chi2", "exp_chi2", "intersection", "hellinger",
    "anova_chi2", "anova_intersection", "anova_rbf",
    "jensen_shannon", PowerMean(-1.0), PowerMean(-2.5), PowerMean(-20.0), PowerMean(0.0),
    PowerMean(-np.inf),
]  # fmt: skip
FIXED_KERNELS = ["linear", "rbf", "poly", "chi2", "exp_chi2", "intersection", "hellinger"]
#: Early prediction that can be exported.
NEAREST = {"background": 0, "n_nearest": 1}
EARLY = {
    "n_clusters": 4, "n_levels": 2, "stop_level": 2, "sample_size": 200, "gamma": 1.0, "C": 5.0,
    **NEAREST,
}  # fmt: skip

MAIN = """
#include <stdio.h>
#include "model.h"

int main(void)
{
    float x[MODEL_N_FEATURES];
    while (fread(x, sizeof x, 1, stdin) == 1) {
        %(number)s decisions[MODEL_N_FUNCTIONS];
        %(decide)s
        for (int p = 0; p < MODEL_N_FUNCTIONS; p++) {
            printf("%%.10g ", (double)decisions[p]);
        }
        printf("%%d %%d\\n", model_classify(decisions), model_predict(x));
    }
    return 0;
}
"""
DECIDE = {
    "float32": ("float", "model_decide(x, decisions);"),
    "int16": (
        "int32_t",
        "int16_t q[MODEL_N_FEATURES]; model_quantise(x, q); model_decide(q, decisions);",
    ),
}


def run(model, X, folder, **options):
    """Decisions and classes of the exported model, and its files."""
    dtype = options.get("dtype", "float32")
    files = to_c(model, folder / "model.c", verbose=False, **options)
    number, decide = DECIDE[dtype]
    (folder / "main.c").write_text(MAIN % {"number": number, "decide": decide})
    program = folder / "program"
    libraries = ["-lm"] if options.get("libm", True) else []
    sources = [str(folder / "main.c"), str(folder / "model.c")]
    subprocess.run(
        [COMPILER, *FLAGS, *sources, "-o", str(program), *libraries],
        check=True, capture_output=True,
    )  # fmt: skip
    rows = np.ascontiguousarray(X, np.float32)
    done = subprocess.run([str(program)], input=rows.tobytes(), capture_output=True, check=True)
    table = np.array([line.split() for line in done.stdout.decode().splitlines()], float)
    assert (table[:, -1] == table[:, -2]).all()
    return table[:, :-2], table[:, -1].astype(int), files


def last_step(model):
    return model[-1] if hasattr(model, "steps") else model


def raw_decisions(model, X):
    """Values of all binary functions, before votes."""
    model = last_step(model)
    if isinstance(model, KernelSVC | DCSVC | ProjectedSVC):
        return model._model.decide(X, max_bytes=10**8, n_jobs=1)
    return model._model.decide(X, 1)


def scaled(model, X):
    return model[:-1].transform(X) if hasattr(model, "steps") else X


def assert_float_same(model, X, folder, *, n_odd=0, tolerance=FLOAT32, libm=True, share_near=0.02):
    X = np.asarray(X, np.float32).astype(np.float64)
    expected = raw_decisions(model, scaled(model, X))
    decisions, classes, _ = run(model, X, folder, libm=libm)
    limit = tolerance * np.abs(expected).max()
    off = (np.abs(decisions - expected) > limit).any(axis=1)
    assert off.sum() <= n_odd
    near = near_boundary(expected, limit)
    differs = model.classes_[classes] != model.predict(X)
    assert not (differs & ~near & ~off).any()
    assert near.mean() < share_near


def near_boundary(expected, limit):
    """Rows whose class a deviation of ``limit`` could change."""
    if expected.shape[1] == 1:
        return np.abs(expected[:, 0]) <= limit
    ordered = np.sort(expected, axis=1)
    gaps = ordered[:, -1] - ordered[:, -2]
    return (gaps <= 2 * limit) | (np.abs(expected) <= limit).any(axis=1)


def assert_fixed_within(model, X, folder, **options):
    X = np.asarray(X, np.float32).astype(np.float64)
    expected = raw_decisions(model, scaled(model, X))
    decisions, classes, files = run(model, X, folder, dtype="int16", **options)
    deviations = np.abs(decisions * files.unit - expected)
    assert deviations.max() <= files.error_bound + 1e-6 * np.abs(expected).max()
    near = near_boundary(expected, files.error_bound)
    differs = model.classes_[classes] != model.predict(X)
    assert not (differs & ~near).any()
    return deviations.max(), files


@pytest.fixture(scope="module")
def histograms(digits):
    X, y = digits
    queries = np.vstack([X[200:300], np.zeros((1, 64))])
    return X[:150], y[:150], queries


@needs_compiler
@pytest.mark.parametrize("libm", [True, False])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_in_float(histograms, kernel, libm, tmp_path):
    X, y, queries = histograms
    model = KernelSVC(kernel=kernel, C=10.0, coef0=0.5).fit(X, y % 3)
    assert_float_same(model, queries, tmp_path, libm=libm)


@needs_compiler
@pytest.mark.parametrize("kernel", FIXED_KERNELS)
def test_kernels_in_fixed_point(histograms, kernel, tmp_path):
    X, y, queries = histograms
    model = KernelSVC(kernel=kernel, C=1.0, coef0=0.5, multi_class="ovr").fit(X, y > 4)
    deviation, files = assert_fixed_within(model, queries, tmp_path)
    # The bound is not so wide that anything would pass.
    assert 0 < deviation < files.error_bound < 0.5 * np.abs(raw_decisions(model, queries)).max()


@needs_compiler
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_vectors_that_moved(kernel, cancer, tmp_path):
    X, y = cancer
    model = ProjectedSVC(n_basis=3, kernel=kernel, move=True).fit(X, y)
    assert_float_same(model, X, tmp_path)
    assert_fixed_within(model, X, tmp_path, input_range=float(np.abs(X).max()))


@needs_compiler
def test_features_beyond_the_vectors_in_fixed_point(cancer, tmp_path):
    X, y = cancer
    model = ProjectedSVC(n_basis=12).fit(X, y)
    queries = X * 1.2
    largest = float(np.abs(queries).max())
    assert largest > np.abs(model.basis_vectors_).max()
    assert_fixed_within(model, queries, tmp_path, input_range=largest)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_curves_of_features_far_from_zero(dtype, tmp_path):
    """Float32 rounds the smallest values by up to a thirtieth of the ranges."""
    rng = np.random.default_rng(0)
    X = 1e6 + rng.random((300, 3))
    y = X.sum(axis=1) > 3e6 + 1.5
    model = AdditiveSVC().fit(X, y)
    assert model.scaling_ == "range"
    queries = X.astype(np.float32)
    expected = model.decision_function(queries)
    decisions, _, files = run(model, queries, tmp_path, dtype=dtype)
    wrong = np.abs(decisions.ravel() * files.unit - expected)
    assert np.median(wrong) < 1e-3 * np.ptp(expected)


@needs_compiler
@pytest.mark.parametrize(
    "model",
    [
        AdditiveSVC(),
        AdditiveSVC(kernel="intersection", binning="quantile"),
        AdditiveSVC(n_bins=1000),
        AdditiveSVC(scaling="range"),
        IntersectionSVC(scaling="max"),
        IntersectionSVC(),
        PowerMeanSVC(lut=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_classes", [2, 10])
def test_curves(digits, model, n_classes, tmp_path):
    X, y = digits
    X = np.sqrt(X)
    model.fit(X[:300], y[:300] % n_classes)
    queries = np.vstack([X[300:500], 2.0 * X[500:520]])
    # Values on the border of two bins may fall to either side in float32.
    assert_float_same(model, queries, tmp_path, n_odd=4)
    # In whole numbers they do as in float32: compare with that.
    in_float, _, _ = run(model, queries, tmp_path)
    in_fixed, _, files = run(model, queries, tmp_path, dtype="int16")
    assert np.abs(in_fixed * files.unit - in_float).max() <= files.error_bound + 1e-5


@needs_compiler
@pytest.mark.parametrize("model", [AdditiveSVC(), PowerMeanSVC(), PowerMeanSVC(lut=True)], ids=str)
@pytest.mark.filterwarnings("ignore:X. the data are centred")
def test_centred_data(model, tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X).astype(np.float32).astype(np.float64)
    model.fit(X[:300], y[:300])
    decisions, classes, _ = run(model, X[300:], tmp_path)
    expected = model.decision_function(X[300:])
    off = np.abs(decisions[:, 0] - expected) > 2 * FLOAT32 * np.abs(expected).max()
    # Values on the border of two bins may fall to either side in float32.
    assert off.sum() <= 4
    assert (model.classes_[classes] == model.predict(X[300:]))[~off].all()
    if not isinstance(model._model.encoder, LogEncoder):
        in_fixed, _, files = run(model, X[300:], tmp_path, dtype="int16")
        assert np.abs(in_fixed * files.unit - decisions).max() <= files.error_bound + 1e-5


@needs_compiler
@pytest.mark.filterwarnings("ignore:X. the data are centred")
def test_zeros_of_centred_data(tmp_path):
    """Rows at the least value of a column: rounding must not make something of nothing."""
    rng = np.random.default_rng(0)
    X = (rng.random((400, 20)) < 0.3).astype(float)
    y = X[:, :5].sum(axis=1) + rng.random(400) > 2
    log = PowerMeanSVC(C=1.0, p=-8.0, n_anchors=2, random_state=0)
    model = make_pipeline(StandardScaler(), log).fit(X, y)
    decisions, classes, _ = run(model, X, tmp_path)
    expected = model.decision_function(X)
    assert np.abs(decisions[:, 0] - expected).max() < 10 * FLOAT32 * np.abs(expected).max()
    assert (model.classes_[classes] == model.predict(X)).all()


@needs_compiler
def test_logarithms(digits, tmp_path):
    X, y = digits
    model = PowerMeanSVC().fit(X[:300], y[:300])
    assert_float_same(model, np.vstack([X[300:500], 50.0 * X[500:520]]), tmp_path)
    with pytest.raises(ValueError, match="lut=True"):
        to_c(model, tmp_path / "model.c", dtype="int16")


@needs_compiler
@pytest.mark.parametrize("kernel", ["rbf", "linear", "hellinger", "intersection"])
def test_clusters(kernel, tmp_path):
    X, y = make_blobs(900, centers=6, cluster_std=1.5, random_state=3)
    X = X if kernel == "rbf" else np.abs(X) / 10
    model = DCSVC(**EARLY, kernel=kernel, fit_intercept=True, random_state=0).fit(X, y % 3)
    assert len(describe(model).functions.clusters) > 10
    # A query between two clusters may go to either; Python's own sums are float32 here. Where a
    # cluster does not know two classes, their function is zero.
    assert_float_same(model, X[::2] + 0.01, tmp_path, n_odd=2, tolerance=2e-4, share_near=0.6)
    expected = raw_decisions(model, X)
    decisions, _, files = run(model, X, tmp_path, dtype="int16")
    deviations = np.abs(decisions * files.unit - expected).max(axis=1)
    assert np.mean(deviations <= files.error_bound + 1e-3 * np.abs(expected).max()) > 0.98


@needs_compiler
@pytest.mark.parametrize(
    "more",
    [
        {"background": 100, "n_nearest": 1}, {"background": 0, "n_nearest": 3},
        {"background": 100, "n_nearest": 4}, {"background": 50, "n_nearest": 1000},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_several_clusters_and_a_background(kernel, more, tmp_path):
    X, y = make_blobs(900, centers=6, cluster_std=1.5, random_state=3)
    X = X if kernel == "rbf" else np.abs(X) / 10
    params = {**EARLY, **more, "kernel": kernel}
    model = DCSVC(**params, fit_intercept=True, random_state=0).fit(X, y % 3)
    functions = describe(model).functions
    assert functions.n_nearest == min(more["n_nearest"], len(functions.clusters) // 4)
    n_odd = 2 * (functions.n_nearest == 1)
    assert_float_same(model, X[::2] + 0.01, tmp_path, n_odd=n_odd, tolerance=2e-4, share_near=0.6)


@needs_compiler
def test_a_mixture_of_clusters_within_clusters(tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "GROUP_POINTS", 1000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    X[:1500] = [3.0, 3.0] + 0.1 * X[:1500]
    model = DCSVC(gamma=0.5, n_clusters=12, n_levels=1, stop_level=1, n_nearest=3, background=50)
    model.fit(X, rng.random(2000) > 0.5)
    assert model._parts.partition.children
    assert len(describe(model).functions.forks) == 1
    assert_float_same(model, X[1300:], tmp_path, tolerance=2e-4)


@needs_compiler
def test_rows_between_clusters_in_fixed_point(tmp_path):
    """They go to a cluster that the bound allows, and no other row changes its cluster."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1))
    model = DCSVC(
        kernel="linear", n_clusters=4, n_levels=2, stop_level=2, sample_size=40, fit_intercept=False,
        random_state=0, background=0, overlap=0.0, n_nearest=1,
    ).fit(X, X[:, 0] * rng.normal(size=200) > 0)  # fmt: skip
    described = describe(model)
    queries = np.linspace(-2, 2, 4001)[:, None].astype(np.float32).astype(np.float64)
    decisions, classes, files = run(model, queries, tmp_path, dtype="int16")
    differs = (
        np.abs(decisions * files.unit - raw_decisions(model, queries))[:, 0] > files.error_bound
    )
    # Some rows do go to another cluster.
    assert 0 < differs.mean() < 0.1
    rows = np.flatnonzero(differs)
    bounds = files.route_bound, files.error_bound
    assert reaches_class(described, queries[rows], classes[rows], *bounds).all()
    assert not reaches_class(described, queries[rows], classes[rows], 0.0, 0.0).all()
    clusters = [possible_clusters(described.functions, row[None], 0.0) for row in queries]
    assert max(map(len, clusters)) <= 2
    assert f"#define MODEL_ROUTE_BOUND {files.route_bound!r}\n" in files.header.read_text()
    assert to_c(model, tmp_path / "model.c", verbose=False).route_bound is None


@needs_compiler
def test_clusters_within_clusters(tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "GROUP_POINTS", 1000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    X[:1500] = [3.0, 3.0] + 0.1 * X[:1500]
    # Far away there is one class only: a cluster without vectors.
    X[1600:1800] -= 20.0
    y = (rng.random(2000) > 0.5) & (X[:, 0] > -10.0)
    model = DCSVC(
        gamma=0.5,
        n_clusters=8,
        n_levels=1,
        stop_level=1,
        fit_intercept=True,
        overlap=0.0,
        **NEAREST,
    ).fit(X, y)
    functions = describe(model).functions
    assert len(functions.forks) > 1
    assert min(len(cluster.vectors) for cluster in functions.clusters) == 0
    assert_float_same(model, X[1300:], tmp_path, n_odd=1, tolerance=2e-4)


@needs_compiler
@pytest.mark.parametrize(
    "scaler", [StandardScaler(), MinMaxScaler(clip=True), MinMaxScaler((-1, 2)), MaxAbsScaler()]
)
@pytest.mark.parametrize("n_basis", [8])
def test_pipelines(scaler, n_basis, tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = make_pipeline(scaler, ProjectedSVC(n_basis=n_basis)).fit(X[::2], y[::2])
    queries = X[1::2].to_numpy(np.float32).astype(np.float64)
    expected = model.decision_function(X[1::2])
    decisions, classes, files = run(model, queries, tmp_path)
    # The scaled features themselves are float32 here.
    assert np.abs(decisions[:, 0] - expected).max() < 1e-4 * np.abs(expected).max()
    assert np.mean(classes == model.predict(X[1::2])) > 0.995
    assert " 0: mean radius" in files.header.read_text()


@needs_compiler
@pytest.mark.parametrize("kernel", ["rbf", "exp_chi2"])
def test_rows_of_the_model_itself_without_libm(kernel, tmp_path):
    # Their distance to a vector is nearly zero, and the exponential of that just below one.
    X, y = load_breast_cancer(return_X_y=True)
    scaler = StandardScaler() if kernel == "rbf" else MinMaxScaler(clip=True)
    model = make_pipeline(scaler, ProjectedSVC(n_basis=15, kernel=kernel, gamma=0.03)).fit(X, y)
    queries = X[model[-1].basis_indices_]
    assert_float_same(model, queries, tmp_path, tolerance=1e-4, libm=False)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_a_first_cluster_without_vectors(dtype, tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(100, 2)) - 20.0, rng.normal(size=(100, 2)) + 20.0])
    y = np.concatenate([np.zeros(100), rng.random(100) > 0.5])
    for seed in range(20):
        model = DCSVC(
            gamma=0.01, n_clusters=2, n_levels=1, stop_level=1, fit_intercept=True,
            random_state=seed, overlap=0.0, **NEAREST,
        ).fit(X, y)  # fmt: skip
        if len(describe(model).functions.clusters[0].vectors) == 0:
            break
    assert len(describe(model).functions.clusters[0].vectors) == 0
    _, classes, _ = run(model, X, tmp_path, dtype=dtype)
    assert np.mean(model.classes_[classes] == model.predict(X)) > 0.98


def test_numbers_beyond_float32_are_refused(cancer, tmp_path):
    X, y = cancer
    model = ProjectedSVC(n_basis=3).fit(X * 1e-30, y)
    with pytest.raises(ValueError, match="float32 cannot hold; scale the features"):
        to_c(model, tmp_path / "model.c")


@needs_compiler
def test_small_whole_numbers_take_a_byte(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 40)).astype(float)
    y = X[:, :6].sum(axis=1) + rng.normal(size=300) > 3
    model = ProjectedSVC(n_basis=10, gamma=0.05).fit(X, y)
    deviation, files = assert_fixed_within(model, X, tmp_path)
    assert "static const int8_t model_vectors" in files.source.read_text()
    assert files.flash_bytes < 10 * 40 + 400
    # 0 and 1 lose nothing, so coefficients and the table do.
    assert deviation < 1e-3


@needs_compiler
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_labels(iris, multi_class, tmp_path):
    X, y = iris
    names = np.array(['say "hi"', "back\\slash", "fünf?"])[y]
    model = KernelSVC(multi_class=multi_class).fit(X, names)
    _, classes, files = run(model, X, tmp_path)
    assert (model.classes_[classes] == model.predict(X)).all()
    (tmp_path / "labels.c").write_text(
        '#include <stdio.h>\n#include "model.h"\nint main(void)\n{\n'
        "    for (int c = 0; c < MODEL_N_CLASSES; c++) {\n        puts(model_labels[c]);\n    }\n"
        "    return 0;\n}\n"
    )
    sources = [str(tmp_path / "labels.c"), str(files.source)]
    subprocess.run([COMPILER, *FLAGS, *sources, "-o", str(tmp_path / "labels"), "-lm"], check=True)
    shown = subprocess.run([str(tmp_path / "labels")], capture_output=True, check=True).stdout
    assert shown.decode().splitlines() == list(model.classes_)


def test_says_what_it_takes(cancer, tmp_path, capsys):
    X, y = cancer
    model = ProjectedSVC(n_basis=5).fit(X, y)
    files = to_c(model, tmp_path / "deep" / "my-model")
    assert files.source == tmp_path / "deep" / "my-model.c"
    assert "int my_model_predict(const float *x);" in files.header.read_text()
    numbers = len(model.basis_vectors_) * 31 + 1
    assert files.flash_bytes == 4 * numbers + 4 * 2
    assert f"{files.flash_bytes:,} bytes of flash" in capsys.readouterr().out


def test_no_allocation_no_library(cancer, tmp_path):
    X, y = cancer
    model = ProjectedSVC(n_basis=5).fit(X, y)
    for options in ({"libm": False}, {"dtype": "int16"}):
        text = to_c(model, tmp_path / "model.c", verbose=False, **options).source.read_text()
        assert "malloc" not in text
        assert "#include <math.h>" not in text


def test_bad_input(cancer, tmp_path):
    X, y = cancer
    path = tmp_path / "model.c"
    with pytest.raises(NotFittedError):
        to_c(ProjectedSVC(), path)
    with pytest.raises(TypeError, match="SVC cannot be exported"):
        to_c(SVC().fit(X, y), path)
    model = ProjectedSVC(n_basis=5).fit(X, y)
    with pytest.raises(ValueError, match="dtype: must be one of 'float32', 'int16'"):
        to_c(model, path, dtype="int8")
    with pytest.raises(ValueError, match="input_range: must be greater than 0"):
        to_c(model, path, dtype="int16", input_range=0)
    largest = np.abs(model.basis_vectors_).max()
    with pytest.raises(ValueError, match=f"input_range: 0.1 is too small.*reach {largest:g}"):
        to_c(model, path, dtype="int16", input_range=0.1)
    with pytest.raises(ValueError, match="kernel is a CallableKernel"):
        to_c(ProjectedSVC(n_basis=5, kernel=lambda a, b: a @ b.T).fit(X, y), path)
    with pytest.raises(ValueError, match="'sigmoid' kernel has no 'int16' form"):
        to_c(KernelSVC(kernel="sigmoid").fit(X, y), path, dtype="int16")
    with pytest.raises(ValueError, match="multiples of"):
        to_c(model, path, dtype="int16", input_range=1e5)
    narrow = KernelSVC(kernel=RBF(1e10)).fit(X, y)
    with pytest.raises(ValueError, match="int16"):
        to_c(narrow, path, dtype="int16")
    assert not path.exists()


@needs_compiler
def test_features_beyond_the_range_count_as_its_end(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((120, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] > 0.8
    model = KernelSVC(kernel="poly", C=10.0, coef0=0.5).fit(X, y)
    rows = np.array([[1.0], [1.03], [1.3], [1.8], [100.0]]) * np.ones(6)
    decisions, _, files = run(model, rows, tmp_path, dtype="int16", input_range=1.03)
    assert (decisions[2:] == decisions[1]).all()
    expected = model.decision_function(rows[:2])
    assert np.abs(decisions[:2, 0] * files.unit - expected).max() <= files.error_bound


@needs_compiler
def test_the_range_is_that_of_features_not_of_their_roots(tmp_path):
    rng = np.random.default_rng(0)
    X = 0.15 * rng.random((120, 6))
    model = KernelSVC(kernel="hellinger", C=100.0).fit(X, X[:, 0] + X[:, 1] > 0.15)
    assert_fixed_within(model, np.full((2, 6), 0.39), tmp_path, input_range=0.4)
    assert_fixed_within(model, X, tmp_path, input_range=0.2)
    with pytest.raises(ValueError, match=r"input_range: 0.1 is too small.*reach 0.14"):
        to_c(model, tmp_path / "model.c", dtype="int16", input_range=0.1)


@needs_compiler
def test_scalers_with_large_means(tmp_path):
    rng = np.random.default_rng(0)
    X = np.float32(rng.random((120, 6)) + 1e4).astype(float)
    y = X[:, 0] + X[:, 1] > 2e4 + 1
    for scaler in (StandardScaler(), MinMaxScaler()):
        model = make_pipeline(scaler, KernelSVC(kernel="linear", C=100.0)).fit(X, y)
        decisions, _, _ = run(model, X, tmp_path)
        expected = model.decision_function(X)
        assert np.abs(decisions[:, 0] - expected).max() < 1e-5 * np.abs(expected).max()


def test_useless_decisions_are_announced(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((120, 6))
    model = KernelSVC(C=1e9, gamma=1e-3).fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0.8)
    with pytest.warns(UserWarning, match="may be off by"):
        to_c(model, tmp_path / "model.c", dtype="int16", verbose=False)


@needs_compiler
@pytest.mark.parametrize("name", ["a@b.c", "int.c", "1-2.c", "ü.c"])
def test_odd_names(cancer, name, tmp_path):
    X, y = cancer
    columns = ["/* c", "*/", "??/", "@@", "new\nline"] + [f"f{j}" for j in range(25)]
    model = ProjectedSVC(n_basis=3).fit(pd.DataFrame(X, columns=columns), y)
    files = to_c(model, tmp_path / name, verbose=False)
    subprocess.run(
        [COMPILER, *FLAGS, "-c", str(files.source), "-o", str(tmp_path / "x.o")], check=True
    )
    with pytest.raises(ValueError, match="path: "):
        to_c(model, tmp_path / 'a"b.c')


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([-(2**31), 2**31 - 1], "const int32_t"),
        ([0, 2**40], '"1099511627776"'),
        ([1.0, 2.0], "const int32_t"),
        ([16777216.0, 16777217.0], "16777217"),
        ([False, True], "const int32_t"),
    ],
)
def test_numbers_as_labels(cancer, labels, text, tmp_path):
    X, y = cancer
    model = ProjectedSVC(n_basis=3).fit(X, np.array(labels)[y])
    assert text in to_c(model, tmp_path / "model.c", verbose=False).source.read_text()


def test_an_intercept_beyond_the_range_is_refused(cancer, tmp_path):
    X, y = cancer
    model = LRSVC(kernel=Linear(), n_anchors=5).fit(X, y)
    exact = KernelSVC(kernel="rbf").fit(X, y)
    exact.intercept_ = np.array([1e30])
    exact.restore_model()
    with pytest.raises(ValueError, match=r"int16.*overflow.*intercept"):
        to_c(exact, tmp_path / "model.c", dtype="int16")
    assert to_c(model, tmp_path / "model.c", dtype="int16", verbose=False).error_bound > 0
