"""What workers do to fit an additive kernel: ranges, codes, and descent on the rows of a block."""

from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from widemargin.additive.classifier_base import asked_classes
from widemargin.additive.coded_rows import combine_coded, count_bins, decide
from widemargin.additive.coded_rows_fast import Rows
from widemargin.additive.codes import Codes
from widemargin.additive.dual_descent import Descent, OneVsRestDual, WarmStart, descend
from widemargin.additive.mixins import Columns, measure_columns, subtract_origin
from widemargin.additive.quantiles import weigh_digits_of
from widemargin.additive.quantiser import Quantiser, Ranges, measure_ranges, measured_chunks
from widemargin.additive.representations import BinRepresentation, constants
from widemargin.distributed.blocks import Block, FloatArray
from widemargin.kernels import Index
from widemargin.parallel import Workers, single_blas


class CodedBlock(NamedTuple):
    """Rows of a block as codes, with the one-vs-rest problems of these rows."""

    rows: Rows
    dual: OneVsRestDual


class Weighed(NamedTuple):
    """What the client needs to know of the kernel on a block."""

    weight: float
    norm_sum: float
    largest_norm: float


class Shared(NamedTuple):
    """The model that all blocks improve.

    Attributes
    ----------
    coef : ndarray of shape (n_problems, n_coefs)
        Coefficients.
    extra : ndarray of shape (n_problems, n_extra)
        Coefficients of the extra numbers, of which the last makes the intercept.
    """

    coef: FloatArray
    extra: FloatArray


class Told(NamedTuple):
    """What the client learns of the step that a block proposes, for each problem.

    Attributes
    ----------
    change : Shared
        What the step adds to the coefficients.
    slope : ndarray of shape (n_problems,)
        Share of the losses in the derivative of the dual objective along the step.
    bend : ndarray of shape (n_problems,)
        Share of the losses in its second derivative.
    limit : ndarray of shape (n_problems,)
        How many times the step may be made.
    highest, lowest : ndarray of shape (n_problems,)
        Largest and smallest projected gradient before the step.
    n_iter : ndarray of shape (n_problems,)
        Passes.
    """

    change: Shared
    slope: FloatArray
    bend: FloatArray
    limit: FloatArray
    highest: FloatArray
    lowest: FloatArray
    n_iter: Index


class Move(NamedTuple):
    """Dual variables of a block, and the step that it proposes."""

    alpha: FloatArray
    delta: FloatArray
    told: Told | None


def measure_block(block: Block) -> Ranges:
    """Measure the ranges of the features of a block."""
    return measure_ranges(measured_chunks(block.X))


def describe_columns(block: Block, class_weights: FloatArray) -> Columns | None:
    """Measure what tells whether the rows of a block are centred; None for sparse rows."""
    if sparse.issparse(block.X):
        return None
    return measure_columns(block.X, block.weights / class_weights[block.labels])


def join_columns(parts: list[Columns | None]) -> Columns | None:
    """Return what is known of the columns of all blocks; None if rows of any are sparse."""
    dense = [part for part in parts if part is not None]
    return reduce(Columns.join, dense) if len(dense) == len(parts) else None


def move_block(block: Block, origin: FloatArray) -> Block:
    """Return the rows of a block less the origin."""
    return replace(block, X=subtract_origin(block.X, origin))


def weigh_values(
    block: Block,
    class_weights: FloatArray,
    kind: np.dtype[Any],
    columns: list[int] | None,
    above: FloatArray,
    prefixes: list[int],
    shift: int,
) -> FloatArray:
    """Return the weights of digits of the values of a block, for `select_quantiles`."""
    weights = block.weights / class_weights[block.labels]
    chosen = [block.X] if columns is None else (block.X[:, [j]] for j in columns)
    return np.array([
        weigh_digits_of(some, weights, kind, least, prefix, shift)
        for some, least, prefix in zip(chosen, above, prefixes, strict=True)
    ])  # fmt: skip


def encode_block(quantiser: Quantiser, block: Block) -> Codes:
    """Return the codes of the rows of a block."""
    return quantiser.encode(block.X)


def count_codes(
    quantiser: Quantiser, codes: Codes, block: Block, class_weights: FloatArray
) -> FloatArray:
    """Return how often each bin occurs in a block, with rows weighted."""
    return count_bins(codes, quantiser.n_bins, block.weights / class_weights[block.labels])


def represent_block(local: Any, block: Block, codes: Codes) -> Any:
    """Return the rows of a block as numbers from codes and tables."""
    offsets = np.arange(codes.n_features + 1) * local.quantiser_.n_bins
    return local._represent_codes(block.as_problem(local.classes_), codes, offsets)


def represent_bins(local: Any, block: Block) -> BinRepresentation:
    """Return the rows of a block as bins of the intersection kernel, whose unit is one bin."""
    quantiser, codes = local.quantiser_, local._encode(block.X)
    offsets = np.arange(codes.n_features + 1) * quantiser.n_bins
    extra = constants(len(codes), local._has_intercept())
    scale = np.full(codes.n_features, quantiser.n_bins - 1.0)
    dtype = local._dtype(block.as_problem(local.classes_))
    return BinRepresentation(quantiser, codes, offsets, scale, extra, dtype)


def weigh_block(data: Any, block: Block, class_weights: FloatArray) -> Weighed:
    """Return the sum of k(x, x) over the rows of a block."""
    weights = block.weights / class_weights[block.labels]
    return Weighed(float(weights.sum()), float(weights @ data.norms), float(data.norms.max()))


def pose_block(local: Any, data: Any, block: Block) -> CodedBlock:
    """Return the one-vs-rest problems of a block; ``local`` knows C and the mean of k(x, x)."""
    rows, norms = data.rows, data.norms
    if local._has_free_intercept():
        # An intercept without penalty moves as much as the mean of k(x, x) says.
        written = rows.extra_write.reshape(len(norms), -1).copy()
        written[:, -1] = local.kernel_mean_
        rows = rows._replace(extra_write=written.ravel())
        norms = norms + (local.kernel_mean_ - 1.0)
    costs, is_squared = local._cost() * block.weights, local.loss == "squared_hinge"
    dual = OneVsRestDual(
        labels=block.labels.astype(np.int64),
        positives=asked_classes(block.as_problem(local.classes_)),
        upper=np.full(len(costs), np.inf) if is_squared else costs,
        ridge=0.5 / costs if is_squared else np.zeros(len(costs)),
        norms=norms,
    )
    return CodedBlock(rows, dual)


def rest(block: CodedBlock) -> Move:
    """Return the dual variables with which a fit begins."""
    zeros = np.zeros((len(block.dual.labels), len(block.dual.positives)))
    return Move(zeros, zeros, None)


def improve_block(
    block: CodedBlock, before: Move, lengths: FloatArray, shared: Shared, settings: Descent
) -> Move:
    """Make the last step, of these lengths, and propose another one.

    The step minimises the dual objective over the dual variables of this block alone.
    """
    rows, dual = block
    upper = dual.upper[:, None]
    alpha = np.clip(before.alpha + lengths * before.delta, 0.0, upper)
    gradient = _find_gradient(block, alpha, shared)
    projected = np.where(alpha <= 0, np.minimum(gradient, 0.0), gradient)
    projected = np.where(alpha >= upper, np.maximum(gradient, 0.0), projected)
    with single_blas():
        found = descend(
            rows, dual, settings, Workers(1, None), WarmStart(alpha, shared.extra, shared.coef)
        )
    delta = found.alpha - alpha
    ridge = dual.ridge[:, None]
    told = Told(
        change=Shared(found.coef - shared.coef, found.extra - shared.extra),
        slope=(ridge * alpha * delta - delta).sum(axis=0),
        bend=(ridge * delta * delta).sum(axis=0),
        limit=_find_limit(alpha, delta, upper),
        highest=projected.max(axis=0),
        lowest=projected.min(axis=0),
        n_iter=found.n_iter,
    )
    return Move(alpha, delta, told)


class Evaluated(NamedTuple):
    """Loss of the rows of a block, and what its rows add to the coefficients, in each problem."""

    loss: FloatArray
    pull: Shared


def evaluate_block(block: CodedBlock, shared: Shared) -> Evaluated:
    """Evaluate the squared hinge loss of a block and its derivative.

    The derivative of the loss of a row is ``-2 C y max(0, 1 - y f(x))`` times the row.
    """
    rows, dual = block
    signs = np.where(dual.labels[:, None] == dual.positives, 1.0, -1.0)
    decisions = decide(rows, shared.coef, shared.extra, Workers(1, None))
    alpha = np.maximum(1.0 - signs * decisions, 0.0) / dual.ridge[:, None]
    loss = 0.5 * np.einsum("ij,ij,i->j", alpha, alpha, dual.ridge)
    return Evaluated(loss, Shared(*combine_coded(rows, dual.labels, dual.positives, alpha)))


def _find_gradient(block: CodedBlock, alpha: FloatArray, shared: Shared) -> FloatArray:
    """Return the gradient of the dual objective at the rows of a block."""
    signs = np.where(block.dual.labels[:, None] == block.dual.positives, 1.0, -1.0)
    decisions = decide(block.rows, shared.coef, shared.extra, Workers(1, None))
    return signs * decisions - 1.0 + block.dual.ridge[:, None] * alpha


def _find_limit(alpha: FloatArray, delta: FloatArray, upper: FloatArray) -> FloatArray:
    """Return how many times a step may be made; at least once, because its end is feasible."""
    room = np.where(delta < 0, alpha, upper - alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(delta == 0, np.inf, room / np.abs(delta))
    return np.maximum(times.min(axis=0), 1.0)
