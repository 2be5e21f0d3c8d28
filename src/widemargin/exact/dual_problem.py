"""The quadratic program of every kernel machine: classification, regression, novelty detection."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from widemargin.kernels import Index

FloatArray = NDArray[np.float64]

#: Rounding of a sum of dual variables, relative to the sum of their absolute values. A difference of
#: that size must not move variables off their bounds.
SUM_ROUNDING = 1e-12
#: Kernel values that differ by less than this share of their size have a part in common that is left
#: out.
COMMON_SPREAD = 1e-3


@dataclass(frozen=True)
class DualProblem:
    """The dual of a support vector machine, in signed variables b.

    ::

        minimise    0.5 b'Kb + linear'b + epsilon |b|_1
        subject to  lower <= b <= upper,  and  sum(b) = total  unless that is None

    with ``lower <= 0 <= upper``. Classification has ``b = y alpha``, ``linear = -y`` and bounds 0 and
    C or -C and 0 (`classification_dual`). Regression has ``linear = -target`` and bounds -C and C.
    Novelty detection has ``linear = 0``, bounds 0 and the weights, and a total.

    Attributes
    ----------
    index : ndarray of shape (n,)
        The points of the problem among those that were prepared.
    linear, lower, upper : ndarray of shape (n,)
        See above.
    epsilon : float
        Not negative.
    total : float or None
        None for a decision function without intercept.
    labels : ndarray of shape (n,) or None
        -1.0 or 1.0 for each point of a classification problem; None for other problems.
    start : ndarray of shape (n,) or None
        Variables to begin with; made feasible if they are not.
    refine : bool
        Whether to solve for the support vectors of ``start`` alone before all points take part.
    """

    index: Index
    linear: FloatArray
    lower: FloatArray
    upper: FloatArray
    epsilon: float = 0.0
    total: float | None = None
    labels: FloatArray | None = None
    start: FloatArray | None = None
    refine: bool = False

    def __len__(self) -> int:
        return len(self.linear)

    @property
    def is_tied(self) -> bool:
        """Whether the sum of the variables is held."""
        return self.total is not None

    def cut(self, at: Index, index: Index | None = None) -> "DualProblem":
        """Return the problem of some of the variables.

        ``index`` are their points; by default the same points as here.
        """
        return replace(
            self,
            index=self.index[at] if index is None else index,
            linear=self.linear[at],
            lower=self.lower[at],
            upper=self.upper[at],
            labels=None if self.labels is None else self.labels[at],
            start=None if self.start is None else self.start[at],
        )

    def slopes(
        self, gradient: FloatArray, coef: FloatArray, at: Index | slice = slice(None)
    ) -> tuple[FloatArray, FloatArray]:
        """Return the slopes of the objective along variables that rise, and along those that fall.

        The first is infinite at an upper bound, the second minus infinite at a lower bound. Both are
        equal where a variable is free. ``gradient`` and ``coef`` are those of the variables ``at``.
        """
        rise = np.where(coef < self.upper[at], gradient, np.inf)
        fall = np.where(coef > self.lower[at], gradient, -np.inf)
        if self.epsilon > 0:
            rise += np.where(coef < 0, -self.epsilon, self.epsilon)
            fall += np.where(coef > 0, self.epsilon, -self.epsilon)
        return rise, fall

    def first_point(self) -> FloatArray:
        """Return ``start`` made feasible, or zeros, which are feasible unless there is a total."""
        if self.start is None:
            return np.zeros(len(self))
        coef = np.clip(self.start, self.lower, self.upper)
        if self.total is None:
            return coef
        excess = float(coef.sum()) - self.total
        if abs(excess) <= SUM_ROUNDING * float(np.abs(coef).sum()):
            return coef
        # Towards zero, so that most variables on their bounds stay there.
        heavier = coef > 0 if excess > 0 else coef < 0
        weight = float(np.abs(coef[heavier]).sum())
        if weight >= abs(excess):
            coef[heavier] *= (weight - abs(excess)) / weight
            return coef
        room = self.upper - coef if excess < 0 else coef - self.lower
        return np.clip(coef - excess * room / room.sum(), self.lower, self.upper)

    def common_part(self, values: FloatArray) -> float:
        """Return a number to subtract from all kernel values, judged by those of one row.

        If the variables sum to zero, products with ``K - s`` are those with ``K`` for every number s.
        Where kernel values are large and differ by little, as those of rows far from the origin, the
        large part of every product would be lost to cancellation, and its rounding would remain. Zero
        where values differ, or where the sum of the variables is another one.
        """
        low, high = float(values.min()), float(values.max())
        is_common = self.total == 0.0 and high - low < COMMON_SPREAD * min(abs(low), abs(high))
        return low if is_common else 0.0

    def one_sided(self, coef: FloatArray, towards: FloatArray) -> "DualProblem":
        """Return the problem without a bend: every variable stays on its side of zero.

        A variable that is zero gets the side to which ``towards`` points. Without epsilon this is the
        problem itself.
        """
        if self.epsilon == 0:
            return self
        is_up = (coef > 0) | ((coef == 0) & (towards > 0))
        return replace(
            self,
            linear=self.linear + np.where(is_up, self.epsilon, -self.epsilon),
            lower=np.where(is_up, np.maximum(self.lower, 0.0), self.lower),
            upper=np.where(is_up, self.upper, np.minimum(self.upper, 0.0)),
            epsilon=0.0,
        )


def classification_dual(
    index: Index, labels: FloatArray, cost: FloatArray, *, intercept: bool,
    start: FloatArray | None = None,
) -> DualProblem:  # fmt: skip
    """Return the dual of a binary classifier; ``cost`` is C times the weight of each point.

    In ``alpha = labels * b`` this is the dual that LIBSVM solves (with intercept) or DC-SVM (Eq. 1,
    without).
    """
    is_positive = labels > 0
    return DualProblem(
        index=index,
        linear=-labels,
        lower=np.where(is_positive, 0.0, -cost),
        upper=np.where(is_positive, cost, 0.0),
        total=0.0 if intercept else None,
        labels=labels,
        start=start,
    )
