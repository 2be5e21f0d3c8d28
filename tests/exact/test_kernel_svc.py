"""KernelSVC against scikit-learn's SVC, and everything its interface promises."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import chi2_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from widemargin import DCSVC, KernelSVC
from widemargin.kernels import RBF, Chi2
from widemargin.kernels.base import SMALL_ROWS
from widemargin.parallel import Workers

KERNELS = [
    {"kernel": "rbf", "gamma": 0.1},
    {"kernel": "linear"},
    {"kernel": "poly", "gamma": 0.1, "coef0": 1.0, "degree": 2},
    # Small enough to be nearly linear: an indefinite sigmoid kernel has many local solutions.
    {"kernel": "sigmoid", "gamma": 0.001, "coef0": 0.0},
]


def dual_objective(coef, K):
    return 0.5 * coef @ K @ coef - np.abs(coef).sum()


@pytest.mark.parametrize("params", KERNELS, ids=lambda p: p["kernel"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_binary_equals_svc(cancer, params, C):
    X, y = cancer
    ours = KernelSVC(C=C, tol=1e-5, **params).fit(X, y)
    theirs = SVC(C=C, tol=1e-5, **params).fit(X, y)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.decision_function(X), rtol=1e-3, atol=2e-3
    )
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.998


def test_objective_and_gap_are_those_of_the_returned_model(cancer):
    X, y = cancer
    model = KernelSVC(C=3.0, gamma=0.05, tol=1e-6).fit(X, y)
    K = rbf_kernel(X, gamma=0.05)
    coef = np.zeros(len(X))
    coef[model.support_] = model.dual_coef_[0]
    dual = dual_objective(coef, K)
    sign = np.where(y == 1, 1.0, -1.0)
    margin = sign * (K @ coef + model.intercept_)
    primal = 0.5 * coef @ K @ coef + 3.0 * np.maximum(1 - margin, 0).sum()
    assert model.objective_ == pytest.approx(dual, rel=1e-6)
    assert model.duality_gap_ == pytest.approx(primal + dual, abs=1e-5 * abs(dual))
    theirs = SVC(C=3.0, gamma=0.05, tol=1e-6).fit(X, y)
    reference = np.zeros(len(X))
    reference[theirs.support_] = theirs.dual_coef_[0]
    assert dual == pytest.approx(dual_objective(reference, K), rel=1e-6)


def test_large_noisy_problem_equals_svc(noisy):
    X, y = noisy
    ours = KernelSVC(C=2.0, gamma=0.3).fit(X, y)
    theirs = SVC(C=2.0, gamma=0.3).fit(X, y)
    K = rbf_kernel(X, gamma=0.3)
    objectives = []
    for model in (ours, theirs):
        coef = np.zeros(len(X))
        coef[model.support_] = model.dual_coef_[0]
        objectives.append(dual_objective(coef, K))
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-3)
    assert abs(len(ours.support_) - len(theirs.support_)) <= 0.01 * len(theirs.support_)


def test_multiclass_one_vs_one_equals_svc(digits):
    X, y = digits
    ours = KernelSVC(C=5.0, gamma=0.3, tol=1e-5).fit(X[:900], y[:900])
    theirs = SVC(C=5.0, gamma=0.3, tol=1e-5, decision_function_shape="ovo").fit(X[:900], y[:900])
    K = rbf_kernel(X[900:], ours.support_vectors_, gamma=0.3)
    # LIBSVM's pair functions are positive for the first class, ours for the second.
    pairs = -(K @ ours.dual_coef_.T + ours.intercept_)
    np.testing.assert_allclose(pairs, theirs.decision_function(X[900:]), atol=2e-3)
    np.testing.assert_array_equal(ours.predict(X[900:]), theirs.predict(X[900:]))
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)


def test_one_vs_rest_equals_separate_binary_fits(iris):
    X, y = iris
    model = KernelSVC(multi_class="ovr", C=2.0, gamma=0.5, tol=1e-6).fit(X, y)
    scores = model.decision_function(X)
    for c in range(3):
        single = SVC(C=2.0, gamma=0.5, tol=1e-6).fit(X, y == c)
        np.testing.assert_allclose(scores[:, c], single.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))


def test_weights_equal_svc(cancer):
    X, y = cancer
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(y))
    params = {"C": 1.5, "gamma": 0.03, "tol": 1e-6, "class_weight": {0: 2.0, 1: 0.5}}
    ours = KernelSVC(**params).fit(X, y, sample_weight=weight)
    theirs = SVC(**params).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


def test_weight_zero_leaves_rows_out(cancer):
    X, y = cancer
    weight = np.ones(len(y))
    weight[::3] = 0
    left_out = KernelSVC(gamma=0.05, tol=1e-6).fit(X, y, sample_weight=weight)
    absent = KernelSVC(gamma=0.05, tol=1e-6).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(
        left_out.decision_function(X), absent.decision_function(X), atol=1e-6
    )
    assert not np.isin(left_out.support_, np.flatnonzero(weight == 0)).any()


@pytest.mark.parametrize("form", ["float32", "csr", "csr32", "frame", "fortran", "list"])
def test_input_forms_agree(cancer, form):
    X, y = cancer
    forms = {
        "float32": X.astype(np.float32),
        "csr": sparse.csr_matrix(X),
        "csr32": sparse.csr_matrix(X.astype(np.float32)),
        "frame": pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]),
        "fortran": np.asfortranarray(X),
        "list": X.tolist(),
    }
    plain = KernelSVC(gamma=0.05, tol=1e-5).fit(X, y)
    model = KernelSVC(gamma=0.05, tol=1e-5).fit(forms[form], y)
    np.testing.assert_allclose(
        model.decision_function(forms[form]), plain.decision_function(X), atol=1e-3
    )
    if form == "float32":
        assert model.support_vectors_.dtype == np.float32
    if form == "csr":
        assert sparse.issparse(model.support_vectors_)
    if form == "frame":
        assert list(model.feature_names_in_[:2]) == ["f0", "f1"]


def test_sparse_with_zeros_stored_and_unsorted_indices():
    data = np.array([1.0, 0.0, 2.0, 3.0, 1.0, 4.0])
    X = sparse.csr_matrix((data, np.array([2, 0, 1, 1, 0, 2]), np.array([0, 2, 3, 5, 6])), (4, 3))
    y = [0, 1, 0, 1]
    plain = KernelSVC(gamma=0.5).fit(X.toarray(), y)
    np.testing.assert_allclose(
        KernelSVC(gamma=0.5).fit(X, y).decision_function(X),
        plain.decision_function(X.toarray()),
        atol=1e-6,
    )


@pytest.mark.parametrize("labels", [["a", "b"], [False, True], [-1.0, 2.0], [10**12, 3]])
def test_any_labels(cancer, labels):
    X, y = cancer
    named = np.array(labels)[y]
    model = KernelSVC(gamma=0.05).fit(X, named)
    assert set(model.predict(X)) <= set(named)
    assert model.score(X, named) > 0.95
    positive = model.decision_function(X) >= 0
    np.testing.assert_array_equal(model.predict(X)[positive][:1], model.classes_[1:])


def test_precomputed_and_callable_equal_named_kernel(cancer):
    X, y = cancer
    named = KernelSVC(gamma=0.05, tol=1e-6).fit(X[:400], y[:400]).decision_function(X[400:])
    K, K_test = rbf_kernel(X[:400], gamma=0.05), rbf_kernel(X[400:], X[:400], gamma=0.05)
    given = KernelSVC(kernel="precomputed", tol=1e-6).fit(K, y[:400])
    np.testing.assert_allclose(given.decision_function(K_test), named, atol=1e-4)
    function = KernelSVC(kernel=lambda a, b: rbf_kernel(a, b, gamma=0.05), tol=1e-6)
    np.testing.assert_allclose(
        function.fit(X[:400], y[:400]).decision_function(X[400:]), named, atol=1e-4
    )
    by_object = KernelSVC(kernel=RBF(0.05), tol=1e-6).fit(X[:400], y[:400])
    np.testing.assert_allclose(by_object.decision_function(X[400:]), named, atol=1e-9)


def test_precomputed_with_weight_zero_keeps_columns(cancer):
    X, y = cancer
    K = rbf_kernel(X[:300], gamma=0.05)
    weight = np.ones(300)
    weight[:50] = 0
    model = KernelSVC(kernel="precomputed", tol=1e-6).fit(K, y[:300], sample_weight=weight)
    absent = KernelSVC(kernel="precomputed", tol=1e-6).fit(K[50:, 50:], y[50:300])
    np.testing.assert_allclose(
        model.decision_function(K), absent.decision_function(K[:, 50:]), atol=1e-5
    )


def test_histogram_kernels(digits):
    X, y = digits
    keep = y < 2
    X, y = X[keep], y[keep]
    ours = KernelSVC(kernel="exp_chi2", gamma=0.5, tol=1e-6).fit(X, y)
    K = chi2_kernel(X, gamma=0.5)
    theirs = SVC(kernel="precomputed", tol=1e-6).fit(K, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(K), atol=1e-3)
    for kernel in ("chi2", "intersection", "hellinger", "power_mean", "jensen_shannon", Chi2()):
        assert KernelSVC(kernel=kernel).fit(X, y).score(X, y) == 1.0


def test_warm_start_continues(noisy):
    X, y = noisy
    cold = KernelSVC(C=4.0, gamma=0.3).fit(X, y)
    warm = KernelSVC(C=2.0, gamma=0.3, warm_start=True).fit(X, y)
    warm.set_params(C=4.0).fit(X, y)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-4)
    again = warm.fit(X, y).n_iter_
    assert again < 0.05 * cold.n_iter_
    other = warm.fit(X[:5000], y[:5000])
    fresh = KernelSVC(C=4.0, gamma=0.3).fit(X[:5000], y[:5000])
    assert other.objective_ == pytest.approx(fresh.objective_, rel=1e-4)


def test_memory_changes_nothing_but_time(noisy):
    X, y = noisy
    plain = KernelSVC(C=2.0, gamma=0.3).fit(X[:3000], y[:3000])
    tight = KernelSVC(C=2.0, gamma=0.3, memory="1 MB").fit(X[:3000], y[:3000])
    assert tight.objective_ == pytest.approx(plain.objective_, rel=1e-4)


@pytest.mark.parametrize(
    ("params", "reason"), [({"max_iter": 20}, "max_iter"), ({"max_time": 1e-4}, "max_time")]
)
def test_limits_warn_and_leave_a_usable_model(noisy, params, reason):
    X, y = noisy
    with pytest.warns(ConvergenceWarning, match=reason):
        model = KernelSVC(C=2.0, gamma=0.3, **params).fit(X, y)
    assert model.stop_reason_ == reason
    assert np.isfinite(model.decision_function(X)).all()
    assert model.duality_gap_ > 0


def test_convergence_is_reported(cancer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelSVC(gamma=0.05).fit(*cancer)
    assert model.stop_reason_ == "converged"
    assert model.n_iter_ > 0


@pytest.mark.parametrize(("n_features", "n_classes"), [(20, 2), (70, 2), (5, 4)])
def test_same_answer_for_any_number_of_threads(n_features, n_classes):
    """To the last bit, with kernel values computed anew and kept, one problem and several."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, n_features))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=4000), np.linspace(-1, 1, n_classes - 1))
    one, *more = (KernelSVC(C=2.0, n_jobs=n).fit(X, y).decision_function(X) for n in (1, 2, 3))
    for other in more:
        np.testing.assert_array_equal(other, one)


def test_clone_pickle_pipeline_and_grid_search(cancer):
    X, y = cancer
    model = make_pipeline(StandardScaler(), KernelSVC())
    search = GridSearchCV(
        model, {"kernelsvc__C": [0.1, 1.0], "kernelsvc__gamma": [0.01, 0.1]}, cv=2
    )
    search.fit(X, y)
    assert search.best_score_ > 0.95
    fitted = search.best_estimator_
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.decision_function(X), fitted.decision_function(X))
    assert clone(fitted[-1]).get_params() == fitted[-1].get_params()


def test_callback_sees_progress_and_may_abandon(noisy):
    X, y = noisy
    seen = []
    KernelSVC(gamma=0.3, callback=seen.append).fit(X, y)
    assert seen[0].n_seen < seen[-1].n_seen == len(y)
    assert [s.n_iter for s in seen] == sorted(s.n_iter for s in seen)

    def abandon(state):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KernelSVC(gamma=0.3, callback=abandon).fit(X, y)


def test_verbose_writes_to_stderr(noisy, capsys):
    X, y = noisy
    KernelSVC(gamma=0.3, verbose=2).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "support vectors" in captured.err


def test_not_fitted_and_wrong_width(cancer):
    X, y = cancer
    with pytest.raises(NotFittedError):
        KernelSVC().predict(X)
    with pytest.raises(ValueError, match="features"):
        KernelSVC().fit(X, y).predict(X[:, :5])


BAD = [
    ({"C": 0}, "C"),
    ({"C": -1.0}, "C"),
    ({"C": np.nan}, "C"),
    ({"C": "1"}, "C"),
    ({"tol": 0.0}, "tol"),
    ({"kernel": "gauss"}, "kernel"),
    ({"gamma": -1.0}, "gamma"),
    ({"gamma": "wide"}, "gamma"),
    ({"degree": 1.5}, "degree"),
    ({"coef0": np.inf}, "coef0"),
    ({"memory": "lots"}, "memory"),
    ({"memory": 1000}, "memory"),
    ({"max_iter": -2}, "max_iter"),
    ({"max_time": 0}, "max_time"),
    ({"multi_class": "all"}, "multi_class"),
    ({"n_jobs": 0}, "n_jobs"),
    ({"class_weight": {0: -1.0}}, "class_weight"),
    ({"kernel": lambda a, b: np.ones((3, 3))}, "kernel"),
    ({"kernel": "precomputed"}, "square"),
]


@pytest.mark.parametrize(("params", "named"), BAD)
def test_bad_parameters_are_named(cancer, params, named):
    X, y = cancer
    with pytest.raises(ValueError, match=named):
        KernelSVC(**params).fit(X, y)


def test_bad_data_are_named(cancer):
    X, y = cancer
    broken = X.copy()
    broken[3, 4] = np.nan
    cases = [
        (broken, y, "NaN"),
        (np.where(np.isnan(broken), np.inf, broken), y, "infinity"),
        (X, np.zeros(len(y)), "class"),
        (X[:0], y[:0], "sample"),
        (X, y[:-1], "inconsistent"),
        (X, np.linspace(0, 1, len(y)), "continuous"),
    ]
    for data, labels, words in cases:
        with pytest.raises(ValueError, match=words):
            KernelSVC().fit(data, labels)


def test_negative_features_name_the_column(cancer):
    X, y = cancer
    positive = np.abs(X)
    positive[7, 3] = -1.0
    with pytest.raises(ValueError, match=r"column 3.*MinMaxScaler"):
        KernelSVC(kernel="chi2").fit(positive, y)
    with pytest.raises(ValueError, match=r"column 3"):
        KernelSVC(kernel="intersection").fit(sparse.csr_matrix(positive), y)
    positive[2, 5] = -1.0
    with pytest.raises(ValueError, match=r"X, columns 3, 5: the 'chi2' kernel"):
        KernelSVC(kernel="chi2").fit(positive, y)
    frame = pd.DataFrame(positive, columns=[f"bin{i}" for i in range(X.shape[1])])
    with pytest.raises(ValueError, match=r"columns 3 \('bin3'\), 5 \('bin5'\)"):
        KernelSVC(kernel="hellinger").fit(frame, y)
    model = KernelSVC(kernel="chi2").fit(np.abs(X), y)
    with pytest.raises(ValueError, match="columns 3, 5"):
        model.predict(positive)


@pytest.mark.parametrize(
    ("weight", "words"),
    [(-1.0, "zero or negative"), (0.0, "zero or negative"), (np.nan, "NaN")],
)
def test_bad_weights(cancer, weight, words):
    X, y = cancer
    with pytest.raises(ValueError, match=words):
        KernelSVC().fit(X, y, sample_weight=np.full(len(y), weight))
    one_class = np.where(y == 0, 0.0, 1.0)
    with pytest.raises(ValueError, match="class 0"):
        KernelSVC().fit(X, y, sample_weight=one_class)


def test_precomputed_must_be_symmetric():
    K = np.eye(10)
    K[2, 5] = 1.0
    with pytest.raises(ValueError, match="symmetric"):
        KernelSVC(kernel="precomputed").fit(K, np.arange(10) % 2)
    with pytest.raises(ValueError, match="semidefinite"):
        KernelSVC(kernel="precomputed").fit(-np.eye(10), np.arange(10) % 2)


HARD = [
    {"C": 1e6}, {"gamma": 0.0}, {"gamma": 1e6}, {"C": 1e-6}, {"C": 1e6, "gamma": 1e6},
    {"kernel": "linear", "C": 1e6}, {"fit_intercept": False, "C": 1e6}, {"gamma": 0.0, "C": 1e6},
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("params", HARD, ids=str)
def test_hard_settings_end_with_an_answer(params):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[:, 2] = 1.0
    X[200:] = X[:200]
    y = rng.integers(0, 2, 400)
    y[200:] = 1 - y[:200]
    model = KernelSVC(**params).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_identical_rows():
    X = np.ones((50, 4))
    y = np.arange(50) % 3 == 0
    model = KernelSVC().fit(X, y)
    assert set(model.predict(X)) == {False}


def test_kernel_that_overflows_is_refused():
    X = np.array([[1e12, 0.0], [0.0, 1e12], [1e12, 1e12], [1.0, 1.0]])
    with pytest.raises(ValueError, match="scale"):
        KernelSVC(kernel="poly", gamma=1.0).fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("early", [False, True])
def test_sign_far_from_all_support_vectors(form, early):
    """Kernel values beyond float32 decide there; float64 has ten times the exponents."""
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    y = np.where(X[:, 0] > 0.5, 1, -1)
    queries = np.c_[rng.uniform(-2.0, 3.0, 400), rng.uniform(1.2, 2.0, 400)]
    params = {"gamma": 200.0, "fit_intercept": False}
    divided = DCSVC(
        **params, n_clusters=3, n_levels=1, stop_level=1, background=0, overlap=0.0, n_nearest=1
    )
    model = divided if early else KernelSVC(**params)
    turn = sparse.csr_matrix if form == "csr" else np.asarray
    model.fit(turn(X), y)
    decisions = model.decision_function(turn(queries))
    vectors = X[model.support_]
    distances = ((queries[:, None] - vectors[None]) ** 2).sum(axis=2)
    K = np.exp(-200.0 * distances)
    if early:
        clusters = model._model.find_clusters(model._model.prepare(turn(queries)), Workers(1, None))
        K *= clusters[:, None] == model.support_clusters_
    expected = K @ model._dual_coef_[0]
    assert (np.abs(expected) < 1e-38).mean() > 0.5
    clear = np.abs(expected) > 1e-300
    np.testing.assert_array_equal(np.sign(decisions[clear]), np.sign(expected[clear]))


def test_sign_where_one_function_is_far_and_another_near():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [3.0, 0.0], [6.0, 0.0]])
    X = np.concatenate([center + 0.2 * rng.normal(size=(200, 2)) for center in centers])
    y = np.repeat([0, 1, 2], 200)
    model = KernelSVC(gamma=50.0, fit_intercept=False).fit(X, y)
    assert len(model.support_) > SMALL_ROWS
    distances = ((X[:, None] - X[model.support_][None]) ** 2).sum(axis=2)
    expected = np.exp(-50.0 * distances) @ model.dual_coef_.T
    assert (np.abs(expected) < 1e-38).any(axis=1).mean() > 0.5
    assert (np.abs(expected) > 0.1).any(axis=1).all()
    decisions = model._model.decide(X, max_bytes=10**8, n_jobs=1)
    clear = np.abs(expected) > 1e-280
    np.testing.assert_array_equal(np.sign(decisions[clear]), np.sign(expected[clear]))
    np.testing.assert_allclose(decisions, expected, rtol=0, atol=1e-4)
