"""Scores of held-out rows by the scorers of scikit-learn."""

import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import (
    accuracy_score,
    check_scoring,
    get_scorer,
    get_scorer_names,
    roc_auc_score,
)

from widemargin.exact.expansion import class_numbers, class_scores
from widemargin.exact.search_folds import FloatArray, Fold

Scorer = Callable[..., float]


class _KnownDecisions(BaseEstimator):
    """Stands for a model fitted to the training rows of a fold; scorers ask it for predictions."""

    def __init__(self, decisions: FloatArray) -> None:
        self.decisions = decisions

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def _take(self, X: Any) -> FloatArray:
        if X.shape[0] != len(self.decisions):
            raise ValueError(
                f"scoring: the scorer asks for predictions of {X.shape[0]} rows, but it was given "
                f"{len(self.decisions)}; a scorer of a search may predict the rows it is given only"
            )
        return self.decisions


class HeldOutClassifier(ClassifierMixin, _KnownDecisions):
    """Predictions from the decision values of all binary problems."""

    def __init__(self, decisions: FloatArray, classes: NDArray[Any], one_vs_one: bool) -> None:
        super().__init__(decisions)
        self.classes = classes
        self.one_vs_one = one_vs_one
        self.classes_ = classes

    def decision_function(self, X: Any) -> FloatArray:
        """Scores as `KernelSVC` gives them."""
        return class_scores(self._take(X), len(self.classes), self.one_vs_one)

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels as `KernelSVC` predicts them."""
        return self.classes[class_numbers(self._take(X), len(self.classes), self.one_vs_one)]

    def predict_proba(self, X: Any) -> FloatArray:
        """Refuse: probabilities are calibrated once the cell is chosen."""
        raise ValueError(
            "scoring: this scorer needs probabilities, which exist only after the search; choose "
            "parameters by labels or decision values, such as 'accuracy', 'balanced_accuracy' or "
            "'roc_auc' (two classes). KernelSVCCV has probabilities with calibration='sigmoid'"
        )


class HeldOutRegressor(RegressorMixin, _KnownDecisions):
    """Predictions of one or several targets."""

    def predict(self, X: Any) -> FloatArray:
        """Targets as `KernelSVR` predicts them."""
        values = self._take(X)
        return values[:, 0] if values.shape[1] == 1 else values


def resolve_scorer(estimator: Any, scoring: Any) -> Scorer:
    """The scorer for a name, a callable or None, which is the score of the estimator."""
    if scoring is None:
        is_classifier = isinstance(estimator, ClassifierMixin)
        found: Scorer = get_scorer("accuracy" if is_classifier else "r2")
        return found
    if not (isinstance(scoring, str) or callable(scoring)):
        raise ValueError(
            f"scoring: {scoring!r:.80} is not one scorer; give the name of one or a callable "
            "(estimator, X, y) -> number"
        )
    if isinstance(scoring, str) and scoring not in get_scorer_names():
        raise ValueError(
            f"scoring: {scoring!r:.80} is not known; sklearn.metrics.get_scorer_names() lists the "
            "names of all scorers"
        )
    return check_scoring(estimator, scoring=scoring)


class FoldScorer:
    """Scores the decision values of folds.

    Sample weights go to metrics that take them. Only scorers that are given as a callable may look
    at the features, so that rows are copied for these alone. Accuracies, and areas under the ROC curve
    of two classes, are computed here: the checks of the metrics of scikit-learn take as long as the
    solution of a small fold.
    """

    def __init__(
        self, scorer: Scorer, make_model: Callable[[FloatArray], Any], X: Any, y: NDArray[Any],
        weights: FloatArray | None, folds: list[Fold], *, needs_rows: bool,
    ) -> None:  # fmt: skip
        self.scorer, self.make_model, self.folds = scorer, make_model, folds
        self.X, self.y, self.weights = X, y, weights
        self.needs_rows = needs_rows
        metric = getattr(scorer, "_score_func", scorer)
        self.is_accuracy = metric is accuracy_score and not needs_rows
        is_plain = not needs_rows and not getattr(scorer, "_kwargs", None)
        self.is_area = metric is roc_auc_score and is_plain
        self.takes_weights = "sample_weight" in inspect.signature(metric).parameters

    def __call__(self, fold: int, decisions: FloatArray) -> float:
        test = self.folds[fold].test
        X = self.X[test] if self.needs_rows else np.empty((len(test), 0))
        model, more = self.make_model(decisions), {}
        weights = None if self.weights is None else self.weights[test]
        if self.is_accuracy:
            return float(np.average(model.predict(X) == self.y[test], weights=weights))
        if self.is_area and len(model.classes_) == 2:
            is_positive, scores = self.y[test] == model.classes_[1], model.decision_function(X)
            if is_positive.any() and not is_positive.all() and np.isfinite(scores).all():
                return area_under_roc(scores, is_positive, weights)
        if weights is not None and self.takes_weights:
            more = {"sample_weight": weights}
        score = self.scorer(model, X, self.y[test], **more)
        if not isinstance(score, Real):
            raise ValueError(f"scoring: the scorer returned {score!r:.80}; return one number")
        if not np.isfinite(score):
            raise ValueError(
                f"scoring: the scorer returned {score} for the held-out rows of fold {fold}; give "
                "another scorer, or a splitter whose folds it can score"
            )
        return float(score)


def area_under_roc(
    scores: FloatArray, is_positive: NDArray[np.bool_], weights: FloatArray | None
) -> float:
    """Return the share of pairs of a positive and a negative row whose scores are in order.

    Pairs of equal scores count half, and pairs count as the product of the weights of their rows.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    values, group = np.unique(scores, return_inverse=True)
    positive = np.bincount(group, weights * is_positive, len(values))
    negative = np.bincount(group, weights * ~is_positive, len(values))
    in_order = positive @ (np.cumsum(negative) - 0.5 * negative)
    return float(in_order / (positive.sum() * negative.sum()))
