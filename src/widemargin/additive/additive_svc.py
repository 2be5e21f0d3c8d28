"""AdditiveSVC: an SVM with an additive kernel, at the cost of a linear SVM, by spectral tables."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import count_bins
from widemargin.additive.codes import Codes
from widemargin.additive.scalar_kernels import (
    ScalarKernel,
    check_scalar_kernel,
    is_homogeneous,
    make_scalar_kernel,
)
from widemargin.additive.spectral_table import MAX_RANK, Spectrum, spectral_table
from widemargin.additive.tables_mixin import TablesMixin
from widemargin.arguments import check_integer, check_number
from widemargin.kernels import Kernel
from widemargin.parameters import Choices
from widemargin.problem import Problem

#: Rank beyond which the intersection kernel is faster with a value for each bin than with a table.
BINS_RANK = 8


class AdditiveSVC(TablesMixin):
    """Support vector classifier with an additive kernel, at the cost of a linear one.

    An additive kernel is a sum over features of a kernel of two numbers, so a decision is a sum of
    curves, one for each feature: see `shape_functions` and `explain`. Feature values become codes of
    one byte, and a table turns each code into a few numbers whose products approximate the kernel:
    the leading eigenvectors of the kernel on the bins, weighted by how often bins occur.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; smaller values regularise more. ``"scale"`` divides a constant by the mean of
        k(x, x) over the training rows, or over those of the first call of `partial_fit`, so that it
        suits any number of features in any unit; see `C_`.
    kernel : str, callable or Kernel, default="chi2"
        ``"chi2"``, ``"intersection"``, ``"hellinger"``, ``"jensen_shannon"``, ``"power_mean"``, an
        additive kernel object, or a callable ``k(x, y)`` of two arrays of numbers, symmetric and
        positive semidefinite.
    p : float, default=-1.0
        Exponent of the power mean, not positive.
    rank : int or "auto", default="auto"
        Number of columns of the table. ``"auto"`` chooses the smallest rank that leaves out at most a
        thousandth of the kernel's trace. The intersection kernel would need too many columns; it gets
        one value for each bin instead, which is exact.
    n_bins : int, default=256
        Number of bins of each feature. Whole numbers up to 4095 have a bin each, whatever ``n_bins``.
    binning : {"auto", "uniform", "sqrt", "quantile"}, default="auto"
        Spacing of the bins between zero and the largest value of a feature. ``"sqrt"`` is finer near
        zero; ``"auto"`` uses it for features that are not whole numbers.
    scaling : {"max"} or None, default=None
        ``"max"`` divides every feature by its largest value in training, for features in different
        units; the curves keep the units. Not for callable kernels.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a row on the wrong side of its margin.
    solver : {"dual", "sgd"}, default="dual"
        Dual coordinate descent, or stochastic descent on the primal problem, as in `partial_fit`.
    multi_class : {"ovr"}, default="ovr"
        One class against the rest.
    fit_intercept : {"free", True, False}, default="free"
        ``"free"`` fits an intercept without penalty, as `KernelSVC` does, and True one that is
        regularised like the coefficients, as in LIBLINEAR. Stochastic descent regularises both.
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
        Maximum number of passes over the data.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model. `fit` replaces this model by one that
        predicts the largest class if that is more accurate on the training rows.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same, as for a path over C.
        It has no effect with ``solver="sgd"``; `partial_fit` continues from the current model.
    n_jobs : int or None, default=None
        Number of threads, which share the classes; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows. The model does not depend on ``n_jobs``.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    tables_ : ndarray of shape (n_bins, rank)
        The table: numbers for each code.
    coef_ : ndarray of shape (n_functions, n_features, rank)
        Coefficients of the numbers; one function for two classes, else one for each class.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    C_ : float
        The cost of an error that was used.
    kernel_mean_ : float
        Mean of k(x, x) over the training rows.
    rank_ : int
        Number of columns of the table; 0 if every bin has a value of its own.
    left_out_ : float
        Share of the kernel's trace that the table leaves out.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    origin_ : ndarray of shape (n_features,)
        Numbers that are subtracted from the features. They are zeros, except that they are the
        smallest values in training if the kernel needs non-negative features and the data are
        centred: the mean of every column is zero within four standard errors.
    n_seen_, t_ : int
        Number of rows in all calls since `fit`, and number of steps, one for each visit to a row.
    n_iter_ : int or ndarray
        Number of passes for each decision function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, as after `partial_fit`, or ``"max_time"``.
    violation_ : float
        Largest spread of projected gradients in the last pass of `fit`.

    Notes
    -----
    In predictions, values that are larger than all in training count as the largest. For centred data,
    smaller values count as the smallest, and bins and ``scaling="max"`` begin at `origin_` instead of
    zero.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import AdditiveSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> AdditiveSVC(C=0.01).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    _choices: ClassVar[Choices] = {
        "solver": ("dual", "sgd"),
        "multi_class": ("ovr",),
        "scaling": ("max", None),
    }

    def __init__(
        self,
        *,
        C: float | str = "scale",
        kernel: str | Kernel | Callable[[Any, Any], Any] = "chi2",
        p: float = -1.0,
        rank: int | str = "auto",
        n_bins: int = 256,
        binning: str = "auto",
        scaling: str | None = None,
        loss: str = "squared_hinge",
        solver: str = "dual",
        multi_class: str = "ovr",
        fit_intercept: bool | str = "free",
        alpha: float | None = None,
        eta0: float = 1.0,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 0.1,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
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
        if self.rank != "auto":
            check_integer("rank", self.rank, low=1)
        if self.p != -np.inf:
            check_number("p", self.p)
        self._scalar_kernel()
        if self.scaling is not None and not self._is_homogeneous:
            raise ValueError(
                "scaling: not available with a callable kernel, which need not be homogeneous; "
                "scale the features instead"
            )

    def _scalar_kernel(self) -> ScalarKernel:
        """Make the kernel of two numbers; a kernel that is not additive is refused."""
        return make_scalar_kernel(self.kernel, self.p)

    @property
    def _is_homogeneous(self) -> bool:
        return is_homogeneous(self.kernel)

    def _choose_table(self, problem: Problem, codes: Codes) -> Spectrum:
        """Return the leading eigenvectors of the kernel on the bins that occur."""
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
        return spectrum


def code_counts(codes: Codes, n_bins: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Count how often each bin occurs, rows weighted, without the first, which holds the zeros."""
    counts = count_bins(codes, n_bins, weights)
    counts[0] = 0.0
    return counts if counts.any() else np.ones_like(counts)
