"""AdditiveSVC: an SVM with an additive kernel, at the cost of a linear SVM, by spectral tables."""

from collections.abc import Callable
from typing import Any, ClassVar

from sklearn.utils.metaestimators import available_if

from widemargin.additive.codes import Codes
from widemargin.additive.indicators_mixin import IndicatorsMixin
from widemargin.additive.monotone_mixin import MonotoneMixin
from widemargin.additive.pairs_mixin import PairsMixin
from widemargin.additive.spectral_mixin import SpectralMixin
from widemargin.additive.tables_mixin import TablesMixin
from widemargin.arguments import check_integer
from widemargin.kernels import Kernel
from widemargin.parameters import Choices
from widemargin.problem import Problem


def _fits_in_pieces(estimator: Any) -> bool:
    """Return whether `partial_fit` works; raises the error that says why not."""
    if estimator.interactions:
        raise AttributeError(
            "interactions: partial_fit cannot choose pairs; use fit, or set it to 0"
        )
    if estimator.missing != "error":
        raise AttributeError(
            'missing: partial_fit cannot know which columns have missing values; use fit, or "error"'
        )
    if estimator.categorical_features is not None:
        raise AttributeError(
            "categorical_features: partial_fit cannot know all categories; use fit, or set it to None"
        )
    if estimator.monotonic_cst is not None:
        raise AttributeError(
            "monotonic_cst: partial_fit makes curves without constraints; use fit, or set it to None"
        )
    return True


class AdditiveSVC(PairsMixin, MonotoneMixin, IndicatorsMixin, SpectralMixin, TablesMixin):
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
        suits any number of features in any unit; see `C_`. The constant is 10. For other kernels than
        the intersection kernel and for fewer than 64 features it is multiplied by
        ``(64 / n_features)**2``, at most by ten and by ``n_samples / 150``: curves of few features
        need to bend more.
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
    scaling : {"auto", "range", "max"} or None, default="auto"
        ``"range"`` subtracts the smallest value of every feature in training and divides by its range;
        ``"max"`` divides by the largest value. Both are for features in different units, and the
        curves keep the units. Not for callable kernels. ``"auto"`` is ``"range"`` if the data are
        dense and the widest range is more than ten times the lower quartile of the ranges (5 times
        with the root of the number of features, if that is more), or if the smallest value of at least
        a quarter of the features is more than a fifth of the feature's range. It is ``"max"`` if no
        value reaches 1e-6, and else None; see `scaling_`.
    missing : {"error", "code"}, default="error"
        What NaN in dense data means: an error, or a missing value, which has a code of its own. It
        counts as the median of its feature, and has a coefficient of its own beside the curve if
        values of the feature were missing in training; see `missing_heights_`.
        Not for callable kernels, `partial_fit` and `fit_chunks`.
    categorical_features : array-like of bool, int or str, "from_dtype" or None, default=None
        Columns of categories, as in scikit-learn's `HistGradientBoostingClassifier`: a mask, numbers
        or names, or ``"from_dtype"`` for the columns of a DataFrame whose type is ``"category"``.
        Values may be texts or numbers, at most 256 in a column. Each has a height of its own; see
        `categories_`. A category that was not seen in training adds nothing. Not for sparse data,
        callable kernels, `partial_fit` and `fit_chunks`.
    monotonic_cst : array-like of int of shape (n_features), dict of str or None, default=None
        Constraints on curves, as in scikit-learn's `HistGradientBoostingClassifier`: 1 if the curve
        of a feature must not fall towards ``classes_[1]``, -1 if it must not rise, and 0 for no
        constraint; a dict has such numbers by name. Constrained features have the intersection
        kernel, and take part in no pair of ``interactions``. For two classes and the squared hinge
        loss; not for callable kernels, stochastic descent and `partial_fit`. ``warm_start`` has no
        effect then.
    interactions : int, default=0
        Number of pairs of features that have a surface of their own beside the curves. An exact SVM
        with all pairs (`widemargin.kernels.AnovaChi2`), fitted to at most 2,000 rows, chooses them,
        among the 500 features whose means differ most between the classes if there are more; see
        `interactions_`. Not for callable kernels, `partial_fit` and `fit_chunks`.
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
        pass changes the coefficients by less than a tenth of that share; with ``monotonic_cst``, when
        the largest projected gradient of the primal problem is a hundredth of that share of the
        largest at zero.
    max_iter : int, default=1000
        Maximum number of passes over the data and of steps of Newton's method together.
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
    interactions_ : ndarray of shape (n_pairs, 2)
        Features of the pairs that have a surface, if ``interactions`` is not zero, the most important
        first. `explain` has a column for each of them after those of the features.
    categories_ : list of ndarray or None
        The categories of every feature in training, sorted; None for features of numbers.
    missing_heights_ : ndarray of shape (n_features,) or (n_classes, n_features)
        What a missing value of each feature adds to the decision, if ``missing="code"``.
    scaling_ : str or None
        The scaling that was used, ``"range"``, ``"max"`` or None; the first call of `partial_fit`
        chooses it.
    rank_ : int
        Number of columns of the table; 0 if every bin has a value of its own.
    left_out_ : float
        Share of the kernel's trace that the table leaves out.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    origin_ : ndarray of shape (n_features,)
        Numbers that are subtracted from the features. They are zeros, except that they are the
        smallest values in training of columns with negative values, if the kernel needs non-negative
        features and ``scaling="range"``, or the data are centred (the mean of every column is zero
        within four standard errors), or in each of these columns two in a hundred values are
        negative, at least ten different ones, and two in a hundred positive; the last is not needed if
        the ranges show that features have different units, see ``scaling``.
    n_seen_, t_ : int
        Number of rows in all calls since `fit`, and number of steps, one for each visit to a row.
    n_iter_ : int or ndarray
        Number of passes, and of steps of Newton's method, for each decision function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, as after `partial_fit`, or ``"max_time"``; ``"stalled"`` if
        rounding errors keep a fit from reaching ``tol``, as they may at a very large C.
    violation_ : float
        Largest spread of projected gradients in the last pass of `fit`; with ``monotonic_cst``, the
        largest projected gradient, as ``tol`` measures it.

    Notes
    -----
    In predictions, values that are larger than all in training count as the largest. With
    ``scaling="range"`` and in columns whose `origin_` is not zero, smaller values count as the
    smallest. Bins and ``scaling="max"`` begin at `origin_`.

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
        scaling: str | None = "auto",
        missing: str = "error",
        categorical_features: Any = None,
        monotonic_cst: Any = None,
        interactions: int = 0,
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
        self.missing = missing
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interactions = interactions
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
        check_integer("interactions", self.interactions, low=0)
        if self.interactions and not self._is_homogeneous:
            raise ValueError("interactions: not available with a callable kernel; use a named one")

    partial_fit = available_if(_fits_in_pieces)(MonotoneMixin.partial_fit)

    def _fit_codes(self, problem: Problem, codes: Codes, deadline: float | None) -> Any:
        self.__dict__.pop("interactions_", None)
        if isinstance(problem.X, Codes):
            self._refuse_chunks()
        return super()._fit_codes(problem, codes, deadline)

    def _refuse_chunks(self) -> None:
        """Refuse parameters for which `fit_chunks` would need all data at once."""
        if self.interactions:
            raise ValueError(
                "interactions: fit_chunks cannot choose pairs; use fit, or set it to 0"
            )
        if self.missing != "error":
            raise ValueError('missing: fit_chunks takes no missing values; use fit, or "error"')
        if self.categorical_features is not None:
            raise ValueError(
                "categorical_features: fit_chunks cannot know all categories; use fit, or set it to "
                "None"
            )
