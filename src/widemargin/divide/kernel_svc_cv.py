"""The exact kernel SVM with C and gamma chosen by cross-validation."""

import time
import warnings
from collections.abc import Callable
from functools import partial
from math import log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from widemargin.arguments import check_choice, check_flag, check_integer
from widemargin.deadline import is_late, time_left
from widemargin.divide.dc_svc import DCSVC
from widemargin.divide.local_classifiers import fit_classifiers
from widemargin.divide.local_search import (
    ClusterChoice,
    DividedRows,
    choose_cells,
    count_clusters,
    divide_rows,
    find_decisions,
)
from widemargin.divide.search_regions import Regions, draw_regions, fit_region_rows
from widemargin.exact.calibration import METHODS, calibrate
from widemargin.exact.fold_search import SEARCH_SHARE, begin, is_refitted
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.exact.search import STORED_SHARE, Found, SearchData
from widemargin.exact.search_base import KernelSearch
from widemargin.exact.search_folds import Fold, make_class_folds, split_rows
from widemargin.exact.search_grid import Shape, with_gamma
from widemargin.exact.search_scoring import FoldScorer, HeldOutClassifier, resolve_scorer
from widemargin.exact.search_surface import FloatArray, Grid
from widemargin.kernel_arguments import resolve_gamma
from widemargin.kernels import Index, Kernel, is_precomputed
from widemargin.memory import parse_bytes
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import validate_class_weights, validate_problem

#: Most rows for which the final model is a `KernelSVC`, and rows of a cluster of the `DCSVC` beyond.
EXACT_ROWS, CLUSTER_ROWS = 50_000, 7500
#: Clusters into which a level divides each cluster of the level above.
N_CLUSTERS = 4


def _is_calibrated(estimator: Any) -> bool:
    is_refitted(estimator)
    if estimator.calibration is None:
        raise AttributeError(
            "KernelSVCCV was made without calibration, so it has no probabilities; give "
            "calibration='sigmoid', 'isotonic' or 'temperature'"
        )
    return True


class KernelSVCCV(KernelSearch, ClassifierMixin, BaseEstimator):
    """Kernel support vector classification with C and gamma chosen by cross-validation.

    The scores are those of `sklearn.model_selection.GridSearchCV` with `KernelSVC` on the same grid
    and folds. Folds, widths and costs share their work, so that a search takes a small part of the
    time. Held-out decision values, which a search has anyway, give calibrated probabilities.

    Parameters
    ----------
    Cs : int or array-like of float, default=10
        Values of C, or how many to find from the data. A range found from the data is extended while
        the best cell is at its end.
    gammas : int, array-like of float, "scale" or "auto", default=10
        Values of gamma, or how many to find from the distances of the rows; one value for "scale" and
        "auto", see `KernelSVC`. Kernels without gamma ignore an integer.
    cv : int, splitter or iterable, default=5
        Folds, as in `GridSearchCV`.
    scoring : str, callable or None, default=None
        Scorer, as in `GridSearchCV`; accuracy if None. Scorers that need probabilities are refused.
        Sample weights are passed to metrics that take them.
    refit : bool, default=True
        Whether to fit a `KernelSVC` with the chosen parameters to all rows.
    calibration : {"sigmoid", "isotonic", "temperature"} or None, default=None
        How `predict_proba` is calibrated with the held-out decision values of the chosen cell.
    search : {"auto", "grid", "halving", "regions"}, default="auto"
        "grid" evaluates every cell on all rows. "halving" evaluates every cell on a sample and few
        cells on all rows. "regions" evaluates every cell on six regions of 2,000 rows each, which are
        nearest to a random row, so that they are as dense as all rows. "auto" is "halving" for more
        than 2,000 rows, and "regions" for more than 10,000 rows whose kernel matrix memory does not
        hold twice.
    n_clusters : int, "auto" or None, default=None
        Number of clusters of the rows that choose a C and a gamma of their own from the grid, or
        "auto" for clusters of about 7,500 rows. There are fewer if clusters would have fewer than 200
        rows, and more if one would be far too large. None for one C and one gamma for all rows.
    degree : int or array-like of int, default=3
        Degree of the polynomial kernel, or degrees to search one after another.
    coef0 : float or array-like of float, default=0.0
        Constant of the polynomial and the sigmoid kernel, or values to search one after another, each
        with every degree.
    kernel, fit_intercept, multi_class, class_weight, tol, max_iter
        As in `KernelSVC`. The gamma of a kernel object is replaced by those of the grid.
    memory : int or str, default="auto"
        Bound on working memory in bytes, or text such as ``"2 GB"``. Kernel matrices are kept if they
        fit; otherwise kernel values are computed when they are needed, which is slower.
    max_time : float or None, default=None
        Seconds for the search and the final fit together. No cell is begun after 70 % of the time.
    keep_decisions : bool, default=False
        Whether to keep the held-out decision values of the chosen cell as ``decision_oof_``.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores. Folds and widths run beside each other.
    random_state : int, RandomState or None, default=0
        Seed of samples. It does not shuffle the folds; give a splitter for that.
    verbose : int, default=0
        1 for a progress line, 2 for a line at every fold of a cell.

    Attributes
    ----------
    C_, gamma_ : float
        The chosen parameters; ``gamma_`` is None for a kernel without gamma.
    degree_, coef0_ : int, float
        The chosen degree and coef0, or those that were given.
    best_score_ : float
        Mean score of the chosen cell over the folds.
    best_params_ : dict
        The chosen parameters by name.
    best_index_ : int
        Number of the chosen cell in ``cv_results_``.
    best_estimator_ : KernelSVC, DCSVC or LocalClassifiers
        The classifier fitted to all rows, if ``refit``. After a search on regions of more than 50,000
        rows it is a `DCSVC` with early prediction, whose clusters have about 7,500 rows. If clusters
        chose parameters of their own, it is a `LocalClassifiers`: one `KernelSVC` for each cluster,
        in the list ``models``, of which that of its cluster predicts a row.
    clusters_ : list of ClusterChoice
        The choice of every cluster: ``n_rows``, ``C``, ``gamma``, ``score`` (its mean over the folds
        of the cluster), ``common_score`` (the same for ``C_`` and ``gamma_``) and ``is_own``. Scores
        are NaN if the cluster was not searched. Empty without ``n_clusters``.
    Cs_, gammas_ : ndarray
        The values that were searched, with several degrees or values of coef0 those of the chosen
        ones, as ``scores_``.
    scores_ : ndarray of shape (n_gammas, n_Cs, n_folds)
        Scores of all cells and folds; NaN where a cell was not evaluated on all rows. A search on
        regions has the folds of every region.
    cv_results_ : dict
        Results in the format of `GridSearchCV`, one entry a cell, with the additional entries
        ``stop_reason`` (the worst of the solver in all folds), ``note`` (why a cell was not evaluated
        on all rows), ``n_rows`` and ``sample_test_score`` (the largest sample that a cell was
        evaluated on, and its mean score there).
    decision_oof_ : ndarray of shape (n_samples, n_problems)
        Held-out decision values of the binary problems of the chosen cell, if ``keep_decisions``:
        their mean where a row is in several test folds, NaN where it is in none.
    calibration_ : Calibration
        The curves from decision values to probabilities, if ``calibration`` is given.
    scorer_ : callable
        The scorer.
    n_splits_ : int
        Number of folds, those of all regions together.
    search_ : str
        How the search was made: "grid", "halving" or "regions".
    refit_time_ : float
        Seconds of the final fit.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if the training data had any.

    Notes
    -----
    A cell in which the solver did not converge is chosen only if it converged in no cell.

    With ``n_clusters``, C and gamma are first chosen for all rows. Then kernel k-means divides the
    rows (``gamma="scale"``), and every cluster is searched on the same grid and folds. It takes its
    own best cell if that is better than the common one by more than two standard errors of the
    difference over its folds. Clusters with fewer than 200 held-out rows or with one class keep the
    common cell, and so do those for which ``max_time`` leaves no time. If all clusters keep it, the
    final model is that without ``n_clusters``. The classifier of a cluster is also fitted to the
    nearest rows of other clusters. Several values of ``degree`` or ``coef0`` are decided for all rows
    together.

    `predict` follows the sign (or votes) of the decision values, which class weights shift.
    With ``calibration="temperature"`` and two classes the predicted class is the most probable one
    always; otherwise the two may differ for rows near the boundary.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from widemargin import KernelSVCCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KernelSVCCV(Cs=[1, 10], gammas=[0.001, 0.01], calibration="sigmoid").fit(scale(X), y)
    >>> bool(model.best_score_ > 0.96)
    True
    >>> model.predict_proba(scale(X)).shape
    (569, 2)
    """

    _searches = ("auto", "grid", "halving", "regions")

    def __init__(
        self,
        *,
        Cs: Any = 10,
        gammas: Any = 10,
        cv: Any = 5,
        scoring: Any = None,
        refit: bool = True,
        calibration: str | None = None,
        search: str = "auto",
        n_clusters: int | str | None = None,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        degree: Any = 3,
        coef0: Any = 0.0,
        fit_intercept: bool = True,
        multi_class: str = "ovo",
        class_weight: dict[Any, float] | str | None = None,
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
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.calibration = calibration
        self.search = search
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
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
        """Choose C and gamma by cross-validation and fit the classifier to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training data; (n_samples, n_samples) with ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.
        groups : array-like of shape (n_samples,), optional
            Groups of the rows, for splitters that keep groups together.

        Returns
        -------
        self : KernelSVCCV
            The fitted classifier.
        """
        self._check_params()
        deadline, seed = begin(self)
        problem = validate_problem(
            self, X, y, sample_weight, self.class_weight, precomputed=is_precomputed(self.kernel)
        )
        kernel = self._find_kernel(problem)
        labels = np.asarray(y).ravel()
        splits = split_rows(
            self._split(X, labels, groups, is_classifier=True), problem.kept, len(labels)
        )
        self.classes_ = problem.classes
        self.scorer_ = resolve_scorer(self, self.scoring)
        gammas = self._find_gammas(kernel, problem, seed)
        costs = self._find_costs(kernel, gammas, problem, seed)
        self.search_ = self._choose_search(kernel, problem.X.shape[0])
        searched, folds = self._make_folds(problem, with_gamma(kernel, gammas.min()), splits, seed)
        by_shape = self._search(
            SearchData(
                searched.X, kernel, searched.labels, folds,
                self._make_score(searched, folds, is_weighted=sample_weight is not None),
            ),
            Grid(gammas, np.array([np.nan]), costs), deadline, seed,
            intercept=self.fit_intercept,
            keeps_decisions=self._wants_decisions and self.n_clusters is None,
        )  # fmt: skip
        found = self._keep_results(by_shape)
        self.scores_ = found.surface.scores[:, 0]
        self.clusters_: list[ClusterChoice] = []
        if self.n_clusters is not None:
            divided = self._divide(problem, kernel, splits, seed)
            self._search_clusters(divided, kernel, deadline, len(labels))
        elif self._wants_decisions:
            self._keep_decisions(found, searched.kept, folds, len(labels))
            held_out = np.concatenate([fold.test for fold in folds])
            decisions = np.concatenate([found.decisions[f] for f in range(len(folds))])
            self._calibrate(decisions, searched, held_out)
        if self.refit and any(choice.is_own for choice in self.clusters_):
            self._fit_local(divided, kernel, deadline)
        elif self.refit:
            self._refit(self._make_model(kernel, len(labels)), X, y, sample_weight, deadline)
        self._warn(found)
        return self

    def _make_folds(
        self, problem: Problem, widest: Kernel, splits: list[tuple[Index, Index]], seed: int
    ) -> tuple[Problem, list[Fold]]:
        """The rows that are searched, and the binary problems of the folds."""
        if self.search_ != "regions":
            return problem, make_class_folds(problem, splits, self.class_weight, self.multi_class)
        size = fit_region_rows(problem.X.shape[0], int(STORED_SHARE * parse_bytes(self.memory)))
        regions = draw_regions(widest, problem, splits, size, seed)
        by_class = self._weigh_classes(problem)
        folds = make_class_folds(regions.problem, regions.splits, by_class, self.multi_class)
        return regions.problem, folds

    def _weigh_classes(self, problem: Problem) -> dict[Any, float]:
        """Weights of the classes for parts of the rows, in which they have other shares."""
        weights = validate_class_weights(
            self.class_weight, problem.classes, problem.classes[problem.labels]
        )
        return dict(zip(problem.classes.tolist(), weights.tolist(), strict=True))

    def _make_model(self, kernel: Kernel, n_rows: int) -> Any:
        """The estimator that is fitted to all rows."""
        params = self._model_params(kernel)
        if self.search_ != "regions" or n_rows <= EXACT_ROWS:
            return KernelSVC(**params)
        level = max(1, round(log(n_rows / CLUSTER_ROWS, N_CLUSTERS)))
        return DCSVC(**params, n_clusters=N_CLUSTERS, n_levels=level, stop_level=level)

    def _model_params(self, kernel: Kernel) -> dict[str, Any]:
        """Parameters of the estimator that is fitted to all rows."""
        return self._final_params(kernel) | {
            "fit_intercept": self.fit_intercept,
            "multi_class": self.multi_class,
            "class_weight": self.class_weight,
        }

    def _divide(
        self, problem: Problem, kernel: Kernel, splits: list[tuple[Index, Index]], seed: int
    ) -> DividedRows:
        """The clusters of the rows, which do not depend on the grid."""
        assert self.n_clusters is not None
        per_feature = kernel.has_feature_gamma
        gamma = resolve_gamma("scale", problem, per_feature=per_feature)
        kernel = with_gamma(Shape(self.degree_, self.coef0_).apply(kernel), gamma)
        n_clusters = count_clusters(self.n_clusters, len(problem.labels), CLUSTER_ROWS)
        return divide_rows(
            kernel, problem, splits, n_clusters, parse_bytes(self.memory), seed, self.n_jobs
        )

    def _search_clusters(
        self, divided: DividedRows, kernel: Kernel, deadline: float | None, n_given: int
    ) -> None:
        """Choose the parameters of every cluster; ``n_given`` counts the rows as they were given."""
        search = partial(self._search_region, self._local_params(divided, kernel))
        until = super()._search_deadline(deadline)
        self.clusters_ = choose_cells(divided, self.best_params_, search, until)
        if is_late(until):
            warnings.warn(
                f"KernelSVCCV: max_time={self.max_time} s has passed before all clusters were "
                "searched; the others keep the common C and gamma. Allow more time",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self._wants_decisions:
            decisions = find_decisions(divided, self.clusters_, search, deadline)
            if self.keep_decisions:
                self.decision_oof_ = np.full((n_given, decisions.shape[1]), np.nan)
                self.decision_oof_[divided.problem.kept] = decisions
            held_out = np.flatnonzero(~np.isnan(decisions).any(axis=1))
            self._calibrate(decisions[held_out], divided.problem, held_out)

    def _fit_local(self, divided: DividedRows, kernel: Kernel, deadline: float | None) -> None:
        """Fit the classifier of every cluster."""
        began = time.perf_counter()
        make_model = partial(self._make_local, self._local_params(divided, kernel))
        self.best_estimator_ = fit_classifiers(divided, self.clusters_, make_model, deadline)
        self.best_estimator_.keep_names(getattr(self, "feature_names_in_", None))
        self.n_iter_ = self.best_estimator_.n_iter_
        self.refit_time_ = time.perf_counter() - began

    def _local_params(self, divided: DividedRows, kernel: Kernel) -> dict[str, Any]:
        """Parameters that the classifiers of all clusters share."""
        return self._model_params(kernel) | {"class_weight": self._weigh_classes(divided.problem)}

    def _make_local(self, params: dict[str, Any], choice: ClusterChoice) -> KernelSVC:
        """The classifier of a cluster; ``params`` are those of all."""
        model = KernelSVC(**params).set_params(C=choice.C)
        if choice.gamma is not None:
            model.set_params(gamma=choice.gamma, kernel=with_gamma(model.kernel, choice.gamma))
        return model

    def _search_region(
        self, params: dict[str, Any], region: Regions, cell: ClusterChoice | None,
        deadline: float | None, *, keep_decisions: bool = False,
    ) -> "_RegionSearch":  # fmt: skip
        """Search one cell, or the whole grid, on the folds of a cluster as data of their own."""
        problem, left = region.problem, time_left(deadline)
        given = {name: params[name] for name in ("kernel", "degree", "coef0", "class_weight")}
        given["Cs"] = self.Cs_ if cell is None else [cell.C]
        if self.gamma_ is not None:
            given["gammas"] = self.gammas_ if cell is None else [cell.gamma]
        search = _RegionSearch(**self.get_params(deep=False) | given)
        search.set_params(
            cv=region.splits, search=self.search if self.search != "regions" else "auto",
            n_clusters=None, refit=False, calibration=None, keep_decisions=keep_decisions,
            max_time=None if left is None else max(left, 1e-3) / SEARCH_SHARE,
        )  # fmt: skip
        return search.fit(problem.X, problem.classes[problem.labels], problem.sample_weights)

    @available_if(is_refitted)
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Decision values of the classifier that was fitted to all rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; the kernel with all training rows if the kernel is precomputed.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            As those of `KernelSVC`.
        """
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @available_if(_is_calibrated)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities of all classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data, as for `decision_function`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        """
        check_is_fitted(self)
        return self.calibration_.probabilities(self.best_estimator_._decide(X))

    @available_if(_is_calibrated)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of the probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data, as for `decision_function`.

        Returns
        -------
        values : ndarray of shape (n_samples, n_classes)
            Logarithms of what `predict_proba` returns.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _check_params(self) -> None:
        super()._check_params()
        if self.search == "regions" and is_precomputed(self.kernel):
            raise ValueError(
                "search: a precomputed kernel matrix is in memory; give search='grid' or 'halving'"
            )
        if self.n_clusters is not None and is_precomputed(self.kernel):
            raise ValueError(
                "n_clusters: a precomputed kernel matrix has one gamma for all clusters; "
                "leave n_clusters out"
            )
        if self.n_clusters not in (None, "auto"):
            check_integer("n_clusters", self.n_clusters, low=1)
        check_choice("multi_class", self.multi_class, ("ovo", "ovr"))
        check_flag("fit_intercept", self.fit_intercept)
        if self.calibration is not None:
            check_choice("calibration", self.calibration, METHODS)

    @property
    def _wants_decisions(self) -> bool:
        return self.keep_decisions or self.calibration is not None

    @property
    def _is_one_vs_one(self) -> bool:
        return self.multi_class == "ovo"

    def _make_score(self, problem: Problem, folds: list[Fold], *, is_weighted: bool) -> FoldScorer:
        classes = problem.classes
        return FoldScorer(
            self.scorer_,
            lambda decisions: HeldOutClassifier(decisions, classes, self._is_one_vs_one),
            problem.X, classes[problem.labels], problem.sample_weights if is_weighted else None,
            folds, needs_rows=callable(self.scoring),
        )  # fmt: skip

    def _calibrate(self, decisions: FloatArray, problem: Problem, rows: Index) -> None:
        """Fit the curves of probabilities, if wanted, to held-out decision values of some rows."""
        if self.calibration is None:
            return
        self.calibration_ = calibrate(
            self.calibration, decisions, problem.labels[rows], problem.sample_weights[rows],
            len(problem.classes), self._is_one_vs_one,
        )  # fmt: skip

    def _search_deadline(self, deadline: float | None) -> float | None:
        """The time after which no more cells are evaluated; clusters have the second half."""
        end = super()._search_deadline(deadline)
        if end is None or self.max_time is None or self.n_clusters is None:
            return end
        return end - SEARCH_SHARE / 2 * self.max_time


class _RegionSearch(KernelSVCCV):
    """The search of one cluster, about which the search of all rows warns."""

    def _warn(self, found: Found) -> None:
        pass
