"""Fitted estimators as ONNX graphs, for any runtime that has the standard operators."""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin import __version__
from widemargin.arguments import check_choice
from widemargin.export.description import Description, describe
from widemargin.export.limits import find_limit
from widemargin.export.onnx_functions import decide
from widemargin.export.onnx_graph import Graph, Value
from widemargin.export.onnx_probabilities import calibrate
from widemargin.export.scaling import Scaling
from widemargin.problem import class_pairs

#: Version of the standard operators, and of the file format that came with it.
OPSET, IR_VERSION = 17, 8
#: Types of the input and output of a graph.
DTYPES = ("float32", "float64")


def to_onnx(model: Any, *, dtype: str = "float32") -> Any:
    """Return a fitted estimator as an ONNX model.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of widemargin, or a pipeline of `StandardScaler`, `MinMaxScaler` or
        `MaxAbsScaler` and one.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input, the output and the kernel values. The graph computes everything else,
        which takes little time, in float64: scaling, bins, and decisions from kernel values.

    Returns
    -------
    model : onnx.ModelProto
        The input is ``X`` of shape (n, n_features). The outputs of a classifier or one-class model
        are ``label`` of shape (n,), which is int64, string or ``dtype`` as the labels are integers,
        strings or floats, and ``scores``, which is what `decision_function` returns. A `KernelSVCCV`
        with ``calibration`` has a third, ``probabilities`` of shape (n, n_classes). The output of a
        regression is ``prediction``, which is what `predict` returns.

    Notes
    -----
    The graph has standard operators only. It holds the kernel between all rows of ``X`` and all
    support vectors, so give it some thousand rows at a time. Of an early model it computes only the
    cluster that a row belongs to. The graph refuses no row. After scaling, a feature that is NaN
    counts as zero, and a negative one counts as zero where the kernel takes none. A feature so large
    that sums could overflow float32, such as an infinity, counts as the largest where they cannot.
    Such a row does not change the decisions of other rows.

    Examples
    --------
    >>> from widemargin import KernelSVC
    >>> from widemargin.export import to_onnx
    >>> model = KernelSVC().fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    >>> graph = to_onnx(model).graph
    >>> [output.name for output in graph.output]
    ['label', 'scores']
    """
    check_choice("dtype", dtype, DTYPES)
    onnx = _import_onnx()
    described = describe(model)
    graph = Graph(onnx, np.dtype(dtype))
    given = Value(graph, "X", graph.dtype)
    x = given.cast(np.float64)
    is_nan = x.apply("IsNaN")
    for scaling in described.scaling:
        x = _scale(scaling, x)
    x = _saturate(x, is_nan, find_limit(described.functions))
    decisions = decide(described.functions, x)
    add = _add_classes if described.has_classes else _add_targets
    outputs = add(described, decisions)
    inputs = [given.declare([None, described.n_features])]
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, described.name, inputs, outputs, graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="widemargin",
        producer_version=__version__,
        doc_string=f"{described.name}, fitted by widemargin",
    )
    onnx.checker.check_model(proto, full_check=True)
    return proto


def _import_onnx() -> Any:
    try:
        return import_module("onnx")
    except ModuleNotFoundError as error:
        raise ImportError(
            "to_onnx needs the onnx package: pip install 'widemargin[onnx]'"
        ) from error


def _scale(scaling: Scaling, x: Value) -> Value:
    x = (x - scaling.before) / scaling.divisor * scaling.factor + scaling.after
    is_free = np.isinf([scaling.low, scaling.high]).all()
    return x if is_free else x.apply("Clip", scaling.low, scaling.high)


def _saturate(x: Value, is_nan: Value, limit: float) -> Value:
    """Return the features, with zero for NaN and the limit for values beyond it."""
    zero = x.graph.constant(np.zeros((), x.dtype))
    name = x.graph.add("Where", is_nan.name, zero.name, x.name)
    return Value(x.graph, name, x.dtype).apply("Clip", -limit, limit)


def _add_targets(described: Description, decisions: Value) -> list[Any]:
    """Add the output of a regression: a vector or a matrix, as its targets were."""
    shape: list[int | None] = [None, described.n_functions]
    if described.rule == "target":
        decisions, shape = decisions.apply("Squeeze", np.array([1])), [None]
    return [decisions.narrow().rename("prediction").declare(shape)]


def _add_classes(described: Description, decisions: Value) -> list[Any]:
    """Add the outputs of a classifier or one-class model: labels and scores."""
    graph = decisions.graph
    chosen, scores = _judge(described, decisions)
    label = graph.constant(_labels(described.classes, graph.dtype)).apply("Gather", chosen)
    shape: list[int | None] = [None, len(described.classes)]
    if described.rule == "sign":
        shape = [None]
    outputs = [
        label.rename("label").declare([None]),
        scores.narrow().rename("scores").declare(shape),
    ]
    if described.calibration is not None:
        values = calibrate(described.calibration, decisions).narrow()
        outputs.append(values.rename("probabilities").declare([None, len(described.classes)]))
    return outputs


def _judge(described: Description, decisions: Value) -> tuple[Value, Value]:
    """Return the number of the class of every row, and the scores."""
    n_classes = len(described.classes)
    if described.rule == "argmax":
        return decisions.first_largest(), decisions
    if described.rule == "sign":
        scores = decisions.apply("Squeeze", np.array([1]))
        return scores.apply("GreaterOrEqual", described.threshold).cast(np.int64), scores
    pairs = np.array(class_pairs(n_classes))
    signs = np.eye(n_classes)[pairs[:, 1]] - np.eye(n_classes)[pairs[:, 0]]
    # The first class of a pair has its vote until the second wins.
    before = np.bincount(pairs[:, 0], minlength=n_classes).astype(np.float64)
    votes = decisions.apply("GreaterOrEqual", 0.0).cast(np.float64) @ signs + before
    confidence = decisions @ signs
    return votes.first_largest(), votes + confidence / ((confidence.apply("Abs") + 1.0) * 3.0)


def _labels(classes: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the classes in a type that ONNX has."""
    if classes.dtype.kind in "biu":
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(dtype)
    if all(isinstance(label, str) for label in classes):
        return classes.astype(object)
    raise ValueError(
        f"model: its labels are of type {classes.dtype}, which ONNX has not; use numbers or strings"
    )
