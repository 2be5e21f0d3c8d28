"""Exported regressions and one-class models, against the estimators they come from."""

import re
import subprocess

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from tests.export.test_c import COMPILER, FIXED_KERNELS, FLAGS, FLOAT32, KERNELS, needs_compiler
from tests.export.test_c import run as run_classes
from tests.export.test_onnx import run as run_graph_of_classes
from widemargin import KernelOneClassSVM, KernelSVR
from widemargin.export import to_c, to_onnx

#: Reads rows and prints predictions, and decisions times the unit, which must be the same.
MAIN = """
#include <stdio.h>
#include "model.h"
#ifndef MODEL_UNIT
#define MODEL_UNIT 1.0
#endif

int main(void)
{
    float x[MODEL_N_FEATURES], targets[MODEL_N_TARGETS];
    while (fread(x, sizeof x, 1, stdin) == 1) {
        %(decide)s
        model_predict(x, targets);
        for (int p = 0; p < MODEL_N_TARGETS; p++) {
            printf("%%.9g %%.9g ", (double)targets[p], (double)decisions[p] * MODEL_UNIT);
        }
        printf("\\n");
    }
    return 0;
}
"""
DECIDE = {
    "float32": "float decisions[MODEL_N_FUNCTIONS]; model_decide(x, decisions);",
    "int16": "int32_t decisions[MODEL_N_FUNCTIONS]; int16_t q[MODEL_N_FEATURES]; "
    "model_quantise(x, q); model_decide(q, decisions);",
}
#: Largest deviation of a graph, as a share of the largest prediction.
EXACT = {"float64": 1e-9, "float32": 3e-5}


@pytest.fixture(scope="module")
def data():
    """Rows to learn from, two targets, and rows to ask about, some out of range."""
    rng = np.random.default_rng(0)
    X = rng.random((150, 5))
    targets = np.column_stack([np.sin(4 * X[:, 0]) + X[:, 1], 30.0 * X[:, 2] * X[:, 3]])
    queries = np.vstack([rng.random((60, 5)), 1.5 * rng.random((10, 5)), np.zeros((1, 5))])
    return X, targets, queries.astype(np.float32).astype(np.float64)


def run(model, X, folder, **options):
    """Predictions of the exported regression, shape (n, n_targets), and its files."""
    files = to_c(model, folder / "model.c", verbose=False, **options)
    decide = DECIDE[options.get("dtype", "float32")]
    (folder / "main.c").write_text(MAIN % {"decide": decide})
    sources = [str(folder / "main.c"), str(folder / "model.c")]
    command = [COMPILER, *FLAGS, *sources, "-o", str(folder / "program"), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    rows = np.ascontiguousarray(X, np.float32)
    done = subprocess.run(
        [str(folder / "program")], input=rows.tobytes(), capture_output=True, check=True
    )
    table = np.array([line.split() for line in done.stdout.decode().splitlines()], float)
    predicted, decided = table[:, ::2], table[:, 1::2]
    np.testing.assert_allclose(predicted, decided, rtol=1e-6)
    return predicted, files


def run_graph(model, X, dtype):
    session = onnxruntime.InferenceSession(
        to_onnx(model, dtype=dtype).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (predicted,) = session.run(["prediction"], {"X": np.asarray(X, dtype)})
    assert predicted.dtype == dtype
    return predicted


def size(model):
    """Bound on what rounded kernel values and sums can be compared with."""
    machine = model[-1] if hasattr(model, "steps") else model
    return np.abs(machine.dual_coef_).sum(axis=1).max()


@needs_compiler
@pytest.mark.parametrize("libm", [True, False])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_regression_in_float(data, kernel, libm, tmp_path):
    X, targets, queries = data
    model = KernelSVR(kernel=kernel, gamma=0.4, C=2.0, coef0=0.5).fit(X, targets[:, 0])
    predicted, files = run(model, queries, tmp_path, libm=libm)
    expected = model.predict(queries)
    deviation = np.abs(predicted[:, 0] - expected).max()
    assert deviation <= FLOAT32 * max(np.abs(expected).max(), 0.1 * size(model))
    assert files.error_bound is None


@needs_compiler
@pytest.mark.parametrize("kernel", FIXED_KERNELS)
def test_regression_in_fixed_point(data, kernel, tmp_path):
    X, targets, queries = data
    model = KernelSVR(kernel=kernel, gamma=0.4, C=1.0, coef0=0.5).fit(X, targets[:, 0])
    predicted, files = run(model, queries, tmp_path, dtype="int16")
    expected = model.predict(queries)
    deviation = np.abs(predicted[:, 0] - expected).max()
    # The bound holds, and is not so wide that anything would pass.
    assert 0 < deviation <= files.error_bound < 0.5 * np.ptp(expected)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_several_targets(data, dtype, n_targets, tmp_path):
    X, targets, queries = data
    model = KernelSVR(C=5.0).fit(sparse.csr_matrix(X), targets[:, :n_targets])
    predicted, files = run(model, queries, tmp_path, dtype=dtype)
    limit = files.error_bound or FLOAT32 * size(model)
    assert predicted.shape == (len(queries), n_targets)
    assert np.abs(predicted - model.predict(queries)).max() <= limit
    assert f"#define MODEL_N_TARGETS {n_targets}\n" in files.header.read_text()
    assert not re.search("classify|labels|N_CLASSES", files.header.read_text())


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
def test_pipelines(data, dtype, scaler, tmp_path):
    X, targets, queries = data
    model = make_pipeline(scaler, KernelSVR(gamma=0.5)).fit(100.0 * X, targets[:, 0])
    predicted, files = run(model, 100.0 * queries, tmp_path, dtype=dtype)
    expected = model.predict(100.0 * queries)
    inside = np.abs(scaler.transform(100.0 * queries)).max(axis=1) <= (files.input_range or np.inf)
    limit = files.error_bound or FLOAT32 * size(model)
    assert np.abs(predicted[:, 0] - expected)[inside].max() <= limit
    assert inside.mean() > 0.8


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_every_row_has_a_prediction(data, dtype, kernel, tmp_path):
    X, targets, _ = data
    wild = np.array([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -0.0, 32768.0])
    rows = np.vstack([np.full((len(wild), 5), wild[:, None]), np.where(np.eye(5), np.nan, X[:5])])
    model = KernelSVR(kernel=kernel).fit(X, targets)
    predicted, _ = run(model, rows, tmp_path, dtype=dtype)
    assert np.isfinite(predicted).all()


@needs_compiler
def test_a_constant_target(data, tmp_path):
    X, _, queries = data
    model = KernelSVR().fit(X, np.full(len(X), 7.25))
    for dtype in ("float32", "int16"):
        predicted, _ = run(model, queries, tmp_path, dtype=dtype)
        np.testing.assert_allclose(predicted, 7.25, rtol=1e-4)


@needs_compiler
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "chi2"])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_one_class(data, dtype, kernel, tmp_path):
    X, _, queries = data
    model = KernelOneClassSVM(kernel=kernel, nu=0.2).fit(X)
    decisions, classes, files = run_classes(model, queries, tmp_path, dtype=dtype)
    expected = model.decision_function(queries)
    limit = files.error_bound or FLOAT32 * np.abs(expected).max()
    assert np.abs(decisions[:, 0] * files.unit - expected).max() <= limit
    clear = np.abs(expected) > limit
    assert clear.mean() > 0.8
    assert set(model.predict(queries)) == {-1, 1}
    assert_array_equal(np.array([-1, 1])[classes][clear], model.predict(queries)[clear])
    assert "labels[2] = {\n    -1, 1\n}" in files.source.read_text().replace("MODEL_N_CLASSES", "2")


@pytest.mark.parametrize("n_targets", [None, 1, 2])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_regression_as_graph(data, kernel, n_targets):
    X, targets, queries = data
    targets = targets[:, 0] if n_targets is None else targets[:, :n_targets]
    model = KernelSVR(kernel=kernel, gamma=0.4, C=2.0, coef0=0.5).fit(X, targets)
    expected = model.predict(queries)
    for dtype in ("float64", "float32"):
        predicted = run_graph(model, queries, dtype)
        assert predicted.shape == expected.shape
        # Python's own kernel values may be float32.
        limit = max(EXACT[dtype] * np.abs(expected).max(), 2e-7 * size(model))
        assert np.abs(predicted - expected).max() <= limit


def test_a_pipeline_as_graph(data):
    X, targets, queries = data
    model = make_pipeline(StandardScaler(), KernelSVR()).fit(X, targets)
    predicted = run_graph(model, queries, "float64")
    np.testing.assert_allclose(predicted, model.predict(queries), atol=2e-7 * size(model))
    assert run_graph(model, queries[:0], "float64").shape == (0, 2)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "chi2"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_class_as_graph(data, dtype, kernel):
    X, _, queries = data
    model = KernelOneClassSVM(kernel=kernel, nu=0.2).fit(X)
    labels, scores = run_graph_of_classes(model, queries, dtype)
    expected = model.decision_function(queries)
    limit = max(EXACT[dtype] * np.abs(expected).max(), 2e-7 * size(model))
    assert np.abs(scores - expected).max() <= limit
    clear = np.abs(expected) > limit
    assert labels.dtype == np.int64
    assert_array_equal(labels[clear], model.predict(queries)[clear])


def test_free_support_vectors_are_inside_the_graph(data):
    """Their decision values are zero up to rounding, and count as inside as in Python."""
    X = data[0]
    model = KernelOneClassSVM(nu=0.3, tol=1e-12).fit(X)
    labels, scores = run_graph_of_classes(model, X, "float64")
    on_boundary = np.abs(scores) < 1e-11 * model.offset_
    assert on_boundary.sum() > 3
    assert (labels[on_boundary] == 1).all()


def test_useless_predictions_are_announced(data, tmp_path):
    X, targets, _ = data
    model = KernelSVR(kernel="poly", gamma=2.0, C=100.0).fit(X, targets[:, 0])
    with pytest.warns(UserWarning, match="where the standard deviation of predictions is"):
        to_c(model, tmp_path / "m.c", dtype="int16", verbose=False)
    model = KernelOneClassSVM(gamma=20.0, nu=0.9).fit(X)
    with pytest.warns(UserWarning, match="where the offset is"):
        to_c(model, tmp_path / "m.c", dtype="int16", input_range=100.0, verbose=False)


def test_what_cannot_be_exported_is_refused(data, tmp_path):
    X, targets, _ = data
    with pytest.raises(ValueError, match=r"^dtype: the 'sigmoid' kernel has no 'int16' form"):
        to_c(KernelOneClassSVM(kernel="sigmoid").fit(X), tmp_path / "m.c", dtype="int16")
    small = KernelSVR().fit(X, targets[:, 0])
    small._dual_coef_ *= 1e-38
    small.intercept_ *= 1e-38
    small.restore_model()
    with pytest.raises(ValueError, match=r"^model: .*float32 cannot hold"):
        to_c(small, tmp_path / "m.c", dtype="int16")
    given = KernelSVR(kernel="precomputed").fit(X @ X.T, targets[:, 0])
    for write in (to_onnx, lambda model: to_c(model, tmp_path / "m.c")):
        with pytest.raises(ValueError, match="Precomputed"):
            write(given)
        with pytest.raises(ValueError, match="CallableKernel"):
            write(KernelOneClassSVM(kernel=lambda a, b: a @ b.T).fit(X))
    assert not list(tmp_path.iterdir())
