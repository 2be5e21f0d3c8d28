"""Additive kernels: exact machines beside them, what a pass costs, and parameters."""

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from benchmarks.additive_models import compile_on, histograms, judge, pass_seconds
from benchmarks.experiments import Row
from benchmarks.timing import time_call
from widemargin import AdditiveSVC, IntersectionSVC, PowerMeanSVC
from widemargin.baselines import FourierSVC
from widemargin.datasets import load
from widemargin.kernels import Chi2, Intersection
from widemargin.validation import validate_problem


def run_exact_peer() -> Iterator[Row]:
    """Beside the exact machine: `SVC` on a precomputed intersection kernel, 20,000 rows of covtype.

    Features are quantised to 0..100 as IntersectionSVC does; hinge loss, C = 1e-3. The kernel
    matrices, for training and test rows, are ours; their time is a row of its own. One thread; of
    fits that take less than a second the best of three.
    """
    source = load("covtype")
    X = source.X_train.astype(np.float64)
    y = np.where(source.y_train == 2, 1, -1)
    order = np.random.RandomState(0).permutation(len(y))
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    train, test = order[:20_000], order[20_000:30_000]
    parts = (X[train], y[train], X[test], y[test])
    one = {"n_jobs": 1, "random_state": 0, "loss": "hinge"}
    IntersectionSVC(max_iter=1, **one).fit(X[train], y[train]).predict(X[test][:300])
    AdditiveSVC(C=1.0, max_iter=1, **one).fit(X[train][:600], y[train][:600]).predict(X[test][:300])
    model = IntersectionSVC(**one)
    yield judge("IntersectionSVC", model, parts)
    code = model.quantiser_.encode
    A = code(X[train]).values.reshape(-1, 54).astype(np.float32)
    B = code(X[test]).values.reshape(-1, 54).astype(np.float32)
    matrices = time_call(lambda: (Intersection()(A), Intersection()(B, A)))
    yield {"model": "kernel matrices", "fit (s)": matrices.seconds}
    K, L = matrices.value
    exact = SVC(kernel="precomputed", C=1e-3, cache_size=2000)
    yield judge("SVC, precomputed", exact, (K.astype(np.float64), y[train], L, y[test]))
    del K, L, matrices
    yield judge("AdditiveSVC chi2", AdditiveSVC(C=1.0, **one), parts)
    K, L = Chi2()(X[train]), Chi2()(X[test], X[train])
    exact = SVC(kernel="precomputed", C=1.0, cache_size=2000)
    yield judge("SVC, precomputed chi2", exact, (K.astype(np.float64), y[train], L, y[test]))


def run_bandwidth() -> Iterator[Row]:
    """How near a pass is to reading memory: 200,000 rows, 500 dense features, 2 classes, one thread.

    The peer is NumPy's sum of the codes, the best of five. A pass is a fifth of the time of six passes
    less that of one, each the best of three.
    """
    rng = np.random.default_rng(0)
    X = rng.random((200_000, 500), np.float32)
    y = X[:, :50].sum(axis=1) > 25
    model = AdditiveSVC(C=0.001, n_jobs=1, random_state=0)
    model.fit(X[:600], y[:600])
    warnings.simplefilter("ignore", ConvergenceWarning)
    one_pass = pass_seconds(model.set_params(tol=0.001), X, y)
    codes = model.quantiser_.encode(X).values
    plain = time_call(codes.sum, 5).seconds
    yield {"what": "one pass", "seconds": one_pass, "GB/s": codes.nbytes / one_pass / 1e9}
    yield {"what": "numpy sum of the codes", "seconds": plain, "GB/s": codes.nbytes / plain / 1e9}


def run_traffic() -> Iterator[Row]:
    """Table V of PmSVM: what a feature value costs in a pass, caltech101, one class against the rest.

    Nanoseconds are those of six passes less those of one, each the best of three, by the number of
    stored values, one thread; rows that rest count as visited. Bytes are those stored for a value.
    """
    X, y, _, _ = histograms("caltech101_bow")
    y = y == y[0]
    one = {"n_jobs": 1, "random_state": 0, "C": 1e3, "tol": 1e-9}
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, model in {
        "PmSVM-LUT": PowerMeanSVC(lut=True, anchors="chebyshev", fit_intercept=False, **one),
        "PmSVM": PowerMeanSVC(fit_intercept=False, **one),
        "fm": FourierSVC(**one),
        "AdditiveSVC": AdditiveSVC(**one),
    }.items():
        one_pass = pass_seconds(model, X, y)
        rows = model._represent(validate_problem(model, X, y, None, None, precomputed=False)).rows
        stored = sum(part.nbytes for part in (rows.codes, rows.gaps, rows.indptr))
        yield {
            "method": name,
            "ns a value": 1e9 * one_pass / X.nnz,
            "bytes stored a value": stored / X.nnz,
            "numbers a value": rows.rank,
            "table (kB)": rows.read.nbytes / 1e3,
        }


def run_million() -> Iterator[Row]:
    """Synthetic histograms with 1,000 features, two classes; two threads; growth with rows."""
    for n in (125_000, 250_000, 500_000, 1_000_000):
        rng = np.random.default_rng(0)
        X = np.empty((n, 1000), np.uint8)
        y = np.empty(n, bool)
        for start in range(0, n, 25_000):
            part = rng.poisson(4.0, (25_000, 1000))
            y[start : start + 25_000] = part[:, :20].sum(axis=1) + rng.normal(0, 8, 25_000) > 80
            X[start : start + 25_000] = part
        pieces = [
            (X[start : start + 25_000], y[start : start + 25_000]) for start in range(0, n, 25_000)
        ]
        model = AdditiveSVC(C=1e-4, n_jobs=2, random_state=0)
        if n == 125_000:
            AdditiveSVC(n_jobs=2, max_iter=1, tol=10.0).fit_chunks(pieces[:1])
        fit = time_call(lambda: model.fit_chunks(pieces))  # noqa: B023
        yield {
            "rows": n,
            "fit (s)": fit.seconds,
            "passes": int(model.n_iter_),
            "codes (GB)": n * 1000 / 1e9,
            "accuracy on 25,000 training rows (%)": 100.0 * model.score(*pieces[0]),
        }


def run_power() -> Iterator[Row]:
    """Figure 3 of PmSVM: accuracy and time against the exponent, on scene15; one thread.

    Without the table of PmSVM-LUT, in which the exponent would not matter to the time.
    """
    parts = histograms("scene15_bow")
    compile_on(parts)
    for q in range(-4, 5):
        model = PowerMeanSVC(C=0.01, p=-(2.0**q), fit_intercept=False, n_jobs=1, random_state=0)
        yield {"p": f"{-(2.0**q):g}"} | judge("PowerMeanSVC", model, parts)


def run_cost() -> Iterator[Row]:
    """Figure 1 of ICD: accuracy against C on caltech101, beside LIBLINEAR; two threads."""
    parts = histograms("caltech101_bow")
    for factor in (0.01, 0.1, 1.0, 10.0, 100.0):
        row: Row = {"C / default": factor}
        for name, model in {
            "IntersectionSVC": IntersectionSVC(
                C=1e-3 * factor, fit_intercept=False, random_state=0
            ),
            "AdditiveSVC chi2": AdditiveSVC(C=0.1 * factor, random_state=0),
            "PowerMeanSVC p=-8": PowerMeanSVC(
                C=0.01 * factor,
                p=-8.0,
                lut=True,
                anchors="chebyshev",
                fit_intercept=False,
                random_state=0,
            ),
            "LinearSVC": LinearSVC(C=factor, tol=0.1, random_state=0),
        }.items():
            row[f"{name} (%)"] = judge(name, model, parts)["accuracy (%)"]
        yield row
