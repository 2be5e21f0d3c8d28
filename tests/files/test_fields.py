"""Declared fields of model files: one reader and one writer for all."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from widemargin.files.container import ModelFileError
from widemargin.files.fields import (
    FLOATS,
    Context,
    Entry,
    Field,
    anything,
    at_least,
    below,
    in_domain,
    is_positive_integer,
    is_width,
    one_of,
    positive,
    read_entries,
    read_fields,
    set_attributes,
    write_fields,
)
from widemargin.kernels import Chi2

FIELDS = (
    Field("coef", np.float64, ("n_functions", "n_vectors")),
    Field("vectors", FLOATS, ("n_vectors", 2), in_domain, "vectors_", may_be_sparse=True),
    Field("n_iter", np.int64, ("n_functions",), at_least(0), or_number=True),
    Field("origin", np.float64, (2,), is_optional=True),
)
GOOD = {
    "coef": np.ones((1, 3)),
    "vectors": np.ones((3, 2), np.float32),
    "n_iter": np.array([7]),
}


@pytest.mark.parametrize("as_sparse", [False, True])
def test_what_is_written_is_read_back(as_sparse):
    vectors = np.arange(6.0).reshape(3, 2)
    model = SimpleNamespace(
        coef_=np.ones((1, 3)),
        n_iter_=7,
        vectors_=sparse.csr_matrix(vectors) if as_sparse else vectors,
    )
    arrays = write_fields(FIELDS, model)
    assert ("vectors_data" in arrays) == as_sparse
    loaded, context = SimpleNamespace(), Context()
    set_attributes(loaded, FIELDS, read_fields(FIELDS, arrays, context))
    assert context.sizes == {"n_functions": 1, "n_vectors": 3}
    assert type(loaded.n_iter_) is int
    assert loaded.n_iter_ == 7
    assert not hasattr(loaded, "origin_")
    read = loaded.vectors_.toarray() if as_sparse else loaded.vectors_
    assert_array_equal(read, vectors)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"coef": None}, "'coef' is missing"),
        ({"coef": np.ones((1, 3), np.float32)}, "'coef' has the wrong type"),
        ({"coef": np.ones(3)}, "'coef' has the wrong shape"),
        ({"coef": np.ones((1, 4))}, "'vectors' has the wrong shape"),
        ({"coef": np.ones((0, 3)), "n_iter": np.ones(0, int)}, "'coef' has the wrong shape"),
        ({"coef": np.full((1, 3), np.nan)}, "'coef' holds NaN or infinity"),
        ({"vectors": np.ones((3, 3))}, "'vectors' has the wrong shape"),
        ({"vectors": -np.ones((3, 2))}, "'vectors' holds negative values, which the 'chi2' kernel"),
        ({"n_iter": np.array([-1])}, "'n_iter' holds a number below 0"),
        ({"n_iter": np.array([1, 2])}, "'n_iter' has the wrong shape"),
        ({"origin": np.ones(3)}, "'origin' has the wrong shape"),
    ],
)
def test_arrays_that_break_their_declaration_are_refused(change, message):
    arrays = {name: array for name, array in (GOOD | change).items() if array is not None}
    read_fields(FIELDS, GOOD, Context(kernel=Chi2()))
    with pytest.raises(ModelFileError, match=message):
        read_fields(FIELDS, arrays, Context(kernel=Chi2()))


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (positive, [0.5], [0.0]),
        (at_least(1), [1, 2], [0, 2]),
        (below("n_clusters"), [0, 2], [0, 3]),
        (below("n_clusters"), [1], [-1]),
    ],
)
def test_rules(rule, good, bad):
    context = Context({"n_clusters": 3})
    assert rule(np.array(good), context) == ""
    assert rule(np.array(bad), context)
    assert anything(np.array([np.nan]), context) == ""


def test_entries_that_break_their_declaration_are_refused():
    entries = (Entry("n", is_positive_integer), Entry("reason", one_of(("a", "b"))))
    assert read_entries(entries, {"n": 3, "reason": "a", "more": 1}) == {"n": 3, "reason": "a"}
    for n, reason in ((0, "a"), (True, "a"), (2.0, "a"), (None, "a"), (3, "c"), (3, ["a"])):
        with pytest.raises(ModelFileError, match=r"entry .* is missing or wrong"):
            read_entries(entries, {"n": n, "reason": reason})
    with pytest.raises(ModelFileError, match="entry 'n' is missing"):
        read_entries(entries, {"reason": "a"})


@pytest.mark.parametrize("value", [0, -1, True, 4.0, "4", None, 10**79, np.iinfo(np.intp).max])
def test_widths_that_no_row_has_are_refused(value):
    assert is_width(4)
    assert not is_width(value)
