"""Ways to the same optimum: whole rows or rows without their mean, passes or Newton's method."""

import re
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris

from widemargin import AdditiveSVC, IntersectionSVC
from widemargin.additive import coef_newton, mean_direction, one_vs_rest
from widemargin.additive.coded_rows import decide, plain_rows
from widemargin.additive.dual_descent import OneVsRestDual
from widemargin.additive.mean_direction import split_rows
from widemargin.parallel import open_workers

MODELS = {
    "chi2": AdditiveSVC(rank=6),
    "intersection": IntersectionSVC(),
    "linear": IntersectionSVC(kernel="linear"),
}


@pytest.fixture(scope="module")
def flowers():
    X, y = load_iris(return_X_y=True)
    return np.round(10.0 * X), y


def unsolved(*args):
    return None


@pytest.mark.parametrize("make_rows", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("is_binary", [True, False])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_newton_and_coordinate_descent_agree(flowers, model, is_binary, make_rows, monkeypatch):
    X, y = flowers[0], flowers[1] == 1 if is_binary else flowers[1]
    weights = 0.5 + np.arange(len(y)) % 3
    settings = {"tol": 1e-9, "max_iter": 100_000, "random_state": 0, "C": 0.05}
    model = clone(model).set_params(**settings)
    for fit_intercept in ("free", True, False):
        model.set_params(fit_intercept=fit_intercept)
        monkeypatch.setattr(coef_newton, "LEAST_PASSES", 2)
        monkeypatch.setattr(coef_newton, "USUAL_STEPS", 0.0)
        monkeypatch.setattr(coef_newton, "MAKING", 0.0)
        newton = model.fit(make_rows(X), y, weights).decision_function(X)
        assert model.stop_reason_ == "converged"
        assert np.max(model.n_iter_) < 30
        monkeypatch.setattr(one_vs_rest, "can_be_dense", lambda rows: False)
        descent = model.fit(make_rows(X), y, weights).decision_function(X)
        monkeypatch.undo()
        assert np.max(model.n_iter_) > 30
        assert_allclose(newton, descent, atol=1e-6 * np.abs(descent).max())


def test_newton_goes_on_where_descent_would_take_too_long(flowers):
    X, y = flowers
    model = AdditiveSVC(C=1e4, random_state=0).fit(X, y)
    assert model.stop_reason_ == "converged"
    assert model.violation_ < 1e-6
    # A limit below that of a fair trial of the descent is the limit of the descent alone.
    with pytest.warns(UserWarning, match="max_iter=10 passes"):
        model.set_params(max_iter=10).fit(X, y)
    assert np.max(model.n_iter_) == 10


def test_steps_of_newton_are_counted_after_the_passes(flowers, capsys):
    X, y = flowers
    model = AdditiveSVC(C=1e4, random_state=0, verbose=2, n_jobs=1).fit(X, y == 1)
    numbers = [int(n) for n in re.findall(r"pass (\d+)", capsys.readouterr().err)]
    assert numbers[-1] == np.max(model.n_iter_)
    assert numbers == sorted(numbers)


def test_classes_that_newton_does_not_solve_are_no_worse(flowers, monkeypatch):
    X, y = flowers
    monkeypatch.setattr(coef_newton, "LEAST_PASSES", 2)
    monkeypatch.setattr(coef_newton, "USUAL_STEPS", 0.0)
    monkeypatch.setattr(coef_newton, "MAKING", 0.0)

    def train(max_iter):
        model = AdditiveSVC(C=1e4, random_state=0, max_iter=max_iter, tol=1e-12)
        with pytest.warns(UserWarning, match=f"max_iter={max_iter}"):
            model.fit(X, y)
        signs = np.where(y[:, None] == model.classes_, 1.0, -1.0)
        errors = np.maximum(0.0, 1.0 - signs * model.decision_function(X))
        return np.square(errors).sum(axis=0), model.n_iter_

    few, passes = train(4)
    # Two passes and two steps, then two passes and four.
    more, steps = train(6)
    assert (passes == 4).all()
    assert (steps == 6).all()
    assert (more <= few).all()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("model", [MODELS["chi2"], MODELS["intersection"]], ids=["chi2", "icd"])
def test_the_direction_of_the_mean_apart_gives_the_same_solution(flowers, model, loss, monkeypatch):
    X, y = flowers
    settings = {"tol": 1e-9, "max_iter": 100_000, "random_state": 0, "loss": loss, "C": 0.01}
    # Flowers begin far from zero, so that their mean is large.
    model = clone(model).set_params(scaling=None, **settings)
    monkeypatch.setattr(one_vs_rest, "can_be_dense", lambda rows: False)
    for fit_intercept, is_binary in product([True, False], [True, False]):
        labels = y == 1 if is_binary else y
        apart = model.set_params(fit_intercept=fit_intercept).fit(X, labels).decision_function(X)
        n_apart = np.max(model.n_iter_)
        with monkeypatch.context() as patch:
            patch.setattr(mean_direction, "split_rows", unsolved)
            whole = model.fit(X, labels).decision_function(X)
        assert_allclose(apart, whole, atol=1e-6 * np.abs(whole).max())
        assert n_apart < np.max(model.n_iter_)


def test_fewer_passes_at_the_default_tolerance(monkeypatch):
    X, y = load_digits(return_X_y=True)
    model = AdditiveSVC(fit_intercept=True, random_state=0, n_jobs=1)
    n_apart = model.fit(X, y).n_iter_.sum()
    monkeypatch.setattr(mean_direction, "split_rows", unsolved)
    assert 1.3 * n_apart < model.fit(X, y).n_iter_.sum()


def test_a_warm_start_continues_apart_from_the_mean(flowers):
    X, y = flowers
    model = AdditiveSVC(fit_intercept=True, tol=1e-4, random_state=0, warm_start=True).fit(X, y)
    n_cold = np.max(model.n_iter_)
    decisions = model.decision_function(X)
    model.fit(X, y)
    assert np.max(model.n_iter_) < n_cold / 2
    assert_allclose(model.decision_function(X), decisions, atol=1e-3)


def test_products_of_split_rows():
    rng = np.random.default_rng(0)
    numbers = rng.random((30, 4)) + 1.0
    kernel = numbers @ numbers.T
    costs = np.full(30, 1e3)
    problem = OneVsRestDual(
        np.zeros(30, np.int64), np.zeros(1, np.int64), costs, np.zeros(30), np.diag(kernel)
    )
    with open_workers(1) as workers:
        split = split_rows(plain_rows(numbers, None), problem, 0, workers)
    mean = numbers.mean(axis=0)
    along = numbers @ mean / np.linalg.norm(mean)
    assert_allclose(split.along, along)
    expected = kernel - (1.0 - split.slow.step) * np.outer(along, along)
    unit = np.diag(kernel) - along**2
    least = np.maximum(unit, 0.05 * unit.mean())
    assert_allclose(split.norms, least + split.slow.step * along**2)
    d = rng.normal(size=30)
    extra = split.rows.extra_write.reshape(30, 2).T @ d
    with open_workers(1) as workers:
        found = decide(split.rows, (numbers.T @ d)[None], extra[None], workers)[:, 0]
    assert_allclose(found, expected @ d, atol=1e-10)


@pytest.mark.parametrize("fit_intercept", ["free", True])
def test_many_rows_in_a_narrow_part_of_the_range(fit_intercept):
    """Narrow hats tell such rows apart, and a descent without them need not end."""
    rng = np.random.default_rng(0)
    n = 20_000
    X = np.where(rng.random((n, 9)) < 0.01, rng.random((n, 9)), 0.8 + 0.02 * rng.random((n, 9)))
    y = np.digitize(X[:, 0] + X[:, 1], [1.615, 1.625])
    model = IntersectionSVC(fit_intercept=fit_intercept, n_jobs=1, random_state=0).fit(X, y)
    assert np.max(model.n_iter_) < 60
