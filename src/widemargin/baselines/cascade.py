"""Cascade SVM: parts are solved, and their support vectors merged two by two."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin.deadline import time_left
from widemargin.exact.classifier_base import ExactKernelClassifier, one_or_all
from widemargin.exact.kernel_matrix import Gram
from widemargin.exact.several_problems import Task, solve_tasks
from widemargin.exact.solution import FloatArray, Limits, Result, optimum_of
from widemargin.kernels import Index, Kernel, Points
from widemargin.parallel import Workers, open_workers
from widemargin.problem import Problem, Subproblem
from widemargin.progress import show_problems
from widemargin.validation import (
    check_choice,
    check_flag,
    check_integer,
    check_number,
    draw_seed,
)

#: Fewest rows of a part, and of a class in it: splitting finer costs more than it saves.
MIN_ROWS, MIN_CLASS_ROWS = 200, 2
#: A round that lowers the objective by no more than this share of it has come to a standstill.
IDLE_SHARE = 1e-10


class CascadeSVC(ExactKernelClassifier):
    """Cascade of kernel SVMs.

    Rows are split at random into ``2**n_layers`` parts, and each part is solved. The support vectors
    of two parts make one set of the next layer, until one set is left. Its solution is the model of
    one pass. In a further round these support vectors join every part of the first layer. Rounds end
    at the optimum of `KernelSVC`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        As for `KernelSVC`.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`.
    n_layers : int, default=3
        Times that sets are merged two by two. Fewer for a problem whose parts would hold less than
        200 rows, or less than two of a class.
    max_rounds : int or None, default=1
        Most rounds; None to go on to the optimum. One round makes no claim to be optimal, so it ends
        without a warning.
    fit_intercept : bool, default=True
        Whether the decision function has a constant term.
    multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes: one problem for each pair of classes, or one for each class
        against the rest.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=1e-3
        Violation of the optimality conditions to which sets are solved, and at which rounds end.
    memory : int or str, default="auto"
        Bound on working memory in bytes, or text such as ``"2 GB"``.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.
    random_state : int, RandomState or None, default=None
        Split of the rows.
    verbose : int, default=0
        1 for a progress line, 2 for a line every round of a set's solver.

    Attributes
    ----------
    n_rounds_ : int or ndarray of shape (n_problems,)
        Rounds made; an integer for a single problem.
    layers_ : list of LayerRecord
        What happened in each layer of the last round, the parts first: ``n_sets``, ``n_rows``,
        ``n_support``, ``seconds``; added up over the binary problems, of which each has a last round
        of its own.
    stop_reason_ : str
        ``"converged"`` if no training row violates the optimality conditions by ``tol``,
        ``"max_rounds"``, ``"max_time"``, or ``"stalled"`` when ``tol`` is finer than float32 kernel
        values allow.
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, objective_, \
duality_gap_, n_iter_, kernel_, n_features_in_, feature_names_in_
        As in `KernelSVC`. The objective and the gap are those of all rows.

    Notes
    -----
    With the support vectors, the two rows that violate the optimality conditions most are fed back.
    Without them a round can stand still before the optimum where no support vector is on the margin.

    References
    ----------
    H. P. Graf, E. Cosatto, L. Bottou, I. Durdanovic, V. Vapnik, "Parallel support vector machines:
    the cascade SVM", Advances in Neural Information Processing Systems 17, 2004.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.baselines import CascadeSVC
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = CascadeSVC(C=10, random_state=0).fit(X, y)
    >>> [layer.n_sets for layer in model.layers_], bool(model.score(X, y) > 0.98)
    ([8, 4, 2, 1], True)
    """

    warm_start = False

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_layers: int = 3,
        max_rounds: int | None = 1,
        fit_intercept: bool = True,
        multi_class: str = "ovo",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        memory: int | str = "auto",
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_layers = n_layers
        self.max_rounds = max_rounds
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.tol = tol
        self.memory = memory
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        check_number("C", self.C, above=0)
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_choice("multi_class", self.multi_class, ("ovo", "ovr"))
        check_flag("fit_intercept", self.fit_intercept)
        check_integer("n_layers", self.n_layers, low=0)
        if self.max_rounds is not None:
            check_integer("max_rounds", self.max_rounds, low=1)

    def _solve(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        deadline: float | None,
    ) -> list[Result]:
        points, tasks, budget = self._prepare(problem, kernel, subproblems)
        seed = draw_seed(self.random_state)
        rng = np.random.default_rng(seed)
        cascades = [Cascade(task, self.n_layers, self.fit_intercept, rng) for task in tasks]
        limits = Limits(self.tol, -1, time_left(deadline), budget)
        with open_workers(self.n_jobs) as workers:
            fit = _Fit(kernel, points, workers, self.fit_intercept, limits, seed, self.verbose)
            fit.run(cascades, self.max_rounds)
        self.layers_ = add_layers(cascades)
        self.n_rounds_ = one_or_all([cascade.n_rounds for cascade in cascades])
        return [
            self._polish(kernel, problem.X, points, cascade.task, cascade.result, Limits(self.tol))
            if len(cascade.parts) == 1
            else cascade.result
            for cascade in cascades
        ]

    def _keep(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        results: list[Result],
    ) -> None:
        super()._keep(problem, kernel, subproblems, results)
        if self.stop_reason_ == "max_iter":  # What rounds are to a cascade.
            self.stop_reason_ = "max_rounds"

    def _warn_unless_converged(self) -> None:
        advice = {
            "max_rounds": f"max_rounds={self.max_rounds} was reached; raise it, or give None to go on "
            "to the optimum",
            "max_time": f"max_time={self.max_time} s has passed; allow more time",
            "stalled": f"tol={self.tol:g} is finer than float32 kernel values allow on these data; "
            "scale the features or raise tol",
        }.get(self.stop_reason_)
        one_pass = self.stop_reason_ == "max_rounds" and self.max_rounds == 1
        if advice and not one_pass:
            warnings.warn(
                f"CascadeSVC stopped before convergence: {advice}", ConvergenceWarning, stacklevel=4
            )


@dataclass(frozen=True)
class LayerRecord:
    """What happened in one layer.

    Attributes
    ----------
    n_sets : int
        Sets that were solved.
    n_rows : int
        Rows in them.
    n_support : int
        Support vectors of their solutions.
    seconds : float
        Time to solve them. Problems that are solved together share it in proportion to their rows.
    """

    n_sets: int = 0
    n_rows: int = 0
    n_support: int = 0
    seconds: float = 0.0

    def __add__(self, other: "LayerRecord") -> "LayerRecord":
        return LayerRecord(
            self.n_sets + other.n_sets,
            self.n_rows + other.n_rows,
            self.n_support + other.n_support,
            self.seconds + other.seconds,
        )


class Cascade:
    """The sets of one binary problem, from the parts to the root.

    Parameters
    ----------
    task : Task
        The problem. Rows are known by their place in it.
    n_layers : int
        Most times that sets are merged.
    intercept : bool
        Whether the decision function has a constant.
    rng : Generator
        For the split.
    """

    def __init__(
        self, task: Task, n_layers: int, intercept: bool, rng: np.random.Generator
    ) -> None:
        self.task, self.intercept = task, intercept
        self.n_layers = count_layers(task.y, n_layers)
        self.parts = split_rows(task.y, 2**self.n_layers, rng)
        self.n_rounds = self.n_iter = 0
        self.is_done = False
        self.layers: list[LayerRecord] = []
        self.result = optimum_of(np.zeros(len(task.y)), -task.y, task.y, task.upper, intercept)
        self._sets: list[Index] = []
        self._starts: Sequence[FloatArray | None] = []

    def start_round(self) -> None:
        """Make the parts the sets to solve, with what the last round found."""
        self.n_rounds += 1
        self._is_late = False
        self.layers = []
        if self.n_rounds == 1:
            self._sets, self._starts = self.parts, [None] * len(self.parts)
            return
        fed_back = np.append(np.flatnonzero(self.result.coef), self._find_worst_pair())
        self._sets = [np.union1d(part, fed_back) for part in self.parts]
        self._starts = [self.result.coef[rows] for rows in self._sets]

    @property
    def n_rows(self) -> int:
        """Rows in the sets of this layer."""
        return sum(map(len, self._sets))

    def make_tasks(self) -> list[Task]:
        """The sets of this layer as problems to solve."""
        task = self.task
        return [
            Task(task.index[rows], task.y[rows], task.upper[rows], start)
            for rows, start in zip(self._sets, self._starts, strict=True)
        ]

    def take_results(self, results: list[Result], seconds: float) -> None:
        """Take note of a solved layer, and merge the support vectors of its sets two by two."""
        n_support = sum(int(np.count_nonzero(result.coef)) for result in results)
        self.layers.append(LayerRecord(len(results), self.n_rows, n_support, seconds))
        self.n_iter += sum(result.n_iter for result in results)
        self._is_late |= any(result.stop_reason == "max_time" for result in results)
        solved = [
            (rows[result.coef != 0], result.coef[result.coef != 0])
            for rows, result in zip(self._sets, results, strict=True)
        ]
        pairs = [solved[s : s + 2] for s in range(0, len(solved), 2)]
        merged = [merge_sets(pair, len(self.task.y)) for pair in pairs]
        self._sets = [rows for rows, _ in merged]
        self._starts = [start for _, start in merged]
        self._root = results[0]

    def finish_round(self, kernel: Kernel, points: Points, workers: Workers, tol: float) -> None:
        """Look at all rows: whether the solution of the root is that of the problem."""
        if len(self.parts) == 1:
            self.result, self.is_done = replace(self._root, n_iter=self.n_iter), True
            return
        found = self._measure(kernel, points, workers)
        reason = self._judge(found, tol)
        self.result = replace(found, n_iter=self.n_iter, stop_reason=reason)
        # More rounds help one that ended for no other reason.
        self.is_done = reason != "max_iter"

    def _measure(self, kernel: Kernel, points: Points, workers: Workers) -> Result:
        """The root's solution on all rows."""
        task, support = self.task, self._sets[0]
        coef, gradient = np.zeros(len(task.y)), -task.y
        coef[support] = self._starts[0]
        gram = Gram(kernel, points, workers, task.index)
        gram.accumulate(np.arange(len(coef)), support, coef[support], gradient)
        return optimum_of(coef, gradient, task.y, task.upper, self.intercept)

    def _judge(self, found: Result, tol: float) -> str:
        """Why to stop after this round, if so."""
        if found.violation < tol:
            return "converged"
        if self._is_late:
            return "max_time"
        before = self.result.objective
        return "stalled" if before - found.objective <= IDLE_SHARE * abs(before) else "max_iter"

    def _find_worst_pair(self) -> Index:
        """The rows whose coefficients would rather rise and fall."""
        task, result = self.task, self.result
        rises = np.where(task.y > 0, result.coef < task.upper, result.coef < 0)
        falls = np.where(task.y > 0, result.coef > 0, result.coef > -task.upper)
        lowest = np.argmin(np.where(rises, result.gradient, np.inf))
        highest = np.argmax(np.where(falls, result.gradient, -np.inf))
        return np.array([lowest, highest])


@dataclass(frozen=True)
class _Fit:
    """What stays the same from layer to layer."""

    kernel: Kernel
    points: Points
    workers: Workers
    intercept: bool
    limits: Limits
    seed: int
    verbose: int

    def run(self, cascades: list[Cascade], max_rounds: int | None) -> None:
        """Go round until all is done."""
        began = time.perf_counter()
        while True:
            running = [cascade for cascade in cascades if not cascade.is_done]
            for cascade in running:
                cascade.start_round()
            n_layers = max(cascade.n_layers for cascade in running)
            for layer in range(n_layers, -1, -1):
                self._solve_layer([c for c in running if c.n_layers >= layer], began)
            for cascade in running:
                cascade.finish_round(self.kernel, self.points, self.workers, self.limits.tol)
            is_last = max_rounds is not None and running[0].n_rounds >= max_rounds
            if is_last or all(cascade.is_done for cascade in running):
                return

    def _solve_layer(self, cascades: list[Cascade], began: float) -> None:
        """Solve the sets of all problems together and hand the solutions out."""
        start = time.perf_counter()
        tasks = [task for cascade in cascades for task in cascade.make_tasks()]
        with show_problems(len(tasks), self.verbose) as show:
            results = solve_tasks(
                self.kernel, self.points, tasks, self.workers, intercept=self.intercept,
                limits=self.limits.after(start - began), seed=self.seed, callback=show,
            )  # fmt: skip
        seconds, left = time.perf_counter() - start, iter(results)
        # A set without support vectors, when time is up, leaves none to the next layer.
        n_rows = max(sum(cascade.n_rows for cascade in cascades), 1)
        for cascade in cascades:
            own = [next(left) for _ in cascade.make_tasks()]
            cascade.take_results(own, seconds * cascade.n_rows / n_rows)


def add_layers(cascades: list[Cascade]) -> list[LayerRecord]:
    """Records of the last rounds of all problems, added up from the root on; the parts first."""
    from_root = zip_longest(*(c.layers[::-1] for c in cascades), fillvalue=LayerRecord())
    return [sum(layer, LayerRecord()) for layer in from_root][::-1]


def count_layers(y: FloatArray, most: int) -> int:
    """Times that rows can be halved, up to ``most``, before parts become too small."""
    n_positive = int(np.count_nonzero(y > 0))
    rarer = min(n_positive, len(y) - n_positive)
    n_parts = max(1, min(len(y) // MIN_ROWS, rarer // MIN_CLASS_ROWS))
    return min(most, n_parts.bit_length() - 1)


def split_rows(y: FloatArray, n_parts: int, rng: np.random.Generator) -> list[Index]:
    """Parts of nearly equal size, drawn at random, the rows of each class dealt out evenly."""
    order = np.concatenate([rng.permutation(np.flatnonzero(side)) for side in (y < 0, y > 0)])
    return [np.sort(order[p::n_parts]) for p in range(n_parts)]


def merge_sets(solved: list[tuple[Index, FloatArray]], n_rows: int) -> tuple[Index, FloatArray]:
    """All rows of some sets, with the mean of the coefficients where sets share a row."""
    total, count = np.zeros(n_rows), np.zeros(n_rows, np.intp)
    for rows, coef in solved:
        total[rows] += coef
        count[rows] += 1
    rows = np.flatnonzero(count)
    return rows, total[rows] / count[rows]
