"""What SVC, SVR and OneClassSVM of scikit-learn do, KernelSVC, KernelSVR and KernelOneClassSVM do."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE
from sklearn.svm import SVC, SVR, OneClassSVM

from widemargin import KernelOneClassSVM, KernelSVC, KernelSVR, load, save
from widemargin.exact.svc_compatibility import HARD_MARGIN_COST, find_bound

PAIRS = [(KernelSVC, SVC), (KernelSVR, SVR), (KernelOneClassSVM, OneClassSVM)]


def common_letters(A, B):
    """Kernel of texts: the number of letters that both have."""
    return np.array([[float(len(set(a) & set(b))) for b in B] for a in A])


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcdefgh"), 5)) for _ in range(300)]
    return words, np.array([int(word.count("a") > word.count("b")) for word in words])


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_linear_weights_equal_those_of_scikit_learn(cancer, ours, theirs):
    # Moved away from the origin, without which LIBSVM's one-class problem has no unique solution.
    X, y = cancer[0][:, :10] + 2.0, cancer[1]
    model = ours(kernel="linear", tol=1e-5).fit(X, y)
    reference = theirs(kernel="linear", tol=1e-5, max_iter=10**6).fit(X, y)
    assert_allclose(model.coef_, reference.coef_, rtol=1e-2, atol=1e-3)
    decide = getattr(model, "decision_function", model.predict)
    # Kernel values of models with many support vectors are float32, the weights are float64.
    by_weights = (X @ model.coef_.T + model.intercept_)[:, 0]
    assert_allclose(decide(X), by_weights, rtol=1e-5, atol=1e-3)
    of_sparse = ours(kernel="linear", tol=1e-5).fit(sparse.csr_matrix(X), y)
    assert sparse.issparse(of_sparse.coef_)
    assert_allclose(of_sparse.coef_.toarray(), model.coef_, rtol=1e-3, atol=1e-4)
    for coef in (model.coef_, of_sparse.coef_.data):
        with pytest.raises(ValueError, match="read-only"):
            coef[:] = 0.0


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_other_kernels_have_no_weights(cancer, ours, theirs):
    X, y = cancer
    model = ours()
    assert not hasattr(model, "coef_")
    assert not hasattr(model.fit(X, y), "coef_")
    with pytest.raises(AttributeError, match="linear kernel only"):
        _ = model.coef_


def test_recursive_feature_elimination_chooses_as_with_svc(iris):
    X, y = iris
    ours = RFE(KernelSVC(kernel="linear"), n_features_to_select=2).fit(X, y)
    theirs = RFE(SVC(kernel="linear"), n_features_to_select=2).fit(X, y)
    assert_array_equal(ours.ranking_, theirs.ranking_)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_fitted_attributes_have_the_form_of_scikit_learn(iris, ours, theirs):
    X, y = iris
    model, reference = ours().fit(X, y), theirs().fit(X, y)
    assert model.shape_fit_ == reference.shape_fit_ == X.shape
    assert model.fit_status_ == reference.fit_status_ == 0
    assert model._gamma == model.gamma_ == pytest.approx(reference._gamma)
    assert type(model.n_iter_) is type(reference.n_iter_)
    assert np.shape(model.n_iter_) == np.shape(reference.n_iter_)
    assert model.n_support_.shape == reference.n_support_.shape
    assert_array_equal(model.support_, reference.support_)


def test_weights_of_classes_are_those_of_svc(iris):
    X, y = iris
    for class_weight in (None, "balanced", {0: 3.0, 2: 0.5}):
        ours = KernelSVC(class_weight=class_weight).fit(X[10:], y[10:])
        theirs = SVC(class_weight=class_weight).fit(X[10:], y[10:])
        assert_allclose(ours.class_weight_, theirs.class_weight_)


@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_decision_function_equals_that_of_svc(digits, shape):
    X, y = digits[0][:500], digits[1][:500]
    params = {"C": 5.0, "gamma": 0.1, "tol": 1e-6, "decision_function_shape": shape}
    ours, theirs = KernelSVC(**params).fit(X, y), SVC(**params).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert_array_equal(ours.predict(X), theirs.predict(X))


def test_two_classes_have_one_decision_whatever_the_shape(cancer):
    X, y = cancer
    model = KernelSVC(decision_function_shape="ovo").fit(X, y)
    assert_allclose(model.decision_function(X), KernelSVC().fit(X, y).decision_function(X))


def test_pairs_need_pairs(iris):
    with pytest.raises(ValueError, match="multi_class='ovo'"):
        KernelSVC(multi_class="ovr", decision_function_shape="ovo").fit(*iris)


def test_break_ties_follows_the_scores():
    """Ring of three classes: inside, each class wins one vote, and the first wins the tie."""
    angles = np.repeat([0.0, 2.0, 4.0], 30) * np.pi / 3.0
    rng = np.random.default_rng(3)
    X = np.c_[np.cos(angles), np.sin(angles)] + 0.6 * rng.normal(size=(90, 2))
    y = np.repeat([0, 1, 2], 30)
    queries = rng.uniform(-0.5, 0.5, size=(5000, 2))
    params = {"gamma": 2.0, "C": 100.0, "tol": 1e-8}
    plain, broken = KernelSVC(**params), KernelSVC(**params, break_ties=True)
    scores = broken.fit(X, y).decision_function(queries)
    assert_array_equal(broken.predict(queries), scores.argmax(axis=1))
    is_tie = plain.fit(X, y).predict(queries) != broken.predict(queries)
    assert is_tie.any()
    for flag, ours in ((False, plain), (True, broken)):
        theirs = SVC(**params, break_ties=flag).fit(X, y)
        assert np.mean(ours.predict(queries) == theirs.predict(queries)) > 0.999
    with pytest.raises(ValueError, match="break_ties must be False"):
        broken.set_params(decision_function_shape="ovo").predict(queries)


def test_hard_margin_equals_that_of_svc():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += np.where(y, 0.1, -0.1)
    theirs = SVC(C=1e8, kernel="linear", tol=1e-6).fit(X, y)
    for scale in (1e-6, 1.0, 1e4):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours = KernelSVC(C=np.inf, kernel="linear").fit(X * scale, y)
        assert_allclose(ours.coef_ * scale, theirs.coef_, rtol=2e-3)
        assert ours.score(X * scale, y) == 1.0


def test_bound_that_stands_for_infinity():
    assert find_bound(3.0, np.ones(2)) == 3.0
    assert find_bound(np.inf, np.array([0.5, 7.0])) == HARD_MARGIN_COST
    assert find_bound(np.inf, np.array([1e-6, 0.0])) == HARD_MARGIN_COST * 1e6
    assert find_bound(np.inf, np.zeros(2)) == HARD_MARGIN_COST


@pytest.mark.parametrize("estimator", [KernelSVC, KernelSVR])
def test_impossible_hard_margin_warns(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(2, size=60)
    with pytest.warns(ConvergenceWarning, match="no solution for C=inf") as caught:
        estimator(C=np.inf, kernel="linear").fit(X, y)
    assert caught[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="max_iter=5 was reached.*give a finite C"):
        estimator(C=np.inf, kernel="linear", max_iter=5).fit(X, y)


def test_hard_margin_is_saved(tmp_path, cancer):
    X, y = cancer
    save(KernelSVC(C=np.inf).fit(X, y), tmp_path / "model.wm")
    loaded = load(tmp_path / "model.wm")
    assert np.isposinf(loaded.C)
    assert loaded.n_iter_.shape == (1,)
    assert loaded.gamma_ > 0


@pytest.mark.parametrize("C", [0.0, -np.inf, np.nan, "inf", None])
def test_bad_costs(cancer, C):
    for estimator in (KernelSVC, KernelSVR):
        with pytest.raises(ValueError, match="C: "):
            estimator(C=C).fit(*cancer)


@pytest.mark.parametrize("n", [150, 300])
def test_a_callable_may_compare_texts(texts, n):
    words, y = texts
    K = common_letters(words, words)
    ours = KernelSVC(kernel=common_letters, tol=1e-6).fit(words[:n], y[:n])
    theirs = SVC(kernel="precomputed", tol=1e-6).fit(K[:n, :n], y[:n])
    expected = theirs.decision_function(K[:, :n])
    assert_allclose(ours.decision_function(words), expected, atol=1e-4)
    assert ours.shape_fit_ == (n,)
    assert not hasattr(ours, "n_features_in_")
    again = pickle.loads(pickle.dumps(ours))
    assert_array_equal(again.predict(words), ours.predict(np.array(words)))
    regression = KernelSVR(kernel=common_letters, tol=1e-6).fit(words[:n], y[:n])
    reference = SVR(kernel="precomputed", tol=1e-6).fit(K[:n, :n], y[:n])
    assert_allclose(regression.predict(words), reference.predict(K[:, :n]), atol=1e-3)
    novelty = KernelOneClassSVM(kernel=common_letters, nu=0.2, tol=1e-6).fit(words[:n])
    reference = OneClassSVM(kernel="precomputed", nu=0.2, tol=1e-6).fit(K[:n, :n])
    assert_allclose(
        novelty.decision_function(words), reference.decision_function(K[:, :n]), atol=1e-2
    )


def test_things_of_any_kind(texts):
    words, y = texts
    expected = KernelSVC(kernel=common_letters).fit(words, y).decision_function(words)
    lists = [list(word) for word in words]
    ragged = [[*word, word[0]] if i % 2 else list(word) for i, word in enumerate(words)]
    for things in (lists, ragged, [frozenset(word) for word in words]):
        model = KernelSVC(kernel=common_letters).fit(things, y)
        assert_allclose(model.decision_function(things), expected, atol=1e-9)
    by_number = KernelSVC(
        kernel=lambda a, b: common_letters(*([words[int(i)] for i in n] for n in (a, b)))
    )
    numbers = np.arange(len(words))
    assert_allclose(by_number.fit(numbers, y).decision_function(numbers), expected, atol=1e-9)


def test_things_after_numbers_forget_the_features(cancer, texts):
    X, y = cancer
    model = KernelSVC(kernel=lambda a, b: a @ b.T).fit(X, y)
    assert model.n_features_in_ == X.shape[1]
    words, labels = texts
    model.set_params(kernel=common_letters).fit(words, labels)
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(words, labels[:-1])
    with pytest.raises(ValueError, match="no rows"):
        model.fit([], [])


def test_a_callable_may_return_a_sparse_matrix(cancer):
    X, y = cancer
    dense = KernelSVC(kernel=lambda a, b: a @ b.T).fit(X, y)
    model = KernelSVC(kernel=lambda a, b: a @ b.T).fit(sparse.csr_matrix(X), y)
    assert_allclose(model.decision_function(X), dense.decision_function(X), atol=2e-3)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_rows_of_negative_weight_are_left_out(cancer, ours, theirs):
    X, y = cancer
    weight = np.where(np.arange(len(y)) % 3 == 1, -0.5, 1.0)
    given = weight.copy()
    with pytest.warns(UserWarning, match=r"sample_weight: 190 rows .* row 1;"):
        model = ours(gamma=0.05).fit(X, y, sample_weight=weight)
    assert_array_equal(weight, given)
    absent = ours(gamma=0.05).fit(X[weight > 0], y[weight > 0])
    assert_allclose(model.dual_coef_, absent.dual_coef_, atol=1e-9)
    reference = theirs(gamma=0.05, tol=1e-6).fit(X, y, sample_weight=weight)
    decide = "predict" if ours is KernelSVR else "decision_function"
    assert_allclose(getattr(model, decide)(X), getattr(reference, decide)(X), atol=5e-3, rtol=1e-3)


def test_probability_is_refused_and_the_substitute_named(cancer):
    with pytest.raises(ValueError, match=r"probability: True .*CalibratedClassifierCV"):
        KernelSVC(probability=True).fit(*cancer)
    KernelSVC(probability="deprecated", shrinking=False, cache_size=500).fit(*cancer)


@pytest.mark.parametrize("estimator", [KernelSVC, KernelSVR, KernelOneClassSVM])
@pytest.mark.parametrize("params", [{"shrinking": "no"}, {"cache_size": 0}])
def test_parameters_without_effect_are_checked(cancer, estimator, params):
    with pytest.raises(ValueError, match=next(iter(params))):
        estimator(**params).fit(*cancer)


@pytest.mark.parametrize("estimator", [KernelSVC, KernelSVR, KernelOneClassSVM])
def test_sparse_kernel_matrices_are_refused(cancer, estimator):
    X, y = cancer
    with pytest.raises(TypeError, match=r"Sparse precomputed .* X.toarray\(\)"):
        estimator(kernel="precomputed").fit(sparse.csr_matrix(X @ X.T), y)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
@pytest.mark.parametrize("estimator", [KernelSVC, KernelSVR, KernelOneClassSVM])
@pytest.mark.filterwarnings("ignore:The 'sigmoid' kernel")
def test_sparse_data_give_the_model_of_dense_data(iris, estimator, kernel):
    """What scikit-learn's test_sparse.py checks."""
    X, y = iris
    dense = estimator(kernel=kernel, gamma=0.01).fit(X, y)
    model = estimator(kernel=kernel, gamma=0.01).fit(sparse.csr_matrix(X), y)
    assert sparse.issparse(model.support_vectors_)
    assert_allclose(model.support_vectors_.toarray(), dense.support_vectors_)
    assert_array_equal(model.support_, dense.support_)
    assert sparse.issparse(model.dual_coef_)
    assert_allclose(model.dual_coef_.toarray(), dense.dual_coef_, atol=1e-5)
    assert_array_equal(model.predict(sparse.csr_matrix(X)), model.predict(X))
