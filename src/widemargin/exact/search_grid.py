"""Values of C, gamma and epsilon to search: as given, or found from the data."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from widemargin.arguments import check_integer, check_number
from widemargin.exact.search_surface import FloatArray
from widemargin.kernel_arguments import resolve_gamma
from widemargin.kernels import Chi2, ExpChi2, Index, Kernel, Linear, Precomputed
from widemargin.kernels.summed import SummedKernel
from widemargin.problem import Problem

#: Rows among which distances are measured.
SAMPLE_ROWS = 500
#: Ends of the range of C, before division by the scale of the kernel.
COST_RANGE = (2.0**-2, 2.0**10)
#: The widest kernel has gamma = 0.1 / (the distance that 90 % of all pairs stay below).
WIDE_FACTOR, WIDE_QUANTILE = 0.1, 0.9
#: The narrowest kernel has gamma = 3 / (the median distance of a row to its nearest neighbour in the
#: sample), but the range covers a factor of 100 at least and of 10,000 at most.
NARROW_FACTOR, LEAST_RATIO, MOST_RATIO = 3.0, 100.0, 10_000.0
#: Ends of the range of gamma for kernels of scalar products, times the mean squared length of rows.
PRODUCT_RANGE = (0.01, 10.0)
#: Ends of the range of gamma of a kernel of single features, times their variance.
FEATURE_RANGE = (0.02, 20.0)
#: Largest ratio of two neighbours that are added to a range.
LARGEST_STEP = 10.0
#: Ends of the range of epsilon, times the standard deviation of the targets.
EPSILON_RANGE = (0.01, 0.3)


def has_width(kernel: Any) -> bool:
    """Whether a kernel has a parameter gamma."""
    return "gamma" in getattr(kernel, "__dataclass_fields__", {})


def with_gamma(kernel: Any, gamma: float) -> Kernel:
    """The same kernel with another gamma; the kernel itself if it has none."""
    return replace(kernel, gamma=gamma) if has_width(kernel) else kernel


@dataclass(frozen=True)
class Shape:
    """Parameters of a kernel besides gamma; the shapes of a search are searched one after another."""

    degree: int
    coef0: float

    def apply(self, kernel: Any) -> Kernel:
        """The same kernel with this degree and coef0, as far as it has them."""
        return replace(kernel, **{name: getattr(self, name) for name in _shape_names(kernel)})


def check_values(name: str, values: Any, *, zero: bool = False) -> FloatArray | int:
    """Check a parameter that is a number of values or the values themselves.

    ``zero`` says whether a value may be zero.
    """
    if isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{name}: give at least one value, got {values!r}")
        return int(values)
    hint = "give an integer, the number of values to find from the data, or an array of them"
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {values!r:.80} are not numbers; {hint}") from error
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name}: {values!r:.80} is not a list of values; {hint}")
    is_wrong = ~np.isfinite(found) | ((found < 0) if zero else (found <= 0))
    if is_wrong.any():
        least = "not be negative" if zero else "be positive"
        raise ValueError(f"{name}: values must be finite and {least}, got {found[is_wrong][0]:g}")
    if len(np.unique(found)) < len(found):
        raise ValueError(f"{name}: every value may be given once, got {values!r:.80}")
    return found


def list_degrees(degree: Any) -> list[int]:
    """The degrees to search: one, or those of a list."""
    return [int(each) for each in _list_values("degree", degree, partial(check_integer, low=0))]


def list_coef0(coef0: Any) -> list[float]:
    """The values of coef0 to search: one, or those of a list."""
    return [float(each) for each in _list_values("coef0", coef0, check_number)]


def _list_values(name: str, given: Any, check: Callable[[str, Any], None]) -> list[Any]:
    values = [given] if np.ndim(given) == 0 else list(given)
    for each in values:
        check(name, each)
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name}: give a number or a list of different ones, got {given!r:.80}")
    return values


def list_shapes(kernel: Kernel, degree: Any, coef0: Any) -> list[Shape]:
    """The shapes to search: every degree with every coef0.

    A kernel object keeps its own values unless several are given.
    """
    values: dict[str, list[Any]] = {}
    for name, written, listed in (
        ("degree", degree, list[Any](list_degrees(degree))),
        ("coef0", coef0, list[Any](list_coef0(coef0))),
    ):
        is_used = name in _shape_names(kernel)
        if len(listed) > 1 and not is_used:
            raise ValueError(
                f"{name}: the {kernel.name!r} kernel has no {name}, so there is nothing to search; "
                "give one number"
            )
        values[name] = [getattr(kernel, name)] if is_used and np.ndim(written) == 0 else listed
    return [Shape(*each) for each in product(values["degree"], values["coef0"])]


def _shape_names(kernel: Any) -> list[str]:
    """Those of the parameters of a `Shape` that a kernel has."""
    return [f.name for f in fields(Shape) if f.name in getattr(kernel, "__dataclass_fields__", {})]


def find_gammas(kernel: Kernel, problem: Problem, n_values: int, seed: int) -> FloatArray:
    """A geometric range of gammas that suits the distances (or lengths) of the rows."""
    rows = _draw_numbers(problem.X.shape[0], seed)
    sample, weights = problem.X[rows], problem.sample_weights[rows]
    if kernel.has_feature_gamma:
        scale = resolve_gamma("scale", problem, per_feature=True)
        low, high = (end * scale for end in FEATURE_RANGE)
        return spread_values(low, high, n_values)
    if not _is_radial(kernel):
        lengths = float(np.average(Linear().diag(Linear().prepare(sample)), weights=weights))
        low, high = (end / max(lengths, 1e-300) for end in PRODUCT_RANGE)
        return spread_values(low, high, n_values)
    distances = _measure_distances(Chi2() if isinstance(kernel, ExpChi2) else Linear(), sample)
    if not distances.any():
        raise ValueError(
            "gammas: all rows are alike, so that there is no distance to choose widths by; give an "
            "array of values"
        )
    low = WIDE_FACTOR / _quantile(distances, np.outer(weights, weights), WIDE_QUANTILE)
    nearest = np.where(distances > 0, distances, np.inf).min(axis=1)
    high = NARROW_FACTOR / _quantile(nearest, weights, 0.5)
    high = float(np.clip(high, LEAST_RATIO * low, MOST_RATIO * low))
    return spread_values(low, high, n_values)


def find_costs(
    kernel: Kernel, problem: Problem, n_values: int, seed: int, target_scale: float
) -> FloatArray:
    """A geometric range of C around the inverse of the kernel's variance, times that of targets."""
    scale = 1.0
    if not _is_radial(kernel):
        rows = _draw_numbers(problem.X.shape[0], seed)
        share = problem.sample_weights[rows] / problem.sample_weights[rows].sum()
        K = _kernel_among(kernel, problem.X, rows)
        scale = float(share @ np.diagonal(K) - share @ K @ share)
        scale = scale if scale > 0 else max(float(np.abs(K).max()), 1e-300)
    low, high = (end * target_scale / scale for end in COST_RANGE)
    return spread_values(low, high, n_values)


def find_epsilons(targets: FloatArray, weights: FloatArray, n_values: int) -> FloatArray:
    """A geometric range of epsilons that suits how much the targets vary."""
    spread = spread_of(targets, weights)
    return spread_values(EPSILON_RANGE[0] * spread, EPSILON_RANGE[1] * spread, n_values)


def spread_of(targets: FloatArray, weights: FloatArray) -> float:
    """Standard deviation of the targets (n, n_targets); one if they are all equal."""
    share = weights / (weights.sum() * targets.shape[1])
    mean = float((share @ targets).sum())
    return float((share @ np.square(targets - mean)).sum()) ** 0.5 or 1.0


def extend(values: FloatArray, *, upwards: bool, n_more: int) -> FloatArray:
    """A geometric range with more values at one end."""
    ratio = min(values[1] / values[0], LARGEST_STEP)
    powers = ratio ** np.arange(1, n_more + 1)
    if upwards:
        return np.concatenate([values, values[-1] * powers])
    return np.concatenate([values[0] / powers[::-1], values])


def _is_radial(kernel: Kernel) -> bool:
    return isinstance(kernel, SummedKernel) and kernel.has_exponential


def spread_values(low: float, high: float, n_values: int) -> FloatArray:
    """A geometric range, its middle if one value is wanted, rounded to three digits."""
    values = np.geomspace(low, high, n_values) if n_values > 1 else np.array([(low * high) ** 0.5])
    return np.array([float(f"{value:.3g}") for value in values])


def _draw_numbers(n: int, seed: int) -> Index:
    if n <= SAMPLE_ROWS:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, SAMPLE_ROWS, replace=False))


def _kernel_among(kernel: Kernel, X: Any, rows: Index) -> FloatArray:
    """The kernel matrix of some rows."""
    if isinstance(kernel, Precomputed):
        return np.asarray(X[np.ix_(rows, rows)], np.float64)
    return np.asarray(kernel(X[rows]), np.float64)


def _quantile(values: FloatArray, weights: FloatArray, share: float) -> float:
    """The smallest positive finite value below which that share of the weights is.

    Equal weights and repeated rows give the same value.
    """
    used = np.flatnonzero((values.ravel() > 0) & np.isfinite(values.ravel()))
    values, weights = values.ravel()[used], weights.ravel()[used]
    order = np.argsort(values)
    passed = np.cumsum(weights[order])
    # A little less, so that rounding of the sum does not skip a value.
    at = np.searchsorted(passed, share * passed[-1] * (1.0 - 1e-12))
    return float(values[order[at]])


def _measure_distances(product: Kernel, X: Any) -> FloatArray:
    """Squared distances in the space of a kernel, zero where rounding leaves nothing else."""
    if not sparse.issparse(X) and isinstance(product, Linear):
        X = X - X.mean(axis=0)
    K = np.asarray(product(X), np.float64)
    squares = np.diagonal(K)
    distances = squares[:, None] + squares - 2.0 * K
    distances[distances < 1e-6 * squares.max(initial=0.0)] = 0.0
    np.fill_diagonal(distances, 0.0)
    return distances
