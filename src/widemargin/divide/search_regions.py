"""Searches of large data on regions: rows that are near each other, with the density of all rows.

A random sample is less dense than all rows, so that wider kernels suit it. In a region every row has
the neighbours that it has among all rows. A model of a region is like that of a cluster of `DCSVC`.
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index, Kernel
from widemargin.problem import Problem, take_rows

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
    parts: list[tuple[Index, Index]] = []
    for centre in centres:
        # Squared distances in the space of the kernel, less a constant.
        products = kernel.exact_product(problem.X, problem.X[[int(centre)]], np.ones(1))
        distances = squares - 2.0 * products
        inside = np.zeros(n_rows, bool)
        inside[np.argpartition(distances, size - 1)[:size]] = True
        parts += split_region(problem, splits, inside, distances)
    return join_regions(problem, parts)


def split_region(
    problem: Problem,
    splits: list[tuple[Index, Index]],
    inside: NDArray[np.bool_],
    distances: FloatArray,
) -> list[tuple[Index, Index]]:
    """The folds of one region: training and held-out rows of every fold that are in the region."""
    return [
        (take_training(problem, train, inside, distances), test[inside[test]])
        for train, test in splits
        if inside[test].any()
    ]


def join_regions(problem: Problem, splits: list[tuple[Index, Index]]) -> Regions:
    """The rows that are in some fold, and the folds among these."""
    rows = np.unique(np.concatenate([part for split in splits for part in split]))
    numbered = [(np.searchsorted(rows, a), np.searchsorted(rows, b)) for a, b in splits]
    return Regions(take_rows(problem, rows), numbered)


def take_training(
    problem: Problem, train: Index, inside: NDArray[np.bool_], distances: FloatArray
) -> Index:
    """Those of some training rows that are in a region, and the nearest of classes that it lacks."""
    taken = [train[inside[train]]]
    for label in range(len(problem.classes)):
        n_inside = np.count_nonzero(problem.labels[taken[0]] == label)
        if n_inside < LEAST_OF_CLASS:
            others = train[~inside[train]]
            others = others[problem.labels[others] == label]
            nearest = np.argsort(distances[others], kind="stable")[: LEAST_OF_CLASS - n_inside]
            taken.append(others[nearest])
    return np.sort(np.concatenate(taken))
