"""AdditiveSVR: an SVM for regression with an additive kernel, at the cost of a linear one."""

import warnings
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from widemargin.additive.codes import Codes
from widemargin.additive.dual_descent import LinearResult, WarmStart
from widemargin.additive.indicators_mixin import IndicatorsMixin
from widemargin.additive.representations import Representation
from widemargin.additive.spectral_mixin import SpectralMixin
from widemargin.additive.target_descent import TargetDual, descend_targets, find_shift
from widemargin.arguments import check_number
from widemargin.callback_support import report_rounds
from widemargin.kernel_arguments import check_norms
from widemargin.kernels import Kernel
from widemargin.parallel import open_workers
from widemargin.parameters import Choices
from widemargin.problem import Problem
from widemargin.progress import show_passes
from widemargin.transaction import all_or_nothing
from widemargin.validation import validate_regression

FloatArray = NDArray[np.float64]

#: Part of the warning of a fit whose model was replaced by a constant one.
CONSTANT_ADVICE = "the model is a constant, which has less loss than what it reached; "


class TargetUnit(NamedTuple):
    """Unit and origin in which targets are solved for: ``target = offset + size * number``."""

    size: float
    offset: float


class AdditiveSVR(IndicatorsMixin, SpectralMixin, RegressorMixin, BaseEstimator):
    """Support vector regression with an additive kernel, at the cost of a linear one.

    An additive kernel is a sum over features of a kernel of two numbers, so a prediction is an
    intercept plus a sum of curves, one for each feature: see `shape_functions` and `explain`. Codes
    and tables are those of `AdditiveSVC`.

    Parameters
    ----------
    C : float or "scale", default="scale"
        Cost of an error; smaller values regularise more. ``"scale"`` divides a constant by the mean of
        k(x, x) over the training rows, as in `AdditiveSVC`. With ``loss="epsilon_insensitive"``, whose
        C has the unit of the targets, the constant is multiplied by their standard deviation. See
        `C_`.
    epsilon : float, default=0.1
        Half the width of the tube around the prediction within which an error costs nothing, in the
        unit of the targets.
    kernel : str, callable or Kernel, default="chi2"
        As in `AdditiveSVC`: ``"chi2"``, ``"intersection"``, ``"hellinger"``, ``"jensen_shannon"``,
        ``"power_mean"``, an additive kernel object, or a callable ``k(x, y)`` of two arrays of
        numbers.
    p : float, default=-1.0
        Exponent of the power mean, not positive.
    rank : int or "auto", default="auto"
        Number of columns of the table, as in `AdditiveSVC`.
    n_bins : int, default=256
        Number of bins of each feature. Whole numbers up to 4095 have a bin each, whatever ``n_bins``.
    binning : {"auto", "uniform", "sqrt", "quantile"}, default="auto"
        Spacing of the bins, as in `AdditiveSVC`.
    scaling : {"auto", "range", "max"} or None, default="auto"
        ``"range"`` subtracts the smallest value of every feature in training and divides by its range;
        ``"max"`` divides by the largest value. ``"auto"`` chooses as in `AdditiveSVC`; see `scaling_`.
    missing : {"error", "code"}, default="error"
        What NaN in dense data means: an error, or a missing value, which has a code of its own, as in
        `AdditiveSVC`. Not for callable kernels.
    categorical_features : array-like of bool, int or str, "from_dtype" or None, default=None
        Columns of categories, each of which has a height of its own, as in `AdditiveSVC`. Not for
        sparse data and callable kernels.
    loss : {"squared_epsilon_insensitive", "epsilon_insensitive"}, \
default="squared_epsilon_insensitive"
        Loss of an error beyond the tube: its square or its size.
    fit_intercept : {"free", True, False}, default="free"
        ``"free"`` fits an intercept without penalty, as `KernelSVR` does, so that an offset of the
        targets does not matter; True one that is regularised like the coefficients.
    tol : float, default=0.01
        Stop when no optimality condition is violated by more than this share of the standard deviation
        of the targets.
    max_iter : int, default=1000
        Maximum number of passes over the data and of steps of Newton's method together.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model, or with the best constant if that has
        a smaller loss on the training rows.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the targets are the same, as for a path over C.
    n_jobs : int or None, default=None
        Number of threads of predictions; None for all cores. The solver has one thread.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    tables_ : ndarray of shape (n_bins, rank)
        The table: numbers for each code.
    coef_ : ndarray of shape (1, n_features, rank)
        Coefficients of the numbers.
    intercept_ : ndarray of shape (1,)
        The constant.
    C_ : float
        The cost of an error that was used.
    kernel_mean_ : float
        Mean of k(x, x) over the training rows.
    categories_ : list of ndarray or None
        The categories of every feature in training, sorted; None for features of numbers.
    missing_heights_ : ndarray of shape (n_features,)
        What a missing value of each feature adds to the prediction, if ``missing="code"``.
    scaling_ : str or None
        The scaling that was used, ``"range"``, ``"max"`` or None.
    rank_ : int
        Number of columns of the table; 0 if every bin has a value of its own.
    left_out_ : float
        Share of the kernel's trace that the table leaves out.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    origin_ : ndarray of shape (n_features,)
        Numbers that are subtracted from the features, as in `AdditiveSVC`.
    n_iter_ : int
        Number of passes of coordinate descent, and of steps of Newton's method.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, ``"max_time"``, or ``"stalled"`` if rounding errors keep a fit
        from reaching ``tol``, as they may at a very large C.
    violation_ : float
        Largest violation of the optimality conditions in the last pass, in the unit of ``tol``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data had any.

    Notes
    -----
    Values that are larger than all in training count as the largest in predictions, so that the model
    does not extrapolate.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from widemargin import AdditiveSVR
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = AdditiveSVR(epsilon=1.0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.4)
    True
    """

    _choices: ClassVar[Choices] = {
        "loss": ("squared_epsilon_insensitive", "epsilon_insensitive"),
    }
    _takes_negative = "KernelSVR"
    #: Whether a fit that stopped early ended with a constant.
    _is_constant = False

    def __init__(
        self,
        *,
        C: float | str = "scale",
        epsilon: float = 0.1,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "chi2",
        p: float = -1.0,
        rank: int | str = "auto",
        n_bins: int = 256,
        binning: str = "auto",
        scaling: str | None = "auto",
        missing: str = "error",
        categorical_features: Any = None,
        loss: str = "squared_epsilon_insensitive",
        fit_intercept: bool | str = "free",
        tol: float = 0.01,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.p = p
        self.rank = rank
        self.n_bins = n_bins
        self.binning = binning
        self.scaling = scaling
        self.missing = missing
        self.categorical_features = categorical_features
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    #: The targets, during a fit.
    _targets: FloatArray

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the SVM model according to the given training data.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.

        Returns
        -------
        self : AdditiveSVR
            The fitted model.
        """
        self._check_params()
        deadline = self._deadline()
        X = self._take_given(X, is_first=True)
        problem, targets = validate_regression(
            self, X, y, sample_weight, precomputed=False, layout=self._layout, multi_output=False
        )
        self._warn_of_wide_tube(targets)
        problem = self._place_features(problem)
        self._targets = targets
        model = self._fit_features(problem, deadline)
        del self._targets
        self._model = self._prefer_constant(model, problem, targets)
        self._warn_unless_converged()
        return self

    def predict(self, X: Any) -> FloatArray:
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predictions.
        """
        return self._decide(self._check_queries(X))[:, 0]

    def _check_params(self) -> None:
        super()._check_params()
        check_number("epsilon", self.epsilon)
        if self.epsilon < 0:
            raise ValueError(f"epsilon: must not be negative, got {self.epsilon!r}")

    def _warn_of_wide_tube(self, targets: FloatArray) -> None:
        span = float(np.ptp(targets))
        if 0 < span <= 2 * self.epsilon:
            warnings.warn(
                f"epsilon: the tube of {self.epsilon:g} on either side holds all targets, which "
                f"differ by {span:g} at most, so that the model is constant; epsilon has the unit of "
                "the targets, give a smaller one",
                UserWarning,
                stacklevel=4,
            )

    def _fit_codes(self, problem: Problem, codes: Codes, deadline: float | None) -> Any:
        data = self._represent_training(problem, codes, deadline)
        return self._fit_targets(problem, self._targets, data, deadline)

    def _fit_targets(
        self, problem: Problem, targets: FloatArray, data: Representation, deadline: float | None
    ) -> Any:
        """Solve the represented problem and return its model."""
        check_norms("X: kernel values", data.norms, "MinMaxScaler")
        self._measure_kernel(problem, data.norms)
        unit = self._find_unit(problem, targets)
        costs = self._find_cost(unit) * problem.weights
        result = self._descend(problem, targets, costs, unit, data, deadline)
        coef, extra = unit.size * result.coef, unit.size * result.extra.astype(np.float64)
        extra[:, -1:] += unit.offset
        return data.make_model(coef, extra)

    @property
    def _is_squared(self) -> bool:
        """Whether errors beyond the tube are squared."""
        return self.loss == "squared_epsilon_insensitive"

    def _find_constant(self, targets: FloatArray, weights: FloatArray) -> float:
        """Return the constant prediction of least loss."""
        return find_shift(targets, weights, self.epsilon, self._is_squared)

    def _find_unit(self, problem: Problem, targets: FloatArray) -> TargetUnit:
        """Return the unit of targets, in which ``tol`` and float32 are as good for any targets."""
        weights = problem.sample_weights
        # Without a free intercept an offset of the targets would change the problem.
        offset = self._find_constant(targets, weights) if self._has_free_intercept() else 0.0
        size = float(np.average(np.square(targets - offset), weights=weights)) ** 0.5
        return TargetUnit(size if size > 0 else 1.0, offset)

    def _find_cost(self, unit: TargetUnit) -> float:
        """Return the cost of an error; ``"scale"`` follows the targets if their unit matters."""
        cost = self._cost()
        if self.C == "scale" and not self._is_squared:
            self.C_ = cost = cost * unit.size
        return cost

    def _descend(
        self,
        problem: Problem,
        targets: FloatArray,
        costs: FloatArray,
        unit: TargetUnit,
        data: Representation,
        deadline: float | None,
    ) -> LinearResult:
        """Solve the dual with targets in units of their standard deviation.

        Divided by the square of this unit, the objective is that of targets, epsilon and dual
        variables in the unit. The loss that is not squared has its C divided by the unit.
        """
        n = len(targets)
        dual = TargetDual(
            targets=(targets - unit.offset) / unit.size,
            upper=np.broadcast_to(np.inf, n) if self._is_squared else costs / unit.size,
            ridge=0.5 / costs if self._is_squared else np.broadcast_to(0.0, n),
            norms=data.norms,
            epsilon=self.epsilon / unit.size,
        )
        start = self._warm_start_from(targets, unit)
        with (
            show_passes(self.verbose, listen=report_rounds(self)) as show,
            open_workers(self.n_jobs) as workers,
        ):
            result = descend_targets(
                data.rows, dual, self._settings(problem, deadline), workers,
                is_free=self._has_free_intercept(), start=start, callback=show,
            )  # fmt: skip
        self._keep_result(result)
        if self.warm_start:
            kept = WarmStart(unit.size * result.alpha, unit.size * result.extra)
            self._warm_state = (targets, kept)
        return result

    def _warm_start_from(self, targets: FloatArray, unit: TargetUnit) -> WarmStart | None:
        state = getattr(self, "_warm_state", None) if self.warm_start else None
        if state is None or not np.array_equal(state[0], targets):
            return None
        return WarmStart(state[1].alpha / unit.size, state[1].extra / unit.size)

    def _prefer_constant(self, model: Any, problem: Problem, targets: FloatArray) -> Any:
        """Return the model, or a constant one if a limit stopped the fit and that has less loss."""
        self._is_constant = False
        if self.stop_reason_ not in ("max_iter", "max_time"):
            return model
        weights = problem.weights
        constant = self._find_constant(targets, weights) if self._has_intercept() else 0.0

        def weigh(errors: FloatArray) -> float:
            excess = np.maximum(np.abs(errors) - self.epsilon, 0.0)
            return float(weights @ (excess**2 if self._is_squared else excess))

        if weigh(targets - model.decide(problem.X, self.n_jobs)[:, 0]) <= weigh(targets - constant):
            return model
        self._is_constant = True
        return model.make_constant(np.array([constant]))

    def _tell_constant(self) -> str:
        return CONSTANT_ADVICE if self._is_constant else ""
