"""PowerMeanSVC against the formulas of the paper."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tests.reference import additive as reference
from widemargin import AdditiveSVC, PowerMeanSVC, load, save

ANCHORS = (0.01, 0.06, 0.75)


def by_hand(model, X, y, Z):
    """Decisions from the dual coefficients with the kernel of Eq. 39, zero where a number is."""
    alpha = model._warm_state[1].alpha[:, 0]
    anchors = model.anchors_ / model.unit_
    scaled, queries = X / model.unit_, Z / model.unit_
    K = reference.sum_over_features(
        lambda q, x: np.where(
            (q > 0) & (x > 0),
            reference.regression_kernel(*np.broadcast_arrays(q, x), anchors, 0.05, model.p), 0.0,
        ),
        queries, scaled,
    )  # fmt: skip
    return model.unit_ * K @ (alpha * np.where(y == 1, 1, -1))


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("lut", [False, True])
@pytest.mark.parametrize("p", [-1.0, -8.0, 0.0, -np.inf])
def test_decisions_are_those_of_equation_39(p, lut, as_sparse):
    rng = np.random.default_rng(0)
    grid = np.linspace(0, 1, 1000)
    X = grid[rng.integers(0, 1000, (150, 5))] * (rng.random((150, 5)) < 0.7)
    y = (X[:, 0] + X[:, 1] > 0.7).astype(int)
    form = sparse.csr_matrix if as_sparse else np.asarray
    model = PowerMeanSVC(
        C=1.0, p=p, lut=lut, fit_intercept=False, tol=0.01, warm_start=True, random_state=0
    )
    model.fit(form(X), y)
    decisions = by_hand(model, X, y, X)
    assert_allclose(model.decision_function(form(X)), decisions, atol=1e-6)
    # And the coefficients are where Algorithm 3 comes to rest.
    alpha = model._warm_state[1].alpha[:, 0]
    gradient = np.where(y == 1, 1, -1) * decisions - 1
    assert gradient[alpha < 1].min() > -0.01
    assert gradient[alpha > 0].max() < 0.01
    assert model.coef_.shape == (1, 5, 3)
    assert_allclose(model.anchors_, ANCHORS)


@pytest.mark.parametrize("n_anchors", [3, 5])
def test_chebyshev_anchors(digits, n_anchors):
    X, y = digits
    model = PowerMeanSVC(C=0.1, n_anchors=n_anchors, anchors="chebyshev", random_state=0)
    model.fit(X[:1000], y[:1000])
    assert model.coef_.shape == (10, 64, n_anchors)
    assert model.score(X[1000:], y[1000:]) > 0.9
    assert_allclose(PowerMeanSVC(n_anchors=5).fit(X, y).anchors_,
                    PowerMeanSVC(n_anchors=5, anchors="chebyshev").fit(X, y).anchors_)  # fmt: skip


def test_tables_hardly_change_the_answer(digits):
    X, y = digits
    X = X + 0.0001 * np.random.default_rng(0).random(X.shape)
    exact, table = (
        PowerMeanSVC(C=0.1, lut=lut, random_state=0).fit(X[:1000], y[:1000])
        for lut in (False, True)
    )
    assert np.mean(exact.predict(X[1000:]) == table.predict(X[1000:])) > 0.98


def test_it_is_near_the_exact_additive_machine(digits):
    X, y = digits
    near = PowerMeanSVC(C=0.1, random_state=0).fit(X[:1000], y[:1000])
    exact = AdditiveSVC(C=0.1, loss="hinge", fit_intercept=False, random_state=0)
    exact.fit(X[:1000], y[:1000])
    assert np.mean(near.predict(X[1000:]) == exact.predict(X[1000:])) > 0.95


def test_larger_features_are_divided_by_the_largest(digits):
    X, y = digits
    small = PowerMeanSVC(C=0.16, tol=1e-6, random_state=0, max_iter=10_000).fit(X[:150], y[:150])
    large = PowerMeanSVC(C=0.01, tol=1e-6, random_state=0, max_iter=10_000)
    large.fit(16 * X[:150], y[:150])
    assert large.unit_ == 16.0
    assert np.mean(large.predict(16 * X) == small.predict(X)) > 0.97


@pytest.mark.parametrize("as_sparse", [False, True])
def test_stochastic_descent(digits, as_sparse):
    X, y = digits
    form = sparse.csr_matrix if as_sparse else np.asarray
    model = PowerMeanSVC(C=0.1, solver="sgd", random_state=0).fit(form(X[:1000]), y[:1000])
    assert model.score(form(X[1000:]), y[1000:]) > 0.9
    before = model.decision_function(form(X[1000:]))
    model.partial_fit(form(X[:5]), y[:5])
    after = model.decision_function(form(X[1000:]))
    # Five more rows change little of what a thousand have taught.
    assert 0 < np.abs(after - before).max() < 0.5
    assert model.n_seen_ == 1005


def test_sparse_and_dense_steps_agree(digits):
    X, y = digits
    decisions = []
    for form in (np.asarray, sparse.csr_matrix):
        model = PowerMeanSVC(C=0.1, random_state=0)
        for start in (0, 300):
            part = slice(start, start + 300)
            model.partial_fit(form(X[part]), y[part], classes=np.arange(10))
        decisions.append(model.decision_function(X))
    assert_allclose(decisions[0], decisions[1], rtol=1e-2, atol=2e-2)


def test_the_shift_at_zero_is_a_number_not_a_hole():
    """A kernel that is not zero at zero: sparse and dense data must still agree."""
    rng = np.random.default_rng(0)
    X = rng.random((120, 4)) * (rng.random((120, 4)) < 0.5)
    y = (X[:, 0] > X[:, 1]).astype(int)
    both = [
        PowerMeanSVC(C=1.0, kernel=lambda x, z: np.minimum(x, z) + 0.3, random_state=0)
        .fit(form(X), y)
        .decision_function(form(X))
        for form in (np.asarray, sparse.csr_matrix)
    ]
    assert_allclose(both[0], both[1], atol=1e-6)


def test_divergence_is_reported_and_the_best_kept():
    """Anchors that are all large say nothing of small numbers."""
    rng = np.random.default_rng(0)
    X = rng.random((400, 30)) ** 8
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = PowerMeanSVC(
        C=1e4, fit_intercept=False, n_anchors=5, anchors=np.linspace(0.9, 1.0, 5), max_iter=200,
        warm_start=True, random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="diverged, and the best of its solutions is kept"):
        model.fit(X, y)
    assert model.stop_reason_ == "diverged"
    # What is kept is as good as it says: a pass over all rows found no larger violation.
    gradient = np.where(y == 1, 1, -1) * model.decision_function(X) - 1
    alpha = model._warm_state[1].alpha[:, 0]
    spread = gradient[alpha > 0].max() - gradient[alpha < 1e4].min()
    assert spread < 10 * model.violation_


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("lut", [False, True])
@pytest.mark.parametrize("unit", [1.0, 16.0])
def test_values_beyond_the_range_count_as_its_end(digits, unit, lut, as_sparse, tmp_path):
    X, y = digits
    form = sparse.csr_matrix if as_sparse else np.asarray
    model = PowerMeanSVC(C=0.1, lut=lut, random_state=0).fit(form(unit * X[:300]), y[:300])
    assert model.unit_ == unit
    end = model.decision_function(form(unit * np.ceil(X[300:320])))
    save(model, tmp_path / "model.wm")
    for m in (model, load(tmp_path / "model.wm")):
        for factor in (10.0, 1e4):
            far = form(factor * unit * np.ceil(X[300:320]))
            assert_allclose(m.decision_function(far), end, rtol=1e-9)
            assert_allclose(m.explain(far).sum(axis=2) + m.intercept_, end, rtol=1e-9)


def test_later_pieces_beyond_the_range_count_as_its_end(digits):
    X, y = digits
    decisions = []
    for factor in (1.0, 50.0):
        model = PowerMeanSVC(C=0.1, random_state=0).partial_fit(X[:300], y[:300], np.arange(10))
        model.partial_fit(factor * np.ceil(X[300:400]), y[300:400])
        decisions.append(model.decision_function(X[400:500]))
    assert_allclose(decisions[1], decisions[0], rtol=1e-9)


@pytest.mark.parametrize("C", [1e2, 1e6])
def test_divergence_of_stochastic_descent_is_reported_and_the_best_kept(C):
    rng = np.random.default_rng(0)
    X = rng.random((400, 30)) ** 8
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = PowerMeanSVC(
        C=C, n_anchors=5, anchors=np.linspace(0.99, 1.0, 5), loss="squared_hinge", solver="sgd",
        random_state=0,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="diverged, and the best of its solutions is kept"):
        model.fit(X, y)
    assert model.stop_reason_ == "diverged"
    assert np.abs(model.decision_function(X)).max() < 20
    assert 0 < model.violation_ < 5


def test_descent_beyond_the_largest_number_keeps_no_such_solution():
    """One value so large that the anchors, which follow it, are far from all others."""
    rng = np.random.default_rng(0)
    X, y = np.abs(rng.standard_normal((322, 9))), np.arange(322) % 2
    X[0, 0] = 5e5
    model = PowerMeanSVC(p=0.0, C=2e3, loss="squared_hinge", solver="sgd", random_state=0)
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.violation_)
    with pytest.raises(ValueError, match="X: stochastic descent on these rows diverges"):
        model.partial_fit(X, y)


def test_long_first_steps_are_no_divergence():
    """With a large C the loss is huge at first, and falls."""
    X = np.random.default_rng(0).random((200, 20))
    model = PowerMeanSVC(C=1e4, solver="sgd", max_iter=50, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=50 passes"):
        model.fit(X, np.arange(200) % 2)
    assert model.stop_reason_ == "max_iter"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"p": 1.0}, "p: a power mean is a kernel for p <= 0"),
        ({"p": "x"}, "p: 'x' is not a finite number"),
        ({"p": None}, "p: None is not a finite number"),
        ({"n_anchors": 1}, "n_anchors: must be"),
        ({"anchors": "random"}, "anchors: must be one of"),
        ({"anchors": [0.1, 0.1, 0.5]}, "anchors: give n_anchors=3 different numbers"),
        ({"anchors": [0.1, 0.5]}, "anchors: give n_anchors=3 different numbers"),
        ({"offset": 0.0}, "offset: must be greater"),
        ({"solver": "primal"}, "solver: must be one of 'dual', 'sgd', got"),
        ({"alpha": 0.0}, "alpha: must be greater"),
        ({"eta0": 0.0}, "eta0: must be greater than 0"),
        ({"kernel": "rbf"}, "kernel: 'rbf' is not additive"),
    ],
)
def test_bad_parameters(digits, params, message):
    with pytest.raises(ValueError, match=message):
        PowerMeanSVC(**params).fit(*digits)


@pytest.mark.parametrize("lut", [False, True])
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda a, b: np.abs(a - b), r"not positive semidefinite.*eigenvalue -\d"),
        (lambda a, b: a + 2 * b, r"not symmetric.*differ by up to \d"),
        (lambda a, b: 2 * a * b / (a + b), r"NaN or infinity at k\(0, 0\); check its domain"),
        (lambda a, b: min(a, b), r"must take arrays.*numpy\.vectorize"),
        (lambda a, b: 0.0 * a * b, "is zero among"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_callables_that_are_no_kernels_are_refused(digits, kernel, message, lut):
    X, y = digits
    with pytest.raises(ValueError, match=f"kernel: .*{message}"):
        PowerMeanSVC(kernel=kernel, lut=lut).fit(X, y)


def test_a_callable_for_single_numbers_may_be_wrapped(digits):
    X, y = digits
    own = PowerMeanSVC(kernel=np.vectorize(lambda a, b: min(a, b)), random_state=0)
    named = PowerMeanSVC(kernel=np.minimum, random_state=0).fit(X, y)
    assert_allclose(own.fit(X, y).decision_function(X), named.decision_function(X))


def test_negative_features_are_named(digits):
    X, y = digits
    with pytest.raises(ValueError, match="columns 0, 1"):
        PowerMeanSVC().fit(X - 0.1, y)


def test_the_earlier_name_of_the_dual_solver_still_works(digits, tmp_path, recwarn):
    X, y = digits
    X, y = X[:200], y[:200]
    expected = PowerMeanSVC().fit(X, y).decision_function(X)
    assert not [w for w in recwarn if w.category is FutureWarning]
    with pytest.warns(FutureWarning, match="^solver: 'dcd' is now called 'dual'") as caught:
        model = PowerMeanSVC(solver="dcd").fit(X, y)
    assert caught[0].filename == __file__
    assert_array_equal(model.decision_function(X), expected)
    # A file of an earlier version has the old name; it loads without a warning, with the new one.
    save(model, tmp_path / "model.wm")
    recwarn.clear()
    loaded = load(tmp_path / "model.wm")
    assert loaded.solver == "dual"
    assert_array_equal(loaded.decision_function(X), expected)
    assert not [w for w in recwarn if w.category is FutureWarning]


@pytest.mark.parametrize("anchors", [np.linspace(1e-4, 1e-4 + 1e-13, 20), "chebyshev"])
def test_anchors_that_cannot_be_told_apart_are_named(anchors):
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 3)), rng.integers(0, 2, 30)
    n_anchors = 1000 if isinstance(anchors, str) else len(anchors)
    with pytest.raises(ValueError, match=f"anchors: powers of the logarithms of these {n_anchors}"):
        PowerMeanSVC(n_anchors=n_anchors, anchors=anchors).fit(X, y)


def test_a_descent_beyond_the_largest_number_leaves_the_largest_class():
    """Far beyond its anchors the approximate kernel is huge, and the descent grows without bound."""
    rng = np.random.default_rng(0)
    X = 1e-3 * rng.random((200, 5)) + [1e-3, 0.0, 0.0, 0.0, 0.0]
    y = (X[:, 3] + 4e-4 * rng.random(200) > 7e-4).astype(int)
    model = PowerMeanSVC(
        C=900.0, p=0.0, n_anchors=6, anchors=np.linspace(1e-4, 2e-4, 6), loss="squared_hinge",
        fit_intercept=False,
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="diverged"):
        model.fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.violation_)
    assert model.score(X, y) >= max(y.mean(), 1.0 - y.mean())
