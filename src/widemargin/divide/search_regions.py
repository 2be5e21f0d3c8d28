"""Searches of large data on regions: rows that are near each other, with the density of all rows.

A random sample is less dense than all rows, so that wider kernels suit it. In a region every row has
the neighbours that it has among all rows. A model of a region is like that of a cluster of `DCSVC`.
"""

from dataclasses import dataclass, replace
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index, Kernel
from widemargin.problem import Problem

FloatArray = NDArray[np.float64]

#: Number of regions, the rows of each, and the fewest that a region may have.
N_REGIONS, REGION_ROWS, LEAST_ROWS = 6, 2000, 200
#: Training rows of every class that a fold of a region has at least, as far as there are as many: the
#: nearest ones.
LEAST_OF_CLASS = 5
#: Bytes of an entry of a kernel matrix, and matrices of the rows of all regions at a time.
ENTRY_BYTES, N_MATRICES = 4, 2


@dataclass(frozen=True)
class Regions:
    """The rows of all regions, and the folds of every region.

    Attributes
    ----------
    problem : Problem
        The rows that are in some region.
    splits : list of (ndarray, ndarray)
        Training and held-out rows among these, those of the first region first.
    """

    problem: Problem
    splits: list[tuple[Index, Index]]


def fit_region_rows(n_rows: int, max_bytes: int) -> int:
    """Rows of a region that memory allows."""
    fit = isqrt(max_bytes // (ENTRY_BYTES * N_MATRICES)) // N_REGIONS
    if fit < LEAST_ROWS:
        least = (LEAST_ROWS * N_REGIONS) ** 2 * ENTRY_BYTES * N_MATRICES
        raise ValueError(
            f"memory: too small for a search on regions, which takes {least / 2**20:.0f} MB at least; "
            "raise memory, or give search='halving', which computes kernel values again"
        )
    return min(REGION_ROWS, fit, n_rows)


def draw_regions(
    kernel: Kernel, problem: Problem, splits: list[tuple[Index, Index]], size: int, seed: int
) -> Regions:
    """Draw regions: each holds the rows that are nearest to a random row, by the kernel's distance.

    A fold of a region has the training and held-out rows of that fold that are in the region. Classes
    with fewer than `LEAST_OF_CLASS` training rows there get the nearest others of the fold.
    """
    n_rows = problem.X.shape[0]
    # Regions of all rows are all the same.
    n_regions = N_REGIONS if size < n_rows else 1
    centres = np.random.default_rng(seed).choice(n_rows, n_regions, replace=False)
    squares = kernel.diag(kernel.prepare(problem.X))
    parts = []
    for centre in centres:
        # Squared distances in the space of the kernel, less a constant.
        products = kernel.exact_product(problem.X, problem.X[[int(centre)]], np.ones(1))
        distances = squares - 2.0 * products
        inside = np.zeros(n_rows, bool)
        inside[np.argpartition(distances, size - 1)[:size]] = True
        for train, test in splits:
            if inside[test].any():
                parts.append(
                    (_take_training(problem, train, inside, distances), test[inside[test]])
                )
    rows = np.unique(np.concatenate([part for split in parts for part in split]))
    cut = replace(
        problem, X=problem.X[rows], labels=problem.labels[rows], weights=problem.weights[rows],
        sample_weights=problem.sample_weights[rows], kept=problem.kept[rows],
    )  # fmt: skip
    return Regions(cut, [(np.searchsorted(rows, a), np.searchsorted(rows, b)) for a, b in parts])


def _take_training(
    problem: Problem, train: Index, inside: NDArray[np.bool_], distances: FloatArray
) -> Index:
    """Training rows of a fold in a region, and the nearest rows of classes that it lacks."""
    taken = [train[inside[train]]]
    for label in range(len(problem.classes)):
        n_inside = np.count_nonzero(problem.labels[taken[0]] == label)
        if n_inside < LEAST_OF_CLASS:
            others = train[~inside[train]]
            others = others[problem.labels[others] == label]
            nearest = np.argsort(distances[others], kind="stable")[: LEAST_OF_CLASS - n_inside]
            taken.append(others[nearest])
    return np.sort(np.concatenate(taken))
