"""`ProjectedSVC` as users meet it."""

import pickle
import time
import tracemalloc
import warnings
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from widemargin import KernelSVC, ProjectedSVC
from widemargin.files.container import ModelFileError, read_model_file, write_model_file
from widemargin.projected import projected_svc
from widemargin.projected.size_search import SizedDecisions, find_knee


@pytest.fixture(scope="module")
def overlapping():
    X, y = make_classification(400, 8, flip_y=0.1, class_sep=0.8, random_state=0)
    return X[:300], y[:300], X[300:], y[300:]


def test_decision_is_the_documented_sum(overlapping):
    X, y, queries, _ = overlapping
    model = ProjectedSVC(n_basis=12, C=2.0).fit(X, y)
    assert model.n_basis_ == 12
    assert_array_equal(model.basis_vectors_, X[model.basis_indices_])
    values = model.kernel_.exact(queries, model.basis_vectors_)
    expected = (values @ model.coef_.T + model.intercept_).ravel()
    assert_allclose(model.decision_function(queries), expected, atol=1e-10)
    errors = np.maximum(1.0 - np.where(y == 1, 1, -1) * model.decision_function(X), 0.0)
    K = model.kernel_.exact(model.basis_vectors_, model.basis_vectors_)
    J = model.coef_[0] @ K @ model.coef_[0] + 2.0 * np.sum(errors**2)
    assert_allclose(model.objective_, J, rtol=1e-9)


def test_a_tenth_of_the_vectors_is_as_accurate(cancer):
    X, y = cancer
    exact = KernelSVC().fit(X[::2], y[::2])
    small = ProjectedSVC(n_basis=len(exact.support_) // 10).fit(X[::2], y[::2])
    assert small.score(X[1::2], y[1::2]) >= exact.score(X[1::2], y[1::2]) - 0.02


@pytest.mark.parametrize("kernel", ["linear", "poly", "chi2", "intersection"])
def test_coefficients_are_the_optimum_of_their_basis(digits, kernel):
    X, y = digits
    X, signs = X[:500], np.where(y[:500] > 4, 1.0, -1.0)
    model = ProjectedSVC(n_basis=20, kernel=kernel, C=10.0).fit(X, signs)
    columns = model.kernel_.exact(X, model.basis_vectors_)
    K = model.kernel_.exact(model.basis_vectors_, model.basis_vectors_)

    def evaluate(numbers):
        w, b = numbers[:-1], numbers[-1]
        errors = np.maximum(1.0 - signs * (columns @ w + b), 0.0)
        slope = -20.0 * signs * errors
        gradient = np.append(2.0 * K @ w + columns.T @ slope, slope.sum())
        return w @ K @ w + 10.0 * np.sum(errors**2), gradient

    found = np.append(model.coef_[0], model.intercept_)
    J, _ = evaluate(found)
    assert_allclose(model.objective_, J, rtol=1e-6)
    limits = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-14, "gtol": 1e-10}
    start = np.zeros(len(found))
    best = minimize(evaluate, start, jac=True, method="L-BFGS-B", options=limits)
    assert best.fun >= J * (1.0 - 1e-5)
    assert evaluate(start)[0] > 2.0 * J


def test_callable_kernel_is_the_named_one(overlapping):
    X, y, queries, _ = overlapping
    named = ProjectedSVC(n_basis=6, kernel="poly", degree=2, gamma=1.0, coef0=1.0).fit(X, y)
    own = ProjectedSVC(n_basis=6, kernel=lambda a, b: (a @ b.T + 1.0) ** 2).fit(X, y)
    assert_array_equal(own.basis_indices_, named.basis_indices_)
    assert_allclose(own.decision_function(queries), named.decision_function(queries), rtol=1e-6)


def test_size_as_share_and_as_bytes(overlapping):
    X, y, _, _ = overlapping
    assert ProjectedSVC(n_basis=0.05).fit(X, y).n_basis_ == 15
    # Eight features and a coefficient for each vector, and the intercept, four bytes each.
    assert ProjectedSVC(n_basis="400 B").fit(X, y).n_basis_ == (400 - 4) // 36
    with pytest.raises(ValueError, match=r"n_basis: '30 B' is too little.*takes 40 bytes"):
        ProjectedSVC(n_basis="30 B").fit(X, y)
    with pytest.raises(ValueError, match="n_basis: 'big' is not allowed; give a positive number"):
        ProjectedSVC(n_basis="big").fit(X, y)


def test_bytes_count_all_classes(iris):
    X, y = iris
    y = np.where(np.arange(150) % 7 == 0, (y + 1) % 3, y)
    own = ProjectedSVC(n_basis="1 kB").fit(X, y)
    assert_array_equal(own.n_basis_, (1000 - 12) // (3 * 4 * (4 + 3)))
    shared = ProjectedSVC(n_basis="1 kB", shared_basis=True).fit(X, y)
    assert len(shared.basis_indices_) == (1000 - 12) // (4 * (4 + 3))
    for model in (own, shared):
        held = (model.basis_vectors_, model.coef_, model.intercept_)
        assert 4 * sum(values.size for values in held) <= 1000


def test_size_found_by_held_out_rows(overlapping):
    X, y, queries, labels = overlapping
    model = ProjectedSVC(n_basis="auto", random_state=0).fit(X, y)
    accuracy = np.array([point.accuracy for point in model.auto_path_])
    assert [point.n_basis for point in model.auto_path_] == list(range(1, len(accuracy) + 1))
    assert model.n_basis_ == len(model._path) <= int(np.argmax(accuracy)) + 1
    assert accuracy[model.n_basis_ - 1] > accuracy.max() - 0.03
    full = ProjectedSVC(n_basis=100).fit(X, y)
    assert model.score(queries, labels) > full.score(queries, labels) - 0.03
    again = ProjectedSVC(n_basis="auto", random_state=0).fit(X, y)
    assert_array_equal(again.basis_indices_, model.basis_indices_)
    again.set_params(n_basis=5).fit(X, y)
    assert not hasattr(again, "auto_path_")
    with pytest.raises(ValueError, match="'auto' holds rows out"):
        ProjectedSVC(n_basis="auto").fit(X[:10], [0] * 9 + [1])


def test_stages_are_fits_of_their_size(overlapping):
    X, y, queries, labels = overlapping
    model = ProjectedSVC(n_basis=10).fit(X, y)
    stages = list(model.staged_decision_function(queries))
    assert len(stages) == 11
    for size in (1, 4, 10):
        small = ProjectedSVC(n_basis=size, refine=False).fit(X, y)
        assert_allclose(stages[size - 1], small.decision_function(queries), rtol=1e-7, atol=1e-9)
    assert_array_equal(stages[-1], model.decision_function(queries))
    path = model.basis_path(queries, labels)
    assert [point.n_basis for point in path] == [*range(1, 11), 10]
    assert path[-1].accuracy == model.score(queries, labels)
    assert_allclose(path[-1].objective, model.objective_)
    column = model.basis_path(queries, labels[:, None])
    assert column[-1].accuracy == path[-1].accuracy
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.basis_path(queries, labels[:1])
    last = list(model.staged_predict(queries))[-1]
    assert_array_equal(last, model.predict(queries))


@pytest.mark.parametrize("shared", [False, True])
def test_several_classes(digits, shared):
    X, y = digits
    names = np.array([f"digit {label}" for label in y])
    model = ProjectedSVC(n_basis=40, C=10.0, shared_basis=shared).fit(X[:600], names[:600])
    assert model.score(X[600:], names[600:]) > 0.9
    assert model.coef_.shape == (10, len(model.basis_indices_))
    used = np.count_nonzero(model.coef_, axis=1)
    assert_array_equal(used, model.n_basis_)
    if shared:
        assert (used == len(model.basis_indices_)).all()
    stages = list(model.staged_decision_function(X[600:700]))
    assert stages[0].shape == (100, 10)
    assert_array_equal(stages[-1], model.decision_function(X[600:700]))


def test_a_weight_is_a_repetition(overlapping):
    X, y, queries, _ = overlapping
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    weighted = ProjectedSVC(n_basis=8, gamma=0.1).fit(X, y, weights)
    repeated = np.repeat(np.arange(len(y)), weights.astype(int))
    plain = ProjectedSVC(n_basis=8, gamma=0.1).fit(X[repeated], y[repeated])
    assert_allclose(
        weighted.decision_function(queries), plain.decision_function(queries), rtol=1e-6, atol=1e-8
    )
    assert (weights[weighted.basis_indices_] > 0).all()
    assert_array_equal(weighted.basis_vectors_, X[weighted.basis_indices_])


def test_sizes_beyond_a_basis_that_separates_all_rows_are_not_fitted(monkeypatch):
    """Fits of these sizes would find the same vectors and move them to the same places."""
    monkeypatch.setattr(projected_svc, "MOVED_SIZES", np.array([2, 8, 16]))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    model = ProjectedSVC(
        n_basis="auto", move=True, kernel="poly", degree=2, coef0=1.0, C=1e4, tol=0.01
    )

    def fit_all(fit_one, sizes, deadline):
        found = [fit_one(int(size)) for size in sizes]
        return SizedDecisions([one[0] for one in found], np.array([one[1] for one in found]))

    with mock.patch.object(projected_svc, "fit_each_size", fit_all):
        expected = clone(model).fit(X, y).auto_path_
    asked, search_bases = [], ProjectedSVC._search

    def note(self, problem, kernel, search, seed):
        asked.append(search.n_basis)
        return search_bases(self, problem, kernel, search, seed)

    with mock.patch.object(ProjectedSVC, "_search", note):
        assert model.fit(X, y).auto_path_ == expected
    assert max(asked) == 8


def test_class_weights_move_the_border(overlapping):
    X, y, queries, _ = overlapping
    plain = ProjectedSVC(n_basis=10).fit(X, y)
    heavy = ProjectedSVC(n_basis=10, class_weight={1: 10.0}).fit(X, y)
    assert (heavy.predict(queries) == 1).sum() > (plain.predict(queries) == 1).sum()


def test_sparse_and_float32(digits):
    X, y = digits
    dense = ProjectedSVC(n_basis=15).fit(X[:300], y[:300] > 4)
    thin = ProjectedSVC(n_basis=15).fit(sparse.csr_matrix(X[:300]), y[:300] > 4)
    assert_array_equal(thin.basis_indices_, dense.basis_indices_)
    assert sparse.issparse(thin.basis_vectors_)
    assert_allclose(thin.decision_function(X), dense.decision_function(X), rtol=1e-6, atol=1e-8)
    single = ProjectedSVC(n_basis=15).fit(X[:300].astype(np.float32), y[:300] > 4)
    assert single.basis_vectors_.dtype == np.float32


def test_drawn_candidates_depend_on_the_seed_alone(overlapping):
    X, y, _, _ = overlapping
    models = [
        ProjectedSVC(n_basis=10, candidates=candidates, random_state=3, n_jobs=n_jobs).fit(X, y)
        for candidates, n_jobs in [(30, 1), (30, 2), (0.1, 1)]
    ]
    for other in models[1:]:
        assert_array_equal(other.basis_indices_, models[0].basis_indices_)
    every = ProjectedSVC(n_basis=10).fit(X, y)
    assert every.objective_ < models[0].objective_ * 1.02


def test_more_vectors_than_are_independent(overlapping):
    X, y, _, _ = overlapping
    with pytest.warns(
        ConvergenceWarning, match="no more than 6 independent basis vectors of the 50"
    ):
        model = ProjectedSVC(kernel="linear").fit(X, y)
    assert (model.n_basis_, model.stop_reason_) == (6, "rank")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        ProjectedSVC(n_basis=5).fit(X, y)


def test_time_is_kept(overlapping):
    X, y, queries, _ = overlapping
    began = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = ProjectedSVC(n_basis=250, max_time=1e-4).fit(X, y)
    assert time.perf_counter() - began < 20
    assert model.stop_reason_ == "max_time"
    assert 1 <= model.n_basis_ < 250
    assert np.isfinite(model.decision_function(queries)).all()


def test_exchanges_are_limited(overlapping):
    X, y, _, _ = overlapping
    with pytest.warns(ConvergenceWarning, match="max_iter=1 exchanges"):
        model = ProjectedSVC(n_basis=20, max_iter=1, tol=1e-8).fit(X, y)
    assert model.n_iter_ == 21


def test_progress_and_callback(overlapping, capsys):
    X, y, _, _ = overlapping
    stages = []
    ProjectedSVC(n_basis=5, verbose=2, callback=stages.append).fit(X, y)
    assert [len(stage.rows) for stage in stages[:5]] == [1, 2, 3, 4, 5]
    *lines, closing = capsys.readouterr().err.splitlines()
    assert len(lines) == len(stages)
    assert "grow  basis vectors 5" in lines[4]
    assert "done" in closing


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_basis": 0}, "n_basis: 0 is not allowed"),
        ({"n_basis": 1.5}, "n_basis: 1.5 is not allowed"),
        ({"n_basis": True}, "n_basis: True is not allowed"),
        ({"n_basis": None}, "n_basis: None is not allowed"),
        ({"candidates": 0}, "candidates: 0 is not allowed"),
        ({"candidates": "some"}, "candidates: 'some' is not allowed"),
        ({"C": -1.0}, "C: must be greater than 0"),
        ({"tol": 0.0}, "tol: must be greater than 0"),
        ({"max_iter": 0}, "max_iter: must be an integer"),
        ({"kernel": "precomputed"}, "not 'precomputed'"),
        ({"kernel": "nothing"}, "kernel: 'nothing' is not known"),
        ({"memory": "much"}, "memory: 'much' is not an amount"),
    ],
)
def test_bad_parameters(overlapping, params, message):
    X, y, _, _ = overlapping
    with pytest.raises(ValueError, match=message):
        ProjectedSVC(**params).fit(X, y)


def test_bad_data(overlapping):
    X, y, _, _ = overlapping
    with pytest.raises(ValueError, match="one class only"):
        ProjectedSVC().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match=r"Negative values in data X, columns 0, 1.*'chi2'"):
        ProjectedSVC(kernel="chi2").fit(X, y)
    with pytest.raises(ValueError, match="too large to optimise with"):
        ProjectedSVC(kernel="poly", gamma=1e9).fit(1e6 * X, y)


def test_pipeline_grid_and_copies(overlapping):
    X, y, queries, _ = overlapping
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), ProjectedSVC()), {"projectedsvc__n_basis": [3, 10]}, cv=2
    ).fit(X, y)
    model = grid.best_estimator_[-1]
    copied = pickle.loads(pickle.dumps(model))
    assert_array_equal(copied.decision_function(queries), model.decision_function(queries))
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("thin", [True, False])
def test_saved_and_loaded(iris, n_classes, thin, tmp_path):
    X, y = iris
    X = sparse.csr_matrix(X) if thin else X
    y = np.array(["a", "b", "c"])[y % n_classes]
    model = ProjectedSVC(n_basis=6, kernel="poly", class_weight={"a": 2.0}).fit(X, y)
    widemargin.save(model, tmp_path / "model")
    loaded = widemargin.load(tmp_path / "model")
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.get_params() == model.get_params()
    for name in ("basis_indices_", "n_basis_", "objective_", "n_support_", "n_iter_"):
        assert_array_equal(getattr(loaded, name), getattr(model, name))
    for ours, theirs in zip(
        model.staged_decision_function(X), loaded.staged_decision_function(X), strict=True
    ):
        assert_array_equal(ours, theirs)


def test_the_path_of_an_automatic_size_is_kept(iris, tmp_path):
    X, y = iris
    model = ProjectedSVC(n_basis="auto", random_state=0).fit(X, y)
    widemargin.save(model, tmp_path / "model")
    assert widemargin.load(tmp_path / "model").auto_path_ == model.auto_path_


def test_damaged_files_are_refused(iris, tmp_path):
    X, y = iris
    widemargin.save(ProjectedSVC(n_basis=4).fit(X, y), tmp_path / "good")
    file = read_model_file(tmp_path / "good")
    for name, value in file.arrays.items():
        for changed in (None, value[:0].copy(), value[1:].copy()):
            arrays = {k: v for k, v in file.arrays.items() if k != name}
            if changed is not None:
                arrays[name] = changed
            write_model_file(tmp_path / "bad", file.kind, file.meta, arrays)
            with pytest.raises(ModelFileError, match="cannot read"):
                widemargin.load(tmp_path / "bad")
    for name in file.meta:
        write_model_file(tmp_path / "bad", file.kind, file.meta | {name: None}, dict(file.arrays))
        with pytest.raises(ModelFileError, match="cannot read"):
            widemargin.load(tmp_path / "bad")


def test_the_knee_is_the_first_of_equal_sizes():
    rng = np.random.default_rng(0)
    right = np.repeat(rng.random((1, 285)) > 0.03, 7, axis=0)
    for first in range(7):
        worse = right.copy()
        worse[:first] = False
        knee, accuracies = find_knee(worse, np.full(285, 1 / 285))
        assert knee == first
        assert_allclose(accuracies[first:], right[0].mean())


def test_memory_does_not_grow_with_rows_times_basis_vectors(monkeypatch):
    monkeypatch.setattr("widemargin.projected.basis.EXACT_COLUMNS", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 2)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=len(X)) > 0, 1, -1)
    model = ProjectedSVC(
        n_basis=50, candidates=50, gamma=2.0, refine=False, random_state=0, memory="1 MB"
    )
    clone(model).fit(X[:500], y[:500])
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.n_basis_ == 50
    # Less than the values of the basis alone would take.
    assert peak < 8 * len(X) * 50
