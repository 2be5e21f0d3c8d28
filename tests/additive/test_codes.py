"""Codes of sparse data: features as gaps, and fillers that nobody notices."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from widemargin import AdditiveSVC, IntersectionSVC, PowerMeanSVC
from widemargin.additive.coded_rows import bin_rows, gram_rows
from widemargin.additive.codes import GAP_TYPES, dense_codes, thin_codes
from widemargin.additive.curves import bin_offsets, number_values
from widemargin.additive.quantiser import Quantiser, fit_quantiser, measure_ranges, row_chunks
from widemargin.baselines import SIKMASVC, FourierSVC
from widemargin.parallel import open_workers

#: Features around which gaps change their type or need one more filler.
BORDERS = [0, 1, 253, 254, 255, 256, 257, 509, 510, 511, 65534, 65535, 65536, 131070, 200_000]
COUNTS = Quantiser(np.zeros(1), np.full(1, 5.0), np.arange(6) / 5.0, "uniform")


def make_csr(rows, n_features):
    """Rows of counts from one to five, given the features that are not zero."""
    columns = [sorted(c for c in row if c < n_features) for row in rows]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.concatenate([*columns, []]).astype(np.int32)
    return sparse.csr_matrix((indices % 5 + 1.0, indices, indptr), (len(rows), n_features))


def encode_counts(X):
    d = X.shape[1]
    return Quantiser(np.zeros(d), np.full(d, 5.0), COUNTS.grid, "uniform").encode(X)


def count_bytes(X, kind):
    """Bytes that codes of one byte and gaps of a type should take."""
    firsts = X.indptr[:-1][np.diff(X.indptr) > 0]
    gaps = np.diff(X.indices, prepend=0)
    gaps[firsts] = X.indices[firsts]
    return (X.nnz + (gaps // np.iinfo(kind).max).sum()) * (1 + np.dtype(kind).itemsize)


features = st.sampled_from(BORDERS) | st.integers(0, 200_000)


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.sets(features, max_size=12), min_size=1, max_size=6),
    n_features=st.sampled_from(BORDERS[1:]) | st.just(200_001),
)
@example(rows=[set(), set()], n_features=7)
@example(rows=[{0}, set(), {0}], n_features=1)
@example(rows=[{255}, {510}, {255, 510}, {254, 509}], n_features=511)
@example(rows=[{0, 65535, 131070}, {65534, 65536}], n_features=131_071)
@example(rows=[{200_000}, {0, 200_000}], n_features=200_001)
def test_codes_know_their_features(rows, n_features):
    X = make_csr(rows, n_features)
    codes = encode_counts(X)
    again = codes.to_csr(np.arange(6.0))
    assert_array_equal(again.indptr, X.indptr)
    assert_array_equal(again.indices, X.indices)
    assert_array_equal(again.data, X.data)
    found, is_filler = codes.features(), codes.gaps == codes.filler
    assert_array_equal(found[~is_filler], X.indices)
    assert not codes.values[is_filler].any()
    assert codes.is_sparse
    assert codes.shape == X.shape
    for first, last in zip(codes.indptr[:-1], codes.indptr[1:], strict=True):
        assert (np.diff(found[first:last]) >= 0).all()
    taken = codes.values.nbytes + codes.gaps.nbytes
    assert taken == min(count_bytes(X, kind) for kind in GAP_TYPES)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_rows_need_not_be_sorted(index_type):
    indices = np.array([900, 3, 300, 3, 5, 0], index_type)
    data = np.array([1.0, 2.0, 3.0, 1.0, 4.0, 5.0])
    X = sparse.csr_matrix((data, indices, np.array([0, 4, 6], index_type)), (2, 1000))
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    again = encode_counts(X).to_csr(np.arange(6.0))
    assert_array_equal(again.toarray(), X.toarray())
    assert_array_equal(again.indices, [3, 300, 900, 0, 5])
    for kept, array in zip(before, (X.data, X.indices, X.indptr), strict=True):
        assert_array_equal(array, kept)


def test_fillers_have_the_code_of_zero_of_their_feature():
    d = 1000
    quantiser = Quantiser(
        -np.arange(1.0, d + 1), np.full(d, 2000.0), np.linspace(0, 1, 256), "sqrt"
    )
    X = sparse.csr_matrix((np.full(10, 5.0), [*range(1, 10), 999], [0, 10]), (1, d))
    codes = quantiser.encode(X)
    is_filler = codes.gaps == codes.filler
    at = codes.features()[is_filler]
    assert_array_equal(at, [264, 519, 774])
    zeros = quantiser.encode(np.zeros((1, d))).values[at]
    assert_array_equal(codes.values[is_filler], zeros)
    assert len(np.unique(zeros)) == 3


def test_numbers_of_distinct_values_have_one_for_zero():
    X = sparse.csr_matrix(([0.5, -1.0, 0.5], [0, 1, 400], [0, 3]), (1, 401), np.float32)
    codes, values = number_values(X)
    assert_array_equal(values, [-1.0, 0.0, 0.5])
    assert_array_equal(codes.to_csr(values).toarray(), X.toarray())
    assert (codes.gaps == codes.filler).sum() == 1
    assert_array_equal(values[codes.values], [0.5, -1.0, 0.0, 0.5])


def bag_of_words(n_rows, n_features, per_row, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.random((n_rows, n_features)) < per_row / n_features
    X = sparse.csr_matrix(dense, dtype=np.float64)
    X.data *= rng.random(X.nnz)
    return X


def test_bags_of_words_take_two_bytes_a_value():
    X = bag_of_words(200, 21_000, 300)
    ranges = measure_ranges(row_chunks(X))
    codes = fit_quantiser(ranges, 256, "auto", per_feature=True).encode(X)
    assert 2.0 < (codes.values.nbytes + codes.gaps.nbytes) / X.nnz < 2.2


def test_encoding_needs_little_memory_beside_the_codes():
    X = bag_of_words(2000, 3000, 750)
    assert X.has_canonical_format
    d = X.shape[1]
    quantiser = Quantiser(np.zeros(d), np.ones(d), np.linspace(0, 1, 256), "uniform")
    quantiser.encode(X[:10])
    tracemalloc.start()
    codes = quantiser.encode(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # One array of four bytes for each of 1,500,000 values would be 6 MB.
    assert peak - codes.values.nbytes - codes.gaps.nbytes < 10**6


# Fits on data so wide that gaps need fillers equal those on the same data squeezed together or dense.

#: Columns of thirty features among many for which gaps of a type with fillers are best.
WIDE = {
    "bytes": (np.uint8, np.r_[0:12, 268:280, 554:560], 560),
    "words": (np.uint16, np.r_[0:3000:200, 70_000:73_000:200], 73_000),
}
TIGHT = {"tol": 1e-7, "max_iter": 20_000, "random_state": 0}
STEPS = {"tol": 1e-7, "max_iter": 10, "random_state": 0}
MODELS = {
    "chi2": AdditiveSVC(**TIGHT),
    "hinge": AdditiveSVC(loss="hinge", fit_intercept=False, **TIGHT),
    "hellinger": AdditiveSVC(kernel="hellinger", **TIGHT),
    "curves": AdditiveSVC(kernel="intersection", **TIGHT),
    "quantiles": AdditiveSVC(binning="quantile", n_bins=300, **TIGHT),
    "chi2 step by step": AdditiveSVC(solver="sgd", **STEPS),
    "curves step by step": AdditiveSVC(kernel="intersection", solver="sgd", **STEPS),
    "power mean": PowerMeanSVC(C=1.0, **STEPS),
    "power mean table": PowerMeanSVC(C=1.0, lut=True, **STEPS),
    "power mean step by step": PowerMeanSVC(C=1.0, solver="sgd", **STEPS),
    "bins": IntersectionSVC(C=0.01, **TIGHT),
    "bins, primal": IntersectionSVC(C=0.01, solver="primal", **TIGHT),
    "bins, at once": IntersectionSVC(C=0.01, multi_class="crammer_singer", **TIGHT),
    "waves": FourierSVC(**TIGHT),
    "levels": SIKMASVC(random_state=0),
}


def make_problem(n_rows=250, n_classes=3):
    """Thirty features that are mostly zero; some rows are nothing but zeros."""
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, 30)) * (rng.random((n_rows, 30)) < 0.4)
    X[:5] = 0.0
    y = np.digitize(X[:, :10].sum(axis=1) - X[:, 10:20].sum(axis=1), [-0.5, 0.5][: n_classes - 1])
    return X, y


def widen(X, kind):
    _, columns, d = WIDE[kind]
    stored = sparse.csr_matrix(X)
    return sparse.csr_matrix((stored.data, columns[stored.indices], stored.indptr), (len(X), d))


def decide(model, X, y):
    return clone(model).fit(X, y).decision_function(X)


@pytest.mark.parametrize("kind", WIDE)
def test_wide_data_need_fillers(kind):
    codes, _ = number_values(widen(make_problem()[0].round(2), kind))
    assert codes.values.dtype == np.uint8
    assert codes.gaps.dtype == WIDE[kind][0]
    assert np.count_nonzero(codes.gaps == codes.filler) > 100


@pytest.mark.filterwarnings("ignore:.* stopped before convergence")
@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("name", MODELS)
def test_fillers_change_no_fit(name, kind):
    X, y = make_problem()
    # Counts are their own bins, however many zeros there are.
    X = np.ceil(20 * X) if "bins" in name else X
    found = decide(MODELS[name], widen(X, kind), y)
    squeezed = decide(MODELS[name], sparse.csr_matrix(X), y)
    assert_allclose(found, squeezed, rtol=1e-7, atol=1e-7)
    if name != "levels":  # which is in float32
        assert_allclose(found, decide(MODELS[name], X, y), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.* stopped before convergence")
@pytest.mark.parametrize("lut", [False, True])
def test_fillers_are_zeros_where_these_count(lut):
    """The kernel is not zero at zero, so every feature that is left out adds to it."""
    X, y = make_problem()
    X = widen(X, "bytes")
    model = PowerMeanSVC(lut=lut, kernel=lambda x, z: np.minimum(x, z) + 0.3, **STEPS)
    assert_allclose(decide(model, X, y), decide(model, X.toarray(), y), atol=1e-6)


def test_fillers_are_zeros_where_features_are_negative():
    X, y = make_problem()
    X[::2] *= -1.0
    X[-2:, 0] = -1.0, 1.0
    # With an odd number of bins zero is the middle one. The best single number depends on the counts.
    model = AdditiveSVC(kernel=lambda x, z: x * z + (x * z) ** 3, n_bins=257, rank=1, **TIGHT)
    model.fit(widen(X, "bytes"), y)
    assert model.quantiser_.zero_code == 128
    squeezed = clone(model).fit(sparse.csr_matrix(X), y)
    assert_array_equal(model.tables_, squeezed.tables_)
    assert_allclose(
        model.decision_function(widen(X, "bytes")),
        squeezed.decision_function(sparse.csr_matrix(X)),
        rtol=1e-7, atol=1e-7,
    )  # fmt: skip


@pytest.mark.parametrize("kind", WIDE)
def test_fillers_are_not_in_kernel_matrices(kind):
    X, _ = make_problem()
    matrices = []
    with open_workers(1) as workers:
        for form in (widen(X, kind), sparse.csr_matrix(X), X):
            d = form.shape[1]
            codes = Quantiser(np.zeros(d), np.ones(d), np.linspace(0, 1, 21), "uniform").encode(
                form
            )
            rows = bin_rows(
                codes, bin_offsets(codes), np.arange(21.0), np.ones(d), None, np.float32
            )
            matrices.append(gram_rows(rows, workers).plain_write)
    for matrix in matrices[1:]:
        assert_array_equal(matrix, matrices[0])


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_gaps_may_take_four_bytes(kernel):
    X, y = make_problem(n_classes=2)
    few = sparse.csr_matrix(X[:, 8:12])
    far = sparse.csr_matrix((few.data, few.indices * 150_000 + 7, few.indptr), (len(y), 500_000))
    codes, _ = number_values(far)
    assert codes.gaps.dtype == np.uint32
    model = AdditiveSVC(kernel=kernel, **TIGHT)
    assert_allclose(decide(model, far, y), decide(model, few, y), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    "model",
    [AdditiveSVC(**TIGHT), AdditiveSVC(kernel="intersection", **TIGHT), PowerMeanSVC(**TIGHT)],
    ids=["chi2", "curves", "power mean"],
)
@pytest.mark.parametrize("kind", WIDE)
def test_fillers_change_no_step(model, kind):
    X, y = make_problem()
    decisions = []
    for form in (lambda part: widen(part, kind), sparse.csr_matrix, np.asarray):
        learner = clone(model)
        for start in (0, 125):
            part = slice(start, start + 125)
            learner.partial_fit(form(X[part]), y[part], classes=[0, 1, 2])
        decisions.append(learner.decision_function(form(X)))
    assert_allclose(decisions[0], decisions[1], rtol=1e-7, atol=1e-7)
    assert_allclose(decisions[0], decisions[2], rtol=1e-4, atol=1e-4)


def make_pieces():
    """Three pieces: alone, the first would have gaps of one byte and the last of two."""
    X, y = make_problem()
    near, far = sparse.csr_matrix(X[:100]), widen(X[100:], "words")
    near.resize((100, far.shape[1]))
    X = sparse.vstack([near, far], format="csr")
    return X, y, [(X[:100], y[:100]), (X[100:101], y[100:101]), (X[101:], y[101:])]


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_pieces_share_one_type_of_gaps(tmp_path, kernel, in_file):
    X, y, pieces = make_pieces()
    kinds = [number_values(part)[0].gaps.dtype for part, _ in pieces]
    assert {kinds[0], kinds[-1]} == {np.dtype(np.uint8), np.dtype(np.uint16)}
    path = tmp_path / "codes.npy" if in_file else None
    model = AdditiveSVC(kernel=kernel, **TIGHT)
    whole = clone(model).fit(X, y)
    model.fit_chunks(pieces, codes_path=path)
    assert_array_equal(model.decision_function(X), whole.decision_function(X))
    if path is not None:
        assert path.stat().st_size < 3.2 * X.nnz + 200


def test_pieces_of_both_kinds_are_whole(tmp_path):
    X, y = make_problem()
    pieces = [(sparse.csr_matrix(X[:100]), y[:100]), (X[100:], y[100:])]
    model = AdditiveSVC(**TIGHT).fit_chunks(pieces, codes_path=tmp_path / "codes.npy")
    assert np.load(tmp_path / "codes.npy").shape == X.shape
    assert_array_equal(
        model.decision_function(X), AdditiveSVC(**TIGHT).fit(X, y).decision_function(X)
    )


def test_pieces_are_whole_where_zeros_may_count():
    X, y = make_problem()
    model = AdditiveSVC(kernel=lambda x, z: np.exp(-np.square(x - z)), **TIGHT)
    whole = clone(model).fit(X, y).decision_function(X)
    model.fit_chunks([(sparse.csr_matrix(X), y)])
    assert_array_equal(model.decision_function(X), whole)


@pytest.mark.parametrize("later", [slice(0, 200), slice(50, 250)], ids=["fewer", "more"])
def test_pieces_must_not_change(later):
    X, y, _ = make_pieces()
    X = sparse.vstack([X[:0], X[np.argsort(np.diff(X.indptr), kind="stable")]], format="csr")
    versions = iter([X[25:225], X[later]])
    with pytest.raises(ValueError, match="chunks: the second iteration gave other values"):
        AdditiveSVC().fit_chunks(lambda: [(next(versions), y[:200])])


def test_thin_codes_leave_out_zeros_only():
    rng = np.random.default_rng(0)
    values = (rng.integers(1, 200, (20, 700)) * (rng.random((20, 700)) < 0.01)).astype(np.uint8)
    values[3] = 0
    values[4, [0, 254, 255, 256, 699]] = 9
    thin = thin_codes(dense_codes(values))
    assert thin.is_sparse
    numbers = np.arange(256.0)
    np.testing.assert_array_equal(thin.to_csr(numbers).toarray(), values)
    full = dense_codes(np.maximum(values, 1))
    assert thin_codes(full) is full
