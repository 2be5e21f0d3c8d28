"""Additive kernels: accuracy, time and memory beside linear and exact machines.

``python -m benchmarks additive`` runs every experiment in a process of its own, on one thread unless
it says otherwise, and keeps its rows in ``benchmarks/results/additive.jsonl``;
``python -m benchmarks additive --render PAGE`` makes the page.
"""

import sys
import time
import timeit
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from benchmarks.experiments import Experiments, Row, run_here
from widemargin import AdditiveSVC, IntersectionSVC, PowerMeanSVC
from widemargin.additive.power_mean_table import PAPER_ANCHORS, chebyshev_anchors, regression_tables
from widemargin.additive.scalar_kernels import ScalarKernel, make_scalar_kernel
from widemargin.additive.spectral_table import spectral_table
from widemargin.baselines import FourierSVC
from widemargin.baselines.fourier import choose_interval, map_values
from widemargin.datasets import load
from widemargin.kernels import Chi2, Intersection
from widemargin.validation import validate_problem

TITLE = "Additive kernels: measurements"
RESULTS = Path("benchmarks", "results", "additive.jsonl")
Parts = tuple[Any, Any, Any, Any]
#: Numbers between which kernels are approximated, and which of them stands for 0.09.
GRID = (np.arange(1000) + 0.5) / 1000
FIXED = int(0.09 * len(GRID))
#: Seconds below which a fit is repeated.
SHORT = 1.0
#: The approximation that PmSVM recommends.
PAPER_TABLE = "PmSVM, paper's anchors"


def histograms(name: str) -> Parts:
    """Bags of words, as `divide_by_largest` has them."""
    return divide_by_largest(*counts(name))


def divide_by_largest(X: Any, y: Any, Z: Any, z: Any) -> Parts:
    """Every column divided by its largest count in training."""
    largest = np.maximum(X.max(axis=0).toarray().ravel(), 1.0)
    scale = sparse.diags(1.0 / largest)
    return (X @ scale).tocsr(), y, (Z @ scale).tocsr(), z


def scaled(name: str) -> Parts:
    """Dense features scaled to [0, 1] by their range in training, and clipped."""
    source = load(name)
    X, Z = (np.asarray(part, np.float64) for part in (source.X_train, source.X_test))
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return (
        (X - low) / width, source.y_train, np.clip((Z - low) / width, 0.0, 1.0), source.y_test,
    )  # fmt: skip


def counts(name: str) -> Parts:
    """Sparse counts as they are."""
    source = load(name)
    X, Z = source.X_train.astype(np.float64), source.X_test.astype(np.float64)
    return X, source.y_train, Z, source.y_test


def fit_seconds(model: Any, X: Any, y: Any) -> float:
    """How long one fit takes."""
    began = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - began


def pass_seconds(model: Any, X: Any, y: Any) -> float:
    """How long one pass takes: that of six less that of one, each the best of three fits."""
    best = {}
    for passes in (1, 6):
        model.set_params(max_iter=passes)
        best[passes] = min(fit_seconds(model, X, y) for _ in range(3))
    return (best[6] - best[1]) / 5


def judge(name: str, model: Any, parts: Parts) -> Row:
    """One row: seconds to fit, the best of three if short, and to predict, and accuracy."""
    X, y, Z, z = parts
    warnings.simplefilter("ignore", ConvergenceWarning)
    seconds = fit_seconds(model, X, y)
    if seconds < SHORT:
        seconds = min(seconds, *(fit_seconds(model, X, y) for _ in range(2)))
    began = time.perf_counter()
    predicted = model.predict(Z)
    done = time.perf_counter()
    passes = getattr(model, "n_iter_", None)
    return {
        "model": name,
        "fit (s)": seconds,
        "predict (s)": done - began,
        "accuracy (%)": 100.0 * float(np.mean(predicted == z)),
        "passes": None if passes is None else int(np.max(passes)),
    }


def compile_on(parts: Parts) -> None:
    """Compile what the fits below will use."""
    X, y, Z, _ = parts
    few = np.sort(np.random.default_rng(0).permutation(len(y))[:600])
    for model in ours(1.0).values():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_iter=2).fit(X[few], y[few]).predict(Z[:300])


def ours(C: float) -> dict[str, Any]:
    one = {"n_jobs": 1, "random_state": 0}
    return {
        f"AdditiveSVC chi2, C={C:g}": AdditiveSVC(C=C, **one),
        f"AdditiveSVC intersection, C={C:g}": AdditiveSVC(C=C, kernel="intersection", **one),
        "IntersectionSVC": IntersectionSVC(**one),
        "PowerMeanSVC chi2": PowerMeanSVC(**one),
        "PowerMeanSVC chi2, table": PowerMeanSVC(lut=True, anchors="chebyshev", **one),
        "PowerMeanSVC p=-8, table": PowerMeanSVC(p=-8.0, lut=True, anchors="chebyshev", **one),
    }


def peers(is_large: bool = False) -> dict[str, Any]:
    """LIBLINEAR on raw features and on those of chi-square; also with our tolerance."""
    found = {
        "LinearSVC, tol=0.1": LinearSVC(tol=0.1, random_state=0),
        "AdditiveChi2Sampler + LinearSVC, tol=0.1": make_pipeline(
            AdditiveChi2Sampler(), LinearSVC(tol=0.1, random_state=0)
        ),
        "LinearSVC": LinearSVC(random_state=0),
    }
    if not is_large:
        found["AdditiveChi2Sampler + LinearSVC"] = make_pipeline(
            AdditiveChi2Sampler(), LinearSVC(random_state=0)
        )
    return found


def compare(parts: Parts, C: float, is_large: bool = False) -> Iterator[Row]:
    compile_on(parts)
    for name, model in (ours(C) | peers(is_large)).items():
        yield judge(name, model, parts)


def run_scene15() -> Iterator[Row]:
    """Scenes as bags of words: 1,500 rows, 21,000 sparse features, 15 classes; one thread."""
    return compare(histograms("scene15_bow"), 0.1)


def run_scene15_splits() -> Iterator[Row]:
    """Scenes drawn anew: is `AdditiveSVC` as accurate as LIBLINEAR on chi-square features? One thread.

    Each time 100 images of every class for training, the others for testing.
    """
    given = counts("scene15_bow")
    compile_on(divide_by_largest(*given))
    X, y = sparse.vstack(given[::2], "csr"), np.concatenate(given[1::2])
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        train = np.concatenate([order[y[order] == label][:100] for label in np.unique(y)])
        test = np.setdiff1d(order, train)
        parts = divide_by_largest(X[train], y[train], X[test], y[test])
        row: Row = {"split": seed}
        for name, model in {
            "AdditiveSVC": AdditiveSVC(C=0.1, n_jobs=1, random_state=0),
            "sampler + LinearSVC": peers()["AdditiveChi2Sampler + LinearSVC"],
        }.items():
            judged = judge(name, model, parts)
            row |= {f"{name} (%)": judged["accuracy (%)"], f"{name} (s)": judged["fit (s)"]}
        yield row


def run_caltech101() -> Iterator[Row]:
    """Objects as bags of words: 1,515 rows, 21,000 sparse features, 101 classes; one thread.

    `LinearSVC` with its own tolerance only on the raw features.
    """
    return compare(histograms("caltech101_bow"), 0.1, is_large=True)


def run_shuttle() -> Iterator[Row]:
    """Shuttle: 43,500 rows, 9 features scaled to [0, 1], 7 classes; one thread."""
    return compare(scaled("shuttle"), 10.0)


def run_ijcnn1() -> Iterator[Row]:
    """ijcnn1: 49,990 rows, 22 features scaled to [0, 1], 2 classes; one thread."""
    return compare(scaled("ijcnn1"), 1.0)


def run_mnist() -> Iterator[Row]:
    """Pixels of digits: 60,000 rows, 784 features in [0, 1], 10 classes; one thread.

    `LinearSVC` with its own tolerance only on the raw features.
    """
    source = load("mnist")
    X, Z = (part.reshape(len(part), -1) / 255.0 for part in (source.X_train, source.X_test))
    return compare((X, source.y_train, Z, source.y_test), 0.01, is_large=True)


def run_covtype() -> Iterator[Row]:
    """covtype: 464,810 rows, 54 features scaled to [0, 1], class 2 against the rest; one thread."""
    source = load("covtype")
    X = np.concatenate([source.X_train, source.X_test]).astype(np.float64)
    y = np.where(np.concatenate([source.y_train, source.y_test]) == 2, 1, -1)
    order = np.random.RandomState(0).permutation(len(y))
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    train, test = order[:464_810], order[464_810:]
    return compare((X[train], y[train], X[test], y[test]), 0.1)


def run_news20() -> Iterator[Row]:
    """Twenty newsgroups: 11,314 rows, 130,107 sparse counts, 20 classes; one thread.

    The intersection kernel with a value for every bin is left out: its curves would need gigabytes.
    """
    parts = counts("news20_bydate_counts")
    one = {"n_jobs": 1, "random_state": 0}
    X, y, Z, _ = parts
    AdditiveSVC(max_iter=2, **one).fit(X[:600], y[:600]).predict(Z[:300])
    yield judge("AdditiveSVC chi2, C=0.1", AdditiveSVC(C=0.1, **one), parts)
    yield judge(
        "AdditiveSVC hellinger, C=0.1", AdditiveSVC(C=0.1, kernel="hellinger", **one), parts
    )
    yield judge("LinearSVC, tol=0.1", LinearSVC(tol=0.1, random_state=0), parts)
    yield judge("AdditiveChi2Sampler + LinearSVC, tol=0.1", make_pipeline(
        AdditiveChi2Sampler(), LinearSVC(tol=0.1, random_state=0)), parts)  # fmt: skip


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
    began = time.perf_counter()
    K, L = Intersection()(A), Intersection()(B, A)
    yield {"model": "kernel matrices", "fit (s)": time.perf_counter() - began}
    exact = SVC(kernel="precomputed", C=1e-3, cache_size=2000)
    yield judge("SVC, precomputed", exact, (K.astype(np.float64), y[train], L, y[test]))
    del K, L
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
    plain = min(timeit.repeat(codes.sum, number=1, repeat=5))
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
        "PmSVM-LUT": PowerMeanSVC(lut=True, **one),
        "PmSVM": PowerMeanSVC(**one),
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
        began = time.perf_counter()
        model.fit_chunks(pieces)
        yield {
            "rows": n,
            "fit (s)": time.perf_counter() - began,
            "passes": int(model.n_iter_),
            "codes (GB)": n * 1000 / 1e9,
            "accuracy on 25,000 training rows (%)": 100.0 * model.score(*pieces[0]),
        }


def make_tables() -> dict[str, Callable[[ScalarKernel], tuple[Any, Any]]]:
    """Approximations of a kernel on the grid: two tables whose product stands in for its matrix."""
    tables: dict[str, Callable[[ScalarKernel], tuple[Any, Any]]] = {
        PAPER_TABLE: lambda k: regression_tables(k, GRID, np.array(PAPER_ANCHORS), 0.05)
    }
    for n in (3, 4, 5, 6):
        tables[f"PmSVM, {n} Chebyshev anchors"] = lambda k, n=n: regression_tables(
            k, GRID, chebyshev_anchors(n), 0.05
        )
    for rank in (3, 4, 6, 8):
        tables[f"spectral, rank {rank}"] = lambda k, rank=rank: (
            (spectral_table(k, GRID, np.ones(len(GRID)), rank).table,) * 2
        )
    sampler = AdditiveChi2Sampler().fit_transform(GRID[:, None])
    tables["AdditiveChi2Sampler, 3 columns"] = lambda k: (sampler, sampler)
    for n in (2, 3, 4):
        tables[f"Fourier map, {2 * n - 1} columns"] = lambda k, n=n: (
            (map_values(GRID, k.name, n, choose_interval(k.name, n)),) * 2
        )
    return tables


def run_approximation() -> Iterator[Row]:
    """Figures 1, 2 and 4 of PmSVM: mean deviation from the kernel on a uniform grid of (0, 1)^2.

    The paper: 5.5e-3 and 1.94 % for chi-square with its three anchors; 3.6e-3 for the intersection
    along y = 0.09, there with 6.3e-3 for the Fourier map. Spectral tables are weighted uniformly.
    """
    for name, make in make_tables().items():
        row: Row = {"table": name}
        for kernel in ("chi2", "intersection"):
            if kernel == "intersection" and "Chi2" in name:
                continue
            scalar = make_scalar_kernel(kernel)
            read, write = make(scalar)
            exact = scalar(GRID, GRID)
            error = np.abs(read @ write.T - exact)
            row[f"{kernel}: mean"] = float(error.mean())
            row[f"{kernel}: relative (%)"] = float(100 * (error / exact).mean())
            row[f"{kernel}: mean at 0.09"] = float(error[:, FIXED].mean())
        yield row


def run_power() -> Iterator[Row]:
    """Figure 3 of PmSVM: accuracy and time against the exponent, on scene15; one thread."""
    parts = histograms("scene15_bow")
    compile_on(parts)
    for q in range(-4, 5):
        model = PowerMeanSVC(p=-(2.0**q), lut=True, n_jobs=1, random_state=0)
        yield {"p": f"{-(2.0**q):g}"} | judge("PowerMeanSVC, table", model, parts)


def run_cost() -> Iterator[Row]:
    """Figure 1 of ICD: accuracy against C on caltech101, beside LIBLINEAR; two threads."""
    parts = histograms("caltech101_bow")
    for factor in (0.01, 0.1, 1.0, 10.0, 100.0):
        row: Row = {"C / default": factor}
        for name, model in {
            "IntersectionSVC": IntersectionSVC(C=1e-3 * factor, random_state=0),
            "AdditiveSVC chi2": AdditiveSVC(C=0.1 * factor, random_state=0),
            "PowerMeanSVC p=-8": PowerMeanSVC(C=0.01 * factor, p=-8.0, lut=True, random_state=0),
            "LinearSVC": LinearSVC(C=factor, tol=0.1, random_state=0),
        }.items():
            row[f"{name} (%)"] = judge(name, model, parts)["accuracy (%)"]
        yield row


EXPERIMENTS: Experiments = {
    "scene15": run_scene15,
    "scene15-splits": run_scene15_splits,
    "mnist": run_mnist,
    "covtype": run_covtype,
    "caltech101": run_caltech101,
    "shuttle": run_shuttle,
    "ijcnn1": run_ijcnn1,
    "news20": run_news20,
    "exact-peer": run_exact_peer,
    "bandwidth": run_bandwidth,
    "traffic": run_traffic,
    "million": run_million,
    "approximation": run_approximation,
    "power": run_power,
    "cost": run_cost,
}


if __name__ == "__main__":
    run_here(EXPERIMENTS, sys.argv[1])
