"""Tables with values for the codes that occur: the same kernel, and the same model as dense tables."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.svm import LinearSVC

import widemargin
from tests.reference import additive as reference
from widemargin import IntersectionSVC
from widemargin.additive import intersection_rows
from widemargin.additive.coded_rows import bin_rows, coefs_by_class, decide, zero_coefs
from widemargin.additive.coded_rows_fast import add_rows, make_room
from widemargin.additive.codes import dense_codes, thin_codes
from widemargin.additive.curves import BinModel, bin_offsets
from widemargin.additive.knot_model import KnotModel
from widemargin.additive.knots import find_knots, grow_tree, list_rows
from widemargin.additive.quantiser import measure_ranges, measured_chunks, row_chunks
from widemargin.export.description import describe
from widemargin.files.container import ModelFileError
from widemargin.parallel import open_workers

TIGHT = {"C": 0.01, "tol": 1e-8, "max_iter": 50_000, "n_jobs": 1}


@pytest.fixture
def sparse_tables(monkeypatch):
    """Tables that are sparse however small they are."""
    monkeypatch.setattr(intersection_rows, "DENSE_VALUES", -1)
    monkeypatch.setattr(intersection_rows, "SPARSE_SHARE", 0.0)


@pytest.fixture(scope="module")
def words():
    """Counts of few words with gaps between them, and rows that have counts unseen in training."""
    rng = np.random.default_rng(0)
    X = rng.geometric(0.6, (150, 30)) * 3.0 * (rng.random((150, 30)) < 0.3)
    X[:, 7] = 0.0
    X[:, 8] = np.where(X[:, 8] > 0, 5.0, 0.0)
    y = np.digitize(X[:, :10].sum(axis=1) + rng.normal(0, 3, 150), [8.0, 14.0])
    return X, y, rng.integers(0, 40, (60, 30)) * 1.0


def make_codes(seed=1):
    """Codes of 14 features: skewed counts, one feature always zero, one with one code."""
    rng = np.random.default_rng(seed)
    values = np.minimum(rng.geometric(0.15, (50, 14)), 60) * (rng.random((50, 14)) < 0.4)
    values[:, 3] = 0
    values[:, 4] = 9 * (values[:, 4] > 0)
    return values, thin_codes(dense_codes(values.astype(np.uint8)))


def test_knots_are_the_distinct_codes():
    values, codes = make_codes()
    knots = find_knots(codes, 61)
    for j in range(14):
        some = slice(*knots.offsets[j : j + 2])
        found, counts = np.unique(values[values[:, j] > 0, j], return_counts=True)
        assert_array_equal(knots.codes[some], found)
        assert_array_equal(knots.counts[some], counts)


@pytest.mark.parametrize("levels", [np.arange(61.0), np.arange(61.0) ** 1.5])
def test_products_of_the_numbers_are_the_minimum(levels):
    _, codes = make_codes()
    tree = grow_tree(find_knots(codes, 61), levels)
    knots, n = tree.knots, len(tree.knots.codes)
    numbers = sparse.csr_matrix((tree.numbers, tree.functions, tree.starts), (n, n)).toarray()
    feature = np.repeat(np.arange(14), np.diff(knots.offsets))
    values = levels[knots.codes]
    kernel = np.minimum.outer(values, values) * (feature[:, None] == feature)
    assert_allclose(numbers @ numbers.T, kernel, atol=1e-11)


def test_frequent_codes_have_few_numbers():
    values, _ = make_codes()
    values[:, 0] = np.where(np.arange(50) < 45, 1, np.arange(50) - 40)
    knots = find_knots(thin_codes(dense_codes(values.astype(np.uint8))), 61)
    depths = np.diff(grow_tree(knots, np.arange(61.0)).starts)
    assert knots.codes[0] == 1
    assert depths[0] == 1
    assert depths.max() <= 2 * np.log2(50) + 2


@pytest.mark.parametrize("n_classes", [1, 3, 11, 20])
def test_listed_rows_are_read_and_added(n_classes):
    values, codes = make_codes()
    levels, offsets = np.arange(61.0), bin_offsets(codes)
    rows = bin_rows(codes, offsets, levels, np.ones(14), None, np.float64)
    tree = grow_tree(find_knots(codes, 61), levels)
    listed = list_rows(rows, tree)
    kernel = np.minimum(values[:, None], values[None]).sum(axis=2)
    alpha = np.random.default_rng(2).random((50, n_classes))
    coef, extra = zero_coefs(listed, n_classes), np.zeros((n_classes, 0))
    labels, positives = np.zeros(50, np.int64), np.zeros(n_classes, np.int64)
    add_rows(
        listed, labels, positives, alpha, make_room(listed, n_classes, np.float64), coef, extra
    )
    by_class = coefs_by_class(listed, coef, n_classes)
    with open_workers(1) as workers:
        assert_allclose(decide(listed, by_class, extra, workers), kernel @ alpha)
    knots, some = tree.knots, slice(*tree.knots.offsets[:2])
    minima = np.minimum.outer(knots.codes[some].astype(int), values[:, 0])
    assert_allclose(tree.heights(by_class)[some], minima @ alpha)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "params",
    [{}, {"loss": "hinge"}, {"fit_intercept": False}, {"multi_class": "crammer_singer"}],
    ids=["squared", "hinge", "no intercept", "crammer-singer"],
)
def test_sparse_and_dense_tables_are_the_same_model(words, request, params, n_classes, monkeypatch):
    X, y, Z = words
    y, X = np.minimum(y, n_classes - 1), sparse.csr_matrix(X)
    with monkeypatch.context() as patch:
        patch.setattr(intersection_rows, "lists_pay", lambda *_: False)
        dense = IntersectionSVC(**TIGHT, **params).fit(X, y)
    request.getfixturevalue("sparse_tables")
    model = IntersectionSVC(**TIGHT, **params).fit(X, y)
    assert isinstance(dense._model, BinModel)
    assert isinstance(model._model, KnotModel)
    for form in (np.asarray, sparse.csr_matrix):
        assert_allclose(
            model.decision_function(form(Z)), dense.decision_function(form(Z)), atol=1e-7
        )
    assert_allclose(model.tables_, dense.tables_, atol=1e-7)
    for form in (np.asarray, sparse.csr_matrix):
        shares = model.explain(form(Z[:5]))
        assert_allclose(shares, dense.explain(Z[:5]), atol=1e-7)
        assert_allclose(
            shares.sum(axis=-1) + model.intercept_, model.decision_function(Z[:5]), atol=1e-10
        )
    described = describe(model).functions
    assert_allclose(described.curves, dense._model.curves, atol=1e-7)


@pytest.mark.usefixtures("sparse_tables")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sparse_tables_are_a_linear_machine_on_unary_features(words, loss):
    X, y, Z = words
    model = IntersectionSVC(loss=loss, fit_intercept=False, **TIGHT).fit(sparse.csr_matrix(X), y)
    peer = LinearSVC(loss=loss, C=0.01, fit_intercept=False, tol=1e-9, max_iter=10**6)
    peer.fit(sparse.csr_matrix(reference.unary(X, 40)), y)
    # Beyond the largest count of a feature in training its curve is constant, and no unary feature
    # has a weight.
    expected = peer.decision_function(sparse.csr_matrix(reference.unary(Z, 40)))
    assert_allclose(model.decision_function(Z), expected, atol=2e-5)


def test_memory_follows_the_distinct_pairs():
    rng = np.random.default_rng(0)
    X = sparse.random(300, 20_000, 0.002, "csr", random_state=0)
    X.data = rng.integers(1, 4, X.nnz) * 30.0
    y = rng.integers(0, 3, 300)
    model = IntersectionSVC(max_iter=5, tol=10.0).fit(X, y)
    pairs = {(j, v) for j, v in zip(X.indices, X.data, strict=True)}
    assert isinstance(model._model, KnotModel)
    assert model._model.heights.shape == (len(pairs), 3)
    assert model.decision_function(X).shape == (300, 3)


@pytest.mark.usefixtures("sparse_tables")
def test_model_files_hold_sparse_tables(words, tmp_path, monkeypatch):
    X, y, Z = words
    model = IntersectionSVC(n_jobs=1).fit(sparse.csr_matrix(X), y)
    path = tmp_path / "model.wm"
    widemargin.save(model, path)
    assert_array_equal(widemargin.load(path).decision_function(Z), model.decision_function(Z))
    for damage in ("knots", "offsets"):
        wrong = getattr(model._model, damage).copy()
        wrong[:2] = wrong[1::-1]
        damaged = IntersectionSVC(n_jobs=1).fit(sparse.csr_matrix(X), y)
        fields = {name: getattr(model._model, name) for name in KnotModel.__dataclass_fields__}
        damaged._model = KnotModel(**fields | {damage: wrong})
        widemargin.save(damaged, path)
        with pytest.raises(ModelFileError, match=damage):
            widemargin.load(path)


def test_ranges_do_not_depend_on_the_chunks():
    X = sparse.random(400, 3000, 0.01, "csr", random_state=0)
    found, expected = measure_ranges(measured_chunks(X)), measure_ranges(row_chunks(X))
    assert_array_equal(found.low, expected.low)
    assert_array_equal(found.high, expected.high)
