"""Newton steps of all free variables at once, within their bounds.

Near the optimum updates of pairs converge slowly where many variables are free and the kernel matrix
is badly conditioned. One Cholesky factorisation then costs less than the updates that it replaces.
"""

import numpy as np
from numpy.typing import NDArray

from widemargin.exact.blocked_cholesky import BlockedCholesky
from widemargin.exact.dual_problem import DualProblem, FloatArray
from widemargin.kernels import Index
from widemargin.parallel import Workers

BoolArray = NDArray[np.bool_]

#: What a step costs, in entries of the kernel matrix that updates of pairs visit: the cubed number of
#: free variables divided by this number, so many for each pair of them, and so many in any case.
CUBE_SHARE, ENTRY_COST, STEP_COST = 100, 10, 500_000
#: Fewest free variables of a step.
MIN_FREE = 20
#: Bytes for each pair of free variables: their matrix, and columns for those that meet a bound.
PAIR_BYTES = 12
#: Share of the free variables that may meet a bound, or so many of them, and rounds in which these
#: are found. Far from the optimum there are more, and the step is not worth its cost.
MAX_MET, FEW_MET, MAX_ROUNDS = 0.4, 300, 12
#: Added to the diagonal: float32 kernel values leave the matrix positive definite only up to this
#: share of its largest entry, times the square root of its size.
RIDGE = 2e-7


class NewtonPlan:
    """Tells when a Newton step pays: once updates of pairs have cost as much since the last one.

    Parameters
    ----------
    max_bytes : int
        Memory for the kernel matrix of the working set and that of the free variables.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._spent, self._patience = 0.0, 1.0

    def count_moves(self, n_free: int, n_members: int) -> int:
        """Return after how many pair updates to ask again whether a step is due."""
        cost = self._patience * _step_cost(n_free)
        left = cost - self._spent
        return 1 + int((left if left > 0 else cost) / n_members)

    def record_moves(self, n_moves: int, n_members: int) -> None:
        """Record updates of pairs, each of which visits the kernel values of all members."""
        self._spent += n_moves * n_members

    def record_step(self, has_succeeded: bool) -> None:
        """Record a step; after one that failed the next one waits twice as long."""
        self._spent, self._patience = 0.0, 1.0 if has_succeeded else 2.0 * self._patience

    def is_due(self, n_free: int, n_members: int) -> bool:
        """Return whether to take a step."""
        fits = 4 * n_members**2 + PAIR_BYTES * n_free**2 <= self._max_bytes
        pays = self._spent >= self._patience * _step_cost(n_free)
        return fits and pays and n_free >= MIN_FREE


def _step_cost(n_free: int) -> float:
    """Return what a step costs, in entries of the kernel matrix that pair updates visit."""
    return n_free**3 / CUBE_SHARE + ENTRY_COST * n_free**2 + STEP_COST


def find_free(problem: DualProblem, coef: FloatArray, at: Index | slice = slice(None)) -> Index:
    """Return which of some variables, those ``at``, are strictly between bounds and not at a bend."""
    is_free = (coef > problem.lower[at]) & (coef < problem.upper[at])
    return np.flatnonzero(is_free & (coef != 0) if problem.epsilon > 0 else is_free)


def newton_step(
    K: FloatArray,
    slope: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    is_tied: bool,
    workers: Workers,
    deadline: float | None = None,
) -> FloatArray | None:
    """Minimise ``0.5 d'Kd + slope'd`` over ``low <= d <= high``, with ``sum(d) = 0`` if tied.

    A primal-dual active-set method (Bergounioux, Ito and Kunisch, 1999): variables that pass a bound
    are held there, those whose multiplier has the wrong sign are let go, until neither happens. With
    the factor of K, holding m variables costs a system of m equations.

    ======  ========  =============================================
    symbol  variable  shape
    ======  ========  =============================================
    K       K         (n, n), lower triangle, overwritten
    d       step      (n,), with ``low <= 0 <= high``
    ======  ========  =============================================

    Returns the step, which lowers the objective, or None where none was found: K is not positive
    definite, time was up, or too many variables meet their bounds.
    """
    n = len(slope)
    K[np.diag_indices(n)] += RIDGE * np.sqrt(n) * K.diagonal().max()
    factor = BlockedCholesky(K, workers, deadline)
    if not factor.is_complete:
        return None
    held = _Held(factor, slope, is_tied)
    side = np.zeros(n)
    for _ in range(MAX_ROUNDS):
        at = np.flatnonzero(side)
        if len(at) > max(MAX_MET * n, FEW_MET):
            return None
        limit = np.where(side[at] > 0, high[at], low[at])
        try:
            step, force = held.solve(at, limit)
        except np.linalg.LinAlgError:
            return None
        is_wrong = force * side[at] < 0
        over, under = (step > high) & (side == 0), (step < low) & (side == 0)
        if not (is_wrong.any() or over.any() or under.any()):
            break
        side[at[is_wrong]] = 0.0
        side[over], side[under] = 1.0, -1.0
    step = np.clip(step, low, high)
    if is_tied:
        step = _balance(step, low, high)
    fall, curvature = -float(slope @ step), factor.square(step)
    return step * min(1.0, fall / curvature) if fall > 0 else None


class _Held:
    """Minimiser of the quadratic, and what changes when variables are held at their bounds.

    Attributes
    ----------
    columns : ndarray of shape (n, m)
        ``L^-1`` times the vector of ones, if the sum is held, and times the unit vectors of variables
        that have been held so far.
    products : ndarray of shape (m, m)
        Products of these columns.
    place : ndarray of shape (n,)
        Column of each variable, -1 for those that have none.
    """

    def __init__(self, factor: BlockedCholesky, slope: FloatArray, is_tied: bool) -> None:
        n = len(slope)
        self.factor, self.n_fixed = factor, int(is_tied)
        self.slope = factor.solve_lower(slope)
        self.columns = factor.solve_lower(np.ones((n, self.n_fixed)))
        self.products = self.columns.T @ self.columns
        self.place = np.full(n, -1)

    def solve(self, at: Index, limit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the minimiser with the variables ``at`` held at ``limit``, and their multipliers.

        The multiplier of a variable is minus its slope: positive where it would go on rising.
        """
        self._add_columns(at[self.place[at] < 0])
        chosen = np.concatenate([np.arange(self.n_fixed), self.place[at]])
        columns, products = self.columns[:, chosen], self.products[np.ix_(chosen, chosen)]
        target = np.concatenate([np.zeros(self.n_fixed), limit])
        force = np.linalg.solve(products, -(self.slope @ columns) - target)
        step = self.factor.solve_upper(-self.slope - columns @ force)
        step[at] = limit
        return step, force[self.n_fixed :]

    def _add_columns(self, new: Index) -> None:
        if len(new) == 0:
            return
        added = self.factor.solve_units(new)
        across = self.columns.T @ added
        self.place[new] = self.columns.shape[1] + np.arange(len(new))
        self.products = np.block([[self.products, across], [across.T, added.T @ added]])
        self.columns = np.hstack([self.columns, added])


def _balance(step: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return a step of sum zero within the bounds, changed first where no bound is met."""
    for movable in ((step > low) & (step < high), np.ones(len(step), bool)):
        excess = float(step.sum())
        room = np.where(excess > 0, step - low, high - step) * movable
        total = float(room.sum())
        if excess != 0.0 and total > 0.0:
            share = np.sign(excess) * min(1.0, abs(excess) / total)
            step = np.clip(step - share * room, low, high)
    return step


def move_free(
    K: FloatArray, problem: DualProblem, gradient: FloatArray, coef: FloatArray, workers: Workers,
    deadline: float | None = None,
) -> FloatArray | None:  # fmt: skip
    """Return better values of variables all of which are free, or None where none were found.

    ``K`` is the lower triangle of their kernel matrix, which is overwritten. Variables of a regression
    stay on their side of zero.
    """
    sided = problem.one_sided(coef, coef)
    low, high = sided.lower - coef, sided.upper - coef
    step = newton_step(
        K, gradient + (sided.linear - problem.linear), low, high, is_tied=problem.is_tied,
        workers=workers, deadline=deadline,
    )  # fmt: skip
    if step is None:
        return None
    # On a bound exactly where the step ends there: a sum could round to just beyond it.
    ends = np.where(step == low, sided.lower, np.where(step == high, sided.upper, coef + step))
    return np.clip(ends, sided.lower, sided.upper)
