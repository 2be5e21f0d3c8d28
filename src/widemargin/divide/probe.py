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


def may_skip_levels(plan: Plan, n_points: int) -> bool:
    """Return whether the levels serve only to reach the optimum, for enough points to sample."""
    return plan.stop_level == 0 < plan.n_levels and n_points >= PROBED_POINTS


def is_easy(
    kernel: Kernel, points: Points, duals: list[DualProblem], plan: Plan, deadline: float | None
) -> bool:
    """Solve samples of the largest binary problems and tell whether support vectors are few.

    Parameters
    ----------
    kernel, points
        The kernel and all training rows prepared for it.
    duals : list of DualProblem
        The binary problems.
    plan : Plan
        Its ``seed`` and ``n_jobs`` are used.
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
    return share_support([found.coef for found in solutions]) < HARD_SHARE


def share_support(coefs: list[FloatArray]) -> float:
    """Return the share of support vectors, averaged over the binary problems."""
    return float(np.mean([np.mean(coef != 0) for coef in coefs]))
