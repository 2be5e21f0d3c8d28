"""DaskDCSVC on a real cluster, compared with DCSVC on the gathered rows."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.exceptions import NotFittedError

import widemargin
from widemargin import DCSVC
from widemargin.distributed import DaskDCSVC, lean_model, queries
from widemargin.distributed.levels import STARTED_PER_THREAD
from widemargin.distributed.tasks import Tasks

da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")

EARLY = {"C": 2.0, "gamma": 2.0, "n_clusters": 3, "n_levels": 2, "stop_level": 2}


@pytest.fixture(scope="module")
def moons():
    return make_moons(3000, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def digits_like():
    return make_classification(
        1500, 8, n_informative=6, n_redundant=0, n_classes=4, n_clusters_per_class=1, random_state=0
    )


def as_arrays(X, y, rows=600):
    return da.from_array(X, chunks=(rows, X.shape[1])), da.from_array(y, chunks=rows)


def same_early(model, local, X):
    """Both have as many clusters, the same objective, and the same decisions within the tolerance."""
    assert model.levels_[0].n_clusters == local.levels_[0].n_clusters
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=1e-4)


def test_an_early_fit_is_that_of_dcsvc(client, moons):
    X, y = moons
    params = EARLY | {"overlap": 0.0, "tol": 1e-5}
    model = DaskDCSVC(**params, client=client).fit(*as_arrays(X, y))
    same_early(model, DCSVC(**params).fit(X, y), X)


def test_an_early_fit_with_an_intercept_and_weights_is_that_of_dcsvc(client, moons):
    X, y = moons
    weights = np.random.default_rng(0).choice([0.0, 0.5, 2.0], len(y))
    params = EARLY | {
        "overlap": 0.0, "tol": 1e-5, "fit_intercept": True, "class_weight": "balanced",
    }  # fmt: skip
    model = DaskDCSVC(**params).fit(*as_arrays(X, y), da.from_array(weights, chunks=600))
    local = DCSVC(**params).fit(X, y, weights)
    # A sample of rows with a weight is drawn from other rows if some have none.
    assert np.mean(model.predict(X) == local.predict(X)) > 0.98
    assert weights[model.support_].min() > 0


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_several_classes_and_labels_of_text(client, digits_like, multi_class):
    X, classes = digits_like
    y = np.array(["a", "b", "c", "d"], object)[classes]
    params = EARLY | {"gamma": 0.1, "multi_class": multi_class, "overlap": 0.0, "tol": 1e-5}
    model = DaskDCSVC(**params).fit(*as_arrays(X, y))
    same_early(model, DCSVC(**params).fit(X, y), X)
    decisions = model.decision_function(as_arrays(X, y)[0])
    assert decisions.shape == (1500, 4)
    np.testing.assert_allclose(decisions.compute(), model.decision_function(X), atol=1e-5)


def test_overlap_and_climbing_keep_the_accuracy(client, moons):
    X, y = moons
    params = EARLY | {"n_levels": 3, "stop_level": 1, "keep_levels": True}
    model, local = DaskDCSVC(**params).fit(*as_arrays(X, y)), DCSVC(**params).fit(X, y)
    assert [level.level for level in model.levels_] == [3, 2, 1]
    assert model.score(X, y) == pytest.approx(local.score(X, y), abs=0.005)
    assert len(list(model.staged_predict(X))) == 3


def test_predictions_are_lazy_and_keep_the_chunks(client, moons):
    X, y = moons
    blocks, labels = as_arrays(X, y)
    model = DaskDCSVC(**EARLY).fit(blocks, labels)
    found = model.predict(blocks)
    assert found.chunks == (blocks.chunks[0],)
    assert found.dtype == y.dtype
    np.testing.assert_array_equal(found.compute(), model.predict(X))
    assert model.score(blocks, labels) == model.score(X, y)
    unknown = blocks[blocks[:, 0] > 0]
    np.testing.assert_array_equal(model.predict(unknown).compute(), model.predict(X[X[:, 0] > 0]))


def test_the_local_estimator_has_the_same_answers(client, moons, tmp_path):
    X, y = moons
    model = DaskDCSVC(**EARLY, client=client).fit(*as_arrays(X, y))
    local = model.to_local()
    assert type(local) is DCSVC
    widemargin.save(local, tmp_path / "model.wm")
    for again in (local, widemargin.load(tmp_path / "model.wm"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert pickle.loads(pickle.dumps(model)).client is None
    assert clone(model).client is client


def test_sparse_chunks(client, digits_like):
    X, y = digits_like
    X = np.where(X > 1.0, X, 0.0)
    blocks, labels = as_arrays(X, y)
    rows = blocks.map_blocks(sparse.csr_matrix, dtype=X.dtype)
    params = EARLY | {"gamma": 0.1, "overlap": 0.0, "tol": 1e-5}
    model = DaskDCSVC(**params).fit(rows, labels)
    assert sparse.issparse(model.support_vectors_)
    same_early(model, DCSVC(**params).fit(sparse.csr_matrix(X), y), sparse.csr_matrix(X))
    np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(X))


def test_small_integers_stay_small_until_they_are_solved(client, digits_like):
    X, y = digits_like
    X = np.clip(np.round(20 * X + 100), 0, 255).astype(np.uint8)
    # A sampled row of whole numbers may be equally far from two groups of k-means. Rounding, which
    # depends on the rows beside it, then chooses its group, and with it the weights of the clusters.
    params = EARLY | {"gamma": "scale", "overlap": 0.0, "tol": 1e-5, "n_nearest": 1}
    model = DaskDCSVC(**params).fit(*as_arrays(X, y))
    same_early(model, DCSVC(**params).fit(X, y), X)
    assert model.kernel_.gamma == pytest.approx(1.0 / (X.shape[1] * X.var()))


@pytest.mark.parametrize("overlap", [0.0, 0.3])
def test_small_integers_are_held_once_at_the_client(client, digits_like, overlap, tmp_path):
    X, y = digits_like
    X = np.clip(np.round(20 * X + 100), 0, 255).astype(np.uint8)
    params = EARLY | {"gamma": "scale", "overlap": overlap, "background": 300}
    model = DaskDCSVC(**params, client=client).fit(*as_arrays(X, y))
    vectors = model._parts.vectors
    assert vectors.dtype == model.support_vectors_.dtype == np.uint8
    assert np.shares_memory(vectors, model.support_vectors_)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert (len(vectors) > len(model.support_)) == (overlap > 0)
    blocks, expected = as_arrays(X, y)[0], model.predict(X)
    np.testing.assert_array_equal(model.predict(blocks).compute(), expected)
    local = model.to_local()
    assert local.support_vectors_.dtype == np.float32
    widemargin.save(local, tmp_path / "model.wm")
    np.testing.assert_array_equal(widemargin.load(tmp_path / "model.wm").predict(X), expected)


def test_a_function_as_kernel_never_sees_small_integers(client, digits_like):
    X, y = digits_like
    X, y = np.clip(np.round(20 * X + 100), 0, 255).astype(np.uint8), y < 2

    def multiply(A, B):
        return (A @ B.T / 1e5) ** 2

    params = EARLY | {"kernel": multiply, "overlap": 0.0, "tol": 1e-5, "n_nearest": 1}
    model = DaskDCSVC(**params, client=client).fit(*as_arrays(X, y))
    local = DCSVC(**params).fit(X, y)
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-3)
    assert np.mean(model.predict(X) == local.predict(X)) > 0.99


def test_workers_hold_rows_once_and_few_clusters_at_a_time(client, moons):
    """Where rows are while clusters are solved, as the scheduler knows it."""

    def count(dask_scheduler):
        tasks = dask_scheduler.tasks.values()
        in_memory = [task.key for task in tasks if task.state == "memory"]
        return (
            sum(key.startswith(("number-rows", "split-rows", "move-rows")) for key in in_memory),
            sum(str(task.key).startswith("solve-cluster") for task in tasks),
        )

    seen = []
    DaskDCSVC(
        **EARLY | {"background": 0}, client=client,
        callback=lambda state: seen.append(client.run_on_scheduler(count)),
    ).fit(*as_arrays(*moons))  # fmt: skip
    assert len(seen) >= 9
    rows, solving = np.array(seen).T
    assert rows[-1] == 0
    assert solving.max() <= 2 * STARTED_PER_THREAD


def test_dense_and_sparse_chunks_together(client, digits_like):
    X, y = digits_like
    X = np.where(X > 1.0, X, 0.0)
    blocks, labels = as_arrays(X, y)
    rows = blocks.map_blocks(
        lambda part, block_id: sparse.csr_matrix(part) if block_id[0] == 1 else part, dtype=X.dtype
    )
    params = EARLY | {"gamma": 0.1, "background": 300}
    model = DaskDCSVC(**params).fit(rows, labels)
    assert model.score(X, y) == pytest.approx(
        DaskDCSVC(**params).fit(blocks, labels).score(X, y), abs=0.01
    )


def test_parameters_that_change_after_a_fit_change_no_prediction(client, moons):
    X, y = moons
    blocks, labels = as_arrays(X, y)
    model = DaskDCSVC(**EARLY | {"n_clusters": 8, "n_levels": 1, "stop_level": 1}).fit(
        blocks, labels
    )
    before = model.decision_function(X)
    model.set_params(n_nearest=1, combine="naive")
    np.testing.assert_array_equal(model.decision_function(X), before)
    np.testing.assert_allclose(model.decision_function(blocks).compute(), before, atol=1e-6)
    np.testing.assert_allclose(model.to_local().decision_function(X), before, atol=1e-6)


def test_what_goes_to_the_workers_has_the_rows_once(client, digits_like):
    X, y = digits_like
    X = np.clip(np.round(20 * X + 100), 0, 255).astype(np.uint8)
    model = DaskDCSVC(**EARLY | {"gamma": "scale", "overlap": 0.3}, keep_levels=True).fit(
        *as_arrays(X, y)
    )
    model.predict(X)  # computes floats of the support vectors in this process
    sent = pickle.dumps(model._make_sent())
    assert len(sent) < 1.5 * model._parts.vectors.nbytes + 200_000
    assert len(sent) < len(pickle.dumps(model))


@pytest.mark.parametrize("form", ["uint8", "csr"])
@pytest.mark.parametrize("n_nearest", [1, 2])
def test_workers_prepare_large_models_by_clusters(
    client, digits_like, monkeypatch, form, n_nearest
):
    X, y = digits_like
    X = np.clip(np.round(20 * X + 100), 0, 255).astype(np.uint8)
    blocks, labels = as_arrays(X, y)
    if form == "csr":
        X = np.where(X > 110, X, 0).astype(np.float32)
        blocks = as_arrays(X, y)[0].map_blocks(sparse.csr_matrix, dtype=X.dtype)
    params = EARLY | {"gamma": "scale", "n_clusters": 9, "n_levels": 1, "stop_level": 1}
    model = DaskDCSVC(**params, n_nearest=n_nearest, background=300).fit(blocks, labels)
    monkeypatch.setattr(lean_model, "LEAN_BYTES", 0)
    lean = pickle.loads(pickle.dumps(model._make_sent()))
    np.testing.assert_allclose(
        lean.decision_function(X), model.decision_function(X), atol=1e-5, rtol=1e-5
    )
    assert len(lean._model._points) == model._parts.samples.shape[0] + 1
    np.testing.assert_array_equal(model.predict(blocks).compute(), model.predict(X))


def test_texts_that_are_fitted_here_have_a_local_estimator():
    texts = ["a" * k + "b" * (20 - k) for k in range(20)]
    y = [text.count("a") > 9 for text in texts]

    def count_common(A, B):
        return np.array([[min(a.count("a"), b.count("a")) for b in B] for a in A], float)

    model = DaskDCSVC(kernel=count_common, C=10.0).fit(texts, y)
    assert list(model.to_local().predict(texts)) == list(model.predict(texts))


def test_a_local_estimator_needs_a_fit():
    with pytest.raises(NotFittedError):
        DaskDCSVC().to_local()


def test_anova_kernels_without_means_are_refused(client, moons):
    X, y = moons
    with pytest.raises(ValueError, match="kernel: an ANOVA kernel needs means"):
        DaskDCSVC(kernel="anova_rbf").fit(*as_arrays(X, y))
    known = DCSVC(kernel="anova_rbf", stop_level=1).fit(X[:500], y[:500]).kernel_
    assert DaskDCSVC(kernel=known, **{k: EARLY[k] for k in ("n_clusters", "stop_level")}).fit(
        *as_arrays(X, y)
    ).score(X, y) > 0.8  # fmt: skip


def test_data_frames(client, digits_like):
    pandas = pytest.importorskip("pandas")
    X, y = digits_like
    frame = pandas.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    params = EARLY | {"gamma": 0.1}
    rows = dd.from_pandas(frame, npartitions=3)
    labels = dd.from_pandas(pandas.Series(y), npartitions=3)
    model = DaskDCSVC(**params).fit(rows, labels)
    assert list(model.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(frame))
    decisions = model.decision_function(rows).compute()
    np.testing.assert_allclose(decisions, model.decision_function(frame), atol=1e-5)
    assert model.score(rows, labels) == model.score(frame, y)


@pytest.mark.parametrize("n_rows", [200, 201])
def test_few_rows_of_plain_arrays_are_fitted_here(client, moons, n_rows, monkeypatch):
    began = []
    monkeypatch.setattr(queries, "Tasks", lambda given: began.append(given) or Tasks(given))
    X, y = moons[0][:n_rows], moons[1][:n_rows]
    model, local = DaskDCSVC(client=client).fit(X, y), DCSVC().fit(X, y)
    assert len(began) == (n_rows > 200)
    np.testing.assert_allclose(model.decision_function(X), local.decision_function(X), atol=1e-2)


def test_plain_arrays_are_cut_and_sent(client, moons):
    X, y = moons
    model = DaskDCSVC(**EARLY).fit(X, y)
    assert model.score(X, y) > 0.93
    assert model.shape_fit_ == X.shape
