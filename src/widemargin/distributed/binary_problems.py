"""The binary problems of the rows of a block.

A row takes part in few of the binary problems of many classes: one-vs-one, in those of its own class.
Its dual variables stand in *slots*: one for two classes, one for every other class in one-vs-one
problems, one for every class in one-vs-rest problems.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import Budget
from widemargin.distributed.blocks import Block, FloatArray, as_floats
from widemargin.distributed.tasks import WorkerBuffers, find_cache_bytes
from widemargin.divide.executors import Job, solve_job
from widemargin.exact.dual_problem import DualProblem, classification_dual
from widemargin.exact.solution import Solution
from widemargin.kernels import CallableKernel, Index, Kernel, Points
from widemargin.problem import (
    Problem,
    Subproblem,
    split_binary,
    split_one_vs_one,
    split_one_vs_rest,
)


@dataclass(frozen=True)
class Setting:
    """What all tasks of a fit share.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    like : Points
        One row, prepared for the kernel with the precision and the centre that all rows get.
    classes : ndarray
        The labels, sorted.
    is_one_vs_one : bool
        How more than two classes become binary problems.
    bound : float
        C, the largest dual variable of a row of weight one.
    fit_intercept : bool
        Whether the dual variables of a problem sum to zero.
    budget : Budget
        Tolerance and iterations of a problem.
    memory : int or None
        Bytes of kernel values that a task may hold; None for a share of the worker's memory.
    seed : int
        Seed of the solvers.
    end : float or None
        When the fit has to end, by `time.time`, whose clock machines share.
    buffers : WorkerBuffers
        Memory of the solvers on the worker that has this object.
    """

    kernel: Kernel
    like: Points
    classes: NDArray[Any]
    is_one_vs_one: bool
    bound: float
    fit_intercept: bool
    budget: Budget
    memory: int | None
    seed: int
    end: float | None = None
    buffers: WorkerBuffers = field(default_factory=WorkerBuffers, compare=False)

    @property
    def n_slots(self) -> int:
        """Number of binary problems in which a row takes part, at most."""
        n_classes = len(self.classes)
        if n_classes == 2:
            return 1
        return n_classes - 1 if self.is_one_vs_one else n_classes

    def split(self, problem: Problem) -> list[Subproblem]:
        """Return the binary problems of some rows."""
        if len(self.classes) == 2:
            return split_binary(problem)
        return split_one_vs_one(problem) if self.is_one_vs_one else split_one_vs_rest(problem)

    def split_block(self, block: Block) -> list[Subproblem]:
        """Return the binary problems of the rows of a block."""
        return self.split(block.as_problem(self.classes))

    def prepare(self, X: Any) -> Points:
        """Prepare rows for the kernel, alike on all workers."""
        # A user's function may overflow with small integers.
        X = as_floats(X) if isinstance(self.kernel, CallableKernel) else X
        return self.kernel.prepare(X, like=self.like)

    def make_duals(self, block: Block, subproblems: list[Subproblem]) -> list[DualProblem]:
        """Return the dual problems of a block, which start from its dual variables."""
        starts: list[FloatArray | None] = [None] * len(subproblems)
        if block.coef is not None:
            starts = list(self.read_slots(block.coef, block.labels, subproblems))
        return [
            classification_dual(
                sub.index, sub.y, self.bound * block.weights[sub.index],
                intercept=self.fit_intercept, start=start,
            )
            for sub, start in zip(subproblems, starts, strict=True)
        ]  # fmt: skip

    def solve(
        self, X: Any, duals: list[DualProblem], budget: Budget, callback: Any = None
    ) -> list[Solution]:
        """Solve the binary problems of some rows in this thread, until the fit has to end."""
        job = Job(self.kernel, self.prepare(X), duals, budget, self.seed, self.seconds_left())
        return solve_job(job, find_cache_bytes(self.memory), 1, self.buffers.take(), callback)

    def seconds_left(self) -> float | None:
        """Return the seconds until the fit has to end."""
        return None if self.end is None else max(0.0, self.end - time.time())

    def find_slots(self, labels: NDArray[Any], subproblems: list[Subproblem]) -> list[Index]:
        """Return for each problem the slots of its rows."""
        slots = []
        for p, sub in enumerate(subproblems):
            own = labels[sub.index]
            if len(self.classes) == 2:
                slots.append(np.zeros(len(own), np.intp))
            elif self.is_one_vs_one:
                other = sub.negative + sub.positive - own
                slots.append((other - (other > own)).astype(np.intp))
            else:
                slots.append(np.full(len(own), p))
        return slots

    def read_slots(
        self, values: FloatArray, labels: NDArray[Any], subproblems: list[Subproblem]
    ) -> list[FloatArray]:
        """Return what the slots of some rows hold, for each problem."""
        slots = self.find_slots(labels, subproblems)
        return [values[sub.index, at] for sub, at in zip(subproblems, slots, strict=True)]

    def fill_slots(
        self, values: list[FloatArray], labels: NDArray[Any], subproblems: list[Subproblem]
    ) -> FloatArray:
        """Return the slots of some rows that hold these values of each problem."""
        out = np.zeros((len(labels), self.n_slots))
        slots = self.find_slots(labels, subproblems)
        for sub, at, mine in zip(subproblems, slots, values, strict=True):
            out[sub.index, at] = mine
        return out
