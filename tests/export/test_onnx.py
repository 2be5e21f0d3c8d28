"""Exported graphs in onnxruntime against the models they come from."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, make_blobs, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC

import widemargin
from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.divide import kernel_kmeans as partition
from widemargin.exact.expansion import _count_votes
from widemargin.export.description import describe
from widemargin.export.onnx import OPSET, to_onnx
from widemargin.kernels import RBF, PowerMean

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

#: Largest deviation as a share of the largest score. Models of up to 200 vectors, and curves, are
#: float64 in Python as well.
EXACT = {"float64": 1e-10, "float32": 3e-5}
#: Beyond, Python's own kernel values are float32, and so are products with the coefficients of
#: several functions: where large terms cancel it is Python that is off.
TILES = {"float64": 1e-3, "float32": 1e-3}
KERNELS = [
    "linear", "rbf", "poly", "sigmoid", "chi2", "exp_chi2", "intersection", "hellinger",
    "anova_chi2", "anova_intersection", "anova_rbf",
    "jensen_shannon", PowerMean(-1.0), PowerMean(-2.5), PowerMean(-50.0), PowerMean(-1e-3),
    PowerMean(0.0), PowerMean(-np.inf),
]  # fmt: skip
#: Early prediction by one cluster alone, and by several on top of a background.
MIXTURES = [
    {"background": 100, "n_nearest": 1}, {"background": 0, "n_nearest": 3},
    {"background": 100, "n_nearest": 4}, {"background": 50, "n_nearest": 1000},
]  # fmt: skip
NEAREST = {"background": 0, "n_nearest": 1}
EARLY = {
    "n_clusters": 4, "n_levels": 2, "stop_level": 2, "sample_size": 200, "gamma": 1.0, "C": 5.0,
    **NEAREST,
}  # fmt: skip


def run(model, X, dtype="float64"):
    """Labels and scores of the exported model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    proto = to_onnx(model, dtype=dtype)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(["label", "scores"], {"X": np.asarray(X, dtype)})


def tie_distance(model, X, scores):
    """How much decisions would have to change for another label."""
    if scores.ndim == 1:
        return np.abs(scores)
    if getattr(model, "_one_vs_one", False):
        return np.abs(model._model.decide(X, max_bytes=10**8, n_jobs=1)).min(axis=1)
    largest = np.sort(scores, axis=1)
    return 0.5 * (largest[:, -1] - largest[:, -2])


def assert_same(model, X, tolerance=EXACT, n_odd=0):
    """Both types of graph answer as the model does, but for ties and ``n_odd`` other rows."""
    for dtype in ("float64", "float32"):
        # In Python as float64, or scalers would round in between.
        queries = np.asarray(X, dtype).astype(np.float64)
        expected, predicted = model.decision_function(queries), model.predict(queries)
        labels, scores = run(model, X, dtype)
        assert scores.shape == expected.shape
        assert scores.dtype == dtype
        limit = tolerance[dtype] * np.abs(expected).max()
        is_tied = tie_distance(model, queries, expected) <= limit
        deviations = np.abs(scores - expected).reshape(len(X), -1).max(axis=1)
        differs = (deviations > limit) | (labels != predicted)
        assert np.count_nonzero(differs & ~is_tied) <= n_odd
        assert np.count_nonzero(differs) <= n_odd + 2


@pytest.fixture(scope="module")
def histograms(digits):
    """Rows to learn from and rows to ask about, some out of range, one of zeros."""
    X, y = digits
    queries = np.vstack([X[200:260], 3.0 * X[260:270], np.zeros((1, 64))])
    return X[:150], y[:150], queries


@pytest.fixture(scope="module")
def cells():
    """Positive features of very different size."""
    X, y = load_breast_cancer(return_X_y=True)
    return X[:200], y[:200], X[200:]


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(900, centers=6, cluster_std=1.5, random_state=3)
    return X, y % 3


@pytest.mark.parametrize("form", ["binary", "ovo", "ovr"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels(histograms, kernel, form):
    X, y, queries = histograms
    y = y > 4 if form == "binary" else y % 4
    multi_class = "ovo" if form == "binary" else form
    model = KernelSVC(kernel=kernel, C=10.0, coef0=0.5, multi_class=multi_class).fit(X, y)
    assert_same(model, queries)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "chi2"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_models_with_many_vectors(kernel, multi_class):
    X, y = make_classification(
        600, 12, n_informative=6, n_classes=4, flip_y=0.2, class_sep=0.7, random_state=0
    )
    X = np.abs(X)
    model = KernelSVC(kernel=kernel, multi_class=multi_class).fit(X[:400], y[:400])
    assert len(model.support_) > 200
    assert_same(model, X[400:], TILES)
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-4)):
        queries = X[400:].astype(dtype).astype(np.float64)
        values = model.kernel_.exact(queries, model.support_vectors_)
        exact = model._scores(values @ model.dual_coef_.T + model.intercept_)
        _, scores = run(model, queries, dtype)
        assert_allclose(scores, exact, rtol=0, atol=tolerance * np.abs(exact).max())


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("move", [True, False])
def test_sparse_models(histograms, n_classes, shared, move):
    X, y, queries = histograms
    model = ProjectedSVC(n_basis=8, shared_basis=shared, move=move).fit(X, y % n_classes)
    assert_same(model, queries)


def test_first_class_with_most_votes_wins():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 2)), rng.integers(0, 5, 150)
    model = KernelSVC(gamma=2.0).fit(X, y)
    queries = rng.normal(size=(400, 2))
    votes, _ = _count_votes(model._model.decide(queries, max_bytes=10**8, n_jobs=1), 5)
    is_tied = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1
    assert is_tied.sum() > 2
    labels, scores = run(model, queries)
    assert_array_equal(labels, votes.argmax(axis=1))
    assert (scores.argmax(axis=1) != labels).any()


def test_positive_means_the_second_class(histograms):
    X, y, _ = histograms
    names = np.where(y > 4, "a high digit", "low")
    for model in (KernelSVC(C=10.0), AdditiveSVC(), DCSVC(n_levels=1, stop_level=1, **NEAREST)):
        model.fit(X, names)
        assert_array_equal(model.classes_, ["a high digit", "low"])
        for dtype in ("float32", "float64"):
            labels, scores = run(model, X, dtype)
            assert_array_equal(labels == "low", scores >= 0)
            assert np.mean((scores > 0) == (y <= 4)) > 0.9


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "chi2", "exp_chi2"])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_anchors(histograms, kernel, n_classes):
    X, y, queries = histograms
    model = LRSVC(kernel=kernel, n_anchors=40, tol=0.1, random_state=0)
    model.fit(X, y if n_classes == 10 else y > 4)
    # Where all kernels are zero all classes are tied, and the first wins.
    assert_same(model, queries)
    assert run(model, queries[-1:])[0][0] == model.predict(queries[-1:])[0]


@pytest.mark.parametrize("binning", ["auto", "uniform", "sqrt", "quantile"])
@pytest.mark.parametrize("kernel", ["chi2", "intersection", "jensen_shannon"])
def test_curves(histograms, cells, kernel, binning):
    X, y, queries = histograms
    assert_same(AdditiveSVC(kernel=kernel, binning=binning).fit(X, y), queries)
    X, y, queries = cells
    model = AdditiveSVC(kernel=kernel, binning=binning, n_bins=50, scaling="range").fit(X, y)
    assert_same(model, np.vstack([queries, 2.0 * queries, np.zeros((1, 30))]))


@pytest.mark.parametrize("model", [AdditiveSVC(), PowerMeanSVC(), PowerMeanSVC(lut=True)], ids=str)
@pytest.mark.filterwarnings("ignore:X. the data are centred")
def test_centred_data(cells, model):
    X, y, queries = cells
    middle = X.mean(axis=0)
    assert_same(model.fit(X - middle, y), queries - middle, n_odd=2)


def test_curves_of_a_callable_and_of_counts(histograms):
    X, y, queries = histograms
    model = AdditiveSVC(kernel=lambda a, b: np.exp(-((a - b) ** 2)), n_bins=30).fit(X, y)
    assert_same(model, queries)
    assert_same(AdditiveSVC().fit(np.round(16 * X), y), np.round(16 * queries))
    assert_same(AdditiveSVC(solver="sgd", random_state=0, tol=1.0).fit(X, y > 4), queries)


@pytest.mark.parametrize("multi_class", ["ovr", "crammer_singer"])
def test_intersection(histograms, multi_class):
    X, y, queries = histograms
    assert_same(IntersectionSVC(multi_class=multi_class).fit(X, y), queries)
    assert_same(IntersectionSVC(multi_class=multi_class).fit(X - 0.5, y), 2.0 * queries - 1.0)
    assert_same(IntersectionSVC().fit(np.round(16 * X), y > 4), np.round(16 * queries))
    units = 2.0 ** np.arange(X.shape[1]) / 1024.0
    assert_same(IntersectionSVC(scaling="max").fit((X - 0.5) * units, y), (queries - 0.5) * units)


@pytest.mark.parametrize(
    "model",
    [
        AdditiveSVC(binning="uniform", n_bins=20),
        AdditiveSVC(binning="sqrt", n_bins=20),
        AdditiveSVC(binning="quantile", n_bins=20),
        IntersectionSVC(n_bins=20),
        PowerMeanSVC(lut=True, n_bins=20),
    ],
    ids=str,
)
def test_values_between_bins_have_the_same_codes(model):
    rng = np.random.default_rng(0)
    X = 7.0 * rng.random((150, 3))
    model.fit(X, X[:, 0] > X[:, 1])
    quantiser = describe(model).functions.quantiser
    grid = quantiser.grid if quantiser.cut else 0.5 * (quantiser.grid[1:] + quantiser.grid[:-1])
    if quantiser.spacing == "sqrt":
        roots = np.sqrt(quantiser.grid)
        grid = (0.5 * (roots[1:] + roots[:-1])) ** 2
    at = quantiser.low + quantiser.span * grid[:, None]
    queries = np.abs(np.vstack([at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)]))
    assert_allclose(run(model, queries)[1], model.decision_function(queries), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "params",
    [{}, {"p": -8.0, "n_anchors": 6}, {"lut": True}, {"solver": "sgd", "random_state": 0}],
    ids=str,
)
def test_logarithms(histograms, params):
    X, y, queries = histograms
    for labels in (y, y > 4):
        # Beyond the range too, where logarithms would go on.
        far = np.vstack([queries, 50.0 * queries])
        assert_same(PowerMeanSVC(C=0.1, **params).fit(X, labels), far)


def test_logarithms_of_zeros(histograms):
    """A kernel that is not zero at zero keeps the zeros."""
    X, y, queries = histograms
    model = PowerMeanSVC(kernel=lambda a, b: 1.0 + np.minimum(a, b)).fit(X, y > 4)
    assert np.isneginf(describe(model).functions.zero)
    assert_same(model, queries)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "chi2", "hellinger"])
def test_clusters(blobs, kernel, multi_class):
    X, y = blobs
    X = X if kernel == "rbf" else np.abs(X) / 10
    model = DCSVC(**EARLY, kernel=kernel, multi_class=multi_class).fit(X[:600], y[:600])
    assert len(describe(model).functions.clusters) > 10
    # A row as near to one cluster as to another may go either way.
    assert_same(model, X[600:], TILES, n_odd=1)


@pytest.mark.parametrize("more", MIXTURES, ids=str)
@pytest.mark.parametrize("kernel", ["rbf", "poly", "chi2", "linear"])
def test_several_clusters_and_a_background(blobs, kernel, more):
    X, y = blobs
    X = X if kernel == "rbf" else np.abs(X) / 10
    model = DCSVC(**{**EARLY, **more}, kernel=kernel).fit(X[:600], y[:600])
    functions = describe(model).functions
    assert functions.n_nearest == min(more["n_nearest"], len(functions.clusters) // 4)
    assert (functions.background is None) == (more["background"] == 0)
    # With one nearest cluster, a row as near to one cluster as to another may go either way.
    assert_same(model, X[600:], TILES, n_odd=int(functions.n_nearest == 1))
    assert len(run(model, X[:0])[0]) == 0


def test_defaults_of_early_prediction(blobs):
    X, y = blobs
    model = DCSVC(n_levels=2, stop_level=2, gamma=1.0).fit(X[:600], y[:600])
    assert model._parts.background is not None
    assert model._model.n_nearest > 1
    assert_same(model, X[600:], TILES)


def test_clusters_far_from_everything(blobs):
    """Rows beyond the range of float32 to all sampled rows may join another cluster than in Python."""
    X, y = blobs
    model = DCSVC(**EARLY, multi_class="ovr").fit(X[:600], y[:600])
    assert model.level_ > 0
    far = 2.2 * X
    samples = model._parts.samples
    nearest = ((far[:, None] - samples[None]) ** 2).sum(axis=2).min(axis=1)
    within = nearest * model.kernel_.gamma < 80.0
    assert 0.05 < within.mean() < 0.95
    found = run(model, far)[0]
    assert_array_equal(found[within], model.predict(far)[within])
    assert set(found) <= set(model.classes_)


def test_clusters_within_clusters(monkeypatch):
    monkeypatch.setattr(partition, "GROUP_POINTS", 1000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    X[:1500] = [3.0, 3.0] + 0.1 * X[:1500]
    # Far away there is one class only: a cluster without vectors.
    X[1600:1800] -= 20.0
    y = (rng.random(2000) > 0.5) & (X[:, 0] > -10.0)
    model = DCSVC(
        gamma=0.5,
        n_clusters=8,
        n_levels=1,
        stop_level=1,
        fit_intercept=True,
        overlap=0.0,
        **NEAREST,
    ).fit(X, y)
    functions = describe(model).functions
    assert len(functions.forks) > 1
    assert min(len(cluster.vectors) for cluster in functions.clusters) == 0
    assert_same(model, X[1300:], TILES, n_odd=1)
    for n in (0, 1, 2):
        assert_array_equal(run(model, X[:n])[0], model.predict(X[:2])[:n])


@pytest.mark.parametrize("params", [{**EARLY, "combine": "naive"}, {"n_levels": 1, "C": 5.0}])
def test_sums_of_clusters(blobs, params):
    X, y = blobs
    model = DCSVC(**params).fit(X[:600], y[:600])
    assert_same(model, X[600:], TILES)


@pytest.mark.parametrize(
    "scalers",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [MinMaxScaler(feature_range=(0.5, 2.0))],
        [MinMaxScaler(clip=True)],
        [MaxAbsScaler()],
        [StandardScaler(), "passthrough", MinMaxScaler(clip=True)],
        [make_pipeline(StandardScaler(), MinMaxScaler(clip=True)), MaxAbsScaler()],
    ],
    ids=str,
)
def test_pipelines(cells, scalers):
    X, y, queries = cells
    names = np.where(y == 1, "benign", "malignant")
    assert_same(make_pipeline(*scalers, KernelSVC(C=10.0)).fit(X, names), queries)
    assert_same(make_pipeline(*scalers, IntersectionSVC()).fit(X, names), queries)


def test_pipeline_for_a_kernel_of_histograms(cells):
    X, y, queries = cells
    for model in (KernelSVC(kernel="jensen_shannon"), AdditiveSVC(), PowerMeanSVC()):
        assert_same(make_pipeline(MinMaxScaler(clip=True), model).fit(X, y), queries)


@pytest.mark.parametrize("gap", [0.0, 100.0])
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_distances_keep_their_digits(gap, shift):
    """Far from zero, and in two groups so far apart that float32 is too coarse within them."""
    rng = np.random.default_rng(0)
    X = shift + rng.normal(size=(400, 3)) + gap * rng.integers(0, 2, (400, 1))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] > X[:, 2]
    model = KernelSVC(C=10.0, gamma=1.0).fit(X[:200], y[:200])
    for dtype, tolerance in EXACT.items():
        queries = X[200:].astype(dtype).astype(np.float64)
        distances = np.square(queries[:, None] - model.support_vectors_).sum(axis=2)
        expected = np.exp(-distances) @ model.dual_coef_[0] + model.intercept_
        _, scores = run(model, queries, dtype)
        assert_allclose(scores, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_labels_where_kernel_values_vanish(cancer):
    """Scores of float32 end at zero, but signs do not."""
    X, y = cancer
    model = KernelSVC(gamma=20.0, fit_intercept=False).fit(X[:200], y[:200])
    labels, scores = run(model, X[200:], "float32")
    assert (scores == 0).sum() > 50
    predicted = model.predict(np.float32(X[200:]).astype(np.float64))
    assert 50 < (predicted == 0).sum() < 300
    assert_array_equal(labels, predicted)


@pytest.mark.parametrize("kernel", ["chi2", "hellinger", "jensen_shannon", PowerMean(-2.0)])
def test_negative_features_count_as_zero(histograms, kernel):
    X, y, _ = histograms
    model = KernelSVC(kernel=kernel).fit(X, y > 4)
    for dtype in ("float32", "float64"):
        _, scores = run(model, -X[:5], dtype)
        assert_allclose(scores, model.decision_function(np.zeros((5, 64))), rtol=1e-6)


@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        (np.array([3, -7, 5]), np.int64),
        (np.array([3, 250, 5], np.uint8), np.int64),
        (np.array(["ä", "b b", ""]), object),
        (np.array(["x", "yy", "zzz"], object), object),
        (np.array([1.0, -2.0, 7.0]), np.float32),
        (np.array([False, True]), np.int64),
        (np.array([2.0, 1.0]), np.float32),
    ],
    ids=str,
)
@pytest.mark.parametrize("model", [KernelSVC(), KernelSVC(multi_class="ovr"), AdditiveSVC()])
def test_labels(histograms, model, names, dtype):
    X, y, queries = histograms
    model.fit(X, names[y % len(names)])
    labels, _ = run(model, queries, "float32")
    assert labels.dtype == dtype
    assert_array_equal(labels, model.predict(queries.astype(np.float32)))


@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize(
    "model",
    [
        KernelSVC(),
        KernelSVC(multi_class="ovr", kernel="chi2"),
        KernelSVC(kernel="linear"),
        AdditiveSVC(),
        AdditiveSVC(binning="quantile"),
        PowerMeanSVC(),
        DCSVC(kernel="exp_chi2", n_levels=1, stop_level=1, **NEAREST),
    ],
    ids=str,
)
def test_few_rows(histograms, model, n_classes):
    X, y, queries = histograms
    model.fit(X, y if n_classes == 10 else y > 4)
    columns = () if n_classes == 2 else (10,)
    for dtype in ("float32", "float64"):
        labels, scores = run(model, queries[:0], dtype)
        assert labels.shape == (0,)
        assert scores.shape == (0, *columns)
        labels, scores = run(model, queries[:1], dtype)
        assert_array_equal(labels, model.predict(queries[:1]))
        assert scores.shape == (1, *columns)


@pytest.mark.parametrize(("dtype", "kind"), [("float32", "FLOAT"), ("float64", "DOUBLE")])
def test_what_the_file_says(histograms, dtype, kind):
    X, y, _ = histograms
    model = make_pipeline(MinMaxScaler(), DCSVC(kernel="chi2", n_levels=1, stop_level=1, **NEAREST))
    proto = to_onnx(model.fit(X, y), dtype=dtype)
    assert proto.producer_name == "widemargin"
    assert proto.producer_version == widemargin.__version__
    assert "DCSVC" in proto.doc_string
    assert [(used.domain, used.version) for used in proto.opset_import] == [("", OPSET)]
    assert {node.domain for node in proto.graph.node} == {""}
    (given,) = proto.graph.input
    label, scores = proto.graph.output
    assert (given.name, label.name, scores.name) == ("X", "label", "scores")
    for info, width in ((given, 64), (scores, 10)):
        shape = info.type.tensor_type.shape.dim
        assert not shape[0].HasField("dim_value")
        assert shape[1].dim_value == width
        assert info.type.tensor_type.elem_type == onnx.TensorProto.DataType.Value(kind)


@dataclass(frozen=True)
class OwnKernel(RBF):
    """A kernel that may compute anything."""


def test_models_without_a_graph(histograms):
    X, y, _ = histograms
    y = y > 4
    with pytest.raises(NotFittedError):
        to_onnx(KernelSVC())
    with pytest.raises(NotFittedError):
        to_onnx(make_pipeline(MinMaxScaler(), AdditiveSVC()))
    with pytest.raises(TypeError, match="a SVC cannot be exported"):
        to_onnx(SVC().fit(X, y))
    with pytest.raises(TypeError, match="RobustScaler"):
        to_onnx(make_pipeline(RobustScaler(), KernelSVC()).fit(X, y))
    with pytest.raises(ValueError, match="Callable"):
        to_onnx(KernelSVC(kernel=lambda A, B: A @ B.T).fit(X, y))
    with pytest.raises(ValueError, match="Precomputed"):
        to_onnx(KernelSVC(kernel="precomputed").fit(X @ X.T, y))
    with pytest.raises(ValueError, match="OwnKernel"):
        to_onnx(KernelSVC(kernel=OwnKernel(0.1)).fit(X, y))
    with pytest.raises(ValueError, match='combine="early"'):
        to_onnx(DCSVC(n_levels=1, stop_level=1, combine="bcm").fit(X, y))
    with pytest.raises(ValueError, match="explanatory"):
        to_onnx(LRSVC(explanatory=lambda A: A, max_iter=5000).fit(X, y))


@pytest.mark.parametrize("dtype", ["float16", "double", None, np.int64])
def test_unknown_dtype(histograms, dtype):
    X, y, _ = histograms
    with pytest.raises(ValueError, match="dtype: must be one of 'float32', 'float64'"):
        to_onnx(AdditiveSVC().fit(X, y), dtype=dtype)


def test_labels_that_onnx_has_not(histograms):
    X, y, _ = histograms
    model = AdditiveSVC().fit(X, y > 4)
    model.classes_ = np.array(["2000", "2001"], "datetime64[Y]")
    with pytest.raises(ValueError, match="labels are of type datetime64"):
        to_onnx(model)


def test_without_the_package(histograms, monkeypatch):
    X, y, _ = histograms
    model = AdditiveSVC().fit(X, y > 4)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'widemargin\[onnx\]'"):
        to_onnx(model)
