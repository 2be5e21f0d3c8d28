"""Regression and one-class models in LIBSVM's files, exchanged with LIBSVM itself."""

import numpy as np
import pytest
from libsvm import svmutil
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import scale

import widemargin
from widemargin import KernelOneClassSVM, KernelSVC, KernelSVR

KERNELS = {
    "linear": "-t 0", "poly": "-t 1 -d 3 -g 0.1 -r 1", "rbf": "-t 2 -g 0.2",
    "sigmoid": "-t 3 -g 0.05 -r -0.2",
}  # fmt: skip
MODELS = {KernelSVR: "-s 3 -p 0.05 -c 2", KernelOneClassSVM: "-s 2 -n 0.3"}


@pytest.fixture
def data(iris):
    # A linear function separates these rows from the origin, as a one-class model wants.
    X = 0.5 * scale(iris[0]) + 1.0
    return X, X[:, 0] * X[:, 1] + np.sin(X[:, 2])


def ask_libsvm(path, X):
    """Predictions, and decision values, of the model in a file as LIBSVM reads it."""
    model = svmutil.svm_load_model(str(path))
    predicted, _, values = svmutil.svm_predict([], X.tolist(), model, "-q")
    return np.array(predicted), np.ravel(values)


def rounding(model, K):
    """What float32 kernel values may change in a decision value."""
    return 2e-7 * abs(model.dual_coef_).sum() * np.abs(K).max()


def assert_same_answers(model, path, X):
    tolerance = max(1e-7, rounding(model, model.kernel_.exact(X, X)))
    predicted, values = ask_libsvm(path, X)
    if isinstance(model, KernelSVR):
        assert_allclose(model.predict(X), predicted, atol=tolerance)
        return
    decisions = model.decision_function(X)
    assert_allclose(decisions, values, atol=tolerance)
    # Free support vectors lie on the boundary: we count them as inside, LIBSVM by their rounding.
    clear = np.abs(decisions) > 2 * tolerance
    assert clear.mean() > 0.5
    assert_array_equal(model.predict(X)[clear], predicted[clear])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("estimator", MODELS)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.filterwarnings("ignore:.*stopped before convergence")
def test_libsvm_reads_our_file(data, tmp_path, estimator, kernel, form):
    X, y = data
    own = {"gamma": 0.1, "coef0": 0.5, "max_iter": 20_000}
    model = estimator(kernel=kernel, **own).fit(form(X), y)
    model.to_libsvm(tmp_path / "model")
    assert_same_answers(model, tmp_path / "model", X)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("estimator", MODELS)
@pytest.mark.parametrize("probability", ["", " -b 1"])
def test_we_read_their_file(data, tmp_path, estimator, kernel, probability):
    X, y = data
    path = tmp_path / "model"
    options = f"{MODELS[estimator]} {KERNELS[kernel]} -q{probability}"
    svmutil.svm_save_model(str(path), svmutil.svm_train(y.tolist(), X.tolist(), options))
    model = estimator.from_libsvm(path, n_features=4)
    assert_same_answers(model, path, X)
    assert model.stop_reason_ == "unknown"
    widemargin.save(model, tmp_path / "m.wm")
    loaded = widemargin.load(tmp_path / "m.wm")
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert np.isnan(loaded.objective_)


@pytest.mark.parametrize("estimator", MODELS)
def test_precomputed_kernels(data, tmp_path, estimator):
    X, y = data
    K = X @ X.T + 5.0
    model = estimator(kernel="precomputed").fit(K, y)
    path = tmp_path / "model"
    model.to_libsvm(path)
    rows = np.column_stack([np.arange(1, len(K) + 1), K])
    queries = [dict(enumerate(row)) for row in rows.tolist()]
    official = svmutil.svm_load_model(str(path))
    _, _, values = svmutil.svm_predict([], queries, official, "-q")
    assert_allclose(np.ravel(values), model._decide(K)[:, 0], atol=rounding(model, K))
    again = estimator.from_libsvm(path, n_features=len(K))
    assert_allclose(again._decide(K), model._decide(K), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("estimator", MODELS)
def test_our_own_file_comes_back(data, tmp_path, estimator):
    X, y = data
    model = estimator().fit(X, y)
    model.to_libsvm(tmp_path / "model")
    again = estimator.from_libsvm(tmp_path / "model", n_features=4)
    assert_array_equal(again.dual_coef_.toarray(), model.dual_coef_)
    assert_array_equal(again.intercept_, model.intercept_)
    assert again.predict(X).shape == (len(X),)
    with pytest.raises(ValueError, match="n_features"):
        estimator.from_libsvm(tmp_path / "model", n_features=2)


def test_what_the_format_cannot_hold_is_refused(data, tmp_path):
    X, y = data
    with pytest.raises(ValueError, match=r"^y: .*single target, but the model has 2"):
        KernelSVR().fit(X, np.column_stack([y, y])).to_libsvm(tmp_path / "m")
    with pytest.raises(ValueError, match=r"^kernel: .*'chi2'"):
        KernelOneClassSVM(kernel="chi2").fit(np.abs(X)).to_libsvm(tmp_path / "m")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("svm_type", "estimator"),
    [(0, KernelSVC), (2, KernelOneClassSVM), (3, KernelSVR)],
)
def test_files_of_another_type_name_their_estimator(data, tmp_path, svm_type, estimator):
    X, y = data
    path = tmp_path / "model"
    model = svmutil.svm_train((y > 2).tolist(), X.tolist(), f"-s {svm_type} -q")
    svmutil.svm_save_model(str(path), model)
    for other in {KernelSVC, KernelSVR, KernelOneClassSVM} - {estimator}:
        with pytest.raises(ValueError, match=rf"model: .*{estimator.__name__}\.from_libsvm"):
            other.from_libsvm(path)
    assert isinstance(estimator.from_libsvm(path), estimator)


@pytest.mark.parametrize(("svm_type", "estimator"), [(1, KernelSVC), (4, KernelSVR)])
def test_nu_models_are_refused(data, tmp_path, svm_type, estimator):
    X, y = data
    path = tmp_path / "model"
    target = np.sign(y - 2) if svm_type == 1 else y
    model = svmutil.svm_train(target.tolist(), X.tolist(), f"-s {svm_type} -n 0.3 -q")
    svmutil.svm_save_model(str(path), model)
    with pytest.raises(ValueError, match="line 1: unsupported svm_type"):
        estimator.from_libsvm(path)
