"""Choice of the anchors of LR-SVM."""

from contextlib import nullcontext
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from widemargin.additive.representations import BLOCK_ROWS, AnchorRepresentation
from widemargin.deadline import is_late, seconds_left
from widemargin.kernels import Kernel
from widemargin.parallel import open_workers, single_openmp
from widemargin.problem import Problem

#: Largest number of k-means batches if time is limited.
KMEANS_BATCHES = 100
#: Multiplications of a k-means batch up to which threads take longer to meet than they save. On busy
#: cores they wait for each other: 3 s in place of 0.2 s for 15 rows.
ALONE_WORK = 10**7
#: Anchors for which there is always time; they are timed to find out whether there is time for more.
TIMED_ANCHORS = 100


def find_centres(problem: Problem, n_anchors: int, seed: int, deadline: float | None) -> Any:
    """Find cluster centres by mini-batch k-means; with a deadline, on as many batches as fit."""
    X = problem.X
    work = min(BLOCK_ROWS, X.shape[0]) * n_anchors * X.shape[1]
    with single_openmp() if work <= ALONE_WORK else nullcontext():
        return _run_kmeans(problem, n_anchors, seed, deadline)


def _run_kmeans(problem: Problem, n_anchors: int, seed: int, deadline: float | None) -> Any:
    X, weights = problem.X, problem.sample_weights
    kmeans = MiniBatchKMeans(n_anchors, random_state=seed, n_init=1, batch_size=BLOCK_ROWS)
    if deadline is None:
        return kmeans.fit(X, sample_weight=weights).cluster_centers_
    rng = np.random.default_rng(seed)
    # The choice of the first centres by distances cannot be interrupted.
    kmeans.set_params(init="random")
    for _ in range(KMEANS_BATCHES):
        batch = rng.integers(X.shape[0], size=max(n_anchors, min(BLOCK_ROWS, X.shape[0])))
        kmeans.partial_fit(X[batch], sample_weight=weights[batch])
        if is_late(deadline):
            break
    return kmeans.cluster_centers_


def count_affordable(
    kernel: Kernel, X: Any, n_anchors: int, deadline: float | None, n_jobs: int | None
) -> int:
    """Count the anchors for which a first block of rows takes an eighth of the time."""
    if deadline is None or n_anchors <= TIMED_ANCHORS:
        return n_anchors
    seconds = seconds_left(deadline)
    with open_workers(n_jobs) as workers:
        began = perf_counter()
        timed = AnchorRepresentation(kernel, X[:TIMED_ANCHORS], None, workers)
        timed.make_numbers(X[:BLOCK_ROWS])
        taken = perf_counter() - began
    # The time for the root of the anchors' kernel matrix grows with the cube of their number.
    growth = np.cbrt(seconds / (8.0 * max(taken, 1e-9)))
    return min(n_anchors, int(TIMED_ANCHORS * max(growth, 1.0)))
