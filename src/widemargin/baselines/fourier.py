"""FourierSVC: Fourier feature maps of additive kernels, kept in a table."""

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.codes import Codes
from widemargin.additive.scalar_kernels import make_scalar_kernel
from widemargin.additive.spectral_table import Spectrum
from widemargin.additive.tables_mixin import TablesMixin
from widemargin.arguments import check_integer, check_number
from widemargin.parameters import Choices
from widemargin.problem import Problem

FloatArray = NDArray[np.float64]


def _sech(x: FloatArray) -> FloatArray:
    """Return the reciprocal of the hyperbolic cosine of non-negative numbers, without overflow."""
    fall = np.exp(-x)
    return np.asarray(2.0 * fall / (1.0 + fall**2))


#: Spectral density of each kernel.
SPECTRA: dict[str, Callable[[FloatArray], FloatArray]] = {
    "chi2": lambda w: _sech(np.pi * w),
    "intersection": lambda w: 2.0 / (np.pi * (1.0 + 4.0 * w**2)),
    "jensen_shannon": lambda w: 2.0 * _sech(np.pi * w) / (np.log(4.0) * (1.0 + 4.0 * w**2)),
}
#: Sampling intervals of the chi-square kernel by number of steps, as in AdditiveChi2Sampler.
CHI2_INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}
#: Intervals from which the best is chosen, and ratios of two values at which its error is computed.
TRIED_INTERVALS = np.geomspace(2.0, 0.01, 400)
TRIED_RATIOS = (np.arange(500) + 0.5) / 500


class FourierSVC(TablesMixin):
    """Support vector classifier on Fourier features of an additive kernel.

    The feature maps of Vedaldi and Zisserman (2012), with a look-up table as in the comparison of
    PmSVM. Every feature value becomes ``2 sample_steps - 1`` numbers whose products approximate the
    kernel: cosines and sines of multiples of its logarithm. Values are rounded to bins, and a table
    holds the numbers of every bin. Training and prediction are those of `AdditiveSVC`. The table of
    `AdditiveSVC` is fitted to the data; the table of this class depends on the kernel alone.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : {"chi2", "intersection", "jensen_shannon"}, default="chi2"
        The kernel.
    sample_steps : int, default=2
        Number of frequencies, zero included, as in
        `sklearn.kernel_approximation.AdditiveChi2Sampler`: 2 gives three numbers for each value.
    sample_interval : float or None, default=None
        Distance between frequencies. None uses the values of `AdditiveChi2Sampler` for chi-square
        and up to three steps, and otherwise the distance with the least squared error on the unit
        square.
    n_bins : int, default=1000
        Number of bins of each feature. Whole numbers up to 4095 have a bin each, whatever ``n_bins``.
    binning : {"auto", "uniform", "sqrt", "quantile"}, default="auto"
        Spacing of the bins, as for `AdditiveSVC`.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a row on the wrong side of its margin.
    fit_intercept : {"free", True, False}, default=True
        As for `AdditiveSVC`: without penalty, or regularised like the coefficients, or none.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class; ``"balanced"`` not for `partial_fit`.
    tol : float, default=0.1
        A fit stops when the projected gradients of a problem differ by less than this.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same, as for a path over C.
    n_jobs : int or None, default=None
        Number of threads, which share the classes; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    sample_interval_ : float
        Distance between frequencies.
    tables_ : ndarray of shape (n_bins, 2 * sample_steps - 1)
        Numbers for each bin, for features scaled to the unit interval. The scale of a feature changes
        all products of its numbers by the same factor, as it does in the kernel.
    coef_ : ndarray of shape (n_functions, n_features, 2 * sample_steps - 1)
        Coefficients of the numbers.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    rank_ : int
        Number of columns of the table.
    left_out_ : float
        Share of the kernel's trace that the map leaves out; negative if the map has a larger trace.
    quantiser_ : Quantiser
        Object that maps values to bins; ``grid``, ``low`` and ``span`` determine them.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    origin_ : ndarray of shape (n_features,)
        Numbers that are subtracted from the features, as in `AdditiveSVC`.
    n_seen_, t_ : int
        Number of rows in all calls since `fit`, and number of steps, one for each visit to a row.
    n_iter_ : int or ndarray
        Number of passes for each decision function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, as after `partial_fit`, or ``"max_time"``.
    violation_ : float
        Largest spread of projected gradients in the last pass of `fit`.

    References
    ----------
    A. Vedaldi, A. Zisserman, "Efficient additive kernels via explicit feature maps", IEEE
    Transactions on Pattern Analysis and Machine Intelligence 34, 2012.

    J. Wu, H. Yang, "Linear regression-based efficient SVM learning for large-scale classification",
    IEEE Transactions on Neural Networks and Learning Systems 26, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.baselines import FourierSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> FourierSVC(C=0.01).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    # Parameters of `AdditiveSVC` that have one value here.
    scaling, solver, alpha, eta0 = None, "dual", None, 1.0
    _is_homogeneous = True
    _choices: ClassVar[Choices] = {"kernel": tuple(SPECTRA)}

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str = "chi2",
        sample_steps: int = 2,
        sample_interval: float | None = None,
        n_bins: int = 1000,
        binning: str = "auto",
        loss: str = "squared_hinge",
        fit_intercept: bool | str = True,
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
        self.sample_steps = sample_steps
        self.sample_interval = sample_interval
        self.n_bins = n_bins
        self.binning = binning
        self.loss = loss
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
        check_integer("sample_steps", self.sample_steps, low=1)
        check_number("sample_interval", self.sample_interval, above=0, optional=True)

    def _choose_table(self, problem: Problem, codes: Codes) -> Spectrum:
        """Return the Fourier features of all bins, which depend on the kernel and not on the data."""
        name, n_steps = str(self.kernel), int(self.sample_steps)
        self.sample_interval_ = (
            choose_interval(name, n_steps)
            if self.sample_interval is None
            else float(self.sample_interval)
        )
        table = map_values(self.quantiser_.grid, name, n_steps, self.sample_interval_)
        # The kernel of one with itself is one.
        return Spectrum(table, table.shape[1], 1.0 - float(np.square(table[-1]).sum()))


def map_values(values: Any, kernel: str, n_steps: int, interval: float) -> FloatArray:
    """Compute the Fourier features of non-negative numbers, shape (n, 2 n_steps - 1).

    The features of zero are zeros. The columns are the constant, then the cosine and the sine of
    each frequency.
    """
    values = np.asarray(values, np.float64)
    frequencies = interval * np.arange(n_steps, dtype=np.float64)
    heights = np.sqrt(interval * SPECTRA[kernel](frequencies))
    waves = np.log(np.where(values > 0, values, 1.0))[:, None] * frequencies[1:]
    mapped = np.empty((len(values), 2 * n_steps - 1))
    mapped[:, 0] = heights[0]
    mapped[:, 1::2] = np.sqrt(2.0) * heights[1:] * np.cos(waves)
    mapped[:, 2::2] = np.sqrt(2.0) * heights[1:] * np.sin(waves)
    return mapped * np.sqrt(values)[:, None]


@cache
def choose_interval(kernel: str, n_steps: int) -> float:
    """Return the distance between frequencies: a known one, or the one with the least squared error.

    The error is that on the unit square. Kernel and map are homogeneous, so the error at (x, y) is y
    times the error at (x / y, 1), and one side of the square is enough.
    """
    if kernel == "chi2" and n_steps in CHI2_INTERVALS:
        return CHI2_INTERVALS[n_steps]
    exact = make_scalar_kernel(kernel)(TRIED_RATIOS, np.ones(1))[:, 0]
    errors = [
        np.square(_with_one(TRIED_RATIOS, kernel, n_steps, interval) - exact).sum()
        for interval in TRIED_INTERVALS
    ]
    return float(TRIED_INTERVALS[int(np.argmin(errors))])


def _with_one(values: FloatArray, kernel: str, n_steps: int, interval: float) -> FloatArray:
    """Return the products of the features of some numbers with the features of one."""
    product: FloatArray = (
        map_values(values, kernel, n_steps, interval)
        @ map_values(np.ones(1), kernel, n_steps, interval)[0]
    )
    return product
