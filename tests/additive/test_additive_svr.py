"""`AdditiveSVR` against LIBSVM and LIBLINEAR on its own feature map, and against `KernelSVR`."""

import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVR, LinearSVR

import widemargin
from widemargin import AdditiveSVR, KernelSVR, plotting
from widemargin.additive import target_descent
from widemargin.additive.target_descent import find_shift
from widemargin.cli.command import main
from widemargin.export import to_c, to_onnx

LOSSES = ["epsilon_insensitive", "squared_epsilon_insensitive"]
EXACT = {"tol": 1e-7, "max_iter": 100_000}


@pytest.fixture(scope="module")
def curves():
    """Features that are not negative, and targets of a large offset and scale."""
    rng = np.random.default_rng(0)
    X = rng.random((150, 4)) * [1.0, 2.0, 1.0, 0.5]
    y = 1000.0 + 50.0 * (np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=len(X)))
    return X, y


def feature_map(model, X):
    """Numbers whose products are the approximate kernel of a fitted model."""
    codes = model.quantiser_.encode(X).values.reshape(X.shape)
    return (model.tables_[codes] * np.sqrt(model._scales())[:, None]).reshape(len(X), -1)


@pytest.mark.parametrize("C", [0.5, 10.0, 200.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_free_intercept_is_that_of_libsvm(curves, loss, C):
    X, y = curves
    model = AdditiveSVR(C=C, loss=loss, epsilon=2.0, rank=6, **EXACT).fit(X, y)
    K = feature_map(model, X) @ feature_map(model, X).T
    # The dual of the squared loss is that of the other with a larger diagonal and no bounds.
    ridge, bound = (0.0, C) if loss == "epsilon_insensitive" else (0.5 / C, 1e8)
    peer = SVR(kernel="precomputed", C=bound, epsilon=2.0, tol=1e-9)
    peer.fit(K + ridge * np.eye(len(y)), y)
    expected = K[:, peer.support_] @ peer.dual_coef_[0] + peer.intercept_
    assert model.stop_reason_ == "converged"
    predicted = model.predict(X)
    # The intercept is not unique where all dual variables are at their bounds.
    assert_allclose(predicted - predicted.mean(), expected - expected.mean(), atol=1e-2)
    assert sum_losses(loss, y, predicted) <= sum_losses(loss, y, expected) * (1 + 1e-7)


@pytest.mark.parametrize("fit_intercept", ["free", True, False])
@pytest.mark.parametrize("make_rows", [np.asarray, sparse.csr_array])
def test_newton_and_coordinate_descent_agree(curves, make_rows, fit_intercept, monkeypatch):
    X, y = curves
    X, y = np.where(X > 0.3, X, 0.0), y / 50.0
    weights = np.random.default_rng(6).random(len(y)) + 0.1
    model = AdditiveSVR(C=20.0, fit_intercept=fit_intercept, scaling=None, **EXACT)
    newton = model.fit(make_rows(X), y, weights).predict(X)
    n_steps, violation = model.n_iter_, model.violation_
    monkeypatch.setattr(target_descent, "FEW_COEFS", 0)
    descent = model.fit(make_rows(X), y, weights).predict(X)
    assert n_steps < 20 < model.n_iter_
    assert violation < 1e-8
    assert_allclose(newton, descent, atol=1e-5)


def test_newton_stops_at_limits(curves):
    X, y = curves
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes"):
        model = AdditiveSVR(C=1e4, tol=1e-9, max_iter=1).fit(X, y)
    assert (model.n_iter_, model.stop_reason_) == (1, "max_iter")
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.set_params(max_time=1e-9).fit(X, y)
    assert model.n_iter_ == 0


def sum_losses(loss, y, predicted):
    excess = np.maximum(np.abs(y - predicted) - 2.0, 0.0)
    return (excess if loss == "epsilon_insensitive" else excess**2).sum()


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_penalised_intercept_or_none_is_that_of_liblinear(curves, loss, has_intercept):
    X, y = curves
    y = (y - 1000.0) / 50.0
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    options = {"C": 3.0, "loss": loss, "epsilon": 0.1, "fit_intercept": has_intercept}
    model = AdditiveSVR(rank=6, **options, **EXACT).fit(X, y, weights)
    peer = LinearSVR(**options, tol=1e-10, max_iter=1_000_000, random_state=0)
    peer.fit(feature_map(model, X), y, weights)
    assert_allclose(model.predict(X), peer.predict(feature_map(model, X)), atol=1e-4)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_a_high_rank_is_the_exact_kernel(kernel):
    rng = np.random.default_rng(2)
    # Whole numbers have a bin each, so that only the rank approximates.
    X = rng.integers(0, 30, (200, 3)).astype(float)
    y = np.sqrt(X[:, 0]) + np.sin(X[:, 1] / 4) + 0.1 * rng.normal(size=len(X))
    rank = 25 if kernel == "chi2" else "auto"
    options = {"C": 0.5, "epsilon": 0.05}
    model = AdditiveSVR(
        kernel=kernel, loss="epsilon_insensitive", rank=rank, scaling=None, **options, **EXACT
    )
    exact = KernelSVR(kernel=kernel, tol=1e-8, **options).fit(X, y)
    assert_allclose(model.fit(X, y).predict(X), exact.predict(X), atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_dense_and_sparse_rows_are_one_problem(curves, kernel, loss):
    X, y = curves
    X = np.where(X > 0.4, X, 0.0)
    model = AdditiveSVR(C=5.0, kernel=kernel, loss=loss, **EXACT, scaling=None)
    dense = model.fit(X, y).predict(X)
    assert_allclose(model.fit(sparse.csr_array(X), y).predict(X), dense, atol=1e-4)
    assert_allclose(model.predict(sparse.csr_array(X)), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_many_rows_in_float32(kernel):
    rng = np.random.default_rng(3)
    X = rng.random((4000, 6)).astype(np.float32)
    y = 1e5 + 10.0 * (np.cos(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=len(X)))
    quick = AdditiveSVR(kernel=kernel).fit(X, y)
    slow = AdditiveSVR(kernel=kernel, tol=1e-6, max_iter=10_000).fit(X, y)
    assert quick.stop_reason_ == slow.stop_reason_ == "converged"
    assert_allclose(quick.predict(X), slow.predict(X), atol=0.05 * y.std())
    assert slow.score(X, y) > 0.9


@pytest.mark.parametrize("loss", LOSSES)
def test_the_unit_and_the_offset_of_targets_do_not_matter(curves, loss):
    X, y = curves
    model = AdditiveSVR(loss=loss, epsilon=2.0).fit(X, y)
    other = AdditiveSVR(loss=loss, epsilon=2.0e-3).fit(X, 1e-3 * y - 7.0)
    assert_allclose(other.predict(X), 1e-3 * model.predict(X) - 7.0, rtol=1e-6)


def test_a_weight_is_a_number_of_copies(curves):
    X, y = curves
    times = np.random.default_rng(4).integers(0, 3, len(y))
    model = AdditiveSVR(C=5.0, loss="epsilon_insensitive", **EXACT)
    expected = model.fit(np.repeat(X, times, axis=0), np.repeat(y, times)).predict(X)
    assert_allclose(model.fit(X, y, times).predict(X), expected, atol=1e-3)


def test_costs_of_very_different_size(curves):
    X, y = curves
    weights = np.where(np.arange(len(y)) % 2, 1.0, 1e-6)
    half = AdditiveSVR(C=5.0, **EXACT).fit(X[1::2], y[1::2])
    model = AdditiveSVR(C=5.0, **EXACT).fit(X, y, weights)
    assert_allclose(model.predict(X[1::2]), half.predict(X[1::2]), atol=0.5)


def test_the_intercept_minimises_the_loss():
    rng = np.random.default_rng(5)
    residuals, costs = rng.normal(size=50), rng.random(50)
    for is_squared in (False, True):
        found = find_shift(residuals, costs, 0.2, is_squared)

        def weigh(b, power=2 if is_squared else 1):
            return costs @ np.maximum(np.abs(residuals - b) - 0.2, 0.0) ** power

        grid = np.linspace(-2, 2, 4001)
        assert weigh(found) <= min(map(weigh, grid)) + 1e-12


def test_shares_add_up_to_predictions(curves):
    X, y = curves
    model = AdditiveSVR().fit(X, y)
    shares = model.explain(X)
    assert shares.shape == X.shape
    assert_allclose(shares.sum(axis=1) + model.intercept_, model.predict(X), rtol=1e-10)
    values, heights = model.shape_functions(n_points=7, features=[1])[0]
    assert values.shape == heights.shape == (7,)
    rows = np.tile(X.min(axis=0), (7, 1))
    rows[:, 1] = values
    assert_allclose(np.diff(model.predict(rows)), np.diff(heights), atol=1e-8)


@pytest.mark.parametrize("n_coefs", [0, 128])
def test_a_warm_start_continues(curves, n_coefs, monkeypatch):
    X, y = curves
    monkeypatch.setattr(target_descent, "FEW_COEFS", n_coefs)
    for loss in LOSSES:
        model = AdditiveSVR(C=1.0, loss=loss, warm_start=True).fit(X, y)
        n_cold = AdditiveSVR(C=1.0, loss=loss).fit(X, y).n_iter_
        assert model.fit(X, y).n_iter_ < n_cold
        warm = model.set_params(C=2.0, **EXACT).fit(X, y).predict(X)
        cold = AdditiveSVR(C=2.0, loss=loss, **EXACT).fit(X, y).predict(X)
        assert_allclose(warm, cold, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_stopped_fit_is_no_worse_than_a_constant(curves, loss, monkeypatch):
    X, y = curves
    monkeypatch.setattr(target_descent, "FEW_COEFS", 0)
    model = AdditiveSVR(C=1e6, loss=loss, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes"):
        model.fit(X, y)
    assert model.stop_reason_ == "max_iter"
    assert sum_losses(loss, y, model.predict(X)) <= sum_losses(loss, y, np.median(y))
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.set_params(max_time=1e-9, max_iter=1000).fit(X, y)
    assert sum_losses(loss, y, model.predict(X)) <= sum_losses(loss, y, np.median(y))


def test_constant_targets(curves):
    X, _ = curves
    model = AdditiveSVR().fit(X, np.full(len(X), 3.0))
    assert_allclose(model.predict(X), 3.0, atol=1e-12)


def test_a_tube_that_holds_all_targets_is_told(curves):
    X, y = curves
    with pytest.warns(UserWarning, match="epsilon: the tube of 0.1 on either side"):
        AdditiveSVR().fit(X, 1e-4 * y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"epsilon": -1.0}, "epsilon: must not be negative"),
        ({"loss": "hinge"}, "loss"),
        ({"C": "big"}, "C"),
        ({"C": 0.0}, "C"),
        ({"rank": 0}, "rank"),
        ({"fit_intercept": None}, "fit_intercept"),
        ({"scaling": "max", "kernel": np.minimum}, "scaling"),
    ],
)
def test_bad_parameters(curves, params, message):
    with pytest.raises(ValueError, match=message):
        AdditiveSVR(**params).fit(*curves)


def test_a_refused_refit_keeps_the_model(curves):
    X, y = curves
    model = AdditiveSVR(warm_start=True).fit(X, y)
    before, predicted = set(vars(model)), model.predict(X)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X[:, :2], np.full(len(y), np.inf))
    with pytest.raises(ValueError, match="features >= 0"):
        model.fit(np.where(X[:, :2] > 0.9, -1.0, X[:, :2]), y)
    assert set(vars(model)) == before
    assert_array_equal(model.predict(X), predicted)


def test_negative_features_are_refused(curves):
    X, y = curves
    marked = np.where(np.arange(len(X))[:, None] % 9 == 0, -1.0, X)
    with pytest.raises(
        ValueError, match=r'AdditiveSVR needs features >= 0.* scaling="range", .* or KernelSVR'
    ):
        AdditiveSVR().fit(marked, y)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_a_file_gives_the_same_predictions(curves, tmp_path, kernel):
    X, y = curves
    model = AdditiveSVR(kernel=kernel, epsilon=0.5).fit(X, y)
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert repr(loaded) == repr(model)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.explain(X), model.explain(X))
    assert (loaded.C_, loaded.n_iter_) == (model.C_, model.n_iter_)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_exported_c_predicts_the_same(curves, tmp_path, dtype):
    X, y = curves
    y = (y - 1000.0) / 50.0
    model = make_pipeline(MinMaxScaler(), AdditiveSVR(epsilon=0.01)).fit(X, y)
    to_c(model, tmp_path / "model.c", dtype=dtype)
    main_c = tmp_path / "main.c"
    main_c.write_text(
        '#include <stdio.h>\n#include "model.h"\n'
        "int main(void) { float x[MODEL_N_FEATURES];\n"
        "for (;;) { for (int j = 0; j < MODEL_N_FEATURES; j++)\n"
        'if (scanf("%f", &x[j]) != 1) return 0;\n'
        'float y; model_predict(x, &y); printf("%.9g\\n", (double) y); } }\n'
    )
    binary = tmp_path / "main"
    subprocess.run(
        ["cc", "-std=c99", str(main_c), str(tmp_path / "model.c"), "-lm", "-o", str(binary)],
        check=True,
    )
    rows = "\n".join(" ".join(f"{v:.9g}" for v in row) for row in X.astype(np.float32))
    found = subprocess.run([str(binary)], input=rows, capture_output=True, text=True, check=True)
    # A value at the border of two bins may get either.
    errors = np.abs(np.array(found.stdout.split(), float) - model.predict(X))
    assert np.quantile(errors, 0.98) < (1e-4 if dtype == "float32" else 1e-2)


def test_exported_onnx_predicts_the_same(curves):
    runtime = pytest.importorskip("onnxruntime")
    X, y = curves
    model = AdditiveSVR(epsilon=0.5).fit(X, y)
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    name = session.get_inputs()[0].name
    (found,) = session.run(["prediction"], {name: X.astype(np.float32)})
    errors = np.abs(found.ravel() - model.predict(X.astype(np.float32)))
    assert np.quantile(errors, 0.98) < 1e-2


def test_the_command_trains_and_predicts(curves, tmp_path, capsys):
    X, y = curves
    table = "\n".join(",".join(f"{v:.17g}" for v in (*row, t)) for row, t in zip(X, y, strict=True))
    (tmp_path / "d.csv").write_text(f"a,b,c,d,price\n{table}\n")
    data, file = str(tmp_path / "d.csv"), str(tmp_path / "m.wm")
    assert main(["train", data, "-o", file, "--estimator", "AdditiveSVR", "--epsilon", "1"]) == 0
    shown = capsys.readouterr().out
    assert "AdditiveSVR" in shown
    assert "rank of the table" in shown
    assert "classes" not in shown
    assert main(["predict", file, data]) == 0
    predicted = np.array(capsys.readouterr().out.split(), float)
    assert_allclose(predicted, AdditiveSVR(epsilon=1.0).fit(X, y).predict(X), rtol=1e-8)


def test_curves_are_drawn_behind_a_scaler_too(curves):
    pytest.importorskip("matplotlib").use("Agg")
    X, y = curves
    for model in (AdditiveSVR(), make_pipeline(MinMaxScaler(clip=True), AdditiveSVR())):
        figure = plotting.plot_shapes(model.fit(X, y), X)
        assert figure.get_supylabel() == "adds to the prediction (the average = 0)"
        with pytest.raises(ValueError, match="a regression has no classes"):
            plotting.plot_shapes(model, X, classes=[1])


def test_inside_a_search(curves):
    X, y = curves
    search = GridSearchCV(AdditiveSVR(epsilon=1.0), {"C": [0.01, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"C": 10.0}
    assert search.best_score_ > 0.9
