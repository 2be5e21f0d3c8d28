"""`AdditiveSVC(monotonic_cst=...)`: curves that must not fall, or must not rise."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import Bounds, minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import widemargin
from tests.reference import kernels as formulas
from widemargin import AdditiveSVC
from widemargin.distributed import DaskAdditiveSVC
from widemargin.export import to_onnx

ONE = {"n_jobs": 1, "random_state": 0}
EXACT = ONE | {"tol": 1e-4, "max_iter": 100_000}


def counts(n=80, seed=0):
    """Three counts: the class rises with the first, falls with the second, waves with the third."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 8, (n, 3)).astype(np.float64)
    score = X[:, 0] - X[:, 1] + 4 * (X[:, 2] % 3) + 3 * rng.standard_normal(n)
    return X, (score > np.median(score)).astype(int)


def steps(column, largest):
    """Row of ones up to each count: their products are the intersection kernel."""
    return (column[:, None] >= np.arange(1, largest + 1)).astype(np.float64)


def brute_force(features, low, high, y, costs, penalty):
    """Solve the quadratic program with slack variables xi >= 0, y f >= 1 - xi, by SLSQP.

    The variables are the coefficients, the intercept with its penalty, and the slacks.
    """
    n, d = features.shape
    signed = (2.0 * y - 1.0)[:, None] * np.hstack([features, np.ones((n, 1))])
    weights = np.concatenate([np.ones(d), [penalty], 2.0 * costs])
    found = minimize(
        lambda v: 0.5 * weights @ v**2, np.concatenate([np.zeros(d + 1), np.ones(n)]),
        jac=lambda v: weights * v, method="SLSQP",
        bounds=Bounds(
            np.concatenate([low, [-np.inf], np.zeros(n)]),
            np.concatenate([high, np.full(n + 1, np.inf)]),
        ),
        constraints={
            "type": "ineq",
            "fun": lambda v: signed @ v[: d + 1] + v[d + 1 :] - 1.0,
            "jac": lambda v: np.hstack([signed, np.eye(n)]),
        },
        options={"maxiter": 1000, "ftol": 1e-13},
    )  # fmt: skip
    assert found.success
    return found.x[:d], found.x[d]


@pytest.mark.parametrize(
    ("cst", "fit_intercept"),
    [([1, -1, 0], "free"), ([-1, 1, 1], "free"), ([1, 0, -1], True), ([0, 1, 0], "free")],
)
def test_equals_the_quadratic_program_by_brute_force(cst, fit_intercept):
    X, y = counts()
    weights = 0.5 + np.random.default_rng(1).random(len(y))
    model = AdditiveSVC(
        kernel="intersection", C=0.1, monotonic_cst=cst, fit_intercept=fit_intercept, rank="auto",
        **EXACT,
    ).fit(X, y, sample_weight=weights)  # fmt: skip
    features = np.hstack([steps(X[:, j], 7) for j in range(3)])
    low = np.repeat(np.where(np.equal(cst, 1), 0.0, -np.inf), 7)
    high = np.repeat(np.where(np.equal(cst, -1), 0.0, np.inf), 7)
    penalty = 0.0 if fit_intercept == "free" else 1.0
    coef, intercept = brute_force(features, low, high, y, 0.1 * weights, penalty)
    assert (np.isclose(coef, 0.0, atol=1e-8) & (np.repeat(cst, 7) != 0)).any(), "bounds matter"
    assert_allclose(model.decision_function(X), features @ coef + intercept, atol=2e-4)


def test_features_without_constraint_keep_their_kernel():
    X, y = counts()
    model = AdditiveSVC(
        kernel="chi2", C=0.1, monotonic_cst=[1, 0, 0], rank=64, n_bins=1000, **EXACT
    ).fit(X, y)
    # Any factor of the kernel matrix of the two other features gives the same problem.
    K = sum(formulas.chi2(X[:, [j]]) for j in (1, 2))
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-9 * values[-1]
    root = vectors[:, kept] * np.sqrt(values[kept])
    features = np.hstack([steps(X[:, 0], 7), root])
    low = np.concatenate([np.zeros(7), np.full(root.shape[1], -np.inf)])
    costs = np.full(len(y), 0.1)
    coef, intercept = brute_force(features, low, np.full(len(low), np.inf), y, costs, 0.0)
    assert_allclose(model.decision_function(X), features @ coef + intercept, atol=2e-3)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize(
    "params", [{}, {"scaling": "max"}, {"binning": "quantile"}, {"n_bins": 20}]
)
def test_curves_are_monotone_whatever_the_data_say(kernel, params):
    rng = np.random.default_rng(0)
    X = rng.random((400, 3)) * [1, 50, 1]
    y = (
        np.sin(9 * X[:, 0]) + X[:, 0] + X[:, 1] / 50 + 0.3 * rng.standard_normal(400) > 0.5
    ).astype(int)
    model = AdditiveSVC(kernel=kernel, monotonic_cst=[1, -1, 0], **params, **ONE).fit(X, y)
    (_, rising), (_, falling), _ = model.shape_functions(1000)
    assert (np.diff(rising) >= 0).all()
    assert np.ptp(rising) > 0.1
    assert (np.diff(falling) <= 0).all()
    far = np.linspace(-0.0, 3.0, 50)[:, None] * [1, 0, 0] + [0, 20, 0.5]
    assert (np.diff(model.decision_function(far)) >= 0).all()


@pytest.mark.parametrize("fit_intercept", ["free", True, False])
def test_constraints_that_hold_anyway_change_nothing(fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (300, 2)).astype(float)
    y = (X[:, 0] - X[:, 1] + 2.0 * rng.standard_normal(300) > 0).astype(int)
    params = EXACT | {"kernel": "intersection", "C": 0.01, "fit_intercept": fit_intercept}
    plain = AdditiveSVC(**params).fit(X, y)
    bound = AdditiveSVC(monotonic_cst=[1, -1], **params).fit(X, y)
    (_, rising), (_, falling) = plain.shape_functions()
    assert (np.diff(rising) >= -1e-6).all()
    assert (np.diff(falling) <= 1e-6).all()
    assert_allclose(bound.decision_function(X), plain.decision_function(X), atol=1e-3)


def test_names_sparse_data_pieces_and_zeros():
    X, y = counts(200)
    by_number = AdditiveSVC(monotonic_cst=[0, -1, 0], **EXACT).fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = AdditiveSVC(monotonic_cst={"b": -1}, **EXACT).fit(frame, y)
    assert_array_equal(by_name.decision_function(frame), by_number.decision_function(X))
    csr = clone(by_number).fit(sparse.csr_matrix(X), y)
    assert_allclose(csr.decision_function(X), by_number.decision_function(X), atol=1e-3)
    pieces = clone(by_number).fit_chunks([(X[:90], y[:90]), (X[90:], y[90:])])
    assert_allclose(pieces.decision_function(X), by_number.decision_function(X), atol=1e-3)
    zeros = AdditiveSVC(monotonic_cst=[0, 0, 0], **ONE).fit(X, y)
    plain = AdditiveSVC(**ONE).fit(X, y)
    assert_array_equal(zeros.decision_function(X), plain.decision_function(X))


def test_constraints_and_missing_values():
    X, y = counts(300)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    model = AdditiveSVC(monotonic_cst=[1, 1, 0], missing="code", **ONE).fit(X, y)
    (_, first), (_, second), _ = model.shape_functions()
    assert (np.diff(first) >= 0).all()
    assert (np.diff(second) >= 0).all()
    assert_allclose(
        model.explain(X).sum(axis=1) + model.intercept_, model.decision_function(X), atol=1e-10
    )


@pytest.mark.parametrize(
    ("cst", "message"),
    [
        ([1, 0], r"monotonic_cst: has shape \(2,\) but"),
        ([1, 0, 2], "monotonic_cst: must be an array-like of -1, 0 or 1"),
        ({"a": 1}, "monotonic_cst: .* was not fitted on data with feature names"),
    ],
)
def test_wrong_constraints_are_refused(cst, message):
    with pytest.raises(ValueError, match=message):
        AdditiveSVC(monotonic_cst=cst).fit(*counts())


def test_unknown_names_are_refused():
    X, y = counts()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"monotonic_cst: .*\['d'\]"):
        AdditiveSVC(monotonic_cst={"d": 1}).fit(frame, y)


@pytest.mark.parametrize(
    "params",
    [{"loss": "hinge"}, {"solver": "sgd"}, {"kernel": np.minimum}],
)
def test_what_does_not_go_together_is_refused(params):
    (name,) = params
    with pytest.raises(ValueError, match=f"{name}: .* does not go together with monotonic_cst"):
        AdditiveSVC(monotonic_cst=[1, 0, 0], **params).fit(*counts())


def test_several_classes_pieces_and_clusters_are_refused():
    X, y = counts()
    with pytest.raises(ValueError, match="monotonic_cst: constraints are for two classes"):
        AdditiveSVC(monotonic_cst=[1, 0, 0]).fit(X, np.arange(80) % 3)
    with pytest.raises(AttributeError) as found:
        AdditiveSVC(monotonic_cst=[1, 0, 0]).partial_fit(X, y, classes=[0, 1])
    assert "monotonic_cst: partial_fit" in str(found.value.__cause__)
    with pytest.raises(ValueError, match="monotonic_cst: not available on a cluster"):
        DaskAdditiveSVC(monotonic_cst=[1, 0, 0]).fit(X, y)


def test_limits_stop_the_fit_with_a_warning():
    X, y = counts(400)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 passes"):
        model = AdditiveSVC(monotonic_cst=[1, -1, 0], **ONE | {"max_iter": 2}).fit(X, y)
    assert (model.n_iter_, model.stop_reason_) == (2, "max_iter")
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = AdditiveSVC(monotonic_cst=[1, -1, 0], max_time=1e-9, **EXACT).fit(X, y)
    assert model.stop_reason_ == "max_time"
    with pytest.warns(ConvergenceWarning, match="rounding errors"):
        model = AdditiveSVC(monotonic_cst=[1, -1, 0], **EXACT | {"tol": 1e-15}).fit(X, y)
    assert model.stop_reason_ == "stalled"


def test_files_and_exports_keep_the_curves(tmp_path):
    X, y = counts(200)
    model = AdditiveSVC(monotonic_cst=[1, -1, 0], **ONE).fit(X, y)
    widemargin.save(model, tmp_path / "model.wm")
    back = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(back.decision_function(X), model.decision_function(X))
    assert list(back.monotonic_cst) == [1, -1, 0]
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    labels = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[0]
    assert (labels == model.predict(X)).mean() > 0.99


def test_weights_are_repetitions():
    X, y = counts(60)
    weights = np.arange(60) % 3
    model = AdditiveSVC(monotonic_cst=[1, -1, 0], **EXACT).fit(X, y, sample_weight=weights)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=1e-3)
