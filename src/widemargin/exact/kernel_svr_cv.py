"""Kernel support vector regression with C, gamma and epsilon chosen by cross-validation."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from widemargin.exact.fold_search import begin
from widemargin.exact.kernel_svr import KernelSVR
from widemargin.exact.search import SearchData
from widemargin.exact.search_base import KernelSearch
from widemargin.exact.search_folds import make_target_folds, split_rows
from widemargin.exact.search_grid import check_values, find_epsilons, spread_of
from widemargin.exact.search_scoring import FoldScorer, HeldOutRegressor, resolve_scorer
from widemargin.exact.search_surface import FloatArray, Grid
from widemargin.kernels import Kernel, is_precomputed
from widemargin.transaction import all_or_nothing
from widemargin.validation import validate_regression


class KernelSVRCV(KernelSearch, RegressorMixin, BaseEstimator):
    """Kernel support vector regression with C, gamma and epsilon chosen by cross-validation.

    The scores are those of `sklearn.model_selection.GridSearchCV` with `KernelSVR` on the same grid
    and folds; see `KernelSVCCV` for how the work is shared.

    Parameters
    ----------
    Cs : int or array-like of float, default=10
        Values of C, or how many to find from the data. The range that is found is divided by the
        variance of the kernel and multiplied by the standard deviation of the targets.
    gammas : int, array-like of float, "scale" or "auto", default=10
        Values of gamma, or how many to find from the distances of the rows.
    epsilons : int or array-like of float, default=3
        Values of epsilon, or how many to find from the standard deviation of the targets.
    cv : int, splitter or iterable, default=5
        Folds, as in `GridSearchCV`.
    scoring : str, callable or None, default=None
        Scorer, as in `GridSearchCV`; R2 if None.
    refit : bool, default=True
        Whether to fit a `KernelSVR` with the chosen parameters to all rows.
    search, kernel, degree, coef0, tol, max_iter, memory, max_time, keep_decisions
        As in `KernelSVCCV`.
    n_jobs, random_state, verbose
        As in `KernelSVCCV`.

    Attributes
    ----------
    C_, gamma_, epsilon_ : float
        The chosen parameters; ``gamma_`` is None for a kernel without gamma.
    degree_, coef0_ : int, float
        The chosen degree and coef0, or those that were given.
    best_estimator_ : KernelSVR
        The model fitted to all rows, if ``refit``.
    Cs_, gammas_, epsilons_ : ndarray
        The values that were searched.
    scores_ : ndarray of shape (n_gammas, n_Cs, n_epsilons, n_folds)
        Scores of all cells and folds; NaN where a cell was not evaluated on all rows.
    decision_oof_ : ndarray of shape (n_samples, n_targets)
        Held-out predictions of the chosen cell, if ``keep_decisions``.
    best_score_, best_params_, best_index_, cv_results_, scorer_, n_splits_, refit_time_
        As those of `KernelSVCCV`.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import KernelSVRCV
    >>> X = np.random.default_rng(0).uniform(0, 6, size=(200, 1))
    >>> model = KernelSVRCV(Cs=[1, 10], gammas=[0.1, 1], epsilons=[0.01]).fit(X, np.sin(X[:, 0]))
    >>> bool(model.best_score_ > 0.99)
    True
    """

    def __init__(
        self,
        *,
        Cs: Any = 10,
        gammas: Any = 10,
        epsilons: Any = 3,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool = True,
        search: str = "auto",
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: Any = 3,
        coef0: Any = 0.0,
        tol: float = 1e-3,
        memory: int | str = "auto",
        max_iter: int = -1,
        max_time: float | None = None,
        keep_decisions: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.epsilons = epsilons
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.search = search
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.max_time = max_time
        self.keep_decisions = keep_decisions
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose C, gamma and epsilon by cross-validation and fit the model to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.
        groups : array-like of shape (n_samples,), optional
            Groups of the rows, for splitters that keep groups together.

        Returns
        -------
        self : KernelSVRCV
            The fitted model.
        """
        self._check_params()
        deadline, seed = begin(self)
        problem, targets = validate_regression(
            self, X, y, sample_weight, precomputed=is_precomputed(self.kernel)
        )
        kernel = self._find_kernel(problem)
        given = np.asarray(y)
        n_given = len(given)
        splits = split_rows(
            self._split(X, given, groups, is_classifier=False), problem.kept, n_given
        )
        columns = targets.reshape(len(targets), -1)
        folds = make_target_folds(columns, problem.weights, splits)
        self.scorer_ = resolve_scorer(self, self.scoring)
        weights = None if sample_weight is None else problem.sample_weights
        score = FoldScorer(
            self.scorer_, HeldOutRegressor, problem.X, targets, weights, folds,
            needs_rows=callable(self.scoring),
        )  # fmt: skip
        self.search_ = self._choose_search(kernel, problem.X.shape[0])
        gammas = self._find_gammas(kernel, problem, seed)
        scale = spread_of(columns, problem.sample_weights)
        costs = self._find_costs(kernel, gammas, problem, seed, scale)
        by_shape = self._search(
            SearchData(problem.X, kernel, problem.labels, folds, score),
            Grid(gammas, self._find_epsilons(columns, problem.sample_weights), costs), deadline, seed,
            intercept=True, keeps_decisions=self.keep_decisions,
        )  # fmt: skip
        found = self._keep_results(by_shape)
        self.epsilon_, self.epsilons_ = self.best_params_["epsilon"], found.surface.grid.epsilons
        self.scores_ = np.swapaxes(found.surface.scores, 1, 2)
        if self.keep_decisions:
            self._keep_decisions(found, problem.kept, folds, n_given)
        if self.refit:
            model = KernelSVR(**self._final_params(kernel), epsilon=self.epsilon_)
            self._refit(model, X, y, sample_weight, deadline)
        self._warn(found)
        return self

    def _find_epsilons(self, targets: FloatArray, weights: FloatArray) -> FloatArray:
        given = check_values("epsilons", self.epsilons, zero=True)
        return find_epsilons(targets, weights, given) if isinstance(given, int) else given

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
