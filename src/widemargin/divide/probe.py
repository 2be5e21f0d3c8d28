"""Decide from samples whether divide and conquer is worth its time on the way to the optimum.

The levels of DC-SVM pay if the whole problem has many support vectors. If it has few, solving all
points at once is faster. The share of support vectors in a small sample tells the two cases apart:

=========  =========================================  =====================================
data set   share of support vectors in a sample       time without levels / time with levels
=========  =========================================  =====================================
covtype    0.96                                       4.5
a9a        0.43                                       0.7
ijcnn1     0.25                                       0.6
mnist      0.2                                        0.3
=========  =========================================  =====================================

A fit that stops early is compared by an estimate of both costs (`is_whole_cheaper`): data with few
support vectors are solved as a whole in the time that it takes to find the clusters, and so are many
classes, whose binary problems are small already.
"""

from dataclasses import replace

import numpy as np

from widemargin.budget import Budget
from widemargin.deadline import share_time
from widemargin.divide.executors import count_local_threads
from widemargin.divide.records import Plan
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.exact.several_problems import solve_problems
from widemargin.kernels import Kernel, Points
from widemargin.parallel import open_workers

#: Problems with fewer points are always divided: a sample would take too much of their time.
PROBED_POINTS = 10_000
#: Points in each sample, number of binary problems sampled (the largest), and tolerance.
PROBE_ROWS, PROBED_PROBLEMS, PROBE_TOL = 1000, 3, 0.1
#: A problem is easy if the mean share of support vectors in the samples is smaller than this.
HARD_SHARE = 0.5
#: The samples may take one part in this many of the time left.
PROBE_SHARE = 10
#: The number of support vectors grows with this power of the number of points (ijcnn1, mnist).
SUPPORT_GROWTH = 0.6
#: Costs in kernel values: of one in an exact fit, of one small problem, which is mostly overhead, and
#: of multiplying one kernel value of the background with a coefficient of one binary problem.
EXACT_COST, PROBLEM_COST, COEF_COST = 3.0, 1e5, 0.1


def may_skip_levels(plan: Plan, n_points: int) -> bool:
    """Return whether there are levels that can be left out, and enough points to sample."""
    return plan.n_levels > 0 and n_points >= PROBED_POINTS


def is_easy(
    kernel: Kernel, points: Points, duals: list[DualProblem], plan: Plan, deadline: float | None
) -> bool:
    """Solve samples of the largest binary problems and tell whether the levels do not pay.

    They do not on the way to the optimum if support vectors are few, and not in a fit that stops early
    if the whole problem is solved as soon.

    Parameters
    ----------
    kernel, points
        The kernel and all training rows prepared for it.
    duals : list of DualProblem
        The binary problems.
    plan : Plan
        Levels, clusters, seed and number of jobs.
    deadline : float or None
        End of the fit, by `widemargin.deadline`.
    """
    rng = np.random.default_rng(plan.seed)
    largest = sorted(duals, key=lambda dual: -len(dual))[:PROBED_PROBLEMS]
    samples = [
        replace(dual.cut(rng.permutation(len(dual))[:PROBE_ROWS]), start=None) for dual in largest
    ]
    budget = Budget(tol=PROBE_TOL, deadline=share_time(deadline, PROBE_SHARE))
    with open_workers(count_local_threads(plan.n_jobs)) as workers:
        solutions = solve_problems(kernel, points, samples, workers, budget=budget, seed=plan.seed)
    share = share_support([found.coef for found in solutions])
    if plan.stop_level == 0:
        return share < HARD_SHARE
    return is_whole_cheaper(share, [len(dual) for dual in duals], len(points), plan)


def is_whole_cheaper(share: float, sizes: list[int], n_points: int, plan: Plan) -> bool:
    """Return whether the whole problem costs no more than the levels of a fit that stops early.

    Parameters
    ----------
    share : float
        Share of support vectors in samples of ``PROBE_ROWS`` points.
    sizes : list of int
        Number of points of each binary problem.
    n_points : int
        Number of all points.
    plan : Plan
        Levels and clusters.

    Returns
    -------
    cheaper : bool
        An exact fit computes the kernel between all points and the support vectors. Levels compute it
        between all points and the sampled ones, twice if clusters overlap, and the support vectors of
        the background; and they have every binary problem in every cluster.
    """
    ratio = np.array(sizes) / PROBE_ROWS
    n_support = share * PROBE_ROWS * np.where(ratio < 1.0, ratio, ratio**SUPPORT_GROWTH)
    exact = EXACT_COST * float(np.dot(n_support, sizes))
    levels = range(plan.stop_level, plan.n_levels + 1)
    n_clusters = sum(min(plan.n_clusters ** min(level, 64), n_points) for level in levels)
    routed = plan.sample_size * (2 if plan.overlap else 1) * len(levels)
    background = share * plan.background * (1.0 + COEF_COST * len(sizes))
    early = n_points * (routed + background) + PROBLEM_COST * len(sizes) * n_clusters
    return bool(exact <= early)


def share_support(coefs: list[FloatArray]) -> float:
    """Return the share of support vectors, averaged over the binary problems."""
    return float(np.mean([np.mean(coef != 0) for coef in coefs]))
