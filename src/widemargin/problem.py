"""Records that pass between the layers; all frozen."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels.base import Index


@dataclass(frozen=True)
class Problem:
    """A validated classification problem.

    Attributes
    ----------
    X : ndarray or csr_matrix of shape (n, n_features)
        Finite floats.
    labels : ndarray of shape (n,)
        Class of each row as an index into ``classes``.
    classes : ndarray of shape (n_classes,)
        The labels the user gave, sorted.
    sample_weights : ndarray of shape (n,)
        Weight of each row, positive.
    weights : ndarray of shape (n,)
        Sample weight times class weight; positive.
    kept : ndarray of shape (n,)
        Row of the user's data each row comes from: rows of weight zero are left out.
    """

    X: Any
    labels: NDArray[np.intp]
    classes: NDArray[Any]
    sample_weights: NDArray[np.float64]
    weights: NDArray[np.float64]
    kept: Index


@dataclass(frozen=True)
class Subproblem:
    """One binary question about some of the rows.

    Attributes
    ----------
    index : ndarray of shape (m,)
        Rows of the problem that take part.
    y : ndarray of shape (m,)
        -1.0 or 1.0.
    negative, positive : int
        Classes asked about; ``negative`` is -1 for "all others".
    """

    index: Index
    y: NDArray[np.float64]
    negative: int
    positive: int


def take_rows(problem: Problem, rows: Index) -> Problem:
    """The problem of some of the rows."""
    return replace(
        problem, X=problem.X[rows], labels=problem.labels[rows], kept=problem.kept[rows],
        sample_weights=problem.sample_weights[rows], weights=problem.weights[rows],
    )  # fmt: skip


def split_binary(problem: Problem) -> list[Subproblem]:
    """The single question of a two-class problem: is it ``classes[1]``?"""
    y = np.where(problem.labels == 1, 1.0, -1.0)
    return [Subproblem(np.arange(len(y)), y, 0, 1)]


def split_one_vs_one(problem: Problem) -> list[Subproblem]:
    """One question for each pair of classes, in the order (0, 1), (0, 2), ..., (1, 2), ..."""
    rows = [np.flatnonzero(problem.labels == c) for c in range(len(problem.classes))]
    pairs = []
    for a, b in class_pairs(len(rows)):
        index = np.concatenate([rows[a], rows[b]])
        y = np.repeat([-1.0, 1.0], [len(rows[a]), len(rows[b])])
        pairs.append(Subproblem(index, y, a, b))
    return pairs


def split_one_vs_rest(problem: Problem) -> list[Subproblem]:
    """One question for each class: this one, or any other?"""
    everyone = np.arange(len(problem.labels))
    return [
        Subproblem(everyone, np.where(problem.labels == c, 1.0, -1.0), -1, c)
        for c in range(len(problem.classes))
    ]


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """All pairs a < b in lexicographic order."""
    return [(a, b) for a in range(n_classes) for b in range(a + 1, n_classes)]
