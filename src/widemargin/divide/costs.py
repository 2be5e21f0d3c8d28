"""Costs of exact fits, levels and samples, estimated in kernel values.

The number of support vectors of a problem grows with a power of its number of rows, so that a few
small solutions tell what larger ones would cost.
"""

import numpy as np

from widemargin.divide.kernel_kmeans import CENTRAL_POINTS, GROUP_POINTS
from widemargin.divide.records import Plan
from widemargin.exact.dual_problem import FloatArray
from widemargin.exact.full_matrix import WHOLE_ROWS

#: The number of support vectors grows with this power of the number of points (ijcnn1, mnist).
SUPPORT_GROWTH = 0.6
#: Costs in kernel values: of one in an exact fit, of one small problem, which is mostly overhead, and
#: of multiplying one kernel value with a coefficient of one binary problem.
EXACT_COST, PROBLEM_COST, COEF_COST = 3.0, 1e4, 0.02
#: Share of their cost that several problems have which are so small that they share kernel values.
SHARED_COST = 0.5
#: Clusters that are tried before all are solved (`widemargin.divide.trial`) cost this share of all.
TRIAL_SHARE = 0.5
#: Most binary problems that are tried.
TRIED_PROBLEMS = 12


def estimate_exact(n_support: FloatArray, sizes: FloatArray) -> float:
    """Return the cost of problems of ``sizes`` rows: the kernel between rows and support vectors."""
    return EXACT_COST * float(np.dot(n_support, sizes))


def estimate_whole(n_support: FloatArray, sizes: FloatArray) -> float:
    """Return the cost of the whole problem, whose binary problems may share kernel values."""
    is_shared = len(sizes) > 1 and sizes.max() <= WHOLE_ROWS
    return (SHARED_COST if is_shared else 1.0) * estimate_exact(n_support, sizes)


def grow_support(n_support: FloatArray, ratio: FloatArray | float) -> FloatArray:
    """Return the numbers of support vectors of problems with ``ratio`` times as many rows."""
    # A problem with fewer rows than the sample has its share of support vectors.
    return n_support * np.where(np.less(ratio, 1.0), ratio, np.power(ratio, SUPPORT_GROWTH))


def estimate_levels(
    exact: float, n_problems: int, n_points: int, plan: Plan, share: float
) -> float:
    """Return the cost of the levels of a fit that stops early.

    Parameters
    ----------
    exact : float
        Cost of the whole problem.
    n_problems, n_points : int
        Number of binary problems and of rows.
    plan : Plan
        Levels and clusters.
    share : float
        Share of support vectors in the sample of a background.

    Returns
    -------
    cost : float
        That of the kernel between all rows and the centres of clusters, of every binary problem in
        every cluster, and of the background. A background that is used only if it pays does not count.
    """
    levels = range(plan.stop_level, plan.n_levels + 1)
    solving = sum(estimate_level(exact, n_problems, n_points, plan, level) for level in levels)
    background = 0.0
    if not plan.is_measured:
        background = share * plan.background * (1.0 + COEF_COST * n_problems)
    n_central = plan.sample_size * (1.0 if plan.is_plain else CENTRAL_POINTS / GROUP_POINTS)
    return n_points * (n_central * len(levels) + background) + solving


def estimate_trial(exact: float, n_problems: int, n_points: int, plan: Plan) -> float:
    """Return the cost of trying some clusters of the last level; the arguments are as above."""
    share = TRIAL_SHARE * min(1.0, TRIED_PROBLEMS / n_problems)
    return share * estimate_level(exact, n_problems, n_points, plan, plan.stop_level)


def estimate_level(exact: float, n_problems: int, n_points: int, plan: Plan, level: int) -> float:
    """Return the cost of solving the clusters of a level; the arguments are as above."""
    n_clusters = min(plan.n_clusters ** min(level, 64), n_points)
    growth = (1.0 + plan.overlap) ** (1.0 + SUPPORT_GROWTH)
    return PROBLEM_COST * n_problems * n_clusters + exact * growth * n_clusters**-SUPPORT_GROWTH


def estimate_sample(n_support: FloatArray, sizes: FloatArray, n_rows: int, n_points: int) -> float:
    """Return the cost of solving a sample of ``n_rows``, and of its decision values at all points.

    ``n_support`` and ``sizes`` are those of the binary problems within the sample.
    """
    n_vectors = min(float(n_rows), float(n_support.sum()))
    decisions = n_points * n_vectors * (1.0 + COEF_COST * len(sizes))
    return estimate_whole(n_support, sizes) + decisions
