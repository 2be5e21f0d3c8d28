"""The matrix of rows at the client, compared with rows that are simply stacked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from widemargin.distributed import row_store
from widemargin.distributed.blocks import Block
from widemargin.distributed.row_store import RowStore


def make_blocks(sizes, n_features, kind, seed):
    rng = np.random.default_rng(seed)
    return [Block.of_rows(rng.integers(0, 100, (n, n_features)).astype(kind)) for n in sizes]


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=6),
    n_features=st.integers(1, 9),
    kind=st.sampled_from([np.uint8, np.float32, np.float64]),
    is_sparse=st.booleans(),
    seed=st.integers(0, 99),
)
def test_rows_come_back_in_any_order(sizes, n_features, kind, is_sparse, seed):
    blocks = make_blocks(sizes, n_features, kind, seed)
    stacked = np.concatenate([block.X for block in blocks])
    if is_sparse:
        blocks = [Block.of_rows(sparse.csr_matrix(block.X)) for block in blocks]
    store = RowStore()
    with pytest.MonkeyPatch.context() as patch:
        # Rows change places a column at a time, and the matrix grows with every block.
        patch.setattr(row_store, "MOVED_BYTES", 1)
        patch.setattr(row_store, "LEAST_ROOM", 1)
        kept = [store.keep(block) for block in blocks]
        numbers = np.concatenate([block.X[:, 0] for block in kept])
        assert_array_equal(numbers, np.arange(len(stacked)))
        if not len(stacked):
            return
        order = np.random.default_rng(seed).integers(0, len(stacked), 2 * len(stacked))
        some = store.fetch(order[:3])
        found = store.take_in_order(order)
    dense = (X.toarray() if is_sparse else X for X in (some, found))
    for rows, wanted in zip(dense, (stacked[order[:3]], stacked[order]), strict=True):
        assert rows.dtype == kind
        assert_array_equal(rows, wanted)


def test_rows_of_several_types_get_one_that_holds_all():
    store = RowStore()
    store.keep(Block.of_rows(np.array([[200]], np.uint8)))
    store.keep(Block.of_rows(np.array([[0.5]], np.float32)))
    assert_array_equal(store.take_in_order(np.array([1, 0])), [[0.5], [200.0]])


@pytest.mark.parametrize("is_sparse_first", [True, False])
def test_dense_and_sparse_rows_become_sparse(is_sparse_first):
    dense, csr = np.array([[1.0, 2.0]]), sparse.csr_matrix([[0.0, 3.0], [4.0, 0.0]])
    store = RowStore()
    for X in (csr, dense) if is_sparse_first else (dense, csr):
        store.keep(Block.of_rows(X))
    wanted = [[0, 3], [4, 0], [1, 2]] if is_sparse_first else [[1, 2], [0, 3], [4, 0]]
    assert_array_equal(store.fetch(np.array([2, 0])).toarray(), [wanted[2], wanted[0]])
    assert_array_equal(store.take_in_order(np.arange(3)).toarray(), wanted)


def test_arranging_makes_no_copy_of_the_matrix():
    store = RowStore()
    store.keep(Block.of_rows(np.zeros((1000, 64), np.uint8)))
    place = store._dense.ctypes.data
    assert store.take_in_order(np.arange(1000)[::-1]).ctypes.data == place
