"""AdditiveSVC: an SVM with an additive kernel, at the cost of a linear SVM, by spectral tables."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.chunked_data import collect_chunks
from widemargin.additive.coded_rows import count_bins
from widemargin.additive.codes import Codes
from widemargin.additive.curves import BinEncoder, BinModel, bin_offsets
from widemargin.additive.online_base import StochasticClassifier
from widemargin.additive.quantiser import SPACINGS, Quantiser, Ranges, fit_quantiser
from widemargin.additive.representations import (
    BinRepresentation,
    Representation,
    TableRepresentation,
    constants,
)
from widemargin.additive.scalar_kernels import (
    ScalarKernel,
    check_scalar_kernel,
    is_homogeneous,
    make_scalar_kernel,
)
from widemargin.additive.spectral_table import MAX_RANK, Spectrum, spectral_table
from widemargin.kernels import Kernel
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import ANY_BLOCKS, check_choice, check_flag, check_integer, check_number

#: Rank beyond which the intersection kernel is faster with a value for each bin than with a table.
BINS_RANK = 8
#: Ratio of the largest values of two features beyond which a warning recommends scaling.
WIDE_RANGES = 100.0


class AdditiveSVC(StochasticClassifier):
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
    scaling : {"max"} or None, default=None
        ``"max"`` divides every feature by its largest value in training: a kernel for features in
        different units, whose curves keep them. Not for callable kernels.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a point on the wrong side of its margin.
    solver : {"dual", "sgd"}, default="dual"
        Dual coordinate descent, or stochastic descent on the primal, which `partial_fit` uses too.
    multi_class : {"ovr"}, default="ovr"
        One class against the rest.
    fit_intercept : bool, default=True
        Whether there is a constant; it is regularised like the rest, as in LIBLINEAR.
    alpha : float or None, default=None
        Regularisation of stochastic descent; None for ``1 / (C n_samples)``.
    eta0 : float, default=1.0
        Steps of stochastic descent are ``1 / (alpha (t + eta0))``; positive.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class; ``"balanced"`` not for `partial_fit`.
    tol : float, default=0.1
        Stop when the projected gradients of a problem differ by less; stochastic descent, when a
        pass changes the coefficients by less than a tenth of that share.
    max_iter : int, default=1000
        Passes over the data.
    max_time : float or None, default=None
        Seconds after which to stop with the model reached so far; `fit`, with one that predicts the
        largest class if that is more accurate on the training rows.
    warm_start : bool, default=False
        Start from the last solution if the labels are the same: for a path over C. Not with
        ``solver="sgd"``; `partial_fit` goes on from a model.
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
        Coefficients of these numbers: one function for two classes, else one for each class.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    rank_ : int
        Numbers for each code; 0 if every bin has a value of its own.
    left_out_ : float
        Share of the kernel's trace that the table leaves out.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    origin_ : ndarray of shape (n_features,)
        Subtracted from the features: zeros, but the smallest values in training if the data are
        centred, all means being zero as far as so many rows can tell, and the kernel needs features
        that are not negative.
    n_seen_, t_ : int
        Rows seen by `fit` and `partial_fit`, and steps made, counting a visit to a row as one.
    n_iter_ : int or ndarray
        Passes for each function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, as after `partial_fit`, or ``"max_time"``.
    violation_ : float
        Largest spread of projected gradients in the last pass of `fit`.

    Notes
    -----
    Values at prediction that are larger than any in training count as the largest. If the data were
    centred, smaller ones count as the smallest; bins and ``scaling="max"`` then begin there, at
    `origin_`, and not at zero.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import AdditiveSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> AdditiveSVC(C=0.01).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    _layout = ANY_BLOCKS

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "chi2",
        p: float = -1.0,
        rank: int | str = "auto",
        n_bins: int = 256,
        binning: str = "auto",
        scaling: str | None = None,
        loss: str = "squared_hinge",
        solver: str = "dual",
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        alpha: float | None = None,
        eta0: float = 1.0,
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
        self.scaling = scaling
        self.loss = loss
        self.solver = solver
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.eta0 = eta0
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
        check_choice("solver", self.solver, ("dual", "sgd"))
        check_choice("multi_class", self.multi_class, ("ovr",))
        check_choice("binning", self.binning, SPACINGS)
        check_flag("fit_intercept", self.fit_intercept)
        check_integer("n_bins", self.n_bins, low=2)
        if self.n_bins > 2**16:
            raise ValueError(f"n_bins: at most {2**16} bins have codes, got {self.n_bins}")
        if self.rank != "auto":
            check_integer("rank", self.rank, low=1)
        if self.p != -np.inf:
            check_number("p", self.p)
        self._scalar_kernel()
        if self.scaling is not None:
            check_choice("scaling", self.scaling, ("max",))
            if not self._is_homogeneous:
                raise ValueError(
                    "scaling: not available with a callable kernel, which need not be homogeneous; "
                    "scale the features instead"
                )

    def _scalar_kernel(self) -> ScalarKernel:
        """Make the kernel of two numbers; a kernel that is not additive is refused."""
        return make_scalar_kernel(self.kernel, self.p)

    @property
    def _is_homogeneous(self) -> bool:
        """Whether ``k(c x, c y) = c k(x, y)``, as for all kernels but callables."""
        return is_homogeneous(self.kernel)

    def _needs_nonnegative(self) -> bool:
        return self._is_homogeneous

    @all_or_nothing
    def fit_chunks(self, chunks: Any, codes_path: str | os.PathLike[str] | None = None) -> Self:
        """Fit the SVM model to data given in pieces, which need not fit into memory.

        The pieces are read twice: for the range of every feature, then for the codes, of one byte a
        value (two with more than 256 bins), on which the fit works. Of sparse pieces only the stored
        values have codes, unless that takes more memory or zeros matter to the kernel; each takes
        another byte, or two or four where rows are almost empty.

        Parameters
        ----------
        chunks : iterable or callable
            Gives ``(X, y)`` or ``(X, y, sample_weight)``, dense or sparse; pieces without rows are
            passed over. It must be possible to go through it twice: a list, or a function that
            returns a new iterator.
        codes_path : path-like, optional
            File to keep the codes in, mapped into memory; without it they are held in memory.

        Returns
        -------
        self : AdditiveSVC
            The fitted classifier.
        """
        self._check_params()
        deadline = self._deadline()
        if self.binning == "quantile":
            raise ValueError("binning: quantiles need all data at once; use 'auto' or another")
        collected = collect_chunks(
            self, chunks, self._check_features, codes_path, self._fit_grid,
            # These kernels are zero at zero; others may need every value.
            may_be_sparse=self._is_homogeneous,
        )  # fmt: skip
        self.classes_, self.feature_ranges_ = collected.problem.classes, collected.ranges
        self.origin_ = np.zeros(self.n_features_in_)
        self._fit_codes(collected.problem, collected.codes, deadline)
        self._warn_unless_converged()
        return self

    def _fit(self, problem: Problem) -> None:
        deadline = self._deadline()
        problem = replace(problem, X=self._take_features(problem.X, problem.sample_weights))
        self._fit_quantiser(problem)
        self._fit_codes(problem, self.quantiser_.encode(problem.X), deadline)
        self._require_majority(problem)

    def _fit_codes(self, problem: Problem, codes: Codes, deadline: float | None) -> None:
        """Fit to codes: represent, solve, model."""
        self._choose_table(problem, codes)
        data = self._represent_codes(problem, codes, bin_offsets(codes))
        coef, extra = self._solve(problem, data, deadline)
        self._model = data.make_model(coef, extra)

    def _prepare(self, problem: Problem) -> None:
        """Choose the bins and the table."""
        self._fit_quantiser(problem)
        self._choose_table(problem, self.quantiser_.encode(problem.X))

    def _fit_quantiser(self, problem: Problem) -> None:
        self._fit_grid(self._measure(problem), problem.X, problem.sample_weights)

    def _fit_grid(self, ranges: Ranges, X: Any = None, weights: Any = None) -> Quantiser:
        self.quantiser_ = fit_quantiser(
            ranges, self.n_bins, self.binning, per_feature=self._is_homogeneous, X=X,
            weights=weights,
        )  # fmt: skip
        return self.quantiser_

    def _choose_table(self, problem: Problem, codes: Codes) -> None:
        kernel = self._scalar_kernel()
        # A homogeneous kernel has one table for all features, whose own ranges are factors on it. For
        # any other kernel all features share a range.
        values = self.quantiser_.grid if kernel.is_homogeneous else self.quantiser_.values(0)
        if not kernel.is_homogeneous:
            check_scalar_kernel(kernel, values)
        counts = code_counts(codes, self.quantiser_.n_bins, problem.sample_weights)
        rank = None if self.rank == "auto" else int(self.rank)
        spectrum = spectral_table(kernel, values, counts, rank)
        if rank is None and spectrum.rank > MAX_RANK:
            spectrum = spectral_table(kernel, values, counts, MAX_RANK)
        if rank is None and spectrum.rank > BINS_RANK and kernel.name == "intersection":
            spectrum = Spectrum(spectrum.table, 0, 0.0)
        self._table, self.rank_, self.left_out_ = spectrum.table, spectrum.rank, spectrum.left_out

    def _advise_scaling(self) -> str:
        largest = self.feature_ranges_[1] - self.origin_
        least = largest.min(initial=np.inf, where=largest > 0)
        is_wide = largest.max() > WIDE_RANGES * least
        # Scaling is not allowed with other kernels.
        if self.scaling is None and self._is_homogeneous and is_wide:
            return 'set scaling="max", since the ranges of the features differ widely'
        return super()._advise_scaling()

    def _scales(self) -> NDArray[np.float64]:
        """Factor on the kernel of each feature."""
        if not self._is_homogeneous:
            return np.ones(self.n_features_in_)
        largest = self.feature_ranges_[1] - self.origin_
        unit = np.where(largest > 0, largest, 1.0) if self.scaling == "max" else 1.0
        return self.quantiser_.span / unit

    def _make_whole(self, problem: Problem, codes: Codes) -> Codes:
        """Codes of all values, if the zeros that sparse data leave out matter to the kernel."""
        zero = np.abs(self._table[self.quantiser_.zero_code]).max()
        if codes.is_sparse and zero > 1e-9 * np.abs(self._table).max():
            return self.quantiser_.encode(problem.X, is_whole=True)
        return codes

    def _represent(self, problem: Problem) -> Representation:
        codes = self.quantiser_.encode(problem.X)
        # Later rows may have larger codes than these.
        offsets = np.arange(codes.n_features + 1) * self.quantiser_.n_bins
        return self._represent_codes(problem, codes, offsets)

    def _represent_codes(
        self, problem: Problem, codes: Codes, offsets: NDArray[np.int64]
    ) -> Representation:
        extra, dtype = constants(len(codes), self.fit_intercept), self._dtype(problem)
        if self.rank_ == 0:
            return BinRepresentation(self.quantiser_, codes, offsets, self._scales(), extra, dtype)
        codes = self._make_whole(problem, codes)
        encoder = BinEncoder(self.quantiser_, self._table)
        return TableRepresentation(encoder, codes, self._scales(), extra, dtype)

    @property
    def tables_(self) -> NDArray[np.float64]:
        """Numbers for each code."""
        if isinstance(self._model, BinModel):
            return np.eye(self._model.quantiser.n_bins)
        assert isinstance(self._model.encoder, BinEncoder)
        return self._model.encoder.table

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the numbers of a code."""
        model = self._model
        return model.full_curves() if isinstance(model, BinModel) else model.coef


def code_counts(codes: Codes, n_bins: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Count how often each bin occurs, rows weighted, without the first, which holds the zeros."""
    counts = count_bins(codes, n_bins, weights)
    counts[0] = 0.0
    return counts if counts.any() else np.ones_like(counts)
