"""Bad input is refused with an error that names the argument and the partition."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from widemargin.distributed import DaskDCSVC

da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")
pandas = pytest.importorskip("pandas")

EARLY = {"gamma": 2.0, "n_clusters": 2, "n_levels": 2, "stop_level": 2}


@pytest.fixture(scope="module")
def moons():
    return make_moons(1200, noise=0.2, random_state=0)


@pytest.fixture
def model(client):
    return DaskDCSVC(**EARLY, client=client)


def blocks_of(X, rows=400):
    return da.from_array(X, chunks=(rows, *X.shape[1:]))


def test_nan_names_its_partition(model, moons):
    X, y = moons[0].copy(), moons[1]
    X[900, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*partition 2"):
        model.fit(blocks_of(X), blocks_of(y))
    assert not hasattr(model, "classes_")


def test_chunks_of_unknown_size_are_counted(model, moons):
    X, y = moons
    rows, labels = blocks_of(X), blocks_of(y)
    keep = labels >= 0
    model.fit(rows[keep], labels[keep])
    assert model.shape_fit_ == X.shape


def test_unknown_sizes_that_do_not_match_are_refused(model, moons):
    X, y = moons
    rows, labels = blocks_of(X), blocks_of(y)
    with pytest.raises(
        ValueError, match=r"y: it has 3 partitions but X has 4.*compute_chunk_sizes"
    ):
        model.fit(blocks_of(X, 300)[da.ones(1200, chunks=300) > 0], labels)
    with pytest.raises(ValueError, match=r"y: .*compute_chunk_sizes.*partition"):
        model.fit(rows[rows[:, 0] > 0], labels)
    with pytest.raises(ValueError, match=r"y: it is no Dask collection.*compute_chunk_sizes"):
        model.fit(rows[labels >= 0], y)


def test_several_chunks_across_columns_are_merged(model, moons):
    X, y = moons
    with pytest.warns(UserWarning, match="2 chunks across columns"):
        model.fit(da.from_array(X, chunks=(400, 1)), blocks_of(y))
    assert model.score(da.from_array(X, chunks=(400, 1)), y) > 0.9


def test_y_is_aligned_with_the_chunks_of_x(model, moons):
    X, y = moons
    a = model.fit(blocks_of(X), blocks_of(y, 500)).decision_function(X)
    b = model.fit(blocks_of(X), y).decision_function(X)
    np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match=r"y: it has 1199 rows, but X has 1200"):
        model.fit(blocks_of(X), y[1:])


def test_classes_may_be_missing_and_partitions_empty(model, moons):
    order = np.argsort(moons[1], kind="stable")
    X, y = moons[0][order], moons[1][order]
    rows = da.from_array(X, chunks=((300, 0, 300, 600), 2))
    labels = da.from_array(y, chunks=((300, 0, 300, 600),))
    assert model.fit(rows, labels).score(X, y) > 0.9
    frame = dd.from_pandas(pandas.DataFrame(X, columns=["a", "b"]), npartitions=3)
    kept = frame[frame.a < 100.0]
    series = dd.from_pandas(pandas.Series(y), npartitions=3)
    assert model.fit(kept, series).score(kept, series) > 0.9


def test_one_class_is_refused(model, moons):
    with pytest.raises(ValueError, match="y: the data hold one class only, 0"):
        model.fit(blocks_of(moons[0]), da.zeros(1200, chunks=400, dtype=int))


def test_columns_that_are_no_numbers_are_refused(model, moons):
    X, y = moons
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(str)})
    frame["c"] = pandas.Categorical(["u", "v"] * 600)
    labels = dd.from_pandas(pandas.Series(y), npartitions=2)
    with pytest.raises(ValueError, match=r"X: the columns 'b' .*'c' \(category\).*encode"):
        model.fit(dd.from_pandas(frame, npartitions=2), labels)


def test_weights_of_zero_everywhere_are_refused(model, moons):
    X, y = moons
    with pytest.raises(ValueError, match="sample_weight: all weights are zero"):
        model.fit(blocks_of(X), blocks_of(y), da.zeros(1200, chunks=400))


def test_a_whole_partition_may_have_weight_zero(model, moons):
    X, y = moons
    weights = np.r_[np.zeros(400), np.ones(800)]
    model.fit(blocks_of(X), blocks_of(y), blocks_of(weights))
    assert model.support_.min() >= 400


def test_arguments_that_a_cluster_cannot_honour_are_refused(moons):
    X, y = moons
    for params, match in [
        ({"kernel": "precomputed"}, "kernel"),
        ({"warm_start": True}, "warm_start"),
        ({"combine": "bcm"}, "combine"),
    ]:
        with pytest.raises(ValueError, match=f"{match}: "):
            DaskDCSVC(**EARLY | params).fit(X, y)


def test_mixed_input_is_refused(model, moons):
    with pytest.raises(TypeError, match="X: y or sample_weight is a Dask collection"):
        model.fit(moons[0], blocks_of(moons[1]))
    with pytest.raises(TypeError, match="X: a Dask collection of type Bag"):
        model.fit(pytest.importorskip("dask.bag").from_sequence([1, 2]), moons[1])
