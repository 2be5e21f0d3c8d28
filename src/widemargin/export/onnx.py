"""Fitted classifiers as ONNX graphs, for any runtime that knows the standard operators."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin import __version__
from widemargin.additive.quantiser import Quantiser
from widemargin.export.description import (
    ClusterSum,
    CurveSum,
    Fork,
    KernelSum,
    LogSum,
    Scaling,
    describe,
    known,
)
from widemargin.export.limits import find_limit
from widemargin.kernels import RBF, ExpChi2, Hellinger, PowerMean
from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.summed import FLOAT32_NORM, LOG2_E, Form, SummedKernel
from widemargin.problem import class_pairs
from widemargin.validation import check_choice

FloatArray = NDArray[np.float64]

#: Version of the standard operators, and of the file format that came with it.
OPSET, IR_VERSION = 17, 8
#: Types that a graph may take and give.
DTYPES = ("float32", "float64")
#: Least squared norm of the mean of a group, as in kernel k-means.
MIN_SQUARED_NORM = 1e-30
#: Types that operators give whatever they take.
RESULTS = {"Greater": bool, "GreaterOrEqual": bool, "Equal": bool, "IsNaN": bool} | dict.fromkeys(
    ("ArgMax", "NonZero", "Shape"), np.int64
)


def to_onnx(model: Any, *, dtype: str = "float32") -> Any:
    """Write a fitted classifier as an ONNX model.

    Parameters
    ----------
    model : classifier or Pipeline
        A fitted classifier of widemargin, or a pipeline of `StandardScaler`, `MinMaxScaler` or
        `MaxAbsScaler` and one.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input, the scores and the kernel values. The rest, which takes little time, is
        computed in float64: scaling, bins, and decisions from kernel values.

    Returns
    -------
    model : onnx.ModelProto
        Takes ``X`` of shape (n, n_features). Gives ``label`` of shape (n,), of int64, strings or
        ``dtype`` as the classes are whole numbers, strings or floats, and ``scores`` as
        `decision_function` does.

    Notes
    -----
    The graph has standard operators only. It holds the kernel between all rows of ``X`` and all
    support vectors, so give it some thousand rows at a time; of clusters it asks a row's own only.
    It refuses nothing. After scaling, a feature that is NaN counts as zero, and a negative one counts
    as zero where the kernel takes none. A feature so large that sums could overflow float32, such as
    an infinity, counts as the largest where they cannot. Other rows keep their decisions.
    """
    check_choice("dtype", dtype, DTYPES)
    onnx = _import_onnx()
    described = describe(model)
    n_classes = len(described.classes)
    graph = _Graph(onnx, np.dtype(dtype))
    given = _Value(graph, "X", graph.dtype)
    x = given.cast(np.float64)
    is_nan = x.apply("IsNaN")
    for scaling in described.scaling:
        x = _scale(scaling, x)
    x = _saturate(x, is_nan, find_limit(described.functions))
    chosen, scores = _judge(described.rule, n_classes, _decide(described.functions, x))
    label = graph.constant(_labels(described.classes, graph.dtype)).apply("Gather", chosen)
    outputs = [
        label.rename("label").declare([None]),
        scores.cast(graph.dtype)
        .rename("scores")
        .declare([None] if described.rule == "sign" else [None, n_classes]),
    ]
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


class _Graph:
    """Nodes and constants of a graph in the making.

    Parameters
    ----------
    onnx : module
        The package.
    dtype : dtype
        Of kernel values.
    outer : _Graph, optional
        The graph that this one is a loop in; it keeps the constants.
    """

    def __init__(self, onnx: Any, dtype: np.dtype[Any], outer: "_Graph | None" = None) -> None:
        self.onnx = onnx
        self.dtype = dtype
        self.nodes: list[Any] = []
        self.constants: list[Any] = [] if outer is None else outer.constants
        self.numbers: Iterator[int] = count() if outer is None else outer.numbers

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        output = self.name(op)
        self.nodes.append(self.onnx.helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, values: Any) -> "_Value":
        """Add an array."""
        values = np.array(values, order="C")
        name = self.name("constant")
        self.constants.append(self.onnx.numpy_helper.from_array(values, name))
        return _Value(self, name, values.dtype)

    def name(self, stem: str) -> str:
        """A name that nothing else has."""
        return f"{stem}_{next(self.numbers)}"

    def kind(self, dtype: np.dtype[Any]) -> int:
        """ONNX's number for a type."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(dtype))


@dataclass(frozen=True)
class _Value:
    """An array that a graph computes; arithmetic with it adds nodes.

    The other operand may be a number or an array, which take on its type; whole numbers in an array
    stay what they are.
    """

    graph: _Graph
    name: str
    dtype: np.dtype[Any]

    def apply(self, op: str, *others: Any, **attributes: Any) -> "_Value":
        """Result of an operator that takes this first."""
        names = [self.name, *(self._operand(other).name for other in others)]
        dtype = np.dtype(RESULTS.get(op, self.dtype))
        return _Value(self.graph, self.graph.add(op, *names, **attributes), dtype)

    def _operand(self, other: Any) -> "_Value":
        if isinstance(other, _Value):
            return other
        is_index = isinstance(other, np.ndarray) and other.dtype.kind == "i"
        return self.graph.constant(other if is_index else np.asarray(other, self.dtype))

    def __add__(self, other: Any) -> "_Value":
        return self.apply("Add", other)

    def __sub__(self, other: Any) -> "_Value":
        return self.apply("Sub", other)

    def __mul__(self, other: Any) -> "_Value":
        return self.apply("Mul", other)

    def __truediv__(self, other: Any) -> "_Value":
        return self.apply("Div", other)

    def __matmul__(self, other: Any) -> "_Value":
        return self.apply("MatMul", other)

    def cast(self, dtype: Any) -> "_Value":
        """The same in another type."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        name = self.graph.add("Cast", self.name, to=self.graph.kind(dtype))
        return _Value(self.graph, name, dtype)

    def narrow(self) -> "_Value":
        """The same in the type of kernel values."""
        return self.cast(self.graph.dtype)

    def total(self, *, keep: bool = False) -> "_Value":
        """Sum over the second axis."""
        return self.apply("ReduceSum", np.array([1]), keepdims=int(keep))

    def first_largest(self) -> "_Value":
        """Where in its row the largest number is, the first of several."""
        return self.apply("ArgMax", axis=1, keepdims=0)

    def each_row(self, width: int, function: Callable[["_Value"], "_Value"]) -> "_Value":
        """Results, ``width`` numbers each, of a function of a row.

        By a loop, not a scan, which fails without rows in onnxruntime.
        """
        make = self.graph.onnx.helper.make_graph
        body = _Graph(self.graph.onnx, self.graph.dtype, self.graph)
        number = _Value(body, body.name("number"), np.dtype(np.int64))
        going = _Value(body, body.name("going"), np.dtype(bool))
        row = _Value(body, body.add("Gather", self.name, number.name), self.dtype)
        outputs = [going.apply("Identity").declare([]), function(row).declare([width])]
        loop = make(body.nodes, "row", [number.declare([]), going.declare([])], outputs)
        n_rows = self.apply("Shape", end=1)
        return _Value(self.graph, self.graph.add("Loop", n_rows.name, "", body=loop), self.dtype)

    def rename(self, name: str) -> "_Value":
        """The same under a given name."""
        node = self.graph.onnx.helper.make_node("Identity", [self.name], [name])
        self.graph.nodes.append(node)
        return _Value(self.graph, name, self.dtype)

    def declare(self, shape: list[int | None]) -> Any:
        """What it looks like, as an input or output."""
        kind = self.graph.kind(self.dtype)
        return self.graph.onnx.helper.make_tensor_value_info(self.name, kind, shape)


def _scale(scaling: Scaling, x: _Value) -> _Value:
    x = (x - scaling.before) / scaling.divisor * scaling.factor + scaling.after
    is_free = np.isinf([scaling.low, scaling.high]).all()
    return x if is_free else x.apply("Clip", scaling.low, scaling.high)


def _saturate(x: _Value, is_nan: _Value, limit: float) -> _Value:
    """The features, zero where they were NaN, and none larger than the limit."""
    zero = x.graph.constant(np.zeros((), x.dtype))
    name = x.graph.add("Where", is_nan.name, zero.name, x.name)
    return _Value(x.graph, name, x.dtype).apply("Clip", -limit, limit)


def _decide(functions: KernelSum | CurveSum | LogSum | ClusterSum, x: _Value) -> _Value:
    """Values of all functions, shape (n, n_functions), from features; both in float64."""
    if isinstance(functions, KernelSum):
        return _decide_kernels(functions, x)
    if isinstance(functions, CurveSum):
        return _decide_curves(functions, x)
    if isinstance(functions, LogSum):
        return _decide_logs(functions, x)
    return _decide_fork(functions, 0, x)


def _decide_kernels(functions: KernelSum, x: _Value) -> _Value:
    kernel, vectors, coef = known(functions.kernel), functions.vectors, functions.coef.T
    if len(vectors) == 0 or kernel.form == Form():
        # A product with all vectors added up.
        return _transform(kernel, x) @ (kernel.transform(vectors).T @ coef) + functions.intercept
    # Without intercept the sign depends on kernel values, however small.
    far = bool((functions.intercept == 0.0).any())
    return _compare(kernel, x, vectors, far=far) @ coef + functions.intercept


def _transform(kernel: SummedKernel, x: _Value) -> _Value:
    """Features as the kernel's operation sees them, but for a factor."""
    if kernel.needs_nonnegative:
        x = x.apply("Max", 0.0)
    is_root = isinstance(kernel, Hellinger) or (isinstance(kernel, PowerMean) and kernel.p == 0.0)
    return x.apply("Sqrt") if is_root else x


def _compare(kernel: SummedKernel, x: _Value, vectors: FloatArray, *, far: bool = False) -> _Value:
    """Kernel between queries and vectors, with ``far`` down to the smallest values of float64.

    The result is float64 always, or a sum of thousands would lose digits.
    """
    form = kernel.form
    x = _transform(kernel, x)
    if form.finish == tiles.EXP2:
        logs = _log_kernel(kernel, x, vectors)
        return (logs.cast(np.float64) if far else logs.narrow()).apply("Exp").cast(np.float64)
    if form.op != tiles.DOT:
        return _sum_means(kernel, x, vectors).cast(np.float64)
    # A factor goes with the vectors: onnxruntime makes one that precedes a product a float32.
    values = x.narrow() @ (form.scale * kernel.transform(vectors).T)
    if form.finish == tiles.TANH:
        values = (values + form.shift).apply("Tanh")
    elif form.finish == tiles.POLY:
        values = (values + form.shift).apply("Pow", form.degree)
    return values.cast(np.float64)


def _log_kernel(kernel: SummedKernel, x: _Value, vectors: FloatArray) -> _Value:
    if isinstance(kernel, RBF):
        return _log_rbf(kernel.gamma, x, vectors)
    assert isinstance(kernel, ExpChi2)
    return _sum_means(kernel, x, vectors) * -kernel.gamma


def _log_rbf(gamma: float, x: _Value, vectors: FloatArray) -> _Value:
    """``-gamma |x - z|^2`` from products of centred points, in float64 if they are far apart."""
    centre = vectors.mean(axis=0)
    others = vectors - centre
    norms = gamma * np.einsum("ij,ij->i", others, others)
    x = x - centre
    if norms.max() * LOG2_E <= FLOAT32_NORM:
        x = x.narrow()
    logs = x @ (2.0 * gamma * others.T) - (x * x).total(keep=True) * gamma - norms
    return logs.apply("Min", 0.0)


def _sum_means(kernel: SummedKernel, x: _Value, vectors: FloatArray) -> _Value:
    """Sums over features, query by query: all features of all pairs would not fit."""
    form = kernel.form
    # A power near zero takes many digits.
    x = x if form.op == tiles.POWER_MEAN else x.narrow()
    others = x.graph.constant(vectors.astype(x.dtype))

    def compare_row(row: _Value) -> _Value:
        low, high = row.apply("Min", others), row.apply("Max", others)
        if isinstance(kernel, ExpChi2):
            return ((high - low) * _ratio(high - low, low + high)).total()
        if form.op == tiles.MIN:
            return low.total()
        if form.op == tiles.CHI2:
            return (low * _ratio(high, low + high) * 2.0).total()
        if form.op == tiles.JENSEN_SHANNON:
            return _jensen_shannon(low, high).total()
        return _power_mean(low, high, form.power).total()

    return x.each_row(len(vectors), compare_row)


def _jensen_shannon(low: _Value, high: _Value) -> _Value:
    """``((low + high) log(1 + u) - low log(u)) / log(4)`` with ``u = low / high``."""
    ratio = _ratio(low, high)
    both = (low + high) * (ratio + 1.0).apply("Log")
    return (both - low * _log(ratio)) / log(4.0)


def _power_mean(low: _Value, high: _Value, power: float) -> _Value:
    """``low ((1 + u^-power) / 2)^(1 / power)`` with ``u = low / high``."""
    powers = (_log(_ratio(low, high)) * -power).apply("Exp")
    return low * (((powers + 1.0) * 0.5).apply("Log") / power).apply("Exp")


def _ratio(a: _Value, b: _Value) -> _Value:
    """``a / b``, zero if both are."""
    return a / b.apply("Max", np.finfo(b.dtype).tiny)


def _log(a: _Value) -> _Value:
    """Logarithm, of zero that of the smallest number."""
    return a.apply("Max", np.finfo(a.dtype).tiny).apply("Log")


def _decide_curves(functions: CurveSum, x: _Value) -> _Value:
    codes = _encode(functions.quantiser, x).apply("Min", np.diff(functions.offsets) - 1)
    curves = x.graph.constant(functions.curves.T.astype(x.graph.dtype))
    heights = curves.apply("Gather", codes + functions.offsets[:-1])
    return heights.total().cast(np.float64) + functions.intercept


def _encode(quantiser: Quantiser, x: _Value) -> _Value:
    """Codes of feature values, step by step as `Quantiser.encode` finds them."""
    x = x - quantiser.low
    if quantiser.spacing == "quantile":
        return _search(0.5 * (quantiser.grid[1:] + quantiser.grid[:-1]), x / quantiser.span)
    x = (x * (1.0 / quantiser.span)).apply("Clip", 0.0, 1.0)
    if quantiser.spacing == "sqrt":
        x = x.apply("Sqrt")
    x = x * (quantiser.n_bins - 1)
    return (x if quantiser.cut else x + 0.5).cast(np.int64)


def _search(bounds: FloatArray, x: _Value) -> _Value:
    """How many of the ascending bounds are below each value, by halving."""
    n_steps = len(bounds).bit_length()
    padded = np.full(2**n_steps, np.inf)
    padded[: len(bounds)] = bounds
    table, codes = x.graph.constant(padded), x.graph.constant(np.zeros((1, 1), np.int64))
    for step in 2 ** np.arange(n_steps)[::-1]:
        bound = table.apply("Gather", codes + (step - 1))
        codes = codes + x.apply("Greater", bound).cast(np.int64) * step
    return codes


def _decide_logs(functions: LogSum, x: _Value) -> _Value:
    n_functions, _, n_powers = functions.coef.shape
    x = x.apply("Unsqueeze", np.array([2]))
    within = x.apply("Clip", 0.0, functions.unit)
    logs = (within / functions.unit + functions.offset).apply("Log")
    powers = logs.apply("Pow", np.arange(n_powers, dtype=np.float64))
    if np.isfinite(functions.zero):
        powers = powers * x.apply("Greater", functions.zero).cast(np.float64)
    coef = functions.coef.reshape(n_functions, -1).T
    return powers.apply("Flatten", axis=1) @ coef + functions.intercept


def _decide_fork(functions: ClusterSum, number: int, x: _Value) -> _Value:
    """Compute every query with the cluster or fork of its group, and collect the decisions."""
    fork = functions.forks[number]
    targets = x.graph.constant(np.array(fork.targets))
    leads_to = targets.apply("Gather", _choose_groups(functions, fork, x))
    rows, values = [], []
    for target in sorted(set(fork.targets)):
        here = leads_to.apply("Equal", target).apply("NonZero").apply("Squeeze", np.array([0]))
        queries = x.apply("Gather", here)
        rows.append(here)
        if target < 0:
            values.append(_decide_fork(functions, -1 - target, queries))
        else:
            values.append(_decide_kernels(functions.clusters[target], queries))
    places = rows[0].apply("Concat", *rows[1:], axis=0).apply("Unsqueeze", np.array([1]))
    decisions = values[0].apply("Concat", *values[1:], axis=0)
    return decisions.apply("ScatterND", places, decisions)


def _choose_groups(functions: ClusterSum, fork: Fork, x: _Value) -> _Value:
    """Number of the nearest group, the first of several."""
    kernel = known(functions.clusters[0].kernel)
    similar = _compare(kernel, x, functions.samples[fork.samples])
    if kernel.floor > 0.0:
        similar = similar.apply("Max", kernel.floor)
    sizes = np.diff(fork.bounds)
    means = similar @ np.repeat(np.eye(len(sizes)), sizes, axis=0) / sizes.astype(np.float64)
    if fork.on_sphere:
        norms = np.sqrt(np.maximum(fork.squared_norms, MIN_SQUARED_NORM))
        return (means / norms).first_largest()
    return (means - 0.5 * fork.squared_norms).first_largest()


def _judge(rule: str, n_classes: int, decisions: _Value) -> tuple[_Value, _Value]:
    """Number of the class of every row, and the scores."""
    if rule == "argmax":
        return decisions.first_largest(), decisions
    if rule == "sign":
        scores = decisions.apply("Squeeze", np.array([1]))
        return scores.apply("GreaterOrEqual", 0.0).cast(np.int64), scores
    pairs = np.array(class_pairs(n_classes))
    signs = np.eye(n_classes)[pairs[:, 1]] - np.eye(n_classes)[pairs[:, 0]]
    # The first class of a pair has its vote until the second wins.
    before = np.bincount(pairs[:, 0], minlength=n_classes).astype(np.float64)
    votes = decisions.apply("GreaterOrEqual", 0.0).cast(np.float64) @ signs + before
    confidence = decisions @ signs
    return votes.first_largest(), votes + confidence / ((confidence.apply("Abs") + 1.0) * 3.0)


def _labels(classes: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The classes in a type that ONNX has."""
    if classes.dtype.kind in "biu":
        return classes.astype(np.int64)
    if classes.dtype.kind == "f":
        return classes.astype(dtype)
    if all(isinstance(label, str) for label in classes):
        return classes.astype(object)
    raise ValueError(
        f"model: its labels are of type {classes.dtype}, which ONNX has not; use numbers or strings"
    )
