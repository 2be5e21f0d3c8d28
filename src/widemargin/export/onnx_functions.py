"""Decision functions as nodes of an ONNX graph."""

from math import log

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.quantiser import Quantiser
from widemargin.divide.cluster_models import WEIGHT_POWER
from widemargin.export.description import (
    ClusterSum,
    CurveSum,
    Fork,
    KernelSum,
    LogSum,
    is_linear,
    known,
)
from widemargin.export.onnx_graph import Value
from widemargin.kernels import RBF, ExpChi2, Hellinger, Kernel, PowerMean
from widemargin.kernels import tiles_fast as tiles
from widemargin.kernels.anova import AnovaKernel, AnovaRBF
from widemargin.kernels.summed import FLOAT32_NORM, LOG2_E, SummedKernel

FloatArray = NDArray[np.float64]


def decide(functions: KernelSum | CurveSum | LogSum | ClusterSum, x: Value) -> Value:
    """Return the values of all functions, shape (n, n_functions), from features; both in float64."""
    if isinstance(functions, KernelSum):
        return _decide_kernels(functions, x)
    if isinstance(functions, CurveSum):
        return _decide_curves(functions, x)
    if isinstance(functions, LogSum):
        return _decide_logs(functions, x)
    decisions = (
        _decide_fork(functions, 0, x) if functions.n_nearest == 1 else _decide_nearest(functions, x)
    )
    if functions.background is None:
        return decisions
    return decisions + _decide_kernels(functions.background, x)


def _decide_kernels(functions: KernelSum, x: Value) -> Value:
    kernel, vectors, coef = functions.kernel, functions.vectors, functions.coef.T
    if len(vectors) == 0:
        return x @ np.zeros((vectors.shape[1], coef.shape[1])) + functions.intercept
    if is_linear(kernel):
        # The sum of linear kernels is one product with the sum of all vectors.
        total = known(kernel).transform(vectors).T @ coef
        return _transform(kernel, x) @ total + functions.intercept
    # Without intercept the sign depends on kernel values even where they are tiny.
    far = bool((functions.intercept == 0.0).any())
    return _compare(kernel, x, vectors, far=far) @ coef + functions.intercept


def _transform(kernel: Kernel, x: Value) -> Value:
    """Return the features that the kernel's operation takes, up to a factor."""
    if kernel.needs_nonnegative:
        x = x.apply("Max", 0.0)
    is_root = isinstance(kernel, Hellinger) or (isinstance(kernel, PowerMean) and kernel.p == 0.0)
    return x.apply("Sqrt") if is_root else x


def _compare(kernel: Kernel, x: Value, vectors: FloatArray, *, far: bool = False) -> Value:
    """Return the kernel between queries and vectors; with ``far`` it underflows as float64 does.

    The result is float64 in any case, because a sum of thousands of float32 would lose digits.
    """
    x = _transform(kernel, x)
    if isinstance(kernel, AnovaKernel):
        return _sum_pairs(kernel, x, vectors)
    kernel = known(kernel)
    form = kernel.form
    if form.finish == tiles.EXP2:
        logs = _log_kernel(kernel, x, vectors)
        return (logs.cast(np.float64) if far else logs.narrow()).apply("Exp").cast(np.float64)
    if form.op != tiles.DOT:
        return _sum_means(kernel, x, vectors).cast(np.float64)
    # The vectors contain the factor: onnxruntime rounds a factor before a product to float32.
    values = x.narrow() @ (form.scale * kernel.transform(vectors).T)
    if form.finish == tiles.TANH:
        values = (values + form.shift).apply("Tanh")
    elif form.finish == tiles.POLY:
        values = (values + form.shift).apply("Pow", form.degree)
    return values.cast(np.float64)


def _log_kernel(kernel: SummedKernel, x: Value, vectors: FloatArray) -> Value:
    if isinstance(kernel, RBF):
        return _log_rbf(kernel.gamma, x, vectors)
    assert isinstance(kernel, ExpChi2)
    return _sum_means(kernel, x, vectors) * -kernel.gamma


def _log_rbf(gamma: float, x: Value, vectors: FloatArray) -> Value:
    """Return ``-gamma |x - z|^2`` from products of centred points, in float64 if these are large."""
    centre = vectors.mean(axis=0)
    others = vectors - centre
    norms = gamma * np.einsum("ij,ij->i", others, others)
    x = x - centre
    if norms.max() * LOG2_E <= FLOAT32_NORM:
        x = x.narrow()
    logs = x @ (2.0 * gamma * others.T) - (x * x).total(keep=True) * gamma - norms
    return logs.apply("Min", 0.0)


def _sum_means(kernel: SummedKernel, x: Value, vectors: FloatArray) -> Value:
    """Return sums over features, one query at a time to save memory."""
    form = kernel.form
    # A power near zero needs the digits of float64.
    x = x if form.op == tiles.POWER_MEAN else x.narrow()
    others = x.graph.constant(vectors.astype(x.dtype))

    def compare_row(row: Value) -> Value:
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


def _sum_pairs(kernel: AnovaKernel, x: Value, vectors: FloatArray) -> Value:
    """Return ANOVA kernels in float64: sums of pairs are differences of squares here."""
    x = x.cast(np.float64)
    others = x.graph.constant(vectors)

    def compare_row(row: Value) -> Value:
        low, high = row.apply("Min", others), row.apply("Max", others)
        if isinstance(kernel, AnovaRBF):
            values = ((high - low) * (high - low) * -kernel.gamma).apply("Exp")
        elif kernel.op == tiles.MIN:
            values = low
        else:
            values = low * _ratio(high, low + high) * 2.0
        sums = values.total()
        pairs = (sums * sums - (values * values).total()) * 0.5
        return sums * kernel.curve_factor + pairs * kernel.pair_factor

    return x.each_row(len(vectors), compare_row)


def _jensen_shannon(low: Value, high: Value) -> Value:
    """``((low + high) log(1 + u) - low log(u)) / log(4)`` with ``u = low / high``."""
    ratio = _ratio(low, high)
    both = (low + high) * (ratio + 1.0).apply("Log")
    return (both - low * _log(ratio)) / log(4.0)


def _power_mean(low: Value, high: Value, power: float) -> Value:
    """``low ((1 + u^-power) / 2)^(1 / power)`` with ``u = low / high``."""
    powers = (_log(_ratio(low, high)) * -power).apply("Exp")
    return low * (((powers + 1.0) * 0.5).apply("Log") / power).apply("Exp")


def _ratio(a: Value, b: Value) -> Value:
    """Return ``a / b``, and zero for zero by zero."""
    return a / b.apply("Max", np.finfo(b.dtype).tiny)


def _log(a: Value) -> Value:
    """Return the logarithm; zero counts as the smallest positive number."""
    return a.apply("Max", np.finfo(a.dtype).tiny).apply("Log")


def _decide_curves(functions: CurveSum, x: Value) -> Value:
    codes = _encode(functions.quantiser, x).apply("Min", np.diff(functions.offsets) - 1)
    curves = x.graph.constant(functions.curves.T.astype(x.graph.dtype))
    heights = curves.apply("Gather", codes + functions.offsets[:-1])
    return heights.total().cast(np.float64) + functions.intercept


def _encode(quantiser: Quantiser, x: Value) -> Value:
    """Return the codes of feature values, with the operations of `Quantiser.encode`."""
    x = x - quantiser.low
    if quantiser.spacing == "quantile":
        return search(0.5 * (quantiser.grid[1:] + quantiser.grid[:-1]), x / quantiser.span)
    x = (x * (1.0 / quantiser.span)).apply("Clip", 0.0, 1.0)
    if quantiser.spacing == "sqrt":
        x = x.apply("Sqrt")
    x = x * (quantiser.n_bins - 1)
    return (x if quantiser.cut else x + 0.5).cast(np.int64)


def search(bounds: FloatArray, x: Value) -> Value:
    """Return how many of the ascending bounds are below each value, by bisection."""
    n_steps = len(bounds).bit_length()
    padded = np.full(2**n_steps, np.inf)
    padded[: len(bounds)] = bounds
    table, codes = x.graph.constant(padded), x.graph.constant(np.zeros((1, 1), np.int64))
    for step in 2 ** np.arange(n_steps)[::-1]:
        bound = table.apply("Gather", codes + (step - 1))
        codes = codes + x.apply("Greater", bound).cast(np.int64) * step
    return codes


def _decide_logs(functions: LogSum, x: Value) -> Value:
    n_functions, _, n_powers = functions.coef.shape
    x = x.apply("Unsqueeze", np.array([2]))
    within = x.apply("Clip", 0.0, functions.unit)
    logs = (within / functions.unit + functions.offset).apply("Log")
    powers = logs.apply("Pow", np.arange(n_powers, dtype=np.float64))
    if np.isfinite(functions.zero):
        powers = powers * x.apply("Greater", functions.zero).cast(np.float64)
    coef = functions.coef.reshape(n_functions, -1).T
    return powers.apply("Flatten", axis=1) @ coef + functions.intercept


def _decide_fork(functions: ClusterSum, number: int, x: Value) -> Value:
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
    return _collect(rows, values)


def _decide_nearest(functions: ClusterSum, x: Value) -> Value:
    """Add up the functions of the nearest clusters with weights, as `weigh_clusters` says."""
    n_nearest, n_functions = functions.n_nearest, len(functions.clusters[0].intercept)
    values = _rate_groups(functions, functions.forks[0], x)
    values, nearest = _rate_clusters(functions.forks[0], values).top(n_nearest + 1)
    first, last = (values.apply("Gather", np.array([r]), axis=1) for r in (0, n_nearest))
    behind = values.apply("Gather", np.arange(1, n_nearest), axis=1)
    span = (first - last).apply("Max", np.finfo(np.float64).tiny)
    # The weight of the nearest cluster is one before all are divided by their sum.
    weights = ((first - first) + 1.0).apply(
        "Concat", ((behind - last) / span).apply("Pow", float(WEIGHT_POWER)), axis=1
    )
    weights = weights / weights.total(keep=True)
    # Every query and rank is computed with its cluster, and then collected.
    leads_to = nearest.apply("Gather", np.arange(n_nearest), axis=1)
    leads_to = leads_to.apply("Reshape", np.array([-1]))
    places, terms = [], []
    for c, cluster in enumerate(functions.clusters):
        here = leads_to.apply("Equal", c).apply("NonZero").apply("Squeeze", np.array([0]))
        places.append(here)
        terms.append(_decide_kernels(cluster, x.apply("Gather", here / n_nearest)))
    collected = _collect(places, terms).apply("Reshape", np.array([-1, n_nearest, n_functions]))
    return (collected * weights.apply("Unsqueeze", np.array([2]))).total()


def _rate_clusters(fork: Fork, values: Value) -> Value:
    """Return the value of each cluster, the largest of its groups; groups are sorted by cluster."""
    groups = np.split(np.arange(len(fork.targets)), np.flatnonzero(np.diff(fork.targets)) + 1)
    longest = max(map(len, groups))
    columns = np.array([np.resize(mine, longest) for mine in groups])
    return values.apply("Gather", columns, axis=1).apply("ReduceMax", axes=[2], keepdims=0)


def _collect(places: list[Value], values: list[Value]) -> Value:
    """Return the rows of some matrices in their places, which are all places together."""
    rows = places[0].apply("Concat", *places[1:], axis=0).apply("Unsqueeze", np.array([1]))
    joined = values[0].apply("Concat", *values[1:], axis=0)
    return joined.apply("ScatterND", rows, joined)


def _choose_groups(functions: ClusterSum, fork: Fork, x: Value) -> Value:
    """Return the number of the nearest group, the first of several."""
    return _rate_groups(functions, fork, x).first_largest()


def _rate_groups(functions: ClusterSum, fork: Fork, x: Value) -> Value:
    """Return the value of every group, the largest of which is the nearest."""
    kernel = functions.clusters[0].kernel
    similar = _compare(kernel, x, functions.samples[fork.samples])
    if kernel.floor > 0.0:
        similar = similar.apply("Max", kernel.floor)
    sizes = np.diff(fork.bounds)
    means = similar @ np.repeat(np.eye(len(sizes)), sizes, axis=0) / sizes.astype(np.float64)
    if fork.on_sphere:
        return means / fork.norms
    return means - 0.5 * fork.squared_norms
