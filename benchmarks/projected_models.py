"""Models of the experiments with sparse machines, their parameters, and how one is judged."""

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.experiments import Row
from benchmarks.projected_sets import OWN_SPLITS, Case, Figures
from benchmarks.settings import THREADS
from benchmarks.storage import read_measurements
from benchmarks.timing import time_call
from widemargin import ProjectedSVC
from widemargin.baselines import SpSVC

RESULTS = Path("benchmarks", "results", "projected.jsonl")
#: Powers of two for C, and for gamma times twice the scale of the data: every second and every third
#: of the paper's.
P_GRID = tuple(range(-4, 15, 2))
Q_GRID = (-4.5, -3.6, -2.7, -1.8, -0.9, 0.0, 0.9, 1.8, 2.7, 3.6, 4.5)
#: Folds of the cross-validation; more for sets of a few dozen rows.
N_FOLDS, N_FOLDS_SMALL, SMALL_ROWS = 3, 5, 100
REPEATS = 5
#: Candidates that PSVM draws where it does not take all rows.
DRAWN = 500
#: Published and own accuracy agree if they differ by no more standard errors of the test set.
STANDARD_ERRORS = 2.0
#: Data count as the paper's if their scale differs by no more, relatively.
SCALE_TOL = 1e-3


def libsvm(case: Case, p: float, q: float) -> Any:
    model = SVC(**parameters(case, p, q), cache_size=500)
    return model if case.n_problems == 1 else OneVsRestClassifier(model)


def psvm(case: Case, p: float, q: float, **more: Any) -> ProjectedSVC:
    given: dict[str, Any] = {"n_basis": case.paper.n_psvm, "random_state": 0} | more
    return ProjectedSVC(**parameters(case, p, q), n_jobs=1, **given)


def spsvm(case: Case, p: float, q: float, **more: Any) -> SpSVC:
    given: dict[str, Any] = {"n_basis": case.paper.n_spsvm, "random_state": 0} | more
    return SpSVC(**parameters(case, p, q), n_jobs=1, **given)


def parameters(case: Case, p: float, q: float) -> dict[str, Any]:
    return {"C": 2.0**p, "gamma": 2.0**q / (2.0 * case.scale)}


METHODS = {"LIBSVM": libsvm, "PSVM": psvm, "SpSVM": spsvm}


def published(case: Case) -> dict[str, Figures]:
    return {"LIBSVM": case.paper.libsvm, "PSVM": case.paper.psvm, "SpSVM": case.paper.spsvm}


def fit_quietly(model: Any, X: Any, y: NDArray[Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def time_once(model: Any, case: Case) -> float:
    """Seconds of a fit on one thread."""
    with threadpool_limits(limits=1):
        return time_call(lambda: fit_quietly(model, case.X_train, case.y_train)).seconds


def time_fit(model: Any, case: Case) -> float:
    """Least seconds of some fits on one thread."""
    return min(time_once(model, case) for _ in range(REPEATS))


def accuracy(model: Any, X: Any, y: NDArray[Any]) -> float:
    """In percent."""
    return 100.0 * float(np.mean(model.predict(X) == y))


def count_vectors(model: Any) -> int:
    """Support or basis vectors, summed over the classes."""
    if isinstance(model, OneVsRestClassifier):
        return sum(len(part.support_) for part in model.estimators_)
    return len(model.support_) if isinstance(model, SVC) else int(np.sum(model.n_basis_))


def measure_objective(model: Any, X: Any, y: NDArray[Any]) -> float:
    """``w' K w + C sum max(0, error)^2`` from the coefficients, summed over the classes."""
    K = rbf_kernel(X, model.basis_vectors_, gamma=model.kernel_.gamma)
    K_B = rbf_kernel(model.basis_vectors_, gamma=model.kernel_.gamma)
    decisions = K @ model.coef_.T + model.intercept_
    positive = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    signs = np.where(y[:, None] == positive, 1.0, -1.0)
    loss = np.sum(np.maximum(1.0 - signs * decisions, 0.0) ** 2)
    return float(np.einsum("ij,jk,ik->", model.coef_, K_B, model.coef_) + model.C * loss)


def choose(method: str, case: Case) -> tuple[float, float]:
    """The (p, q) with the best accuracy in cross-validation on the training rows.

    Of several the one with the smallest C, then the widest kernel.
    """
    n_folds = N_FOLDS_SMALL if len(case.y_train) < SMALL_ROWS else N_FOLDS
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    splits = list(folds.split(case.y_train, case.y_train))
    grid = list(product(P_GRID, Q_GRID))
    scores = Parallel(n_jobs=THREADS)(
        delayed(cross_validate)(METHODS[method](case, p, q), case, splits) for p, q in grid
    )
    best = max(scores)
    return next(point for point, score in zip(grid, scores, strict=True) if score == best)


def cross_validate(model: Any, case: Case, splits: list[tuple[Any, Any]]) -> int:
    """Rows classified correctly while they are held out."""
    n_right = 0
    for kept, held_out in splits:
        fit_quietly(model, case.X_train[kept], case.y_train[kept])
        predicted = model.predict(case.X_train[held_out])
        n_right += int(np.count_nonzero(predicted == case.y_train[held_out]))
    return n_right


def compare(method: str, case: Case, p: float, q: float) -> Row:
    """A fit beside the row of the paper."""
    model = METHODS[method](case, p, q)
    seconds = time_fit(model, case)
    theirs = published(case)[method]
    test = accuracy(model, case.X_test, case.y_test)
    is_basis = method != "LIBSVM"
    return {
        "data": case.name,
        "model": method,
        "p, q": f"{p:g}, {q:g}",
        "vectors": count_vectors(model),
        "train (%)": accuracy(model, case.X_train, case.y_train),
        "test (%)": test,
        "fit (s)": seconds,
        "J": measure_objective(model, case.X_train, case.y_train) if is_basis else None,
        "paper: p, q": f"{theirs.p:g}, {theirs.q:g}",
        "paper: vectors": theirs.vectors,
        "paper: train (%)": theirs.train,
        "paper: test (%)": theirs.test,
        "test accuracy": judge(case, test, theirs.test),
    }


def judge(case: Case, test: float, theirs: float) -> str:
    """Own test accuracy beside the published one, in a word."""
    if abs(case.scale / case.paper.scale - 1.0) > SCALE_TOL:
        return "not comparable: other scaling, own split"
    share = theirs / 100.0
    error = 100.0 * np.sqrt(share * (1.0 - share) / len(case.y_test))
    word = "better" if test > theirs else "worse"
    word = "reproduced" if abs(test - theirs) <= STANDARD_ERRORS * error else word
    return f"{word} (own split)" if case.name in OWN_SPLITS else word


def chosen(case: Case, method: str) -> tuple[float, float]:
    """The (p, q) that the experiment ``tables`` chose."""
    for measurement in read_measurements(RESULTS):
        if measurement["experiment"] == "tables":
            for row in measurement["rows"]:
                if (row["data"], row["model"]) == (case.name, method):
                    p, q = row["p, q"].split(", ")
                    return float(p), float(q)
    raise LookupError(f"{RESULTS} has no parameters for {case.name}; run --only tables first")
