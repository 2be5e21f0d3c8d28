"""`DCSVC`: the optimum at the top, sensible models below, and a clean end whatever happens."""

import io
import os
import pickle
import time
import warnings
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from tests.reference import kernels as formulas
from widemargin import DCSVC, KernelSVC, deadline
from widemargin.divide import dc_svc, levels_mixin
from widemargin.divide import executors as clusters
from widemargin.divide import kernel_kmeans as partition
from widemargin.divide import levels as divide
from widemargin.divide.committee import calibrate, fit_slopes, log_odds
from widemargin.divide.records import LevelRecord
from widemargin.exact import classifier_base
from widemargin.files.divide_schema import _read_record
from widemargin.kernels import RBF
from widemargin.problem import Subproblem
from widemargin.progress import LevelLine


@pytest.fixture(scope="module")
def moons():
    return make_moons(1200, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(900, centers=6, cluster_std=1.5, random_state=3)
    return X, y % 3


EARLY = {
    "n_clusters": 4,
    "n_levels": 2,
    "stop_level": 2,
    "sample_size": 200,
    "gamma": 1.0,
    "C": 5.0,
}
#: DC-SVM Eq. 11.
ALONE = {"background": 0, "overlap": 0.0, "n_nearest": 1}


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_exact_equals_kernel_svc(moons, kernel, intercept):
    X, y = moons
    params = {"C": 5.0, "gamma": 1.0, "kernel": kernel, "fit_intercept": intercept, "tol": 1e-4}
    ours = DCSVC(n_clusters=3, n_levels=2, **params).fit(X, y)
    exact = KernelSVC(**params).fit(X, y)
    assert_allclose(ours.objective_, exact.objective_, rtol=1e-6)
    assert_allclose(ours.decision_function(X), exact.decision_function(X), atol=5e-3)
    assert [record.level for record in ours.levels_] == [2, 1, 0]
    assert ours.level_ == 0
    assert ours.stop_reason_ == "converged"


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_exact_multiclass_equals_kernel_svc(blobs, multi_class):
    X, y = blobs
    weight = np.random.default_rng(0).random(len(y)) + 0.5
    params = {
        "C": 3.0, "gamma": 0.5, "fit_intercept": False, "tol": 1e-4, "multi_class": multi_class,
        "class_weight": "balanced",
    }  # fmt: skip
    ours = DCSVC(n_clusters=3, n_levels=1, **params).fit(X, y, weight)
    exact = KernelSVC(**params).fit(X, y, weight)
    assert_allclose(ours.objective_, exact.objective_, rtol=1e-5)
    assert np.mean(ours.predict(X) == exact.predict(X)) > 0.998


@pytest.mark.parametrize("form", ["dense", "csr", "float32"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_early_prediction_is_routing_by_hand(blobs, form, multi_class):
    X, y = blobs
    X = {"dense": X, "csr": sparse.csr_matrix(X), "float32": X.astype(np.float32)}[form]
    model = DCSVC(**EARLY, **ALONE, multi_class=multi_class).fit(X[:600], y[:600])
    assert model.level_ == 2
    dense = X.toarray() if sparse.issparse(X) else X
    parts = model._parts
    samples = dense[:0] if parts.samples is None else parts.samples
    samples = samples.toarray() if sparse.issparse(samples) else samples
    tree = parts.partition
    vectors = model.support_vectors_
    vectors = vectors.toarray() if sparse.issparse(vectors) else vectors
    assert not tree.children
    expected = []
    for x in dense[600:700]:
        k = formulas.rbf(x[None], samples[tree.sample], gamma=1.0)[0]
        means = [k[a:b].mean() for a, b in zip(tree.bounds, tree.bounds[1:], strict=False)]
        c = tree.part_of[np.argmax(np.array(means) / np.sqrt(tree.squared_norms))]
        mine = model.support_clusters_ == c
        k = formulas.rbf(x[None], vectors[mine], gamma=1.0)[0]
        expected.append(parts.coef[:, mine] @ k + model.cluster_intercepts_[c])
    decisions = model._model.decide(X[600:700], max_bytes=10**8, n_jobs=1)
    assert_allclose(decisions, expected, atol=1e-4)


def test_early_model_of_a_cluster_is_the_svm_of_its_points(moons):
    X, y = moons
    model = DCSVC(**EARLY, **ALONE, tol=1e-4, keep_levels=True).fit(X, y)
    clusters = model._model.find_clusters(
        model._model.prepare(X), widemargin.parallel.Workers(1, None)
    )
    checked = 0
    for c in range(len(model.cluster_intercepts_)):
        rows = np.flatnonzero(clusters == c)
        if len(np.unique(y[rows])) == 2:
            alone = KernelSVC(C=5.0, gamma=1.0, fit_intercept=False, tol=1e-4).fit(X[rows], y[rows])
            assert_allclose(
                model.decision_function(X[rows]), alone.decision_function(X[rows]), atol=5e-3
            )
            checked += 1
    assert checked >= 4


def test_naive_adds_all_clusters_up(moons):
    X, y = moons
    model = DCSVC(**EARLY, combine="naive").fit(X, y)
    K = formulas.rbf(X[:50], model.support_vectors_, gamma=1.0)
    assert_allclose(model.decision_function(X[:50]), K @ model.dual_coef_[0], atol=1e-4)


@pytest.mark.parametrize("multi", [False, True])
def test_committee(moons, blobs, multi):
    X, y = blobs if multi else moons
    model = DCSVC(**EARLY, combine="bcm").fit(X, y)
    assert model.score(X, y) > 0.8
    committee = model._parts.committee
    queries = model._model.prepare(X[:20])
    votes = model._model.decide_clusters(
        queries, np.arange(20), widemargin.parallel.Workers(1, None)
    )
    # Tresp's rule: the members' log-odds less the prior's for all but one.
    odds = (committee.slope[:, None] * votes + committee.prior).sum(axis=0)
    expected = odds - (len(votes) - 1) * committee.prior
    assert_allclose(model._model.decide(X[:20], max_bytes=10**8, n_jobs=1), expected)


def test_slopes_of_the_committee_maximise_the_likelihood():
    rng = np.random.default_rng(0)
    votes = rng.normal(size=(3, 400)) * [[1.0], [0.1], [0.0]]
    y = np.where(2 * votes[0] + rng.logistic(size=400) > 0.5, 1.0, -1.0)
    slopes = fit_slopes(votes, y, -0.5)

    def loss(slope, row):
        return np.logaddexp(0, -y * (-0.5 + slope * votes[row])).sum() + 0.5 * slope**2

    for row, slope in enumerate(slopes):
        assert loss(slope, row) <= min(loss(slope + 1e-3, row), loss(slope - 1e-3, row))
    assert slopes[2] == 0


def test_a_committee_is_calibrated_on_the_rows_of_each_problem():
    rng = np.random.default_rng(0)
    decisions = rng.normal(size=(2, 300, 2))
    index = [np.arange(200), np.arange(100, 300)]
    y = [np.where(rng.random(200) > 0.3, 1.0, -1.0) for _ in index]
    subproblems = [Subproblem(rows, signs, 0, 1) for rows, signs in zip(index, y, strict=True)]
    slope, prior = calibrate(subproblems, lambda rows: decisions[:, rows], seed=0)
    assert_allclose(prior, [np.log(np.sum(s > 0) / np.sum(s < 0)) for s in y])
    for p, (rows, signs) in enumerate(zip(index, y, strict=True)):
        expected = fit_slopes(decisions[:, rows, p], signs, log_odds(signs))
        assert_allclose(slope[:, p], expected)


@pytest.mark.parametrize("keep_levels", [False, True])
def test_support_vectors_are_collected_once_for_each_level(moons, keep_levels, monkeypatch):
    collect, n_calls = dc_svc.collect_support, []

    def count(*args):
        n_calls.append(1)
        return collect(*args)

    for module in (dc_svc, classifier_base):
        monkeypatch.setattr(module, "collect_support", count)
    params = {**EARLY, **ALONE, "stop_level": 1, "keep_levels": keep_levels}
    model = DCSVC(**params).fit(*moons)
    assert len(n_calls) == (2 if keep_levels else 1)
    assert model._parts.vectors is model.support_vectors_
    assert model._parts.coef is model.dual_coef_


def test_the_end_of_a_fit_has_the_time_that_the_levels_left(moons, monkeypatch):
    polish, given = levels_mixin.polish, []

    def note(kernel, X, points, dual, found, budget):
        given.append(deadline.time_left(budget.deadline))
        return polish(kernel, X, points, dual, found, budget)

    def skip_ten_minutes(state):
        if state.level == 0:
            monkeypatch.setattr(deadline, "perf_counter", lambda: time.perf_counter() + 600.0)

    monkeypatch.setattr(levels_mixin, "polish", note)
    DCSVC(**{**EARLY, "stop_level": 0}, max_time=1000.0, callback=skip_ten_minutes).fit(*moons)
    assert len(given) == 1
    assert 0.0 < given[0] <= 400.0


@pytest.mark.parametrize("combine", ["early", "naive", "bcm"])
def test_levels_are_good_on_the_way(moons, combine):
    X, y = moons
    model = DCSVC(**{**EARLY, "stop_level": 0}, combine=combine, keep_levels=True).fit(X, y)
    scores = [np.mean(labels == y) for labels in model.staged_predict(X)]
    assert len(scores) == len(model.levels_) == 3
    # The paper's Table 1: adding up and committees are worse than early prediction, and more so of
    # many clusters: those of the lowest level have 75 points each.
    lowest, higher, _ = scores
    assert lowest > (0.95 if combine == "early" else 0.8)
    assert higher > 0.9
    *_, last = model.staged_decision_function(X)
    assert_array_equal(last, model.decision_function(X))
    assert_array_equal(last >= 0, model.predict(X))


def test_levels_are_not_kept_unasked(moons):
    model = DCSVC(**EARLY).fit(*moons)
    with pytest.raises(ValueError, match="keep_levels=True"):
        next(model.staged_predict(moons[0]))


def test_levels_are_not_kept_in_files(moons, tmp_path):
    model = DCSVC(**EARLY, keep_levels=True).fit(*moons)
    widemargin.save(model, tmp_path / "m.wm")
    with pytest.raises(ValueError, match="model files hold the last level only"):
        next(widemargin.load(tmp_path / "m.wm").staged_predict(moons[0]))


def test_precomputed_and_callable(moons):
    X, y = moons
    train, test = X[:800], X[800:]
    params = {**EARLY, "stop_level": 1}
    direct = DCSVC(**params).fit(train, y[:800])
    kernel = RBF(1.0)
    given = DCSVC(**{**params, "kernel": "precomputed"}).fit(kernel(train), y[:800])
    agreement = np.mean(given.predict(kernel(test, train)) == direct.predict(test))
    assert agreement > 0.97
    called = DCSVC(**{**params, "kernel": kernel.exact}).fit(train, y[:800])
    assert np.mean(called.predict(test) == direct.predict(test)) > 0.97


@pytest.mark.parametrize("combine", ["early", "naive", "bcm"])
def test_rows_without_weight_in_a_precomputed_kernel(moons, combine):
    X, y = moons[0][:400], moons[1][:400]
    weight = np.where(np.arange(400) % 3 == 0, 0.0, 1.0)
    kept = weight > 0
    params = {**EARLY, "kernel": "precomputed", "combine": combine, "stop_level": 1}
    K = RBF(1.0)(X)
    model = DCSVC(**params).fit(K, y, weight)
    small = DCSVC(**params).fit(K[np.ix_(kept, kept)], y[kept])
    assert_allclose(model.decision_function(K), small.decision_function(K[:, kept]), atol=1e-6)


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_same_answer_on_any_backend(moons, backend):
    X, y = moons
    alone = DCSVC(**EARLY, n_jobs=1).fit(X, y)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        several = DCSVC(**EARLY).fit(X, y)
    assert_array_equal(several.dual_coef_, alone.dual_coef_)
    assert_array_equal(several.support_, alone.support_)
    assert_array_equal(several.decision_function(X), alone.decision_function(X))


@pytest.fixture(scope="module")
def dask_cluster():
    """Two worker processes; a job that has killed one of them is not tried on the other."""
    dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        yield


@pytest.mark.usefixtures("dask_cluster")
def test_same_answer_on_a_dask_cluster(moons):
    X, y = moons
    alone = DCSVC(**EARLY, n_jobs=1).fit(X, y)
    with joblib.parallel_config(backend="dask"):
        several = DCSVC(**EARLY).fit(X, y)
    assert_array_equal(several.dual_coef_, alone.dual_coef_)
    assert_array_equal(several.decision_function(X), alone.decision_function(X))


@pytest.mark.usefixtures("dask_cluster")
def test_a_search_on_a_dask_cluster(moons):
    """Fits within tasks of Dask's send their clusters to the same workers."""
    search = GridSearchCV(DCSVC(**EARLY), {"C": [0.1, 10.0]}, cv=2)
    with joblib.parallel_config(backend="dask"):
        search.fit(*moons)
    assert search.best_score_ > 0.9


@pytest.mark.usefixtures("dask_cluster")
def test_a_kernel_that_dask_workers_cannot_import_is_an_error(moons, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def product(X, Z):\n    return X @ Z.T\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with (
        joblib.parallel_config(backend="dask"),
        pytest.raises(ModuleNotFoundError, match="only_here"),
    ):
        DCSVC(**{**EARLY, "kernel": only_here.product}).fit(*moons)


@pytest.mark.usefixtures("dask_cluster")
def test_an_error_of_time_in_a_job_on_dask_is_passed_on(moons):
    model = DCSVC(**{**EARLY, "kernel": partial(time_out_in_a_worker, os.getpid())})
    with joblib.parallel_config(backend="dask"), pytest.raises(TimeoutError, match="of the kernel"):
        model.fit(*moons)


@pytest.mark.usefixtures("dask_cluster")
def test_a_dask_worker_that_dies_is_an_error(moons):
    model = DCSVC(**{**EARLY, "kernel": partial(die_in_a_worker, os.getpid())})
    with joblib.parallel_config(backend="dask"), pytest.raises(Exception, match="worker"):
        model.fit(*moons)
    assert not hasattr(model, "classes_")


def die_in_a_worker(parent, X, Z):
    if os.getpid() != parent:
        os._exit(1)
    return RBF(1.0).exact(X, Z)


def time_out_in_a_worker(parent, X, Z):
    if os.getpid() != parent:
        raise TimeoutError("of the kernel")
    return RBF(1.0).exact(X, Z)


def test_a_worker_that_dies_is_an_error(moons):
    kernel = partial(die_in_a_worker, os.getpid())
    model = DCSVC(**{**EARLY, "kernel": kernel})
    with joblib.parallel_config(backend="loky", n_jobs=2), pytest.raises(Exception, match="worker"):
        model.fit(*moons)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("n_workers", [0, 1], ids=["never any", "left after its job"])
def test_a_dask_cluster_without_workers_is_an_error(n_workers, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs the extra 'dask'")
    monkeypatch.setattr(clusters, "NO_WORKER_SECONDS", 0.1)
    monkeypatch.setattr(clusters, "LOOK_SECONDS", 0.1)
    with (
        distributed.LocalCluster(
            n_workers=n_workers, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        future = client.submit(len, ())
        if n_workers:
            assert future.result() == 0
            cluster.scale(0)
            while client.ncores():
                time.sleep(0.01)
        backend = SimpleNamespace(client=client, wait_for_workers_timeout=0)
        with pytest.raises(RuntimeError, match="no worker for"):
            clusters._await_result(future, backend)


@pytest.mark.parametrize("max_time", [1e-6, 0.05])
def test_out_of_time_leaves_the_best_model_there_is(max_time):
    X, y = make_moons(4000, noise=0.3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = DCSVC(C=100.0, gamma=5.0, n_levels=2, tol=1e-6, max_time=max_time).fit(X, y)
    assert model.stop_reason_ == "max_time"
    assert len(model.levels_) >= 1
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize(
    ("stop_level", "advice"), [(0, "allow more time for the optimum"), (1, "more time for level 1")]
)
def test_out_of_time_says_which_level_was_kept(moons, monkeypatch, stop_level, advice):
    monkeypatch.setattr(divide, "is_late", lambda _: True)
    message = f"model is that of level 2 of 16 clusters; .*{advice}"
    with pytest.warns(ConvergenceWarning, match=message):
        model = DCSVC(**{**EARLY, "stop_level": stop_level}, max_time=1000.0).fit(*moons)
    assert [record.is_complete for record in model.levels_] == [True]


def test_out_of_time_says_that_the_lowest_level_is_not_finished(moons, tmp_path):
    with pytest.warns(ConvergenceWarning, match="level 2 of 16 clusters.* not finished"):
        model = DCSVC(**EARLY, **ALONE, max_time=1e-9, tol=1e-9).fit(*moons)
    assert not model.levels_[-1].is_complete
    widemargin.save(model, tmp_path / "m.wm")
    assert widemargin.load(tmp_path / "m.wm").levels_ == model.levels_


def test_records_of_earlier_versions_are_read():
    record = asdict(LevelRecord(1, 4, 100, 30, -2.0, 0.1, 0.2))
    del record["is_complete"]
    assert _read_record(record).is_complete
    with pytest.raises(ValueError, match="a level is wrong"):
        _read_record({**record, "is_complete": 1})


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((60, 2)),
        np.repeat([[0.0, 1.0], [3.0, 1.0], [9.0, 9.0]], 20, axis=0),
        np.arange(6.0)[:, None],
        np.arange(2.0)[:, None],
    ],
    ids=["all equal", "duplicates", "few", "two"],
)
@pytest.mark.parametrize("stop_level", [0, 1, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_odd_data(X, stop_level, intercept):
    y = np.arange(len(X)) % 2
    model = DCSVC(
        n_clusters=4, n_levels=3, stop_level=stop_level, sample_size=10_000,
        fit_intercept=intercept, gamma=1.0,
    ).fit(X, y)  # fmt: skip
    assert np.isfinite(model.decision_function(X)).all()
    assert model.level_ == stop_level


def test_levels_with_tiny_clusters_are_left_out(moons):
    X, y = moons
    model = DCSVC(n_levels=6, gamma=1.0).fit(X, y)
    assert [record.level for record in model.levels_] == [2, 1, 0]
    assert DCSVC(n_levels=6, gamma=1.0).fit(X[:100], y[:100]).levels_[0].level == 0


@pytest.mark.parametrize(
    ("n_clusters", "n_levels", "stop_level", "n", "lowest"),
    [
        (4, 4, 0, 199, 0), (4, 4, 0, 200, 1), (4, 4, 0, 10**9, 4), (4, 4, 3, 200, 3),
        (4, 10**9, 0, 3200, 3), (2, 10**9, 0, 49, 0), (1, 3, 0, 100, 3), (1, 3, 0, 10, 0),
    ],
)  # fmt: skip
def test_number_of_levels(n_clusters, n_levels, stop_level, n, lowest):
    model = DCSVC(n_clusters=n_clusters, n_levels=n_levels, stop_level=stop_level)
    assert model._plan(n, is_warm=False).n_levels == lowest


def test_levels_are_all_solved_on_request(moons):
    X, y = moons
    model = DCSVC(n_levels=3, gamma=1.0, skip_levels=False).fit(X[:130], y[:130])
    assert [record.level for record in model.levels_] == [3, 2, 1, 0]
    # There cannot be more clusters than points.
    assert DCSVC(n_levels=10**9, skip_levels=False)._plan(100, is_warm=False).n_levels == 3


def test_plain_kernel_kmeans_on_request(moons):
    X, y = moons
    model = DCSVC(**EARLY, partition="kmeans").fit(X, y)
    partition = model._parts.partition
    assert not partition.on_sphere
    assert not partition.children
    assert partition.n_clusters == len(partition.squared_norms) == model.levels_[-1].n_clusters
    exact = DCSVC(**{**EARLY, "stop_level": 0}, partition="kmeans", tol=1e-5).fit(X, y)
    peer = KernelSVC(C=EARLY["C"], gamma=EARLY["gamma"], fit_intercept=False, tol=1e-5).fit(X, y)
    assert_allclose(exact.objective_, peer.objective_, rtol=1e-6)


def test_levels_beyond_counting(moons):
    X, y = moons[0][:60], moons[1][:60]
    model = DCSVC(n_levels=10**9, stop_level=10**9, gamma=1.0).fit(X, y)
    assert model.levels_[-1].n_clusters == 60


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_levels": 0}, "n_levels"),
        ({"stop_level": -1}, "stop_level"),
        ({"n_levels": 2, "stop_level": 3}, "stop_level: 3 is below the lowest level"),
        ({"sample_size": 0}, "sample_size"),
        ({"combine": "vote"}, "combine"),
        ({"partition": "plain"}, "partition"),
        ({"background": -1}, "background"),
        ({"background": "all"}, "background"),
        ({"overlap": -0.5}, "overlap: must not be negative"),
        ({"overlap": "much"}, "overlap"),
        ({"n_nearest": 0}, "n_nearest"),
        ({"C": -1.0}, "C"),
        ({"verbose": "x"}, "verbose: must be an integer"),
        ({"callback": 3}, "callback: 3 cannot be called"),
    ],
)
def test_bad_parameters(moons, params, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DCSVC(**params).fit(*moons)


def test_warm_start(moons):
    X, y = moons
    model = DCSVC(C=5.0, gamma=1.0, warm_start=True, n_levels=2, tol=1e-4).fit(X, y)
    moves = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ == 0
    assert [record.level for record in model.levels_] == [0]
    model.set_params(C=10.0).fit(X, y)
    cold = DCSVC(C=10.0, gamma=1.0, n_levels=2, tol=1e-4).fit(X, y)
    assert_allclose(model.objective_, cold.objective_, rtol=1e-6)
    assert model.n_iter_ < moves


@pytest.mark.parametrize("combine", ["early", "naive", "bcm"])
@pytest.mark.parametrize("form", ["dense", "csr", "precomputed"])
@pytest.mark.parametrize("stop_level", [0, 2])
def test_pickle_and_file(blobs, tmp_path, combine, form, stop_level):
    X, y = blobs
    params = {**EARLY, "combine": combine, "stop_level": stop_level}
    if form == "precomputed":
        X, params["kernel"] = RBF(1.0)(X), "precomputed"
    elif form == "csr":
        X = sparse.csr_matrix(X)
    model = DCSVC(**params).fit(X, y)
    widemargin.save(model, tmp_path / "m.wm")
    loaded = widemargin.load(tmp_path / "m.wm")
    for other in (pickle.loads(pickle.dumps(model)), loaded):
        assert_array_equal(other.decision_function(X), model.decision_function(X))
        assert_array_equal(other.predict(X), model.predict(X))
        assert other.levels_ == model.levels_
    assert loaded.get_params() == model.get_params()


def test_nested_partitions_survive_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(partition, "GROUP_POINTS", 64)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    X[:1500] = [3.0, 3.0] + 0.001 * X[:1500]
    y = rng.random(2000) > 0.5
    model = DCSVC(gamma=0.5, n_clusters=8, n_levels=1, stop_level=1).fit(X, y)
    assert model._parts.partition.children
    widemargin.save(model, tmp_path / "m.wm")
    assert_array_equal(widemargin.load(tmp_path / "m.wm").predict(X), model.predict(X))


def test_scikit_learn_tools(moons):
    X, y = moons
    names = np.array(["no", "yes"])[y]
    pipe = make_pipeline(StandardScaler(), DCSVC(n_levels=1, stop_level=1))
    search = GridSearchCV(pipe, {"dcsvc__C": [0.1, 10.0]}, cv=2).fit(X, names)
    assert search.best_score_ > 0.9
    assert set(clone(search.best_estimator_).fit(X, names).predict(X)) == {"no", "yes"}


def test_progress_display(moons):
    stream = io.StringIO()
    line = LevelLine(2, stream)
    heard = []
    DCSVC(**{**EARLY, "stop_level": 0}, callback=lambda p: (heard.append(p), line.show(p))).fit(
        *moons
    )
    text = stream.getvalue()
    assert "level 2  clusters 1/16" in text
    assert "level 1  clusters 4/4" in text
    assert "support vectors" in text
    assert "level 0  whole problem  support vectors" in text
    assert "objective" in text.splitlines()[-1]
    assert "violation" in text.splitlines()[-2]
    assert len(heard) == len(text.splitlines())


def test_progress_in_a_log_is_a_line_now_and_then(moons):
    stream = io.StringIO()
    line = LevelLine(1, stream)
    line._began -= 1.0
    states = []
    DCSVC(**EARLY, callback=states.append).fit(*moons)
    line.show(states[0])
    line._began -= 1.0
    line.show(states[1])
    assert len(stream.getvalue().splitlines()) == 1
    line._began -= 10.0
    line.show(states[2])
    line.show(states[-1])
    assert len(stream.getvalue().splitlines()) == 3


def test_verbose_does_not_disturb(moons, capsys):
    quiet = DCSVC(**EARLY).fit(*moons)
    loud = DCSVC(**EARLY, verbose=1).fit(*moons)
    assert "level 2" in capsys.readouterr().err
    assert_array_equal(loud.dual_coef_, quiet.dual_coef_)


def test_error_in_a_callback_abandons_the_fit(moons):
    def complain(_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        DCSVC(**EARLY, callback=complain).fit(*moons)


def test_no_warnings_on_an_ordinary_fit(moons):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DCSVC(**{**EARLY, "stop_level": 0}).fit(*moons)


@pytest.mark.parametrize("noise", [0.0, 3.0], ids=["easy", "hard"])
def test_easy_problems_are_not_divided_on_the_way_to_the_optimum(noise, monkeypatch):
    monkeypatch.setattr("widemargin.divide.probe.PROBED_POINTS", 1000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = X[:, 0] + noise * rng.normal(size=1200) > 0
    options = {"gamma": 0.5, "n_levels": 2, "tol": 1e-4, "sample_size": 200}
    model = DCSVC(**options).fit(X, y)
    assert [r.level for r in model.levels_] == ([0] if noise == 0.0 else [2, 1, 0])
    # Who asks for the levels gets them.
    kept = DCSVC(**options, keep_levels=True).fit(X, y)
    assert [r.level for r in kept.levels_] == [2, 1, 0]
    assert_allclose(model.objective_, kept.objective_, rtol=1e-5)
    all_solved = DCSVC(**options, skip_levels=False).fit(X, y)
    assert [r.level for r in all_solved.levels_] == [2, 1, 0]
    # A fit that stops early solves the whole problem if that costs no more.
    options["n_levels"] = 1
    assert DCSVC(**options, stop_level=1).fit(X, y).level_ == (0 if noise == 0.0 else 1)
    assert DCSVC(**options, stop_level=1, skip_levels=False).fit(X, y).level_ == 1


def test_clusters_of_a_narrow_kernel_do_not_depend_on_the_order_of_queries():
    """Rows of zeros and ones are equally near to several clusters, and rounding must not choose."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (303, 12)).astype(float)
    y = (X[:, :3].sum(axis=1) > 1).astype(int)
    model = DCSVC(
        C=12.0, gamma=40.0, n_clusters=3, n_levels=3, stop_level=1, background=0, overlap=0.0,
        n_nearest=1, fit_intercept=True, random_state=0,
    ).fit(X, y)  # fmt: skip
    queries = rng.integers(0, 2, (3000, 12)).astype(float)
    expected = model.decision_function(queries)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(queries))
        assert_allclose(model.decision_function(queries[order]), expected[order], atol=1e-4)
