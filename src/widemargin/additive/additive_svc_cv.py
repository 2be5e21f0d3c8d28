"""AdditiveSVCCV: `AdditiveSVC` with C chosen by cross-validation."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin.additive.additive_svc import AdditiveSVC
from widemargin.additive.search_base import AdditiveSearch
from widemargin.deadline import start_deadline
from widemargin.exact.fold_search import is_refitted
from widemargin.exact.search_folds import Fold, make_class_folds, split_rows
from widemargin.exact.search_scoring import FoldScorer, HeldOutClassifier, resolve_scorer
from widemargin.kernels import Kernel
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import ANY_BLOCKS, validate_problem


class AdditiveSVCCV(AdditiveSearch, ClassifierMixin, BaseEstimator):
    """Additive support vector classification with C chosen by cross-validation.

    The scores are those of `sklearn.model_selection.GridSearchCV` with `AdditiveSVC` on the same
    values and folds, up to ``tol``. The codes and the table of a fold are made once for all values of
    C, from its own training rows, and every solution starts from that of the next smaller C.

    Parameters
    ----------
    Cs : int or array-like of float, default=10
        Values of C, or how many to choose from 0.1 to 100 divided by the mean of k(x, x) over the
        training rows. A range found from the data is extended while the best value is
        at its end, and better than the next by more than the standard error of their difference.
    cv : int, splitter or iterable, default=5
        Folds, as in `GridSearchCV`.
    scoring : str, callable or None, default=None
        Scorer, as in `GridSearchCV`; accuracy if None. Scorers that need probabilities are refused.
        Sample weights are passed to metrics that take them.
    refit : bool, default=True
        Whether to fit an `AdditiveSVC` with the chosen C to all rows.
    kernel, p, rank, n_bins, binning, scaling, interactions, loss, fit_intercept, class_weight
        As in `AdditiveSVC`.
    tol, max_iter
        As in `AdditiveSVC`, for every solution.
    max_time : float or None, default=None
        Seconds for the search and the final fit together. No solution is begun after 70 % of the time.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. Folds run beside each other.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows. It does not shuffle the folds; give a splitter for that.
    verbose : int, default=0
        1 for a progress line, 2 for a line at every fold of a value.

    Attributes
    ----------
    C_ : float
        The chosen C.
    best_score_ : float
        Mean score of the chosen C over the folds.
    best_params_ : dict
        The chosen C by name.
    best_index_ : int
        Number of the chosen C in ``cv_results_``.
    best_estimator_ : AdditiveSVC
        The classifier fitted to all rows, if ``refit``.
    Cs_ : ndarray of shape (n_Cs,)
        The values that were searched.
    scores_ : ndarray of shape (n_Cs, n_folds)
        Scores; NaN where ``max_time`` has passed before.
    cv_results_ : dict
        Results in the format of `GridSearchCV`, with the additional entries of `KernelSVCCV`.
    scorer_ : callable
        The scorer.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds of the final fit.
    n_iter_ : int or ndarray
        Passes of the final fit.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data had any.

    Notes
    -----
    A value for which the solver did not converge is chosen only if it converged for none.

    The ``origin_`` of `AdditiveSVC`, for columns with negative values, is that of all rows: it is
    subtracted before rows are held out. All else that a fold uses comes from its own training rows.

    For data with missing values or categories, and for monotone curves, use `GridSearchCV` with
    `AdditiveSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import AdditiveSVCCV
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AdditiveSVCCV(Cs=4, cv=3).fit(X[:600], y[:600])
    >>> bool(model.best_score_ > 0.85)
    True
    """

    _estimator = AdditiveSVC

    def __init__(
        self,
        *,
        Cs: Any = 10,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool = True,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "chi2",
        p: float = -1.0,
        rank: int | str = "auto",
        n_bins: int = 256,
        binning: str = "auto",
        scaling: str | None = "auto",
        interactions: int = 0,
        loss: str = "squared_hinge",
        fit_intercept: bool | str = "free",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 0.1,
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
        self.kernel = kernel
        self.p = p
        self.rank = rank
        self.n_bins = n_bins
        self.binning = binning
        self.scaling = scaling
        self.interactions = interactions
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose C by cross-validation and fit the classifier to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.
        groups : array-like of shape (n_samples,), optional
            Groups of the rows, for splitters that keep groups together.

        Returns
        -------
        self : AdditiveSVCCV
            The fitted classifier.
        """
        self._check_params()
        deadline = start_deadline(self.max_time)
        problem = validate_problem(
            self, X, y, sample_weight, self.class_weight, precomputed=False, layout=ANY_BLOCKS
        )
        labels = np.asarray(y).ravel()
        splits = split_rows(
            self._split(X, labels, groups, is_classifier=True), problem.kept, len(labels)
        )
        self.classes_ = problem.classes
        folds = make_class_folds(problem, splits, self.class_weight, "ovr")
        self.scorer_ = resolve_scorer(self, self.scoring)
        score = FoldScorer(
            self.scorer_, partial(HeldOutClassifier, classes=self.classes_, one_vs_one=False),
            problem.X, self.classes_[problem.labels],
            None if sample_weight is None else problem.sample_weights, folds,
            needs_rows=callable(self.scoring),
        )  # fmt: skip
        found = self._search(problem, folds, score, 1.0, deadline)
        self._keep_search(found)
        if self.refit:
            self._refit(self._make_model(self.C_), X, y, sample_weight, deadline)
        self._warn(found)
        return self

    @available_if(is_refitted)
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Compute the decision function of the classifier that was fitted to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            As those of `AdditiveSVC`.
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def _solve_fold(
        self, model: Any, part: Problem, fold: Fold, data: Any, deadline: float | None
    ) -> Any:
        return data.make_model(*model._solve(part, data, deadline))

    def _settle_fold(self, model: Any, part: Problem, fold: Fold, fitted: Any) -> Any:
        return model._prefer_majority(fitted, part)
