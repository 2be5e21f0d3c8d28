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
classes, whose binary problems are small already. If the levels pay, `limit_background` decides whether
there is time to try clusters and a background on held-out rows (`widemargin.divide.trial`).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from widemargin.budget import Budget
from widemargin.deadline import share_time
from widemargin.divide.costs import (
    estimate_exact,
    estimate_levels,
    estimate_sample,
    estimate_trial,
    estimate_whole,
    grow_support,
)
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
#: Levels of a fit that stops early are solved only if they are estimated to cost less than this share
#: of the whole problem, because the estimate is rough.
LEVELS_SHARE = 0.75
#: A trial, or else a background without one, may cost this share of the whole problem.
MOST_TRIAL = 0.15
#: The samples may take one part in this many of the time left.
PROBE_SHARE = 10


def may_skip_levels(plan: Plan, n_points: int) -> bool:
    """Return whether there are levels that can be left out, and enough points to sample."""
    return plan.n_levels > 0 and n_points >= PROBED_POINTS


def adapt_plan(
    kernel: Kernel, points: Points, duals: list[DualProblem], plan: Plan, deadline: float | None
) -> Plan:
    """Solve samples of the largest binary problems, and leave out of a plan what does not pay.

    These are all levels if samples have few support vectors or the whole problem costs no more, and
    the trial and the background of a fit that stops early if they would take too much of its time.

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
    share = measure_share(kernel, points, duals, plan, deadline)
    sizes, n_points = [len(dual) for dual in duals], len(points)
    if plan.stop_level == 0:
        skips = share < HARD_SHARE
    else:
        skips = is_whole_cheaper(share, sizes, n_points, plan)
    if skips:
        return replace(plan, n_levels=0, stop_level=0, background=0, is_measured=False)
    return limit_background(share, sizes, n_points, plan) if plan.is_measured else plan


def measure_share(
    kernel: Kernel, points: Points, duals: list[DualProblem], plan: Plan, deadline: float | None
) -> float:
    """Solve samples of the largest binary problems, and return the share of support vectors."""
    rng = np.random.default_rng(plan.seed)
    largest = sorted(duals, key=lambda dual: -len(dual))[:PROBED_PROBLEMS]
    samples = [
        replace(dual.cut(rng.permutation(len(dual))[:PROBE_ROWS]), start=None) for dual in largest
    ]
    budget = Budget(tol=PROBE_TOL, deadline=share_time(deadline, PROBE_SHARE))
    with open_workers(count_local_threads(plan.n_jobs)) as workers:
        solutions = solve_problems(kernel, points, samples, workers, budget=budget, seed=plan.seed)
    return share_support([found.coef for found in solutions])


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
    """
    n_support, rows = _estimate_support(share, sizes), np.array(sizes, np.float64)
    # A row takes part in several binary problems, and support vectors of one often are of others.
    if n_support.sum() * n_points / rows.sum() <= plan.sample_size:
        # The model of the whole problem predicts faster than the cluster of a query is found.
        return True
    levels = estimate_levels(estimate_exact(n_support, rows), len(sizes), n_points, plan, share)
    return LEVELS_SHARE * estimate_whole(n_support, rows) <= levels


def limit_background(share: float, sizes: list[int], n_points: int, plan: Plan) -> Plan:
    """Return the plan without a trial, and without a background, if these would cost too much.

    The arguments are as those of `is_whole_cheaper`.
    """
    exact = estimate_exact(_estimate_support(share, sizes), np.array(sizes, np.float64))
    if estimate_trial(exact, len(sizes), n_points, plan) <= MOST_TRIAL * exact:
        return plan
    rows = [size * plan.background / n_points for size in sizes]
    n_support = _estimate_support(share, rows)
    cost = estimate_sample(n_support, np.array(rows), plan.background, n_points)
    kept = plan.background if cost <= MOST_TRIAL * exact else 0
    return replace(plan, is_measured=False, background=kept)


def _estimate_support(share: float, sizes: Sequence[float]) -> FloatArray:
    """Return the number of support vectors of each problem from their share in samples."""
    ratios = np.array(sizes, np.float64) / PROBE_ROWS
    return grow_support(np.full(len(ratios), share * PROBE_ROWS), ratios)


def share_support(coefs: list[FloatArray]) -> float:
    """Return the share of support vectors, averaged over the binary problems."""
    return float(np.mean([np.mean(coef != 0) for coef in coefs]))
