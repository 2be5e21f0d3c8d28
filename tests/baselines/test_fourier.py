"""FourierSVC: scikit-learn's map, LIBLINEAR on it, and what every estimator owes its users."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from widemargin.baselines.fourier import FourierSVC, choose_interval, map_values

TIGHT = {"tol": 1e-7, "max_iter": 50_000, "random_state": 0}
GRID = (np.arange(200) + 0.5) / 200


def exact_kernel(name, x, y):
    x, y = x[:, None], y[None, :]
    if name == "chi2":
        return 2 * x * y / (x + y)
    if name == "intersection":
        return np.minimum(x, y)
    return 0.5 * (x * np.log2((x + y) / x) + y * np.log2((x + y) / y))


def mean_error(name, n_steps, interval):
    mapped = map_values(GRID, name, n_steps, interval)
    return np.abs(mapped @ mapped.T - exact_kernel(name, GRID, GRID)).mean()


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_table_is_the_map_of_scikit_learn(digits, steps):
    X, y = digits
    model = FourierSVC(sample_steps=steps, random_state=0).fit(X[:200], y[:200])
    sampler = AdditiveChi2Sampler(sample_steps=steps)
    assert_allclose(
        model.tables_, sampler.fit_transform(model.quantiser_.grid[:, None]), atol=1e-14
    )
    assert model.rank_ == 2 * steps - 1


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_decisions_are_those_of_liblinear_on_the_map(digits, loss, form):
    """Counts have a bin each, so nothing is rounded; the sampler's values are in their own unit."""
    X, y = digits
    counts = 16 * X[:300]
    # Larger counts than in training would count as the largest of their feature.
    counts = np.minimum(counts, counts[:200].max(axis=0))
    sampler = AdditiveChi2Sampler().fit(counts)
    model = FourierSVC(C=0.02, loss=loss, **TIGHT).fit(form(counts[:200]), y[:200])
    linear = LinearSVC(C=0.02, loss=loss, tol=1e-9, max_iter=10**6)
    linear.fit(sampler.transform(counts[:200]), y[:200])
    assert_allclose(
        model.decision_function(form(counts)),
        linear.decision_function(sampler.transform(counts)),
        atol=1e-5,
    )


def test_values_are_rounded_to_bins(digits):
    X, y = digits[0][:300] ** 1.5, digits[1][:300]
    model = FourierSVC(C=0.1, kernel="intersection", n_bins=40, fit_intercept=False, **TIGHT)
    model.fit(X[:200], y[:200])
    last = X[:200].max(axis=0)
    span = np.where(last > 0, last, 1.0)
    # The bins are uniform in the square root.
    rounded = span * (np.round(39 * np.sqrt(np.minimum(X / span, 1))) / 39) ** 2
    mapped = np.hstack([map_values(column, "intersection", 2, 0.9) for column in rounded.T])
    model.set_params(sample_interval=0.9).fit(X[:200], y[:200])
    linear = LinearSVC(C=0.1, tol=1e-9, max_iter=10**6, fit_intercept=False)
    linear.fit(mapped[:200], y[:200])
    assert_allclose(model.decision_function(X), linear.decision_function(mapped), atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "bounds"),
    [
        ("chi2", [0.04, 0.002, 1e-5]),
        ("jensen_shannon", [0.006, 0.001, 1e-5]),
        # Its frequencies fall off slowly.
        ("intersection", [0.045, 0.022, 0.005]),
    ],
)
def test_products_converge_to_the_kernel(kernel, bounds):
    errors = [mean_error(kernel, steps, choose_interval(kernel, steps)) for steps in (2, 4, 16)]
    assert (np.array(errors) < bounds).all()
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("kernel", ["intersection", "jensen_shannon"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_no_other_interval_has_a_smaller_error(kernel, steps):
    exact = exact_kernel(kernel, GRID, GRID)

    def squared(interval):
        mapped = map_values(GRID, kernel, steps, interval)
        return np.square(mapped @ mapped.T - exact).mean()

    chosen = choose_interval(kernel, steps)
    others = np.linspace(0.05, 2.0, 40)
    assert squared(chosen) <= 1.01 * min(map(squared, others))


def test_large_frequencies_and_zeros_are_finite():
    mapped = map_values(np.array([0.0, 1.0]), "chi2", 300, 5.0)
    assert np.isfinite(mapped).all()
    assert_array_equal(mapped[0], 0)


def test_sparse_names_copies_and_pieces(digits):
    X, y = digits
    names = np.array([f"digit {c}" for c in y])
    model = FourierSVC(C=0.1, kernel="intersection", tol=1e-4).fit(X[:500], names[:500])
    thin = clone(model).fit(csr_matrix(X[:500], dtype=np.float32), names[:500])
    assert_allclose(thin.decision_function(X), model.decision_function(X), atol=1e-3)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert model.score(X[500:], names[500:]) > 0.85
    shares = model.explain(X[:5])
    assert_allclose(
        shares.sum(axis=2) + model.intercept_, model.decision_function(X[:5]), atol=1e-6
    )
    model.partial_fit(X[500:], names[500:])
    assert model.n_seen_ == len(y)


def test_left_out_share_is_that_of_the_trace():
    X, y = make_blobs(60, random_state=0)
    model = FourierSVC(sample_steps=3, kernel="intersection").fit(X - X.min(axis=0), y)
    grid = model.quantiser_.grid
    traced = np.square(model.tables_).sum() / grid.sum()
    assert_allclose(model.left_out_, 1 - traced)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0}, "C: must be greater than 0"),
        ({"kernel": "hellinger"}, "kernel: must be one of"),
        ({"kernel": lambda x, y: x * y}, "kernel: must be one of"),
        ({"sample_steps": 0}, "sample_steps: must be an integer"),
        ({"sample_interval": 0.0}, "sample_interval: must be greater than 0"),
        ({"n_bins": 1}, "n_bins: must be"),
    ],
)
def test_bad_parameters(digits, params, message):
    with pytest.raises(ValueError, match=message):
        FourierSVC(**params).fit(digits[0][:50], digits[1][:50])


def test_negative_features_are_refused(digits):
    X, y = digits[0][:50].copy(), digits[1][:50]
    model = FourierSVC().fit(X, y)
    X[3, 2] = -1.0
    with pytest.raises(ValueError, match="Negative values in data X, column 2"):
        FourierSVC().fit(X, y)
    with pytest.raises(ValueError, match="Negative values in data X, column 2"):
        model.predict(X)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [FourierSVC(random_state=0), FourierSVC(kernel="intersection", random_state=0)],
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
