"""Folds of a cross-validation: the dual problems of their training rows, and the held-out rows."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index
from widemargin.problem import (
    Problem,
    split_binary,
    split_one_vs_one,
    split_one_vs_rest,
)
from widemargin.validation import validate_class_weights

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FoldProblem:
    """One dual problem of a fold.

    Attributes
    ----------
    index : ndarray of shape (m,)
        Rows that take part.
    target : ndarray of shape (m,)
        -1.0 or 1.0 in classification, the numbers to predict in regression.
    weights : ndarray of shape (m,)
        Factor on C for each of these rows.
    """

    index: Index
    target: FloatArray
    weights: FloatArray

    def among(self, is_sampled: NDArray[np.bool_]) -> "FoldProblem":
        """The same problem with the rows of a sample only."""
        at = np.flatnonzero(is_sampled[self.index])
        return FoldProblem(self.index[at], self.target[at], self.weights[at])


@dataclass(frozen=True)
class Fold:
    """The problems of the training rows of a fold, and the rows that are held out."""

    problems: tuple[FoldProblem, ...]
    test: Index

    def among(self, is_sampled: NDArray[np.bool_]) -> "Fold":
        """The same fold with the training rows of a sample only; all held-out rows stay."""
        return replace(self, problems=tuple(p.among(is_sampled) for p in self.problems))


def split_rows(
    splits: list[tuple[Any, Any]], kept: Index, n_given: int
) -> list[tuple[Index, Index]]:
    """Training and held-out rows of every fold, numbered among the rows that have a weight.

    ``splits`` are those of a splitter of scikit-learn, ``kept`` the rows with a weight among the
    ``n_given`` rows that were split.
    """
    position = np.full(n_given, -1, np.intp)
    position[kept] = np.arange(len(kept))
    folds = []
    for number, (train, test) in enumerate(splits):
        try:
            train, test = (np.arange(n_given)[part] for part in (train, test))
        except IndexError as error:
            raise ValueError(f"cv: fold {number} is not one of {n_given} rows: {error}") from error
        rows = tuple(position[part][position[part] >= 0] for part in (train, test))
        if not (len(rows[0]) and len(rows[1])):
            raise ValueError(
                f"cv: fold {number} has {len(rows[0])} training rows and {len(rows[1])} held-out rows "
                "with a weight; use fewer folds or another splitter"
            )
        folds.append((rows[0], rows[1]))
    if not folds:
        raise ValueError(
            "cv: the splitter made no fold; give a number of folds or another splitter"
        )
    return folds


def make_class_folds(
    problem: Problem, splits: list[tuple[Index, Index]], class_weight: Any, multi_class: str
) -> list[Fold]:
    """The binary problems of every fold; class weights are those of its training rows."""
    folds = []
    for number, (train, test) in enumerate(splits):
        labels = problem.labels[train]
        missing = np.setdiff1d(np.arange(len(problem.classes)), labels)
        if len(missing):
            raise ValueError(
                f"cv: fold {number} has no training row of class {problem.classes[missing[0]]}; use "
                "fewer folds, a stratified splitter, or leave the class out of the data"
            )
        y = problem.classes[labels]
        of_class = validate_class_weights(class_weight, problem.classes, y)
        weights = problem.sample_weights[train] * of_class[labels]
        part = replace(problem, labels=labels)
        if len(problem.classes) == 2:
            subproblems = split_binary(part)
        elif multi_class == "ovo":
            subproblems = split_one_vs_one(part)
        else:
            subproblems = split_one_vs_rest(part)
        problems = tuple(FoldProblem(train[s.index], s.y, weights[s.index]) for s in subproblems)
        folds.append(Fold(problems, test))
    return folds


def make_target_folds(
    targets: FloatArray, weights: FloatArray, splits: list[tuple[Index, Index]]
) -> list[Fold]:
    """The regression problems of every fold, one for each column of ``targets``."""
    return [
        Fold(tuple(FoldProblem(train, column[train], weights[train]) for column in targets.T), test)
        for train, test in splits
    ]
