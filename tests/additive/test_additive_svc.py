"""AdditiveSVC against exact machines, and what it tells about its decisions."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC

from tests.reference import additive as reference
from widemargin import LRSVC, AdditiveSVC, IntersectionSVC, KernelSVC, PowerMeanSVC
from widemargin.additive import curves as models
from widemargin.additive import dual_descent as solver
from widemargin.kernels import PowerMean

TIGHT = {"tol": 1e-7, "max_iter": 50_000, "random_state": 0}


@pytest.fixture(scope="module")
def counts(digits):
    """Pixels as whole numbers: bins are exact. Test values are within those of training."""
    X, y = digits
    X, Z = 16.0 * X[:400], 16.0 * X[400:700]
    return X, y[:400], np.minimum(Z, X.max(axis=0)), y[400:700]


@pytest.mark.parametrize(
    "kernel", ["chi2", "intersection", "hellinger", "jensen_shannon", PowerMean(-2.0)]
)
def test_high_rank_is_the_exact_kernel(counts, kernel):
    X, y, Z, _ = counts
    model = AdditiveSVC(C=0.01, kernel=kernel, rank=16, loss="hinge", fit_intercept=False, **TIGHT)
    exact = KernelSVC(C=0.01, kernel=kernel, multi_class="ovr", fit_intercept=False, tol=1e-6).fit(
        X, y
    )
    model.fit(X, y)
    assert_allclose(model.decision_function(Z), exact.decision_function(Z), atol=5e-4)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_it_is_a_linear_machine_on_its_table(counts, loss, as_sparse, n_classes):
    """With intercept, class weights and sample weights."""
    X, y, Z, _ = counts
    y = y if n_classes == 10 else (y > 4).astype(int)
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    form = sparse.csr_matrix if as_sparse else np.asarray
    model = AdditiveSVC(C=0.02, loss=loss, fit_intercept=True, class_weight={0: 3.0}, **TIGHT)
    model.fit(form(X), y, sample_weight=weights)
    scale = np.sqrt(model.quantiser_.span)

    def features(A):
        return (model.tables_[A.astype(int)] * scale[:, None]).reshape(len(A), -1)

    # LIBLINEAR would apply the class weight to rows of the class asked about only.
    linear = LinearSVC(C=0.02, loss=loss, tol=1e-9, max_iter=10**6)
    linear.fit(features(X), y, sample_weight=weights * np.where(y == 0, 3.0, 1.0))
    assert_allclose(
        model.decision_function(form(Z)), linear.decision_function(features(Z)), atol=1e-5
    )
    assert_allclose(model.intercept_, linear.intercept_, atol=1e-5)


def test_bins_of_the_intersection_are_exact(counts):
    X, y, Z, _ = counts
    X, Z = X * 4 + (X > 0), Z * 4 + (Z > 0)
    exact = KernelSVC(
        C=0.001, kernel="intersection", multi_class="ovr", fit_intercept=False, tol=1e-6
    ).fit(X, y)
    for form in (np.asarray, sparse.csr_matrix):
        model = AdditiveSVC(
            C=0.001, kernel="intersection", loss="hinge", fit_intercept=False, **TIGHT
        )
        model.fit(form(X), y)
        assert model.rank_ == 0
        assert_allclose(model.decision_function(form(Z)), exact.decision_function(Z), atol=5e-4)
        assert model.coef_.shape == (10, 64, 66)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_explanations_add_up(digits, kernel, n_classes):
    X, y = digits
    y = y if n_classes == 10 else np.where(y > 4, "high", "low")
    model = AdditiveSVC(kernel=kernel, random_state=0).fit(X[:500], y[:500])
    shares = model.explain(X[500:600])
    assert shares.shape == ((100, 64) if n_classes == 2 else (100, 10, 64))
    total = shares.sum(axis=-1) + model.intercept_
    assert_allclose(total, model.decision_function(X[500:600]), rtol=1e-12, atol=1e-12)
    assert_allclose(model.explain(sparse.csr_matrix(X[500:600])), shares)


def test_curves_are_what_features_add(digits):
    X, y = digits
    model = AdditiveSVC(random_state=0).fit(X[:500], y[:500])
    curves = model.shape_functions(n_points=50)
    assert len(curves) == 64
    values, heights = curves[20]
    assert (values[0], values[-1]) == (X[:500, 20].min(), X[:500, 20].max())
    queries = np.zeros((50, 64))
    queries[:, 20] = values
    assert_allclose(heights, model.explain(queries)[:, :, 20].T)


def test_explanations_of_many_rows_come_in_pieces(digits, monkeypatch):
    X, y = digits
    model = AdditiveSVC(random_state=0).fit(X[:500], y[:500])
    whole = model.explain(X)
    monkeypatch.setattr(models, "DECIDE_VALUES", 3000)
    assert_array_equal(model.explain(X), whole)
    assert_array_equal(model.explain(sparse.csr_matrix(X)), whole)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_threads_do_not_change_the_model(digits, kernel):
    X, y = digits
    fits = [
        AdditiveSVC(kernel=kernel, random_state=0, n_jobs=n_jobs).fit(X, y).decision_function(X)
        for n_jobs in (1, 2, 3)
    ]
    assert_array_equal(fits[0], fits[1])
    assert_array_equal(fits[0], fits[2])


def test_a_warm_start_goes_on(digits):
    X, y = digits
    model = AdditiveSVC(C=0.1, tol=1e-4, warm_start=True, random_state=0).fit(X, y)
    cold = AdditiveSVC(C=0.11, tol=1e-4, random_state=0).fit(X, y)
    model.set_params(C=0.11).fit(X, y)
    assert np.sum(model.n_iter_) < np.sum(cold.n_iter_)
    assert_allclose(model.decision_function(X), cold.decision_function(X), atol=5e-3)


def test_features_keep_their_units(cancer):
    X = np.abs(cancer[0]) * np.logspace(-3, 3, 30)
    y = cancer[1]
    scaled = AdditiveSVC(**TIGHT).fit(X / X.max(axis=0), y)
    model = AdditiveSVC(scaling="max", **TIGHT).fit(X, y)
    assert_allclose(
        model.decision_function(X), scaled.decision_function(X / X.max(axis=0)), atol=1e-3
    )
    assert model.shape_functions()[29][0][-1] == X[:, 29].max()


def test_a_callable_kernel(counts):
    X, y, Z, _ = counts
    named = AdditiveSVC(C=0.01, rank=8, **TIGHT).fit(X, y)
    own = AdditiveSVC(C=0.01, kernel=reference.chi2, rank=8, **TIGHT).fit(X, y)
    assert_allclose(own.decision_function(Z), named.decision_function(Z), atol=1e-4)


def test_a_callable_kernel_that_is_not_zero_at_zero(counts):
    X, y, Z, _ = counts

    def kernel(x, z):
        return np.exp(-((x - z) ** 2) / 8)

    shifted = AdditiveSVC(
        C=0.05, kernel=kernel, n_bins=17, rank=17, loss="hinge", fit_intercept=False, **TIGHT
    ).fit(X - 8, y)
    exact = KernelSVC(
        C=0.05, kernel=lambda A, B: reference.sum_over_features(kernel, A, B), multi_class="ovr",
        fit_intercept=False, tol=1e-6,
    ).fit(X - 8, y)  # fmt: skip
    assert_allclose(shifted.decision_function(Z - 8), exact.decision_function(Z - 8), atol=1e-3)
    both = [
        AdditiveSVC(C=0.01, kernel=kernel, **TIGHT).fit(form(X), y).decision_function(form(Z))
        for form in (np.asarray, sparse.csr_matrix)
    ]
    assert_allclose(both[0], both[1], atol=1e-6)


def test_stochastic_descent_reaches_the_optimum(digits):
    X, y = digits
    dual = AdditiveSVC(C=0.1, random_state=0).fit(X[:1000], y[:1000])
    for form in (np.asarray, sparse.csr_matrix):
        model = AdditiveSVC(C=0.1, solver="sgd", tol=0.02, random_state=0)
        model.fit(form(X[:1000]), y[:1000])
        assert model.stop_reason_ == "converged"
        assert abs(model.score(form(X[1000:]), y[1000:]) - dual.score(X[1000:], y[1000:])) < 0.02


def test_pieces_may_be_learned_one_by_one(digits):
    X, y = digits
    dual = AdditiveSVC(C=0.1, random_state=0).fit(X[:1000], y[:1000])
    # The penalty of a fit to the thousand rows, which are seen ten times.
    model = AdditiveSVC(alpha=1 / (0.1 * 1000), random_state=0)
    for _ in range(10):
        for start in range(0, 1000, 250):
            part = slice(start, start + 250)
            model.partial_fit(X[part], y[part], classes=np.arange(10))
    assert model.n_seen_ == 10_000
    assert model.score(X[1000:], y[1000:]) > dual.score(X[1000:], y[1000:]) - 0.03
    with pytest.raises(ValueError, match=r"y: the label .*11.* is not among"):
        model.partial_fit(X[:2], [11, 1])
    with pytest.raises(ValueError, match="classes: the first call"):
        AdditiveSVC().partial_fit(X, y)


def test_bins_may_be_learned_one_by_one(digits):
    X, y = digits
    X = X * 1.01
    model = AdditiveSVC(C=0.1, kernel="intersection", random_state=0)
    for _ in range(5):
        for start in range(0, 1000, 250):
            part = slice(start, start + 250)
            model.partial_fit(X[part], y[part], classes=np.arange(10))
    assert model.rank_ == 0
    assert model.score(X[1000:], y[1000:]) > 0.85
    fitted = AdditiveSVC(C=0.1, kernel="intersection", random_state=0).fit(X[:1000], y[:1000])
    before = fitted.decision_function(X)
    fitted.partial_fit(X[:3], y[:3])
    assert 0 < np.abs(fitted.decision_function(X) - before).max() < 0.5


@pytest.mark.parametrize("as_sparse", [False, True])
def test_chunks_give_the_same_model(digits, tmp_path, as_sparse):
    X, y = digits
    form = sparse.csr_matrix if as_sparse else np.asarray
    whole = AdditiveSVC(random_state=0).fit(X, y)

    def pieces():
        for start in range(0, len(X), 300):
            yield form(X[start : start + 300]), y[start : start + 300]

    path = tmp_path / "codes.npy"
    model = AdditiveSVC(random_state=0).fit_chunks(pieces, codes_path=path)
    assert path.stat().st_size < X.size + 1000
    assert_array_equal(model.decision_function(X), whole.decision_function(X))
    assert_array_equal(model.feature_ranges_, whole.feature_ranges_)
    with pytest.raises(ValueError, match=r"chunks: the first .* gave 1797 rows, the second 0;"):
        AdditiveSVC().fit_chunks(pieces())
    lists = [[X[:900], y[:900]], [X[:0], y[:0]], [X[900:], y[900:], np.ones(897)]]
    model = AdditiveSVC(random_state=0).fit_chunks(lists)
    assert_array_equal(model.decision_function(X), whole.decision_function(X))
    with pytest.raises(ValueError, match="chunks: there are none"):
        AdditiveSVC().fit_chunks([(X[:0], y[:0])])
    with pytest.raises(ValueError, match="chunks: there are none"):
        AdditiveSVC().fit_chunks([])
    with pytest.raises(ValueError, match="a piece is a ndarray; give tuples"):
        AdditiveSVC().fit_chunks([X])


#: Fits to a mapped file of 100 columns and prints the memory that took, in MB, and the accuracy.
MAPPED = """
    import sys, threading
    import numpy as np
    import widemargin

    path, name, kind, order, way = sys.argv[1:]
    n, d, kind, model = 400_000, 100, np.dtype(kind), getattr(widemargin, name)
    X = np.lib.format.open_memmap(
        path, mode="w+", dtype=kind, shape=(n, d), fortran_order=order == "F"
    )
    rng = np.random.default_rng(0)
    unit = 255 if kind == np.uint8 else 1
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = unit * rng.random((10_000, d), np.float32)
    y = X[:, 0].astype(float) + X[:, 1] > unit
    X.flush()
    del X
    X = np.load(path, mmap_mode="r")
    # The compiler takes memory too, and compiles for arrays that are read-only once more.
    model(max_iter=1).fit(X[:300], y[:300])
    model(max_iter=1).fit(np.array(X[:300]), y[:300])

    def own():
        # Pages of mapped files belong to the cache of the system, not to us.
        with open("/proc/self/status") as status:
            return {k: int(v.split()[0]) / 1024 for k, v in
                    (line.split(":") for line in status if "kB" in line)}["RssAnon"]

    def pieces():
        return ((X[i : i + 10_000], y[i : i + 10_000]) for i in range(0, n, 10_000))

    before, peak, done = own(), [0.0], threading.Event()
    def watch():
        while not done.wait(0.005):
            peak[0] = max(peak[0], own())
    thread = threading.Thread(target=watch); thread.start()
    model = model(max_iter=10, tol=0.1, random_state=0)
    model.fit_chunks(pieces) if way == "chunks" else model.fit(X, y)
    done.set(); thread.join()
    print(peak[0] - before, model.score(X[:1000], y[:1000]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("name", "kind", "order", "way"),
    [
        ("AdditiveSVC", "f4", "C", "whole"),
        ("AdditiveSVC", "f4", "C", "chunks"),
        ("AdditiveSVC", "f4", "F", "whole"),
        ("AdditiveSVC", "u1", "C", "whole"),
        ("IntersectionSVC", "f4", "C", "whole"),
        ("IntersectionSVC", "u1", "C", "whole"),
    ],
)
def test_mapped_data_are_never_copied_whole(tmp_path, name, kind, order, way):
    """160 MB of float32 in a file become 40 MB of codes, and nothing of the size of the data."""
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(MAPPED)]
    command += [str(tmp_path / "X.npy"), name, kind, order, way]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    megabytes, accuracy = map(float, run.stdout.split())
    # Codes take 38 MB, seventeen numbers for each of 400,000 rows 54; a copy of the smallest data 40.
    assert megabytes < 120
    assert accuracy > 0.95


@pytest.mark.parametrize("model", [AdditiveSVC, IntersectionSVC])
@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.float16, np.float32])
def test_small_types_and_other_orders_count_as_float32(digits, model, kind):
    X, y = (16 * digits[0]).astype(kind), digits[1]
    expected = model(C=0.01, random_state=0).fit(X.astype(np.float32), y)
    for given in (X, np.asfortranarray(X)):
        found = model(C=0.01, random_state=0).fit(given, y)
        assert_array_equal(found.decision_function(given), expected.decision_function(X * 1.0))
        assert_array_equal(found.explain(given[:9]), expected.explain(X[:9] * 1.0))


def test_centred_data_of_small_types_are_moved():
    rng = np.random.default_rng(0)
    half = rng.integers(-100, 101, (200, 5))
    X = np.vstack([half, -half]).astype(np.int8)
    y = (X[:, 0] > 0).astype(int)
    with pytest.warns(UserWarning, match="centred"):
        model = AdditiveSVC(C=0.01, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="centred"):
        expected = AdditiveSVC(C=0.01, random_state=0).fit(X.astype(np.float64), y)
    assert_array_equal(model.decision_function(X), expected.decision_function(X.astype(float)))


def test_pandas_labels_pipelines_and_search(digits):
    X, y = digits
    frame = pd.DataFrame(X, columns=[f"pixel {j}" for j in range(64)])
    names = np.array(["zero", "one", "two", "three"])[y % 4]
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(clip=True), AdditiveSVC()), {"additivesvc__C": [0.01, 0.1]}, cv=2
    ).fit(frame[:400], names[:400])
    assert set(search.predict(frame[400:500])) <= set(names)
    model = AdditiveSVC().fit(frame, names)
    assert model.feature_names_in_[3] == "pixel 3"
    assert_array_equal(model.predict(frame.astype(np.float32)), model.predict(frame))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0}, "C: must be greater than 0"),
        ({"kernel": "rbf"}, "kernel: 'rbf' is not additive"),
        ({"p": 0.5, "kernel": "power_mean"}, "p: a power mean is a kernel for p <= 0"),
        ({"rank": 0}, "rank: must be an integer of at least 1"),
        ({"n_bins": 1}, "n_bins: must be"),
        ({"n_bins": 10**6}, "n_bins: must be at most 65,536"),
        ({"binning": "log"}, "binning: must be one of"),
        ({"loss": "log"}, "loss: must be one of"),
        ({"solver": "newton"}, "solver: must be one of"),
        ({"scaling": "std"}, "scaling: must be one of"),
        (
            {"scaling": "max", "kernel": reference.chi2},
            "scaling: not available with a callable kernel",
        ),
        ({"multi_class": "ovo"}, "multi_class: must be one of"),
        ({"max_iter": 0}, "max_iter: must be"),
        ({"tol": -1.0}, "tol: must be greater"),
    ],
)
def test_bad_parameters(digits, params, message):
    with pytest.raises(ValueError, match=message):
        AdditiveSVC(**params).fit(*digits)


def test_negative_features_are_named(digits):
    X, y = digits
    frame = pd.DataFrame(X - 0.01, columns=[f"pixel {j}" for j in range(64)])
    message = r"columns 0 \('pixel 0'\), 1 .* and 59 more: .*MinMaxScaler.*IntersectionSVC"
    with pytest.raises(ValueError, match=message):
        AdditiveSVC().fit(frame, y)
    model = AdditiveSVC().fit(X, y)
    with pytest.raises(ValueError, match="columns 0, 1, 2, 3, 4 and 59 more"):
        model.predict(X - 0.01)


def test_rows_of_zeros_and_constant_columns():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.random((300, 3)), np.full((300, 1), 0.5), np.zeros((300, 1))])
    X[:20] = 0.0
    y = (X[:, 0] > 0.5).astype(int)
    for loss in ("hinge", "squared_hinge"):
        for kernel in ("chi2", "intersection"):
            for form in (np.asarray, sparse.csr_matrix):
                model = AdditiveSVC(loss=loss, kernel=kernel, C=10.0).fit(form(X), y)
                assert np.isfinite(model.decision_function(form(X))).all()
                assert model.score(form(X), y) > 0.9


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_huge_values_are_refused():
    X = 1e154 * np.random.default_rng(0).random((300, 3))
    y = (X[:, 0] > X[:, 1]).astype(int)
    for model in (AdditiveSVC(), AdditiveSVC(solver="sgd"), PowerMeanSVC(), LRSVC(kernel="chi2")):
        with pytest.raises(ValueError, match=r"X: .*scale the features"):
            model.fit(X, y)
    with pytest.raises(ValueError, match="X: kernel values reach"):
        AdditiveSVC().partial_fit(X, y, classes=[0, 1])
    # What divides by the largest value takes any.
    for model in (AdditiveSVC(scaling="max"), IntersectionSVC()):
        assert model.fit(X, y).score(X, y) > 0.9


def test_nothing_but_zeros():
    X, y = np.zeros((250, 3)), np.arange(250) % 2
    for form in (np.asarray, sparse.csr_matrix):
        assert np.isfinite(AdditiveSVC().fit(form(X), y).decision_function(form(X))).all()
        assert np.isfinite(IntersectionSVC().fit(form(X), y).decision_function(form(X))).all()


def test_stopping_early_warns(digits):
    X, y = digits
    with pytest.warns(ConvergenceWarning, match="max_iter=2 passes were made"):
        model = AdditiveSVC(C=10.0, max_iter=2).fit(X, y)
    assert model.stop_reason_ == "max_iter"
    with pytest.warns(ConvergenceWarning, match="max_time"):
        AdditiveSVC(C=10.0, tol=1e-9, max_time=1e-6).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [
        AdditiveSVC(random_state=0),
        AdditiveSVC(kernel="intersection", random_state=0),
        IntersectionSVC(random_state=0),
        PowerMeanSVC(C=1.0, random_state=0),
    ],
    ids=["chi2", "intersection", "icd", "power-mean"],
)
def test_small_problems_are_no_more_work_than_larger_ones(monkeypatch, model):
    """Up to 200 rows are solved further, as long as that is next to nothing."""
    X, y = np.random.default_rng(0).random((201, 2000)), np.arange(201) % 4
    sweep, work = solver.fast.sweep, []

    def count(rows, order, *args):
        coef = args[-4]
        work.append(len(order) * len(coef))
        sweep(rows, order, *args)

    monkeypatch.setattr(solver.fast, "sweep", count)
    totals = []
    for n in (200, 201):
        work.clear()
        model.fit(X[:n], y[:n])
        totals.append(sum(work))
    assert totals[0] < max(2 * totals[1], 2 * 10**8)


@pytest.mark.parametrize(
    "model",
    [
        AdditiveSVC(),
        IntersectionSVC(),
        IntersectionSVC(multi_class="crammer_singer"),
        PowerMeanSVC(),
        LRSVC(),
    ],
    ids=["additive", "icd", "crammer-singer", "power-mean", "lr"],
)
@pytest.mark.parametrize("max_iter", [3, 30])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_passes_that_finish_small_problems_count(digits, model, max_iter):
    X, y = digits
    model.set_params(random_state=0, max_iter=1000).fit(X[:60], y[:60])
    n_needed = np.max(model.n_iter_)
    assert n_needed > max_iter
    model.set_params(max_iter=max_iter).fit(X[:60], y[:60])
    assert np.max(model.n_iter_) == max_iter


def test_a_converged_problem_stays_so_without_passes_to_finish(digits):
    X, y = digits
    for multi_class in ("ovr", "crammer_singer"):
        model = IntersectionSVC(multi_class=multi_class, random_state=0, tol=0.5, max_iter=25)
        model.fit(X[:60], y[:60])
        assert model.stop_reason_ == "converged"
        assert model.violation_ <= 0.5


def test_features_of_very_different_ranges_are_to_be_scaled(digits):
    X, y = load_wine(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match='set scaling="range"'):
        AdditiveSVC(C=1.0, fit_intercept=False, scaling=None, max_iter=10).fit(X, y)
    assert AdditiveSVC(scaling="max", random_state=0).fit(X, y).stop_reason_ == "converged"
    with pytest.warns(ConvergenceWarning, match="scale the features$"):
        AdditiveSVC(scaling="max", max_iter=1).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="scale the features$"):
        AdditiveSVC(max_iter=1).fit(*digits)


def test_progress_is_shown(digits, capsys):
    AdditiveSVC(verbose=2, n_jobs=1, max_iter=1000).fit(*digits)
    assert "[widemargin] pass 1  violation" in capsys.readouterr().err
