"""Additive kernels at the cost of a linear machine: spectral tables."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.estimators.additive_base import HistogramClassifier
from widemargin.kernels import Kernel
from widemargin.models.additive import BinEncoder, BinModel, TableModel, bin_offsets
from widemargin.problem import Problem
from widemargin.solvers.additive import bin_rows, table_rows
from widemargin.solvers.additive_fast import Rows, count_codes, sum_codes
from widemargin.tables.quantiser import (
    SPACINGS,
    Codes,
    Quantiser,
    fit_quantiser,
    measure_ranges,
    row_chunks,
)
from widemargin.tables.scalar import ScalarKernel, check_scalar_kernel, make_scalar_kernel
from widemargin.tables.spectral import MAX_RANK, spectral_table
from widemargin.validation import check_choice, check_integer, check_number

#: Bins on which a callable kernel is checked.
CHECKED_BINS = 64


class AdditiveSVC(HistogramClassifier):
    """Support vector classifier with an additive kernel, at the cost of a linear one.

    An additive kernel is a sum over features of a kernel of two numbers, so a decision is a sum of
    curves, one for each feature: see `shape_functions` and `explain`. Feature values become codes of
    one byte, and a table turns each code into a few numbers whose products approximate the kernel:
    the leading eigenvectors of the kernel on the bins, weighted by how often bins occur.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : str, callable or Kernel, default="chi2"
        ``"chi2"``, ``"intersection"``, ``"hellinger"``, ``"jensen_shannon"``, ``"power_mean"``, an
        additive kernel object, or a callable ``k(x, y)`` of two arrays of numbers, symmetric and
        positive semidefinite.
    p : float, default=-1.0
        Exponent of the power mean, not positive.
    rank : int or "auto", default="auto"
        Numbers for each code. ``"auto"`` takes as few as leave out a thousandth of the kernel's
        trace; a kernel that needs too many, such as the intersection, gets one value for each bin
        instead, which is exact.
    n_bins : int, default=256
        Bins of each feature. Whole numbers up to 4095 get a bin each whatever this says.
    binning : {"auto", "uniform", "sqrt", "quantile"}, default="auto"
        How bins are spaced between zero and the largest value of a feature; ``"sqrt"`` is finer near
        zero, and what ``"auto"`` takes for features that are not whole numbers.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a point on the wrong side of its margin.
    solver : {"dual"}, default="dual"
        Dual coordinate descent.
    multi_class : {"ovr"}, default="ovr"
        One class against the rest.
    fit_intercept : bool, default=True
        Whether there is a constant; it is regularised like the rest, as in LIBLINEAR.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=0.1
        Stop when the projected gradients of a problem differ by less.
    max_iter : int, default=1000
        Passes over the data.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far.
    warm_start : bool, default=False
        Start from the last solution if the labels are the same: for a path over C.
    n_jobs : int or None, default=None
        Threads, which share the classes; None for all cores.
    random_state : int, RandomState or None, default=None
        Order of the rows. The same seed gives the same model whatever ``n_jobs``.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    tables_ : ndarray of shape (n_bins, rank)
        Numbers for each code.
    coef_ : ndarray of shape (n_functions, n_features, rank)
        What to multiply them by: one function for two classes, else one for each class.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    rank_ : int
        Numbers for each code; 0 if every bin has a value of its own.
    left_out_ : float
        Share of the kernel's trace that the table leaves out.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    n_iter_ : int or ndarray
        Passes for each function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"`` or ``"max_time"``.
    violation_ : float
        Largest spread of projected gradients in the last pass.

    Notes
    -----
    Values at prediction that are larger than any in training count as the largest.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import AdditiveSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> AdditiveSVC(C=0.01).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "chi2",
        p: float = -1.0,
        rank: int | str = "auto",
        n_bins: int = 256,
        binning: str = "auto",
        loss: str = "squared_hinge",
        solver: str = "dual",
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 0.1,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.p = p
        self.rank = rank
        self.n_bins = n_bins
        self.binning = binning
        self.loss = loss
        self.solver = solver
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("solver", self.solver, ("dual",))
        check_choice("multi_class", self.multi_class, ("ovr",))
        check_choice("binning", self.binning, SPACINGS)
        check_integer("n_bins", self.n_bins, low=2)
        if self.n_bins > 2**16:
            raise ValueError(f"n_bins: at most {2**16} bins have codes, got {self.n_bins}")
        if self.rank != "auto":
            check_integer("rank", self.rank, low=1)
        check_number("p", self.p) if self.p != -np.inf else None
        make_scalar_kernel(self.kernel, self.p)

    def _needs_nonnegative(self) -> bool:
        return not callable(self.kernel) or isinstance(self.kernel, Kernel)

    def _fit(self, problem: Problem) -> None:
        kernel = make_scalar_kernel(self.kernel, self.p)
        quantiser = fit_quantiser(
            measure_ranges(row_chunks(problem.X)), self.n_bins, self.binning,
            per_feature=kernel.is_homogeneous, X=problem.X, weights=problem.sample_weights,
        )  # fmt: skip
        codes = quantiser.encode(problem.X)
        representation = _Represented(kernel, quantiser, codes, problem, self.fit_intercept)
        rank = None if self.rank == "auto" else int(self.rank)
        self._fit_codes(problem, representation, rank)
        self._keep_summary(problem)

    def _fit_codes(self, problem: Problem, data: "_Represented", rank: int | None) -> None:
        dtype = self._dtype(problem)
        spectrum = spectral_table(data.kernel, data.values, data.counts(), rank)
        self.rank_, self.left_out_ = spectrum.rank, spectrum.left_out
        if rank is None and spectrum.rank > MAX_RANK and data.kernel.name == "intersection":
            self.rank_, self.left_out_ = 0, 0.0
            rows, norms, offsets = data.bin_rows(dtype)
            result = self._descend(problem, rows, norms)
            curves = result.coef.astype(np.float64)
            intercept = data.intercept(result.extra)
            self._model = BinModel(data.quantiser, offsets, curves, intercept)
            return
        rows, norms = data.table_rows(spectrum.table, dtype)
        result = self._descend(problem, rows, norms)
        coef = result.coef.reshape(len(result.coef), -1, rows.rank)[:, :, : spectrum.rank]
        self._model = TableModel(
            BinEncoder(data.quantiser, spectrum.table),
            np.ascontiguousarray(coef, np.float64),
            data.intercept(result.extra),
        )

    @property
    def tables_(self) -> NDArray[np.float64]:
        """Numbers for each code."""
        if isinstance(self._model, BinModel):
            return np.eye(self._model.quantiser.n_bins)
        assert isinstance(self._model.encoder, BinEncoder)
        return self._model.encoder.table

    @property
    def coef_(self) -> NDArray[np.float64]:
        """What to multiply the numbers of a code by."""
        model = self._model
        return model.full_curves() if isinstance(model, BinModel) else model.coef

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Constants."""
        return self._model.intercept


class _Represented:
    """Training data as codes, and the numbers that belong to them."""

    def __init__(
        self,
        kernel: ScalarKernel,
        quantiser: Quantiser,
        codes: Codes,
        problem: Problem,
        has_intercept: bool,
    ) -> None:
        self.kernel, self.quantiser, self.codes, self.problem = kernel, quantiser, codes, problem
        n = len(codes)
        constant = np.ones((n, 1)) if has_intercept else np.ones((n, 0))
        self.extra = (constant, constant)
        # A homogeneous kernel has one table for all features, whose own units are factors.
        self.scale = quantiser.span if kernel.is_homogeneous else np.ones(len(quantiser.span))
        self.values = quantiser.grid if kernel.is_homogeneous else quantiser.values(0)
        if not kernel.is_homogeneous:
            check_scalar_kernel(kernel, self.values[:: max(1, len(self.values) // CHECKED_BINS)])

    def counts(self) -> NDArray[np.float64]:
        """How often each bin occurs among the values that are not zero."""
        counts = np.zeros(self.quantiser.n_bins)
        weights = self.problem.sample_weights
        count_codes(self.codes.values, counts, weights, self.codes.indptr)
        counts[0] = 0.0
        return counts if counts.any() else np.ones_like(counts)

    def table_rows(self, table: NDArray[np.float64], dtype: type) -> tuple[Rows, Any]:
        rows = table_rows(self.codes, table, None, self.scale, self.extra, dtype)
        return rows, self._norms(rows, np.square(table).sum(axis=1))

    def bin_rows(self, dtype: type) -> tuple[Rows, Any, Any]:
        offsets = bin_offsets(self.codes)
        rows = bin_rows(self.codes, offsets, self.values, self.scale, self.extra, dtype)
        return rows, self._norms(rows, self.values), offsets

    def intercept(self, extra: NDArray[Any]) -> NDArray[np.float64]:
        """Constants of the decision functions."""
        return extra.sum(axis=1, dtype=np.float64)

    def _norms(self, rows: Rows, per_code: NDArray[np.float64]) -> NDArray[np.float64]:
        norms = np.empty(len(self.codes))
        sum_codes(rows, per_code, self.scale, norms)
        return norms + self.extra[0].shape[1]
