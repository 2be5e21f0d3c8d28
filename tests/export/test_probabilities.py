"""Calibrated probabilities in exported C and ONNX, against `predict_proba`."""

import subprocess

import numpy as np
import onnxruntime
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.export.test_c import COMPILER, FLAGS, needs_compiler
from widemargin import KernelSVC, KernelSVCCV, KernelSVRCV
from widemargin.exact.calibration import Calibration, SigmoidCurve, StepCurve
from widemargin.export import to_c, to_onnx

METHODS = ("sigmoid", "isotonic", "temperature")
#: Reads rows and prints the probabilities of their classes.
MAIN = """
#include <stdio.h>
#include "model.h"

int main(void)
{
    float x[MODEL_N_FEATURES], values[MODEL_N_CLASSES];
    while (fread(x, sizeof x, 1, stdin) == 1) {
        model_predict_proba(x, values);
        for (int c = 0; c < MODEL_N_CLASSES; c++) {
            printf("%.9g ", (double)values[c]);
        }
        printf("\\n");
    }
    return 0;
}
"""
SETS = {"two classes": load_breast_cancer, "three classes": load_iris, "ten classes": load_digits}


def fit(name, method, multi_class="ovo"):
    """A small search on scaled rows, and rows to ask about, rounded to float32."""
    X, y = SETS[name](return_X_y=True)
    X, y = X[:600], y[:600]
    model = KernelSVCCV(Cs=[10.0], gammas=[0.02], cv=3, calibration=method, multi_class=multi_class)
    model = make_pipeline(StandardScaler(), model).fit(X[::2], y[::2])
    return model, X[1::2].astype(np.float32).astype(np.float64)


def run(model, X, folder, **options):
    """Probabilities of the exported C."""
    to_c(model, folder / "model.c", verbose=False, **options)
    (folder / "main.c").write_text(MAIN)
    sources = [str(folder / "main.c"), str(folder / "model.c")]
    libraries = ["-lm"] if options.get("libm", True) else []
    command = [COMPILER, *FLAGS, *sources, "-o", str(folder / "program"), *libraries]
    subprocess.run(command, check=True, capture_output=True)
    rows = np.ascontiguousarray(X, np.float32)
    done = subprocess.run(
        [str(folder / "program")], input=rows.tobytes(), capture_output=True, check=True
    )
    return np.array([line.split() for line in done.stdout.decode().splitlines()], float)


def run_graph(model, X, dtype):
    graph = to_onnx(model, dtype=dtype).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X.astype(dtype)}), strict=True))


@needs_compiler
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("name", "multi_class"),
    [("two classes", "ovo"), ("three classes", "ovr"), ("ten classes", "ovo")],
)
def test_c_gives_the_probabilities_of_the_model(tmp_path, name, multi_class, method):
    model, X = fit(name, method, multi_class)
    found, expected = run(model, X, tmp_path), model.predict_proba(X)
    assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
    # Float32 may put a decision on the other side of a jump of an isotonic curve.
    is_off = np.abs(found - expected).max(axis=1) > 2e-4
    assert is_off.mean() <= (0.02 if method == "isotonic" else 0.0)


@needs_compiler
@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
def test_c_without_the_mathematics_library(tmp_path, method):
    model, X = fit("three classes", method)
    assert_allclose(run(model, X, tmp_path, libm=False), model.predict_proba(X), atol=2e-4)


@needs_compiler
def test_fixed_point_decisions_have_probabilities(tmp_path):
    """A probability is off by no more than its slope times the bound on the decision."""
    model, X = fit("two classes", "sigmoid")
    files = to_c(model, tmp_path / "model.c", dtype="int16", verbose=False)
    found = run(model, X, tmp_path, dtype="int16")
    slope = abs(model[-1].calibration_.curves[0].slope)
    limit = 0.25 * slope * files.error_bound + 1e-6
    assert 0 < limit < 0.2
    assert np.abs(found - model.predict_proba(X)).max() <= limit


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("name", ["two classes", "three classes", "ten classes"])
def test_onnx_gives_the_probabilities_of_the_model(name, multi_class, method):
    model, X = fit(name, method, multi_class)
    outputs = run_graph(model, X, "float64")
    assert list(outputs) == ["label", "scores", "probabilities"]
    assert_allclose(outputs["probabilities"], model.predict_proba(X), atol=2e-5)
    if method != "isotonic":
        narrow = run_graph(model, X, "float32")["probabilities"]
        assert narrow.dtype == np.float32
        assert_allclose(narrow, model.predict_proba(X), atol=3e-4)


def with_curves(model, curves):
    """The search with other curves."""
    found = model[-1].calibration_
    model[-1].calibration_ = Calibration(curves, found.n_classes, found.coupling)
    return model


@needs_compiler
@pytest.mark.parametrize(
    "curve",
    [
        SigmoidCurve(0.0, 40.0), SigmoidCurve(1e6, 0.0), SigmoidCurve(0.0, -200.0),
        StepCurve(np.array([0.5]), np.array([0.25])),
        StepCurve(np.array([-1.0, 0.0, 0.0 + 1e-12, 2.0]), np.array([0.0, 0.1, 0.9, 1.0])),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["two classes", "three classes"])
def test_extreme_curves(tmp_path, name, curve):
    """Curves that are nearly constant or jumps; all of them give numbers that sum to one."""
    model, X = fit(name, "sigmoid")
    model = with_curves(model, (curve,) * len(model[-1].calibration_.curves))
    expected = model.predict_proba(X)
    is_steep = curve == SigmoidCurve(1e6, 0.0)
    for found in (run(model, X, tmp_path), run_graph(model, X, "float64")["probabilities"]):
        assert np.isfinite(found).all()
        assert_allclose(found.sum(axis=1), 1.0, atol=1e-5)
        is_off = np.abs(found - expected).max(axis=1) > 1e-3
        assert is_off.mean() <= (0.02 if is_steep else 0.0)


@needs_compiler
def test_models_without_probabilities_have_no_such_functions(tmp_path):
    X, y = load_iris(return_X_y=True)
    for model in (KernelSVC(), KernelSVCCV(Cs=[1.0], gammas=[0.1], cv=3)):
        to_c(model.fit(X, y), tmp_path / "model.c", verbose=False)
        assert "proba" not in (tmp_path / "model.h").read_text()
        assert [output.name for output in to_onnx(model).graph.output] == ["label", "scores"]


def test_a_regression_is_exported_as_its_final_model():
    X = np.random.default_rng(0).random((60, 2))
    model = KernelSVRCV(Cs=[1.0], gammas=[1.0], epsilons=[0.01], cv=3).fit(X, X[:, 0] * X[:, 1])
    assert_allclose(run_graph(model, X, "float64")["prediction"], model.predict(X), atol=1e-9)


def test_a_search_without_final_model_is_refused():
    X, y = load_iris(return_X_y=True)
    model = KernelSVCCV(Cs=[1.0], gammas=[0.1], cv=3, refit=False).fit(X, y)
    with pytest.raises(AttributeError, match="refit=False"):
        to_onnx(model)
