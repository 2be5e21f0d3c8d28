"""AdditiveSVRCV: `AdditiveSVR` with C chosen by cross-validation."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from widemargin.additive.additive_svr import AdditiveSVR
from widemargin.additive.search_base import AdditiveSearch
from widemargin.deadline import start_deadline
from widemargin.exact.search_folds import Fold, make_target_folds, split_rows
from widemargin.exact.search_grid import spread_of
from widemargin.exact.search_scoring import FoldScorer, HeldOutRegressor, resolve_scorer
from widemargin.kernels import Kernel
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import ANY_BLOCKS, validate_regression


class AdditiveSVRCV(AdditiveSearch, RegressorMixin, BaseEstimator):
    """Additive support vector regression with C chosen by cross-validation.

    The scores are those of `sklearn.model_selection.GridSearchCV` with `AdditiveSVR` on the same
    values and folds, up to ``tol``; see `AdditiveSVCCV` for how the work is shared.

    Parameters
    ----------
    Cs : int or array-like of float, default=10
        Values of C, or how many to choose from 0.1 to 100 divided by the mean of k(x, x) over the
        training rows. A range found from the data is extended while the best value is
        at its end, and better than the next by more than the standard error of their difference.
    cv : int, splitter or iterable, default=5
        Folds, as in `GridSearchCV`.
    scoring : str, callable or None, default=None
        Scorer, as in `GridSearchCV`; R2 if None.
    refit : bool, default=True
        Whether to fit an `AdditiveSVR` with the chosen C to all rows.
    epsilon, kernel, p, rank, n_bins, binning, scaling, loss, fit_intercept, tol, max_iter
        As in `AdditiveSVR`.
    max_time, n_jobs, random_state, verbose
        As in `AdditiveSVCCV`.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_estimator_ : AdditiveSVR
        The model fitted to all rows, if ``refit``.
    Cs_ : ndarray of shape (n_Cs,)
        The values that were searched.
    scores_ : ndarray of shape (n_Cs, n_folds)
        Scores; NaN where ``max_time`` has passed before.
    best_score_, best_params_, best_index_, cv_results_, scorer_, n_splits_, refit_time_, n_iter_
        As those of `AdditiveSVCCV`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data had any.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from widemargin import AdditiveSVRCV
    >>> X, y = load_diabetes(return_X_y=True, scaled=False)
    >>> model = AdditiveSVRCV(epsilon=1.0).fit(X, y)
    >>> bool(model.best_score_ > 0.45)
    True
    """

    _estimator = AdditiveSVR

    def __init__(
        self,
        *,
        Cs: Any = 10,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool = True,
        epsilon: float = 0.1,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "chi2",
        p: float = -1.0,
        rank: int | str = "auto",
        n_bins: int = 256,
        binning: str = "auto",
        scaling: str | None = "auto",
        loss: str = "squared_epsilon_insensitive",
        fit_intercept: bool | str = "free",
        tol: float = 0.01,
        max_iter: int = 1000,
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.epsilon = epsilon
        self.kernel = kernel
        self.p = p
        self.rank = rank
        self.n_bins = n_bins
        self.binning = binning
        self.scaling = scaling
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose C by cross-validation and fit the model to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.
        groups : array-like of shape (n_samples,), optional
            Groups of the rows, for splitters that keep groups together.

        Returns
        -------
        self : AdditiveSVRCV
            The fitted model.
        """
        self._check_params()
        deadline = start_deadline(self.max_time)
        problem, targets = validate_regression(
            self, X, y, sample_weight, precomputed=False, layout=ANY_BLOCKS, multi_output=False
        )
        given = np.asarray(y)
        splits = split_rows(
            self._split(X, given, groups, is_classifier=False), problem.kept, len(given)
        )
        columns = targets[:, None]
        folds = make_target_folds(columns, problem.weights, splits)
        self.scorer_ = resolve_scorer(self, self.scoring)
        score = FoldScorer(
            self.scorer_, HeldOutRegressor, problem.X, targets,
            None if sample_weight is None else problem.sample_weights, folds,
            needs_rows=callable(self.scoring),
        )  # fmt: skip
        # The C of the squared loss does not depend on the unit of the targets.
        is_squared = self.loss == "squared_epsilon_insensitive"
        scale = 1.0 if is_squared else spread_of(columns, problem.sample_weights)
        found = self._search(problem, folds, score, scale, deadline)
        self._keep_search(found)
        if self.refit:
            self._refit(self._make_model(self.C_), X, y, sample_weight, deadline)
        self._warn(found)
        return self

    def _solve_fold(
        self, model: Any, part: Problem, fold: Fold, data: Any, deadline: float | None
    ) -> Any:
        return model._fit_targets(part, fold.problems[0].target, data, deadline)

    def _settle_fold(self, model: Any, part: Problem, fold: Fold, fitted: Any) -> Any:
        return model._prefer_constant(fitted, part, fold.problems[0].target)
