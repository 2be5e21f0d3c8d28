"""The number of basis vectors: by cross-validation, or as many as a given amount of memory holds."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from widemargin.deadline import is_late
from widemargin.kernels import Index
from widemargin.memory import parse_bytes
from widemargin.problem import Problem, take_rows
from widemargin.projected.basis import FloatArray
from widemargin.projected.selection import PathPoint

#: Largest size that cross-validation tries.
AUTO_SIZE = 100
#: Sizes that cross-validation tries for basis vectors that move: each needs a fit of its own.
MOVED_SIZES = 2 ** np.arange(7)
#: Number of folds, and number of held-out rows after which no further fold is evaluated.
AUTO_FOLDS, AUTO_ROWS = 5, 2000
#: Bytes of a number in an exported model.
NUMBER_BYTES = 4


class SizedDecisions(NamedTuple):
    """Decision values of models of several sizes.

    Attributes
    ----------
    decisions : list of ndarray of shape (n_queries, n_functions)
        Decision values at each size.
    objectives : ndarray of shape (n_sizes,)
        J at each size, summed over the binary problems.
    """

    decisions: list[FloatArray]
    objectives: FloatArray


def find_size(
    problem: Problem,
    sizes: Index,
    fit_sizes: Callable[[Problem, Any], SizedDecisions],
    *,
    deadline: float | None,
    seed: int,
) -> tuple[int, list[PathPoint]]:
    """Choose the smallest size whose accuracy on held-out rows is close to the best.

    Parameters
    ----------
    problem : Problem
        The training data.
    sizes : ndarray
        The sizes to compare, in increasing order.
    fit_sizes : callable
        Called with the training rows of a fold and its held-out rows; returns the decision values of
        the held-out rows at every size.
    deadline : float or None
        Time after which no further fold is evaluated.
    seed : int
        Seed of the division into folds.

    Returns
    -------
    size : int
        The chosen size, see `find_knee`.
    path : list of PathPoint
        Mean objective and held-out accuracy at every size.
    """
    n_folds = min(AUTO_FOLDS, int(np.bincount(problem.labels).min()))
    if n_folds < 2:
        raise ValueError(
            "n_basis: 'auto' holds rows out and needs at least two rows of every class; give a number "
            "of basis vectors instead"
        )
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    correct, objectives, rows = [], [], np.empty(0, np.intp)
    for kept, held_out in folds.split(problem.labels, problem.labels):
        found = fit_sizes(take_rows(problem, kept), problem.X[held_out])
        predicted = [predict_labels(decisions) for decisions in found.decisions]
        correct.append(np.array(predicted) == problem.labels[held_out])
        objectives.append(found.objectives)
        rows = np.append(rows, held_out)
        if len(rows) >= AUTO_ROWS or is_late(deadline):
            break
    weights = problem.sample_weights[rows]
    knee, accuracies = find_knee(np.hstack(correct), weights / weights.sum())
    points = zip(sizes, np.mean(objectives, axis=0), accuracies, strict=True)
    path = [
        PathPoint(int(size), float(objective), float(accuracy))
        for size, objective, accuracy in points
    ]
    return int(sizes[knee]), path


def find_knee(
    correct: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[int, NDArray[np.float64]]:
    """Return the first size within one standard error of the best accuracy, and all accuracies.

    The standard error is that of the difference between the two accuracies. Only rows that exactly
    one of the two models classifies correctly contribute to it.

    Parameters
    ----------
    correct : ndarray of shape (n_sizes, n)
        Whether each held-out row is classified correctly at each size.
    weights : ndarray of shape (n,)
        Weight of each row; they sum to one.
    """
    accuracies = correct @ weights
    best = int(np.argmax(accuracies))
    errors = np.sqrt((correct != correct[best]) @ np.square(weights))
    # Accuracies of equal predictions may differ by rounding errors.
    enough = accuracies[best] - errors - 1e-12
    return int(np.argmax(accuracies >= enough)), accuracies


def predict_labels(decisions: FloatArray) -> NDArray[Any]:
    """Return the index of the predicted class for each row of decision values."""
    return decisions[:, 0] >= 0 if decisions.shape[1] == 1 else decisions.argmax(axis=1)


def fit_each_size(
    fit_one: Callable[[int], tuple[FloatArray, float, int]], sizes: Index, deadline: float | None
) -> SizedDecisions:
    """Fit one model after another, and repeat the last where a larger size would change nothing.

    That is after the deadline, and after a basis that stopped growing before the requested size: its
    rows are separated, or no candidate is independent of it.

    Parameters
    ----------
    fit_one : callable
        Called with a size; returns the decision values, J, and the number of vectors of the largest
        basis.
    sizes : ndarray
        The sizes, in increasing order.
    deadline : float or None
        Time after which no further model is fitted.
    """
    decisions: list[FloatArray] = []
    objectives: list[float] = []
    is_full = True
    for size in sizes:
        if not decisions or (is_full and not is_late(deadline)):
            found, objective, n_vectors = fit_one(int(size))
            is_full = n_vectors >= size
        decisions.append(found)
        objectives.append(objective)
    return SizedDecisions(decisions, np.array(objectives))


def count_affordable(amount: str, n_features: int, n_functions: int, n_bases: int) -> int:
    """Return how many vectors each basis may have in a model of at most an amount such as "4 kB".

    The model has a vector and ``n_functions`` coefficients for each basis vector, and one intercept
    for each function, all in float32.
    """
    try:
        n_bytes = parse_bytes(amount, name="n_basis")
    except ValueError as error:
        raise ValueError(explain_basis(amount)) from error
    each = NUMBER_BYTES * n_bases * (n_features + n_functions)
    size = (n_bytes - NUMBER_BYTES * n_functions) // each
    if size < 1:
        raise ValueError(
            f"n_basis: {amount!r} is too little; one basis vector for each of {n_bases} "
            f"problem(s) takes {each + NUMBER_BYTES * n_functions:,} bytes; give at least that"
        )
    return size


def explain_basis(n_basis: Any) -> str:
    """Return the error message for a value of ``n_basis`` that is not allowed."""
    return (
        f"n_basis: {n_basis!r} is not allowed; give a positive number of vectors, a share of the rows "
        "between 0 and 1, an amount such as '4 kB', or 'auto'"
    )
