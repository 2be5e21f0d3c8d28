"""The least that a fit cut short must reach: as many rows right as the largest class has."""

import numpy as np
from numpy.typing import NDArray

from widemargin.problem import Problem, take_rows

#: Rows that tell whether a fit is better than the largest class, where decisions of all take long.
JUDGED_ROWS = 4096
#: Standard errors by which a model must be better than the largest class on a sample of the rows.
CLEAR = 2.0


class RunningVote:
    """The class that each training row is given by decisions that come one after another.

    Parameters
    ----------
    problem : Problem
        The rows, with their labels and weights.
    """

    def __init__(self, problem: Problem) -> None:
        n = len(problem.labels)
        self.problem = problem
        # Of two classes the decision is that of the second, against zero for the first.
        self._is_binary = len(problem.classes) == 2
        self._n_added = 1 if self._is_binary else 0
        self._highest = np.zeros(n) if self._is_binary else np.full(n, -np.inf)
        self._labels = np.zeros(n, np.intp)

    def add(self, decisions: NDArray[np.float64]) -> None:
        """Take up the decisions of the next classes, shape (n_more, n)."""
        for more in decisions:
            # Of two classes a tie is the second's, of more the first's, as in predictions.
            is_higher = more >= self._highest if self._is_binary else more > self._highest
            self._labels[is_higher] = self._n_added
            np.maximum(self._highest, more, out=self._highest)
            self._n_added += 1

    def weigh_right(self) -> float:
        """Weight of the rows that are right."""
        return float(self.problem.weights[self._labels == self.problem.labels].sum())

    def beats_majority(self, *, of_sample: bool = False) -> bool:
        """Whether at least as many rows are right, by weight, as belong to the largest class.

        Of a sample of the rows, clearly more have to be: else the model could be worse on all rows.
        """
        labels, weights = self.problem.labels, self.problem.weights
        sizes = np.bincount(labels, weights)
        # On rows that are given the largest class, the model is as good as that class.
        differs = weights[self._labels != sizes.argmax()]
        margin = CLEAR * float(np.sqrt(differs @ differs)) if of_sample else 0.0
        # Sums of the same weights in another order.
        return bool(self.weigh_right() - margin >= (1.0 - 1e-12) * sizes.max())


def judged_rows(problem: Problem) -> Problem:
    """Some of the rows, if judging all would take long."""
    return take_rows(problem, choose_judged(len(problem.labels)))


def choose_judged(n: int) -> NDArray[np.intp]:
    """Numbers of the rows that are judged, among ``n``."""
    return np.arange(0, n, -(-n // JUDGED_ROWS))


def constant_intercept(problem: Problem) -> NDArray[np.float64]:
    """Decisions, one for each function, that name the largest class by weight."""
    largest = int(np.argmax(np.bincount(problem.labels, problem.weights)))
    if len(problem.classes) == 2:
        return np.array([1.0 if largest == 1 else -1.0])
    return np.where(np.arange(len(problem.classes)) == largest, 1.0, -1.0)
