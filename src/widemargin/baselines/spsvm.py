"""SpSVM: a basis that grows by a greedy choice among a few random rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from widemargin.arguments import check_integer, draw_seed
from widemargin.budget import StopReason
from widemargin.callbacks import Stage
from widemargin.kernels import Index, Kernel
from widemargin.memory import parse_bytes
from widemargin.parallel import Workers, open_workers
from widemargin.problem import Problem
from widemargin.projected.basis import Columns, FloatArray, KernelRows
from widemargin.projected.candidates import DEPENDENT, DEPENDENT_FLOAT32
from widemargin.projected.classifier_base import BasisClassifier, count_changes, split_classes
from widemargin.projected.machine import Machine
from widemargin.projected.search import MAX_IDLE
from widemargin.projected.selection import Selection
from widemargin.projected.stages import describe_machines

#: Maximum number of Newton steps on one coefficient; usually three to six are enough.
MAX_STEPS = 30
#: Relative change of a coefficient at which they stop. The error of J is of the order of its square.
STEP_TOL = 1e-3
#: Number of kernel values processed together, so that they stay in cache.
PIECE_VALUES = 2**17
#: Kernel values of sampled rows are kept for data of up to this many rows; in larger data few rows
#: are sampled twice.
HELD_ROWS = 8192


class SpSVC(BasisClassifier):
    """Sparse kernel SVM whose basis vectors are the best of a few random rows each.

    SpSVM-2 of Keerthi, Chapelle and DeCoste (2006), with the objective of `ProjectedSVC`: ``w' K w
    + C sum max(0, error)^2``. For every new basis vector some random rows are candidates. The score
    of a candidate is the lowest objective that its coefficient reaches while all others are fixed.
    The best candidate joins the basis, and Newton's method computes all coefficients anew.

    Parameters
    ----------
    n_basis : int, default=50
        Number of basis vectors of each binary problem; there are fewer if no more are independent.
    C : float, default=1.0
        Cost of a squared error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        Kernel as for `KernelSVC`, except ``"precomputed"``.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`.
    n_candidates : int, default=59
        Number of candidates for each basis vector. Among 59 random rows there is one of the best 5 %
        with a probability of 95 %.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    memory : int or str, default="auto"
        Limit of memory for kernel values that are kept between two choices, in bytes or as text
        such as ``"2 GB"``. If the kernel matrix of up to 8,192 rows fits, no value is computed
        twice. Training holds the kernel values of the candidates and of the basis besides, with 4
        and 8 bytes for each row. In predictions the limit holds for all kernel values.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the draw of candidates.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    basis_indices_ : ndarray of shape (n_vectors,)
        Training rows that are basis vectors of any problem, sorted.
    basis_vectors_ : ndarray or csr_matrix of shape (n_vectors, n_features)
        These rows.
    coef_ : ndarray of shape (n_functions, n_vectors)
        ``decision = kernel(X, basis_vectors_) @ coef_.T + intercept_``; zero where a vector is not in
        the basis of a problem.
    intercept_ : ndarray of shape (n_functions,)
        Intercepts.
    n_basis_ : int or ndarray of shape (n_functions,)
        Basis vectors of each problem.
    objective_ : float or ndarray of shape (n_functions,)
        The objective of each problem.
    n_support_ : int or ndarray of shape (n_functions,)
        Number of training rows with a positive error.
    kernel_ : Kernel
        The kernel, with its parameters.
    n_iter_ : int
        Number of vectors added to the basis, of the binary problem with most.
    stop_reason_ : str
        ``"converged"``, or ``"rank"`` if no more basis vectors are independent.

    References
    ----------
    S. S. Keerthi, O. Chapelle, D. DeCoste, "Building support vector machines with reduced classifier
    complexity", Journal of Machine Learning Research 7, 2006.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from widemargin.baselines import SpSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SpSVC(n_basis=10, random_state=0))
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.95
    True
    """

    def __init__(
        self,
        *,
        n_basis: int = 50,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_candidates: int = 59,
        class_weight: dict[Any, float] | str | None = None,
        memory: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.n_basis = n_basis
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_candidates = n_candidates
        self.class_weight = class_weight
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("n_basis", self.n_basis, low=1)
        check_integer("n_candidates", self.n_candidates, low=1)

    def _select(self, problem: Problem, kernel: Kernel) -> list[Selection]:
        rng = np.random.default_rng(draw_seed(self.random_state))
        selections = []
        with open_workers(self.n_jobs) as workers:
            data = self._read_rows(problem, kernel, workers)
            data.hold_copy()
            values = RowValues(data, parse_bytes(self.memory))
            for sub in split_classes(problem):
                columns = Columns(values.data, n_expected=min(self.n_basis, len(sub.y)))
                machine = Machine(columns, sub.y, self.C * problem.weights)
                growth = Growth(machine, values, self.n_candidates, rng)
                selections.append(growth.run(self.n_basis))
        return selections

    def _keep(self, problem: Problem, selections: list[Selection]) -> None:
        super()._keep(problem, selections)
        self.n_iter_ = count_changes(selections)

    def _advice(self) -> str | None:
        if self.stop_reason_ != StopReason.RANK:
            return None
        return (
            f"found no more than {np.min(self.n_basis_)} independent basis vectors of the "
            f"n_basis={self.n_basis} asked for; lower n_basis, or use a narrower kernel"
        )


class RowValues:
    """Kernel values between given rows and all rows, in float32; kept if there are few rows.

    Parameters
    ----------
    data : KernelRows
        The rows.
    max_bytes : int
        Memory for held kernel values.
    """

    def __init__(self, data: KernelRows, max_bytes: int) -> None:
        n = len(data)
        self.data = data
        self._known = np.zeros(n, bool)
        is_held = n <= HELD_ROWS and 4 * n * n <= max_bytes
        self._held = np.empty((n, n), np.float32) if is_held else None

    def take(self, rows: Index) -> NDArray[np.float32]:
        """Return the kernel values of these rows, shape (n_rows, n)."""
        if self._held is None:
            return self._compute(rows)
        fresh = rows[~self._known[rows]]
        if len(fresh):
            self._held[fresh] = self._compute(fresh)
            self._known[fresh] = True
        return self._held[rows]

    def _compute(self, rows: Index) -> Any:
        return self.data.block(np.arange(len(self.data)), self.data.workers, rows)


class Growth:
    """Growth of a basis, by the best of some random rows at a time.

    Parameters
    ----------
    machine : Machine
        The machine, with an empty basis.
    values : RowValues
        Kernel values of the rows drawn.
    n_candidates : int
        Rows drawn for every choice.
    rng : Generator
        Random generator for the candidates.
    """

    def __init__(
        self, machine: Machine, values: RowValues, n_candidates: int, rng: np.random.Generator
    ) -> None:
        self.machine = machine
        self.values = values
        self.n_candidates = n_candidates
        self._rng = rng
        self._threshold = DEPENDENT if values.data.is_exact else DEPENDENT_FLOAT32
        # Lower triangle L with L L' = K_B.
        self._factor = np.empty((0, 0))

    def run(self, n_basis: int) -> Selection:
        """Add up to ``n_basis`` basis vectors."""
        path: list[Stage] = []
        while len(path) < n_basis:
            if not self._append_any():
                return Selection(
                    describe_machines([self.machine]), path, StopReason.RANK, 0, n_basis
                )
            path.append(describe_machines([self.machine]))
        return Selection(path[-1], path, StopReason.CONVERGED, 0, n_basis)

    def _append_any(self) -> bool:
        """Add the best of a random sample; sample again if all of it depends on the basis."""
        outside = np.delete(np.arange(len(self.values.data.diag)), self.machine.columns.rows)
        if len(outside) <= self.n_candidates:
            return self._append_best(outside)
        return any(
            self._append_best(self._rng.choice(outside, self.n_candidates, replace=False))
            for _ in range(1 + MAX_IDLE)
        )

    def _append_best(self, drawn: Index) -> bool:
        """Add the candidate that lowers J most; False if none is independent and lowers it."""
        among = self.machine.columns.kernel_at(drawn)
        halves, diag = self._solve(among.T), self.values.data.diag[drawn]
        left = diag - np.einsum("ij,ij->j", halves, halves)
        places = np.flatnonzero(left > self._threshold * diag)
        if len(places) == 0:
            return False
        falls = score_candidates(
            self.machine, self.values.take(drawn[places]), among[places], diag[places],
            scale=float(self.values.data.diag.max()), workers=self.values.data.workers,
        )  # fmt: skip
        best_first = np.argsort(-falls, kind="stable")
        ranked = places[best_first[falls[best_first] > 0]]
        return any(self._append(int(drawn[at]), halves[:, at]) for at in ranked)

    def _append(self, row: int, half: FloatArray) -> bool:
        """Add a basis vector, unless its exact kernel values show that it depends on the others."""
        column = self.values.data.column(row)
        left = column[row] - half @ half
        if left <= self._threshold * column[row]:
            return False
        size = len(half)
        self._factor = np.pad(self._factor, (0, 1))
        self._factor[size, :size], self._factor[size, size] = half, np.sqrt(left)
        self.machine.columns.append(row, column)
        self.machine.append()
        self.machine.settle()
        return True

    def _solve(self, cross: FloatArray) -> FloatArray:
        if len(cross) == 0:
            return cross
        return solve_triangular(self._factor, cross, lower=True, check_finite=False)


def score_candidates(
    machine: Machine, values: NDArray[np.float32], among: FloatArray, diag: FloatArray, *,
    scale: float, workers: Workers,
) -> FloatArray:  # fmt: skip
    """Return the decrease of J if a candidate is added and only its coefficient is optimised.

    Parameters
    ----------
    machine : Machine
        The machine.
    values : ndarray of shape (n_candidates, n)
        Kernel between the candidates and all rows.
    among : ndarray of shape (n_candidates, n_basis)
        Kernel between the candidates and the basis.
    diag : ndarray of shape (n_candidates,)
        Kernel of each candidate with itself.
    scale : float
        Largest kernel value. Values and costs are divided by the largest, for float32.
    workers : Workers
        Threads.

    Returns
    -------
    falls : ndarray of shape (n_candidates,)
        Decrease of J for each candidate.
    """
    unit = float(machine.cost.max())
    root = np.sqrt(machine.cost / unit)
    signed = (machine.y * root / scale).astype(np.float32)
    errors = (root * machine.solution.errors).astype(np.float32)
    level = among @ machine.solution.u[1:] / (scale * unit)
    rise = diag / (scale * scale * unit)
    falls = np.empty(len(diag))

    def score(first: int, last: int) -> None:
        step = max(1, PIECE_VALUES // len(errors))
        for start in range(first, last, step):
            part = slice(start, min(start + step, last))
            falls[part] = _minimise(values[part] * signed, errors, level[part], rise[part])

    workers.run(len(diag), score, grain=8)
    return unit * falls


def _minimise(
    K: NDArray[np.float32], errors: NDArray[np.float32], level: FloatArray, rise: FloatArray
) -> FloatArray:
    """Return, for each row k of K, the decrease from t = 0 to the minimum over t of

    ``rise t^2 + 2 level t + sum max(0, errors - t k)^2``.

    Newton's method on all rows at once. The slope grows with t, so that every look at it bounds the
    minimum from one side; a step beyond the bounds is replaced by one to their middle.
    """
    linear, squared = K * errors, K * K
    before = (errors > 0).astype(np.float32)
    goal = (linear @ before - level) / (rise + squared @ before)
    low, high = np.where(goal > 0, 0.0, -np.inf), np.where(goal > 0, np.inf, 0.0)
    after = np.empty_like(K)
    for _ in range(MAX_STEPS):
        t = goal
        np.multiply(t.astype(np.float32)[:, None], K, out=after)
        # One where the error stays positive, else zero.
        np.less(after, errors, out=after, casting="unsafe")
        pull, bend = np.vecdot(after, linear) - level, np.vecdot(after, squared) + rise
        goal = pull / bend
        if (np.abs(goal - t) <= STEP_TOL * np.abs(t)).all():
            break
        low, high = np.where(goal > t, t, low), np.where(goal < t, t, high)
        goal = np.where((goal < low) | (goal > high), 0.5 * (low + high), goal)
    np.subtract(before, after, out=after)
    return after @ (errors * errors) + t * (2.0 * pull - t * bend)
