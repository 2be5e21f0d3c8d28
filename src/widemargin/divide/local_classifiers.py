"""Classifiers of the clusters of a division, each with parameters of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.budget import StopReason, worst_reason
from widemargin.deadline import share_time, time_left
from widemargin.divide.local_search import ClusterChoice, DividedRows, Division
from widemargin.divide.partition import split_by_group
from widemargin.exact.kernel_svc import KernelSVC


@dataclass(frozen=True)
class LocalClassifiers:
    """One `KernelSVC` for each cluster; that of its cluster predicts a row (DC-SVM Eq. 11).

    Attributes
    ----------
    division : Division
        Finds the cluster of a row.
    models : list of KernelSVC
        The classifier of every cluster. All know all classes.
    """

    division: Division
    models: list[KernelSVC]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, as those of `KernelSVC`."""
        return self.models[0]._scores(self._decide(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Class labels."""
        return self.models[0]._labels(self._decide(X))

    def find_clusters(self, X: Any) -> NDArray[np.int32]:
        """Return the cluster of each row of ``X``."""
        first = self.models[0]
        return self.division.find_clusters(first._check_queries(X), first.n_jobs)

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels."""
        return self.models[0].classes_

    @property
    def n_iter_(self) -> NDArray[Any]:
        """Iterations of every binary problem in all clusters."""
        return np.sum([model.n_iter_ for model in self.models], axis=0)

    @property
    def stop_reason_(self) -> str:
        """The worst of all clusters."""
        return worst_reason(StopReason(model.stop_reason_) for model in self.models).value

    def keep_names(self, names: NDArray[Any] | None) -> None:
        """Give all classifiers the names of the features, if these have any."""
        for model in self.models if names is not None else []:
            model.feature_names_in_ = names

    def _decide(self, X: Any) -> NDArray[np.float64]:
        """Decision values of all binary problems, by the classifier of the cluster of each row."""
        X = self.models[0]._check_queries(X)
        clusters = self.division.find_clusters(X, self.models[0].n_jobs)
        decisions = np.empty((X.shape[0], len(self.models[0].intercept_)))
        for model, rows in zip(
            self.models, split_by_group(clusters, len(self.models)), strict=True
        ):
            if len(rows):
                decisions[rows] = model._ask(model._checked_model(), X[rows])
        return decisions


def fit_classifiers(
    divided: DividedRows, choices: list[ClusterChoice],
    make_model: Callable[[ClusterChoice], KernelSVC], deadline: float | None,
) -> LocalClassifiers:  # fmt: skip
    """Fit the classifier of every cluster; each has an equal share of the time that is left."""
    problem = divided.problem
    models: list[KernelSVC] = []
    for cluster, choice in zip(divided.clusters, choices, strict=True):
        rows = divided.list_training(cluster)
        left = time_left(share_time(deadline, len(choices) - len(models)))
        model = make_model(choice).set_params(max_time=None if left is None else max(left, 1e-3))
        model.fit(
            problem.X[rows], problem.classes[problem.labels[rows]], problem.sample_weights[rows]
        )
        models.append(model.set_params(max_time=None))
    return LocalClassifiers(divided.division, models)
