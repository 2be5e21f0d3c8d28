"""PowerMeanSVC: the PmSVM of Wu and Yang, in which a regression on logarithms replaces the kernel."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.classifier_base import LinearClassifier
from widemargin.additive.curves import TableModel
from widemargin.additive.kernel_scale import KernelScaleMixin
from widemargin.additive.mixins import CurvesMixin, NonnegativeMixin, StochasticMixin
from widemargin.additive.power_mean_table import PAPER_ANCHORS, chebyshev_anchors
from widemargin.additive.quantiser import Quantiser
from widemargin.additive.representations import (
    LogRepresentation,
    Regression,
    constants,
    represent_in_time,
)
from widemargin.additive.scalar_kernels import ScalarKernel, make_scalar_kernel, paper_power_mean
from widemargin.arguments import as_floats, check_choice, check_flag, check_integer, check_number
from widemargin.parameters import Choices
from widemargin.problem import Problem

#: Earlier name of ``solver="dual"``.
OLD_DUAL = "dcd"


class PowerMeanSVC(
    StochasticMixin, NonnegativeMixin, CurvesMixin, KernelScaleMixin, LinearClassifier
):
    """Power mean SVM (PmSVM): any additive kernel through a regression on logarithms.

    The methods of Wu and Yang, "Power Mean SVM": Algorithm 3 (PmSVM), with tables (PmSVM-LUT) and
    with stochastic descent (PmSVM-SGD, Algorithm 4). The gradient is approximate, so the descent
    need not converge; if it diverges, the best solution it had is kept. `AdditiveSVC` converges and
    is more accurate; this class is for comparison and for reproducing the paper.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error. ``"scale"`` divides a constant by the mean of k(x, x) over the training
        rows, or over those of the first call of `partial_fit`; see `C_`. The paper uses 0.01.
    p : float, default=-1.0
        Exponent of the power mean, from ``-inf`` (intersection) over -1 (chi-square) to 0
        (Hellinger). The paper simulates the intersection by -8.
    kernel : callable or str, default=None
        Another additive kernel ``k(x, y)`` of two arrays of numbers, symmetric and positive
        semidefinite, instead of the power mean.
    n_anchors : int, default=3
        Number of anchors of the regression, and of coefficients for each feature.
    anchors : {"paper", "chebyshev"} or array-like, default="paper"
        The paper's 0.01, 0.06 and 0.75, Chebyshev nodes, or numbers in the unit interval. With more
        than three anchors ``"paper"`` means Chebyshev nodes, as in the paper.
    offset : float, default=0.05
        Number that is added to feature values before the logarithm.
    lut : bool, default=False
        Whether features are rounded to ``n_bins`` values, which have a table (PmSVM-LUT).
    n_bins : int, default=1000
        Number of values in the table.
    solver : {"dual", "sgd"}, default="dual"
        Dual coordinate descent, or stochastic descent on the primal problem.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a row on the wrong side of its margin.
    fit_intercept : {"free", True, False}, default="free"
        ``"free"`` fits an intercept without penalty, as `KernelSVC` does, and True one that is
        regularised like the coefficients. Stochastic descent regularises both. The paper has none.
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
        Seconds after which a fit stops with its current model. If encoding all rows would take more
        than half of the time, the model is fitted to a random sample of rows that there is time
        for. It is replaced by one that predicts the largest class if that is more accurate on some
        rows.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same; no effect with
        ``solver="sgd"``.
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
    anchors_ : ndarray of shape (n_anchors,)
        Anchors, in the unit of the features, counted from `origin_`.
    coef_ : ndarray of shape (n_functions, n_features, n_anchors)
        Coefficients of the powers of ``ln((x - origin_) / unit_ + offset)``.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    C_ : float
        The cost of an error that was used.
    kernel_mean_ : float
        Mean of k(x, x) over the training rows.
    n_seen_, t_ : int
        Number of rows in all calls since `fit`, and number of steps, one for each visit to a row.
    unit_ : float
        The largest value of ``X - origin_`` in training, or one if that is larger.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    origin_ : ndarray of shape (n_features,)
        Numbers that are subtracted from the features, as in `AdditiveSVC`: zeros, or the smallest
        values in training of columns with many different negative values.
    n_iter_ : int or ndarray
        Number of passes for each decision function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, as after `partial_fit`, ``"max_time"`` or ``"diverged"``.
    violation_ : float
        Largest spread of projected gradients in the last pass of `fit`; of stochastic descent the
        share by which it changed the coefficients, or if it diverged the mean loss of what is kept.

    Notes
    -----
    The paper scales features to the unit interval. If some values are larger than one, all are
    divided by the largest. A feature that is zero adds nothing to a decision, as in the kernel
    itself and in the sparse files of the paper; the error of the regression is largest there.
    Negative values are refused, except in columns from which `origin_` is subtracted. Values above
    `unit_` count as `unit_`: the regression has no anchors beyond it and would grow without bound.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import PowerMeanSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PowerMeanSVC(C=0.1).fit(X[:1000] / 16, y[:1000])
    >>> model.score(X[1000:] / 16, y[1000:]) > 0.9
    True
    """

    _model: TableModel
    _choices: ClassVar[Choices] = {"solver": ("dual", "sgd")}
    # Decisions take as long as coding the rows.
    _decides_fast = False
    _old_words: ClassVar[Choices] = {"solver": (OLD_DUAL,)}

    def __init__(
        self,
        *,
        C: float | str = "scale",
        p: float = -1.0,
        kernel: str | Callable[[Any, Any], Any] | None = None,
        n_anchors: int = 3,
        anchors: Any = "paper",
        offset: float = 0.05,
        lut: bool = False,
        n_bins: int = 1000,
        solver: str = "dual",
        loss: str = "hinge",
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
        self.p = p
        self.kernel = kernel
        self.n_anchors = n_anchors
        self.anchors = anchors
        self.offset = offset
        self.lut = lut
        self.n_bins = n_bins
        self.solver = solver
        self.loss = loss
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
        if self.p != -np.inf:
            check_number("p", self.p)
        if self.kernel is None and self.p > 0:
            raise ValueError(f"p: a power mean is a kernel for p <= 0 only, got {self.p!r}")
        check_integer("n_anchors", self.n_anchors, low=2)
        check_number("offset", self.offset, above=0)
        check_integer("n_bins", self.n_bins, low=2)
        check_flag("lut", self.lut)
        if self.solver == OLD_DUAL:
            warnings.warn(
                f"solver: {OLD_DUAL!r} is now called 'dual', as in AdditiveSVC; a later version will "
                "refuse the old name",
                FutureWarning,
                stacklevel=5,
            )
        self._unit_anchors()

    def _needs_nonnegative(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # The paper's C is for thousands of features; with two it underfits.
        tags.classifier_tags.poor_score = True
        return tags

    def _unit_anchors(self) -> NDArray[np.float64]:
        """Anchors in the unit interval."""
        if isinstance(self.anchors, str):
            check_choice("anchors", self.anchors, ("paper", "chebyshev"))
            if self.anchors == "paper" and self.n_anchors == len(PAPER_ANCHORS):
                return np.array(PAPER_ANCHORS)
            return chebyshev_anchors(self.n_anchors)
        wanted = f"n_anchors={self.n_anchors} different numbers that are not negative"
        anchors = as_floats("anchors", self.anchors, wanted)
        good = anchors.ndim == 1 and np.isfinite(anchors).all() and (anchors >= 0).all()
        if not good or len(np.unique(anchors)) != self.n_anchors:
            raise ValueError(f"anchors: give {wanted}, got {self.anchors!r}")
        return anchors

    @property
    def _is_smooth(self) -> bool:
        return True

    def _scalar_kernel(self) -> ScalarKernel:
        if self.kernel is None:
            return paper_power_mean(self.p)
        return make_scalar_kernel(self.kernel, self.p)

    def _prepare(self, problem: Problem) -> None:
        self.unit_ = max(1.0, float(self._measure(problem).high.max()))
        self.anchors_ = self._unit_anchors() * self.unit_

    def _fit(self, problem: Problem) -> None:
        """Fit to validated data: represent, solve, model."""
        deadline = self._deadline()
        problem = replace(problem, X=self._take_features(problem.X, problem.sample_weights))
        self._prepare(problem)
        part, data = represent_in_time(problem, self._represent, deadline, self.random_state)
        coef, extra = self._solve(part, data, deadline)
        self._note_part(part, problem)
        self._model = self._prefer_majority(data.make_model(coef, extra), problem)

    def _represent(self, problem: Problem) -> LogRepresentation:
        quantiser = None
        if self.lut:
            d = problem.X.shape[1]
            grid = np.linspace(0.0, 1.0, self.n_bins)
            quantiser = Quantiser(np.zeros(d), np.full(d, self.unit_), grid, "uniform")
        constant = constants(problem.X.shape[0], self._has_intercept())
        regression = Regression(self.anchors_, self.offset, self.unit_)
        return LogRepresentation(
            problem.X, self._scalar_kernel(), quantiser, regression, constant, self._dtype(problem)
        )

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the explanatory variables."""
        return self._model.coef
