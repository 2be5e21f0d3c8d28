"""Probabilities from decision values of rows that were held out.

References: J. Platt, "Probabilistic outputs for support vector machines", 1999; H.-T. Lin, C.-J. Lin,
R. Weng, "A note on Platt's probabilistic outputs for support vector machines", 2007; T.-F. Wu, C.-J.
Lin, R. Weng, "Probability estimates for multi-class classification by pairwise coupling", 2004.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from widemargin.problem import class_pairs

FloatArray = NDArray[np.float64]

METHODS = ("sigmoid", "isotonic", "temperature")
#: Rows of each side that Platt's targets add to a problem of two classes, and to a pair of several
#: classes. The latter has few rows, and coupling averages over pairs: on digits, vehicle, vowel, dna
#: and segment 0.1 had up to a third of the log loss of 1.
PRIOR, PAIR_PRIOR = 1.0, 0.1
#: Pairwise probabilities are kept this far from zero and one, as in LIBSVM.
LEAST_PROBABILITY = 1e-7
#: Newton steps of a sigmoid at most, the gradient at which they end, and the least step.
MAX_STEPS, GRADIENT_TOL, LEAST_STEP = 100, 1e-9, 1e-10
#: Range of the logarithm of a temperature's factor.
LOG_FACTORS = (-10.0, 10.0)
#: Largest size of a decision value times its factor.
LARGEST_VALUE = 1e300
#: Rows whose pairwise probabilities are coupled at a time.
COUPLED_ROWS = 4096


class Curve(Protocol):
    """The probability of the positive class as a function of the decision value."""

    def __call__(self, decisions: FloatArray) -> FloatArray:
        """Probabilities of decision values."""
        ...


@dataclass(frozen=True)
class SigmoidCurve:
    """``1 / (1 + exp(-(slope f + offset)))``."""

    slope: float
    offset: float

    def __call__(self, decisions: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            values: FloatArray = expit(self.slope * decisions + self.offset)
        return values


@dataclass(frozen=True)
class StepCurve:
    """Linear interpolation between the thresholds of an isotonic regression."""

    decisions: FloatArray
    probabilities: FloatArray

    def __call__(self, decisions: FloatArray) -> FloatArray:
        return np.interp(decisions, self.decisions, self.probabilities)


@dataclass(frozen=True)
class Calibration:
    """Probabilities of all classes.

    Attributes
    ----------
    curves : tuple of Curve
        One for each binary problem; the single factor of a temperature as a curve, for one-vs-rest
        problems of several classes.
    n_classes : int
        Number of classes.
    coupling : {"binary", "pairs", "rest", "softmax"}
        How the probabilities of binary problems become those of classes.
    """

    curves: tuple[Curve, ...]
    n_classes: int
    coupling: str

    def probabilities(self, decisions: FloatArray) -> FloatArray:
        """Probabilities of shape (n, n_classes) from decisions of shape (n, n_problems)."""
        if self.coupling == "softmax":
            factor = self.curves[0]
            assert isinstance(factor, SigmoidCurve)
            # The difference of two infinities would be NaN.
            with np.errstate(over="ignore"):
                values = np.clip(factor.slope * decisions, -LARGEST_VALUE, LARGEST_VALUE)
            return np.asarray(softmax(values, axis=1))
        values = np.column_stack(
            [curve(column) for curve, column in zip(self.curves, decisions.T, strict=True)]
        )
        if self.coupling == "binary":
            return np.column_stack([1.0 - values[:, 0], values[:, 0]])
        if self.coupling == "pairs":
            return couple_pairs(values, self.n_classes)
        totals = values.sum(axis=1, keepdims=True)
        uniform = np.full_like(values, 1.0 / self.n_classes)
        return np.divide(values, totals, out=uniform, where=totals > 0)


def find_coupling(method: str, n_classes: int, one_vs_one: bool) -> str:
    """How the probabilities of binary problems become those of classes; see `Calibration`."""
    if n_classes == 2:
        return "binary"
    if one_vs_one:
        return "pairs"
    return "softmax" if method == "temperature" else "rest"


def count_curves(n_classes: int, coupling: str) -> int:
    """Number of curves of a `Calibration`."""
    if coupling == "pairs":
        return n_classes * (n_classes - 1) // 2
    return n_classes if coupling == "rest" else 1


def calibrate(
    method: str, decisions: FloatArray, labels: NDArray[np.intp], weights: FloatArray,
    n_classes: int, one_vs_one: bool,
) -> Calibration:  # fmt: skip
    """Fit probabilities to decision values of held-out rows.

    Parameters
    ----------
    method : {"sigmoid", "isotonic", "temperature"}
        Platt's sigmoid, or isotonic regression, for each binary problem; or one common factor on all
        decision values.
    decisions : ndarray of shape (n, n_problems)
        Decision values.
    labels : ndarray of shape (n,)
        Class of every row.
    weights : ndarray of shape (n,)
        Weight of every row.
    n_classes : int
        Number of classes.
    one_vs_one : bool
        Whether problems of several classes are one-vs-one, in the order of `class_pairs`.
    """
    sides = _binary_sides(labels, n_classes, one_vs_one)
    coupling = find_coupling(method, n_classes, one_vs_one)
    if method == "temperature":
        if coupling == "softmax":
            factor = _fit_softmax(decisions, labels, weights)
            return Calibration((SigmoidCurve(factor, 0.0),), n_classes, coupling)
        factor = _fit_factor(decisions, sides, weights)
        return Calibration((SigmoidCurve(factor, 0.0),) * len(sides), n_classes, coupling)
    curves: list[Curve] = []
    for column, side in zip(decisions.T, sides, strict=True):
        rows = np.flatnonzero(side)
        values, is_positive = column[rows], side[rows] > 0
        if method == "sigmoid":
            prior = PAIR_PRIOR if coupling == "pairs" else PRIOR
            curves.append(fit_sigmoid(values, is_positive, weights[rows], prior))
        else:
            curves.append(fit_isotonic(values, is_positive, weights[rows]))
    return Calibration(tuple(curves), n_classes, coupling)


def _binary_sides(
    labels: NDArray[np.intp], n_classes: int, one_vs_one: bool
) -> list[NDArray[np.intp]]:
    """For each binary problem 1 for positive rows, -1 for negative rows, 0 for the others."""
    if n_classes == 2:
        return [np.where(labels == 1, 1, -1)]
    if one_vs_one:
        return [(labels == b).astype(np.intp) - (labels == a) for a, b in class_pairs(n_classes)]
    return [np.where(labels == c, 1, -1) for c in range(n_classes)]


def fit_sigmoid(
    decisions: FloatArray, is_positive: NDArray[np.bool_], weights: FloatArray, prior: float = PRIOR
) -> SigmoidCurve:
    """Fit Platt's sigmoid.

    ::

        minimise  -sum_i w_i (t_i log p_i + (1 - t_i) log(1 - p_i)),  p_i = expit(slope f_i + offset)

    with the targets ``t = (N+ + prior) / (N+ + 2 prior)`` of positive rows and
    ``prior / (N- + 2 prior)`` of negative rows (Platt's have the prior 1), by Newton's
    method with a line search (Lin, Lin, Weng 2007, Algorithm 1). Decision values are divided by
    their largest size first, so that the problem is well scaled.
    """
    n_positive, n_negative = weights[is_positive].sum(), weights[~is_positive].sum()
    target = np.where(
        is_positive,
        (n_positive + prior) / (n_positive + 2.0 * prior),
        prior / (n_negative + 2.0 * prior),
    )
    scale = float(np.abs(decisions).max(initial=0.0)) or 1.0
    design = np.column_stack([decisions / scale, np.ones(len(decisions))])
    params = np.array([0.0, np.log((n_positive + 1.0) / (n_negative + 1.0))])
    total = weights.sum()

    def loss(params: FloatArray) -> float:
        values = design @ params
        return float(weights @ (np.logaddexp(0.0, values) - target * values)) / total

    for _ in range(MAX_STEPS):
        p = expit(design @ params)
        gradient = design.T @ (weights * (p - target)) / total
        if np.abs(gradient).max() < GRADIENT_TOL:
            break
        curvature = (design * (weights * p * (1.0 - p))[:, None]).T @ design / total
        direction = -np.linalg.solve(curvature + 1e-12 * np.eye(2), gradient)
        step, before, descent = 1.0, loss(params), float(gradient @ direction)
        while (
            step >= LEAST_STEP and loss(params + step * direction) > before + 1e-4 * step * descent
        ):
            step /= 2.0
        if step < LEAST_STEP:
            break
        params = params + step * direction
    return SigmoidCurve(float(params[0]) / scale, float(params[1]))


def fit_isotonic(
    decisions: FloatArray, is_positive: NDArray[np.bool_], weights: FloatArray
) -> StepCurve:
    """Fit a rising curve, the least squares fit to the classes."""
    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(decisions, is_positive.astype(np.float64), sample_weight=weights)
    return StepCurve(
        np.asarray(model.X_thresholds_, np.float64), np.asarray(model.y_thresholds_, np.float64)
    )


def _fit_factor(decisions: FloatArray, sides: list[NDArray[np.intp]], weights: FloatArray) -> float:
    """The factor with the least log loss of all binary problems together."""
    margins = np.concatenate(
        [side * column for side, column in zip(sides, decisions.T, strict=True)]
    )
    repeated = np.concatenate([weights * np.abs(side) for side in sides])

    def loss(log_factor: float) -> float:
        return float(repeated @ np.logaddexp(0.0, -np.exp(log_factor) * margins))

    return float(np.exp(minimize_scalar(loss, bounds=LOG_FACTORS, method="bounded").x))


def _fit_softmax(decisions: FloatArray, labels: NDArray[np.intp], weights: FloatArray) -> float:
    """The factor with the least log loss of the softmax of all decisions."""

    def loss(log_factor: float) -> float:
        values = np.exp(log_factor) * decisions
        values -= values.max(axis=1, keepdims=True)
        right = values[np.arange(len(labels)), labels]
        return float(weights @ (np.log(np.exp(values).sum(axis=1)) - right))

    return float(np.exp(minimize_scalar(loss, bounds=LOG_FACTORS, method="bounded").x))


def couple_pairs(values: FloatArray, n_classes: int) -> FloatArray:
    """Probabilities of classes from those of pairs (Wu, Lin, Weng 2004, Eq. 20 and 21).

    ::

        minimise    sum_i sum_{j != i} (r_ji p_i - r_ij p_j)^2
        subject to  sum(p) = 1

    where ``r_ij`` is the probability of class i among the classes i and j. The optimum is the
    solution of a linear system with one equation for each class and one for the sum.

    Parameters
    ----------
    values : ndarray of shape (n, n_pairs)
        Probability of the second class of each pair, in the order of `class_pairs`.
    n_classes : int
        Number of classes.
    """
    parts = [
        _couple(values[at : at + COUPLED_ROWS], n_classes)
        for at in range(0, len(values), COUPLED_ROWS)
    ]
    return np.concatenate(parts) if parts else np.empty((0, n_classes))


def _couple(values: FloatArray, n_classes: int) -> FloatArray:
    r = np.zeros((len(values), n_classes, n_classes))
    for p, (a, b) in enumerate(class_pairs(n_classes)):
        of_second = np.clip(values[:, p], LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        r[:, b, a], r[:, a, b] = of_second, 1.0 - of_second
    system = np.zeros((len(values), n_classes + 1, n_classes + 1))
    at = np.arange(n_classes)
    # Eq. 20: on the diagonal the sum of r_ji squared over j, elsewhere -r_ji r_ij.
    system[:, :-1, :-1] = -np.swapaxes(r, 1, 2) * r
    system[:, at, at] = np.square(r).sum(axis=1)
    system[:, :-1, -1] = system[:, -1, :-1] = 1.0
    right = np.zeros((len(values), n_classes + 1, 1))
    right[:, -1] = 1.0
    found = np.linalg.solve(system, right)[:, :-1, 0]
    found = np.clip(found, 0.0, None)
    return found / found.sum(axis=1, keepdims=True)
