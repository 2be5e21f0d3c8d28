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

import numpy as np

from widemargin.deadline import share_time, time_left
from widemargin.divide.executors import count_local_threads
from widemargin.divide.records import Plan
from widemargin.exact.several_problems import Task, solve_tasks
from widemargin.exact.solution import FloatArray, Limits
from widemargin.kernels import Kernel, Points
from widemargin.parallel import open_workers

#: Problems with fewer points are always divided: a sample would take too much of their time.
PROBED_POINTS = 10_000
#: Points in each sample, number of binary problems sampled (the largest), and tolerance.
PROBE_ROWS, PROBED_TASKS, PROBE_TOL = 1000, 3, 0.1
#: A problem is easy if the mean share of support vectors in the samples is smaller than this.
HARD_SHARE = 0.5
#: The samples may take one part in this many of the time left.
PROBE_SHARE = 10


def may_skip_levels(plan: Plan, n_points: int) -> bool:
    """Return whether the levels serve only to reach the optimum, for enough points to sample."""
    return plan.stop_level == 0 < plan.n_levels and n_points >= PROBED_POINTS


def is_easy(
    kernel: Kernel, points: Points, tasks: list[Task], plan: Plan, deadline: float | None
) -> bool:
    """Solve samples of the largest binary problems and tell whether support vectors are few.

    Parameters
    ----------
    kernel, points
        The kernel and all training rows prepared for it.
    tasks : list of Task
        The binary problems.
    plan : Plan
        Its ``seed``, ``n_jobs`` and ``fit_intercept`` are used.
    deadline : float or None
        End of the fit, by `widemargin.deadline`.
    """
    rng = np.random.default_rng(plan.seed)
    largest = sorted(tasks, key=lambda task: -len(task.index))[:PROBED_TASKS]
    drawn = [rng.permutation(len(task.index))[:PROBE_ROWS] for task in largest]
    samples = [
        Task(task.index[at], task.y[at], task.upper[at])
        for task, at in zip(largest, drawn, strict=True)
    ]
    limits = Limits(tol=PROBE_TOL, max_time=time_left(share_time(deadline, PROBE_SHARE)))
    with open_workers(count_local_threads(plan.n_jobs)) as workers:
        results = solve_tasks(
            kernel, points, samples, workers, intercept=plan.fit_intercept, limits=limits,
            seed=plan.seed,
        )  # fmt: skip
    return share_support([result.coef for result in results]) < HARD_SHARE


def share_support(coefs: list[FloatArray]) -> float:
    """Return the share of support vectors, averaged over the binary problems."""
    return float(np.mean([np.mean(coef != 0) for coef in coefs]))
