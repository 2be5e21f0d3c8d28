"""Mixin: estimators that fit and predict on Dask collections."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Self
from uuid import uuid4

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from widemargin.distributed.collections import (
    compute_all,
    cut_collections,
    delay,
    delay_value,
    is_collection,
    merge_columns,
)
from widemargin.distributed.tasks import Tasks, check_workers, find_client, has_client
from widemargin.distributed.training_data import TrainingData, load_rows
from widemargin.kernels.base import SMALL_ROWS
from widemargin.transaction import all_or_nothing, call_inside

#: Parameters of the model on a worker, where a class has them.
TASK_PARAMS = {"n_jobs": 1, "memory": "200 MB"}


class CollectionsMixin(ABC):
    """Fits and predictions on Dask collections, and the way back to the estimator for one machine.

    A class names that estimator, whose parameters it has beside ``client``, in ``_local_class``.
    """

    client: Any
    classes_: Any
    max_time: float | None
    _local_class: type
    get_params: Any
    _check_params: Callable[[], None]
    _warn_unless_converged: Callable[[], None]

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier, on the cluster or in this process.

        Plain arrays are fitted in this process, as the local estimator does it, if there is no client
        or if they have at most 200 rows.

        Parameters
        ----------
        X : dask.array, dask.dataframe, array-like or sparse matrix of shape (n_samples, n_features)
            Training data. The chunks of an array may be dense or in CSR format.
        y : dask.array, dask.dataframe.Series or array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : dask.array, dask.dataframe.Series or array-like of shape (n_samples,), optional
            Factor on C for each row; rows of weight zero are left out.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        if self._fits_here(X, y, sample_weight):
            return call_inside(super().fit, X, y, sample_weight)  # type: ignore[misc]
        self._check_params()
        end = None if self.max_time is None else time.time() + self.max_time
        client = find_client(self.client)
        n_threads = check_workers(client)
        with Tasks(client) as tasks:
            data = load_rows(tasks, self, X, y, sample_weight, n_threads)
            self._fit_on(tasks, data, end, n_threads)
        self._warn_unless_converged()
        return self

    @abstractmethod
    def _fit_on(self, tasks: Tasks, data: TrainingData, end: float | None, n_threads: int) -> None:
        """Fit to rows on the cluster.

        ``end`` is when the fit has to end, by `time.time`, whose clock machines share.
        """

    def _fits_here(self, X: Any, y: Any, sample_weight: Any) -> bool:
        """Return whether the local estimator fits: plain arrays that are few, or without a client."""
        if any(is_collection(values) for values in (X, y, sample_weight)):
            return False
        if self.client is None and not has_client():
            return True
        shape = getattr(X, "shape", None)
        n_rows = shape[0] if shape else len(X) if hasattr(X, "__len__") else 0
        return int(n_rows) <= SMALL_ROWS

    def decision_function(self, X: Any) -> Any:
        """Compute the decision function of the given data.

        Parameters
        ----------
        X : dask.array, dask.dataframe, array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        scores : dask.array or ndarray of shape (n_samples,) or (n_samples, n_classes)
            As the local estimator gives them. For a Dask collection they are computed when they are
            asked for, in the chunks of the collection.
        """
        return self._map("decision_function", X)

    def predict(self, X: Any) -> Any:
        """Predict the class of every row.

        Parameters
        ----------
        X : dask.array, dask.dataframe, array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Returns
        -------
        labels : dask.array, dask.dataframe.Series or ndarray of shape (n_samples,)
            Class labels; of a Dask collection, computed when they are asked for.
        """
        return self._map("predict", X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the share of rows that are predicted correctly.

        Parameters
        ----------
        X : dask.array, dask.dataframe, array-like or sparse matrix of shape (n_samples, n_features)
            Data.
        y : dask.array, dask.dataframe.Series or array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        score : float
            Accuracy.
        """
        if not any(is_collection(values) for values in (X, y, sample_weight)):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        X = merge_columns(X) if hasattr(X, "chunks") else X
        pieces, sent = cut_collections(X, y, sample_weight), self._send_model()
        counted = [
            delay(count_right, sent, *piece, name=f"score-rows-{uuid4().hex}")
            for piece in zip(pieces.X, pieces.y, pieces.weights, strict=True)
        ]
        right, weight = np.sum(compute_all(counted, self.client), axis=0)
        return float(right / weight)

    def to_local(self) -> Any:
        """Return a fitted estimator for one machine with the same answers.

        Returns
        -------
        local : estimator
            It can be saved with `widemargin.save`, exported and pickled.
        """
        check_is_fitted(self)
        return self._make_local()

    def _make_sent(self) -> Any:
        """Return what workers predict with: a local estimator."""
        return self._make_local()

    def _make_local(self) -> Any:
        """Return an estimator for one machine that shares the fitted attributes."""
        params = {k: v for k, v in self.get_params(deep=False).items() if k != "client"}
        local = self._local_class(**params)
        fitted = {k: v for k, v in vars(self).items() if k not in params and k != "client"}
        vars(local).update(fitted)
        return local

    def __getstate__(self) -> Any:
        # A client is a connection of this process.
        state: Any = super().__getstate__()
        return {**state, "client": None}

    def __sklearn_clone__(self) -> Any:
        params = self.get_params(deep=False)
        client = params.pop("client")
        copy: Any = type(self)(**{k: clone(value, safe=False) for k, value in params.items()})
        copy.client = client
        return copy

    def _map(self, method: str, X: Any) -> Any:
        """Call a method of the local estimator: at once, or on every block of a collection."""
        if not is_collection(X):
            return getattr(super(), method)(X)
        sent, kind = self._send_model(), np.dtype(np.float64)
        n_columns = len(self.classes_) if len(self.classes_) > 2 else 1
        if method == "predict":
            kind, n_columns = self.classes_.dtype, 1
        if hasattr(X, "chunks"):
            return _map_array(sent, method, X, kind, n_columns)
        return _map_frame(sent, method, X, kind, self.classes_ if n_columns > 1 else None)

    def _send_model(self) -> Any:
        """Return the local estimator as an object that Dask sends to every worker once."""
        check_is_fitted(self)
        local = self._make_sent()
        # A task has one thread and a share of the memory of its worker.
        local.set_params(**{k: v for k, v in TASK_PARAMS.items() if k in local.get_params()})
        return delay_value(local, f"send-model-{uuid4().hex[:8]}")


def _map_array(sent: Any, method: str, X: Any, kind: Any, n_columns: int) -> Any:
    """Return the answers to the chunks of a Dask array, in these chunks."""
    X = merge_columns(X)
    if n_columns == 1:
        like: dict[str, Any] = {"drop_axis": 1, "meta": np.empty(0, kind)}
    else:
        like = {"chunks": (X.chunks[0], (n_columns,)), "meta": np.empty((0, 0), kind)}
    return X.map_blocks(answer_rows, sent, method, dtype=kind, **like)


def _map_frame(sent: Any, method: str, X: Any, kind: Any, columns: Any) -> Any:
    """Return the answers to the partitions of a Dask DataFrame, with its index."""
    import pandas

    index = X._meta.index[:0]
    meta: Any = pandas.Series(np.empty(0, kind), index=index)
    if columns is not None:
        meta = pandas.DataFrame(np.empty((0, len(columns)), kind), index=index, columns=columns)
    return X.map_partitions(answer_frame, sent, method, meta=meta)


def answer_rows(X: Any, local: Any, method: str) -> Any:
    """Call a method of a fitted estimator on the rows of a chunk, which may be none."""
    if X.shape[0]:
        return getattr(local, method)(X)
    n_classes = len(local.classes_)
    if method == "predict":
        return np.empty(0, local.classes_.dtype)
    return np.empty((0, n_classes) if n_classes > 2 else 0)


def answer_frame(X: Any, local: Any, method: str) -> Any:
    """Call a method of a fitted estimator on a partition of a DataFrame."""
    import pandas

    answers = answer_rows(X, local, method)
    if answers.ndim == 1:
        return pandas.Series(answers, index=X.index)
    return pandas.DataFrame(answers, index=X.index, columns=local.classes_)


def count_right(local: Any, X: Any, y: Any, weights: Any) -> tuple[float, float]:
    """Return the weight of the rows of a partition that are predicted correctly, and of all."""
    is_right = answer_rows(X, local, "predict") == np.asarray(y).ravel()
    counted = np.ones(len(is_right)) if weights is None else np.asarray(weights).ravel()
    return float(counted[is_right].sum()), float(counted.sum())


def add_client(local: type) -> Any:
    """Return the constructor of a class that has ``client`` beside the parameters of another."""
    own = signature(local.__init__)  # type: ignore[misc]
    client = Parameter("client", Parameter.KEYWORD_ONLY, default=None)

    def construct(self: Any, *, client: Any = None, **params: Any) -> None:
        local.__init__(self, **params)  # type: ignore[misc]
        self.client = client

    construct.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), client]
    )
    return construct
