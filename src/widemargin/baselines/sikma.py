"""SIKMASVC: stochastic descent with the histogram intersection kernel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.additive.classifier_base import asked_classes
from widemargin.additive.curves import BinModel
from widemargin.additive.mixins import CurvesMixin, StochasticMixin
from widemargin.additive.quantiser import MAX_COUNT, fit_quantiser
from widemargin.additive.representations import BinRepresentation, constants
from widemargin.additive.sgd import start_stochastic, stochastic_coefs, stochastic_pass
from widemargin.arguments import check_flag, check_integer, draw_seed
from widemargin.base import UnweightedMixin
from widemargin.kernels import is_small
from widemargin.problem import Problem


class SIKMASVC(UnweightedMixin, StochasticMixin, CurvesMixin):  # type: ignore[misc]
    """Online classifier with the histogram intersection kernel.

    SIKMA of Wang, Hoiem and Forsyth (2009): stochastic descent in the space of the kernel. Each
    step multiplies the decision function by a factor below one, and adds the kernel at the row if
    the row is inside its margin. The decision function is a sum of curves, one for each feature,
    which are kept as their values at some levels. A decision value costs one look-up for each
    feature value. An update costs as many numbers as there are levels, whatever the number of
    earlier updates. The loop is that of `AdditiveSVC` with ``solver="sgd"``.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    n_bins : int, default=50
        Number of levels of each feature, from zero, or its smallest value if that is negative, to its
        largest. Whole numbers from 0 to 4095 have a level each, whatever ``n_bins``.
    fit_intercept : bool, default=False
        Whether to fit an intercept. It is regularised like the coefficients.
    alpha : float or None, default=None
        Regularisation; None for ``1 / (C n_samples)``.
    eta0 : float, default=1.0
        Steps are ``1 / (alpha (t + eta0))``; positive.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class; ``"balanced"`` for `fit` only.
    max_iter : int, default=2
        Number of passes over the data.
    n_jobs : int or None, default=None
        Number of threads for predictions; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    tables_ : ndarray of shape (n_functions, n_features, n_levels)
        Value of every decision curve at every level.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    quantiser_ : Quantiser
        Object that maps values to levels; ``grid``, ``low`` and ``span`` determine them.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    n_seen_, t_ : int
        Number of rows in all calls since `fit`, and number of steps.
    n_iter_ : int
        Passes of the last call.
    stop_reason_ : str
        ``"max_iter"`` always: a fit makes all its passes.

    Notes
    -----
    There are no sample weights: one step with a row of weight two differs from two steps.

    References
    ----------
    G. Wang, D. Hoiem, D. Forsyth, "Learning image similarity from Flickr groups using stochastic
    intersection kernel machines", IEEE International Conference on Computer Vision, 2009.

    J. Kivinen, A. J. Smola, R. C. Williamson, "Online learning with kernels", IEEE Transactions on
    Signal Processing 52, 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.baselines import SIKMASVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SIKMASVC(random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.85
    True
    """

    loss = "hinge"

    _model: BinModel

    def __init__(
        self,
        *,
        C: float = 1.0,
        n_bins: int = 50,
        fit_intercept: bool = False,
        alpha: float | None = None,
        eta0: float = 1.0,
        class_weight: dict[Any, float] | str | None = None,
        max_iter: int = 2,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.n_bins = n_bins
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.eta0 = eta0
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def tables_(self) -> NDArray[np.float64]:
        """Value of every decision curve at every level."""
        return self._model.full_curves()

    def _check_params(self) -> None:
        super()._check_params()
        check_flag("fit_intercept", self.fit_intercept)
        check_integer("max_iter", self.max_iter, low=1)
        check_integer("n_bins", self.n_bins, low=2)
        if self.n_bins > 2**16:
            raise ValueError(f"n_bins: must be at most {2**16:,}, got {self.n_bins:,}")

    def _warn_unless_converged(self) -> None:
        """Give no warning: the fit makes the number of passes that was asked for."""

    def _prepare(self, problem: Problem) -> None:
        ranges = self._measure(problem)
        are_counts = ranges.is_integer and ranges.low.min() >= 0 and ranges.high.max() <= MAX_COUNT
        spacing = "auto" if are_counts else "uniform"
        self.quantiser_ = fit_quantiser(ranges, self.n_bins, spacing, per_feature=True)

    def _represent(self, problem: Problem) -> BinRepresentation:
        X = problem.X
        if sparse.issparse(X) and self.quantiser_.zero_code != 0:
            # Zero is not the first level, so its share is not zero and every value needs a code.
            X = X.toarray()
        codes = self.quantiser_.encode(X)
        # Rows of later pieces may have larger codes.
        offsets = np.arange(codes.n_features + 1) * self.quantiser_.n_bins
        extra = constants(len(codes), self.fit_intercept)
        dtype = np.float64 if is_small(*problem.X.shape) else np.float32
        return BinRepresentation(
            self.quantiser_, codes, offsets, self.quantiser_.span, extra, dtype
        )

    def _fit(self, problem: Problem) -> None:
        self._prepare(problem)
        data = self._represent(problem)
        n = self.n_seen_ = len(problem.labels)
        state = start_stochastic(data.rows, len(asked_classes(problem)))
        rng = np.random.default_rng(draw_seed(self.random_state))
        primal = self._make_primal(problem, data, n)
        for _ in range(self.max_iter):
            stochastic_pass(data.rows, rng.permutation(n), primal, state)
        self._model = data.make_model(stochastic_coefs(data.rows, state), state.extra)
        self.t_, self.n_iter_, self.stop_reason_ = state.n_steps, self.max_iter, "max_iter"
