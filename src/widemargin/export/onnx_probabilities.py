"""Calibrated probabilities as nodes of an ONNX graph."""

import numpy as np

from widemargin.exact.calibration import (
    LEAST_PROBABILITY,
    Calibration,
    SigmoidCurve,
    StepCurve,
)
from widemargin.export.onnx_functions import search
from widemargin.export.onnx_graph import Value
from widemargin.problem import class_pairs


def calibrate(calibration: Calibration, decisions: Value) -> Value:
    """Return probabilities of shape (n, n_classes) from decisions; both in float64."""
    first = calibration.curves[0]
    if calibration.coupling == "softmax":
        assert isinstance(first, SigmoidCurve)
        return (decisions * first.slope).apply("Softmax", axis=1)
    if isinstance(first, SigmoidCurve):
        second, other = _apply_sigmoids(calibration, decisions)
    else:
        second = _apply_steps(calibration, decisions)
        other = second * -1.0 + 1.0
    if calibration.coupling == "binary":
        return other.apply("Concat", second, axis=1)
    if calibration.coupling == "pairs":
        return _couple(second, other, calibration.n_classes)
    totals = second.total(keep=True)
    # Where all are zero, every class is as likely as the others.
    is_zero = totals.apply("Equal", 0.0).cast(np.float64)
    return (second + is_zero) / (totals + is_zero * float(calibration.n_classes))


def _apply_sigmoids(calibration: Calibration, decisions: Value) -> tuple[Value, Value]:
    """Return the probabilities of the second and of the first class of every binary problem."""
    curves = [curve for curve in calibration.curves if isinstance(curve, SigmoidCurve)]
    slopes, offsets = (np.array([getattr(c, name) for c in curves]) for name in ("slope", "offset"))
    values = decisions * slopes + offsets
    return values.apply("Sigmoid"), (values * -1.0).apply("Sigmoid")


def _apply_steps(calibration: Calibration, decisions: Value) -> Value:
    """Return the probabilities of the second class, by linear interpolation between thresholds."""
    columns = []
    for number, curve in enumerate(calibration.curves):
        assert isinstance(curve, StepCurve)
        column = decisions.apply("Gather", np.array([number]), axis=1)
        columns.append(_interpolate(curve, column))
    return columns[0].apply("Concat", *columns[1:], axis=1) if len(columns) > 1 else columns[0]


def _interpolate(curve: StepCurve, x: Value) -> Value:
    thresholds, levels = curve.decisions, curve.probabilities
    if len(thresholds) == 1:
        return x * 0.0 + levels[0]
    low, high = x.graph.constant(thresholds[:-1]), x.graph.constant(thresholds[1:])
    first, last = x.graph.constant(levels[:-1]), x.graph.constant(levels[1:])
    # The interval of a value: the last one that begins below it.
    at = search(thresholds[1:-1], x)
    begin, end = low.apply("Gather", at), high.apply("Gather", at)
    share = ((x - begin) / (end - begin)).apply("Clip", 0.0, 1.0)
    least = first.apply("Gather", at)
    return least + share * (last.apply("Gather", at) - least)


def _couple(second: Value, first: Value, n_classes: int) -> Value:
    """Return probabilities of classes from those of pairs (Wu, Lin, Weng 2004, Eq. 20 and 21).

    They are the solution p of ``(Q + e e') p = e`` divided by its sum, as in exported C. The matrix is
    positive definite, so that elimination needs no pivots.
    """
    pairs = np.array(class_pairs(n_classes))
    at = np.arange(len(pairs))
    squares = np.zeros((2, len(pairs), n_classes, n_classes))
    products = np.zeros((len(pairs), n_classes, n_classes))
    squares[0, at, pairs[:, 0], pairs[:, 0]] = squares[1, at, pairs[:, 1], pairs[:, 1]] = 1.0
    products[at, pairs[:, 0], pairs[:, 1]] = products[at, pairs[:, 1], pairs[:, 0]] = -1.0
    second, first = (side.apply("Max", LEAST_PROBABILITY) for side in (second, first))
    width = n_classes * n_classes
    flat = (second * second) @ squares[0].reshape(-1, width)
    flat = flat + (first * first) @ squares[1].reshape(-1, width)
    flat = flat + (first * second) @ products.reshape(-1, width) + 1.0
    system = flat.apply("Reshape", np.array([-1, n_classes, n_classes]))
    ones = system.total(keep=True).apply("Transpose", perm=[0, 2, 1]) * 0.0 + 1.0
    shares = _eliminate(system.apply("Concat", ones, axis=2), n_classes)
    shares = shares.apply("Max", 0.0)
    return shares / shares.total(keep=True)


def _eliminate(system: Value, n_classes: int) -> Value:
    """Return the solutions of linear systems, (n, k, k + 1) with the right side as last column."""
    for step in range(n_classes):
        number = np.array([step])
        row = system.apply("Gather", number, axis=1)
        row = row / row.apply("Gather", number, axis=2)
        others = np.ones((1, n_classes, 1))
        others[0, step] = 0.0
        column = system.apply("Gather", number, axis=2)
        # The row of this step is divided by its pivot, multiples of it are subtracted from the others.
        system = (system - column @ row) * others + row * (1.0 - others)
    last = system.apply("Gather", np.array([n_classes]), axis=2)
    return last.apply("Squeeze", np.array([2]))
