"""SIKMA: online descent with the histogram intersection kernel."""

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
from widemargin.base import UnweightedMixin
from widemargin.kernels import is_small
from widemargin.problem import Problem
from widemargin.validation import check_flag, check_integer, draw_seed


class SIKMASVC(UnweightedMixin, StochasticMixin, CurvesMixin):  # type: ignore[misc]
    """Online classifier with the histogram intersection kernel, on tables.

    SIKMA of Wang, Hoiem and Forsyth (2009). It descends in the space of the kernel, row by row: all
    that was learned shrinks a little, and a row inside its margin is added with its kernel. The sum of
    all kernels is a sum of curves, one for each feature, of which the values at some levels are kept.
    Reading a value costs one look-up, adding it as many numbers as there are levels, however many rows
    have been added. The loop is that of `AdditiveSVC` with ``solver="sgd"``.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    n_bins : int, default=50
        Levels of each feature, from zero or its smallest value, if that is negative, to its largest.
        Whole numbers up to 4095 that are not negative get one each whatever this says.
    fit_intercept : bool, default=False
        Whether there is a constant; it is regularised like the rest.
    alpha : float or None, default=None
        Regularisation; None for ``1 / (C n_samples)``.
    eta0 : float, default=1.0
        Steps are ``1 / (alpha (t + eta0))``; positive.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class; ``"balanced"`` for `fit` only.
    max_iter : int, default=2
        Passes over the data.
    n_jobs : int or None, default=None
        Threads for predictions; None for all cores.
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
        Turns values into levels; its ``grid``, ``low`` and ``span`` say where these are.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    n_seen_, t_ : int
        Rows seen by `fit` and `partial_fit`, and steps made.
    n_iter_ : int
        Passes of the last call.
    stop_reason_ : str
        ``"max_iter"``: all passes are made, and that is all there is.

    Notes
    -----
    Weights of rows are not taken: a step with a row of weight two is not two steps.

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
            raise ValueError(f"n_bins: at most {2**16} levels have codes, got {self.n_bins}")

    def _warn_unless_converged(self) -> None:
        """Say nothing: a number of passes is what was asked for."""

    def _prepare(self, problem: Problem) -> None:
        ranges = self._measure(problem)
        are_counts = ranges.is_integer and ranges.low.min() >= 0 and ranges.high.max() <= MAX_COUNT
        spacing = "auto" if are_counts else "uniform"
        self.quantiser_ = fit_quantiser(ranges, self.n_bins, spacing, per_feature=True)

    def _represent(self, problem: Problem) -> BinRepresentation:
        X = problem.X
        if sparse.issparse(X) and self.quantiser_.zero_code != 0:
            # Zero is a level like any other, so every value has a code.
            X = X.toarray()
        codes = self.quantiser_.encode(X)
        # Later rows may have larger codes than these.
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
