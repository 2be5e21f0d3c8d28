"""PWLSGDSVC: piecewise linear encodings and stochastic descent."""

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from widemargin.additive.classifier_base import asked_classes
from widemargin.additive.mixins import CurvesMixin
from widemargin.arguments import check_flag, check_integer, check_number, draw_seed
from widemargin.base import UnweightedMixin
from widemargin.baselines import pwlsgd_fast as fast
from widemargin.baselines.pwlsgd_fast import Points
from widemargin.kernels.base import check_width
from widemargin.parallel import open_workers
from widemargin.parameters import Choices
from widemargin.problem import Problem

FloatArray = NDArray[np.float64]

#: Rows whose decision values a thread computes at a time.
DECIDE_ROWS = 256


class PWLSGDSVC(UnweightedMixin, CurvesMixin):
    """Additive classifier of piecewise linear curves, fitted by stochastic descent.

    PWLSGD of Maji and Berg (2009). The range of every feature in training is divided into segments.
    A value is encoded by linear interpolation between its two nearest knots. A linear SVM on these
    encodings is a sum of piecewise linear curves. It is fitted by stochastic subgradient descent,
    as in Pegasos.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    n_segments : int, default=20
        Number of segments of each curve.
    regulariser : {"difference", "identity"}, default="difference"
        What is regularised. ``"difference"``: the squared differences of neighbouring knots, which
        gives smooth curves and approximates the intersection kernel of features divided by their
        range. ``"identity"``: the squared heights of the knots; a step then changes two numbers for
        each value instead of one for each knot.
    fit_intercept : bool, default=True
        Whether to fit an intercept. It is regularised like the coefficients.
    alpha : float or None, default=None
        Regularisation; None for ``1 / (C n_samples)``.
    eta0 : float, default=1.0
        Steps are ``1 / (alpha (t + eta0))``; positive.
    project : bool, default=True
        Whether each step is followed by a projection onto the ball that contains the optimum.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class; ``"balanced"`` for `fit` only.
    tol : float or None, default=None
        A fit stops when a pass changes the heights of the knots by less than this share of their norm;
        None for all passes.
    max_iter : int, default=20
        Maximum number of passes over the data.
    n_jobs : int or None, default=None
        Number of threads for predictions; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    knots_ : ndarray of shape (n_features, n_segments + 1)
        Values of the knots.
    heights_ : ndarray of shape (n_functions, n_features, n_segments + 1)
        Heights of the curves at the knots; the first height of each curve is zero.
    intercept_ : ndarray of shape (n_functions,)
        Constants.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    n_seen_, t_ : int
        Number of rows in all calls since `fit`, and number of steps.
    n_iter_ : int
        Passes of the last call.
    stop_reason_ : str
        ``"converged"``, or ``"max_iter"`` if ``tol`` was not reached.

    Notes
    -----
    The objective is ``alpha / 2 |w|^2`` plus the mean hinge loss. With ``regulariser="identity"`` w
    holds the heights of all knots but the first. With ``"difference"`` w holds the differences of
    neighbouring heights times the square root of ``n_segments``. Curves begin at zero, so a value
    at the lower end of its range adds nothing; the intercept takes the place of their constants.
    Sparse data without negative values are not made dense. Values beyond the range in training
    count as its ends.

    There are no sample weights: one step with a row of weight two differs from two steps.

    References
    ----------
    S. Maji, A. C. Berg, "Max-margin additive classifiers for detection", IEEE International
    Conference on Computer Vision, 2009.

    S. Shalev-Shwartz, Y. Singer, N. Srebro, "Pegasos: Primal estimated sub-gradient solver for SVM",
    International Conference on Machine Learning, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.baselines import PWLSGDSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = PWLSGDSVC(C=0.1, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    _model: "PiecewiseModel"
    _choices: ClassVar[Choices] = {"regulariser": ("difference", "identity")}

    def __init__(
        self,
        *,
        C: float = 1.0,
        n_segments: int = 20,
        regulariser: str = "difference",
        fit_intercept: bool = True,
        alpha: float | None = None,
        eta0: float = 1.0,
        project: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        tol: float | None = None,
        max_iter: int = 20,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.n_segments = n_segments
        self.regulariser = regulariser
        self.fit_intercept = fit_intercept
        self.alpha = alpha
        self.eta0 = eta0
        self.project = project
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def knots_(self) -> FloatArray:
        """Values of the knots."""
        return self._model.knots()

    @property
    def heights_(self) -> FloatArray:
        """Heights of the curves at the knots."""
        return self._model.curves.transpose(2, 0, 1)

    def _check_params(self) -> None:
        super()._check_params()
        check_number("eta0", self.eta0, above=0)
        for name in ("alpha", "tol"):
            check_number(name, getattr(self, name), above=0, optional=True)
        for name in ("fit_intercept", "project"):
            check_flag(name, getattr(self, name))
        check_integer("n_segments", self.n_segments, low=1)
        check_integer("max_iter", self.max_iter, low=1)

    def _warn_unless_converged(self) -> None:
        if self.stop_reason_ == "max_iter":
            warnings.warn(
                f"PWLSGDSVC made all max_iter={self.max_iter} passes, and the last changed the knots "
                f"by more than tol={self.tol}; raise one of them, or set tol=None",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _fit(self, problem: Problem) -> None:
        model, n_steps = self._start(problem), 0
        points = model.place(problem.X)
        rng = np.random.default_rng(draw_seed(self.random_state))
        self.n_seen_ = len(problem.labels)
        self.stop_reason_ = "max_iter" if self.tol is not None else "converged"
        for number in range(self.max_iter):
            before = model
            model, n_steps = self._pass(problem, points, model, n_steps, self.n_seen_, rng)
            self.n_iter_ = number + 1
            if self.tol is not None and _relative_change(before, model) < self.tol:
                self.stop_reason_ = "converged"
                break
        self._model, self.t_ = model, n_steps

    def _learn_piece(self, problem: Problem, *, is_first: bool) -> None:
        model, n_steps, n_seen = (
            (self._start(problem), 0, 0) if is_first else (self._model, self.t_, self.n_seen_)
        )
        n_seen += len(problem.labels)
        rng = np.random.default_rng(draw_seed(self.random_state))
        points = model.place(problem.X)
        self._model, self.t_ = self._pass(problem, points, model, n_steps, n_seen, rng)
        self.n_seen_, self.n_iter_, self.stop_reason_ = n_seen, 1, "converged"

    def _start(self, problem: Problem) -> "PiecewiseModel":
        """Choose the knots, and return a model whose curves are zero."""
        ranges = self._measure(problem)
        n_functions, n_knots = len(asked_classes(problem)), int(self.n_segments) + 1
        return PiecewiseModel(
            low=ranges.low,
            span=np.where(ranges.high > ranges.low, ranges.high - ranges.low, 1.0),
            curves=np.zeros((len(ranges.low), n_knots, n_functions)),
            intercept=np.zeros(n_functions),
            has_constant=bool(self.fit_intercept),
        )

    def _pass(
        self,
        problem: Problem,
        points: Points,
        model: "PiecewiseModel",
        n_steps: int,
        n_seen: int,
        rng: np.random.Generator,
    ) -> tuple["PiecewiseModel", int]:
        """Make one step for each row, in random order; return the model and the number of steps."""
        is_ramp = self.regulariser == "difference"
        alpha = 1.0 / (self.C * n_seen) if self.alpha is None else float(self.alpha)
        curves, intercept = model.curves.copy(), model.intercept.copy()
        scales = np.ones(len(intercept))
        n_steps = fast.pegasos_steps(
            points, rng.permutation(len(problem.labels)), problem.labels.astype(np.int64),
            asked_classes(problem), problem.weights, n_steps, alpha, float(self.eta0),
            np.sqrt(problem.weights.mean() / alpha) if self.project else np.inf, is_ramp,
            model.squared_lengths(is_ramp), scales, curves.ravel(), intercept,
        )  # fmt: skip
        curves *= scales
        intercept *= scales
        return replace(model, curves=curves, intercept=intercept), n_steps


@dataclass(frozen=True)
class PiecewiseModel:
    """Sum of curves that are linear between knots; the knots of a feature have equal distances.

    Attributes
    ----------
    low, span : ndarray of shape (n_features,)
        First knot of each feature, and the distance from the first knot to the last.
    curves : ndarray of shape (n_features, n_knots, n_functions)
        Heights of the curves at the knots; zero at the first knot.
    intercept : ndarray of shape (n_functions,)
        Constants.
    has_constant : bool
        Whether the decision functions have constants.
    """

    low: FloatArray
    span: FloatArray
    curves: FloatArray
    intercept: FloatArray
    has_constant: bool

    @property
    def n_segments(self) -> int:
        """Number of segments of each curve."""
        return self.curves.shape[1] - 1

    def knots(self) -> FloatArray:
        """Return the values of the knots, shape (n_features, n_knots)."""
        return self.low[:, None] + self.span[:, None] * np.linspace(0.0, 1.0, self.n_segments + 1)

    def place(self, X: Any) -> Points:
        """Return the rows with the knots, as the compiled loops read them."""
        check_width(X.shape[1], len(self.low))
        if sparse.issparse(X) and self.low.min() < 0:
            # Zero is not the first knot of every feature, so zeros add to decision values too.
            X = X.toarray()
        is_sparse = sparse.issparse(X)
        return Points(
            values=X.data if is_sparse else X.ravel(),
            indices=X.indices if is_sparse else np.empty(0, np.int32),
            indptr=X.indptr if is_sparse else np.empty(0, np.int32),
            is_whole=not is_sparse,
            low=self.low,
            factor=self.n_segments / self.span,
            n_segments=self.n_segments,
            constant=1.0 if self.has_constant else 0.0,
        )

    def decide(self, X: Any, n_jobs: int | None) -> FloatArray:
        """Compute decision values, shape (n, n_functions)."""
        points, flat = self.place(X), self.curves.ravel()
        out = np.empty((X.shape[0], len(self.intercept)))
        with open_workers(n_jobs) as workers:
            workers.run(
                len(out),
                lambda i, j: fast.decide_rows(points, i, j, flat, self.intercept, out),
                grain=DECIDE_ROWS,
            )
        return out

    def contributions(self, X: Any) -> FloatArray:
        """Compute the share of each feature in each decision, (n, n_functions, n_features)."""
        dense = X.toarray() if sparse.issparse(X) else X
        return np.stack([self.curve(j, dense[:, j]).T for j in range(len(self.low))], axis=2)

    def curve(self, feature: int, values: FloatArray) -> FloatArray:
        """Compute the curves of one feature at some values, shape (n_functions, n_values)."""
        knots = self.knots()[feature]
        return np.array([np.interp(values, knots, heights) for heights in self.curves[feature].T])

    def squared_lengths(self, of_differences: bool) -> FloatArray:
        """Return ``|w|^2`` of each decision function, the regularised part of the objective."""
        heights = self.curves
        if of_differences:
            heights = np.sqrt(self.n_segments) * np.diff(heights, axis=1)
        lengths: FloatArray = np.einsum("jmk,jmk->k", heights, heights) + self.intercept**2
        return lengths


def _relative_change(before: PiecewiseModel, after: PiecewiseModel) -> float:
    size = max(float(np.linalg.norm(after.curves)), 1e-300)
    return float(np.linalg.norm(after.curves - before.curves)) / size
