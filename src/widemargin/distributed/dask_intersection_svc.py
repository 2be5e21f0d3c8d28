"""IntersectionSVC for data that lie on a Dask cluster."""

from typing import Any

import numpy as np

from widemargin.additive.intersection_svc import IntersectionSVC
from widemargin.additive.quantiles import select_quantiles
from widemargin.distributed.additive_collections import AdditiveCollectionsMixin, Represented
from widemargin.distributed.additive_tasks import represent_bins, weigh_values
from widemargin.distributed.blocks import Block, FloatArray
from widemargin.distributed.queries import add_client
from widemargin.distributed.tasks import Tasks
from widemargin.distributed.training_data import TrainingData

#: Features whose quantiles are found together: workers hold half a megabyte for each.
COLUMNS_TOGETHER = 16


class DaskIntersectionSVC(AdditiveCollectionsMixin, IntersectionSVC):
    """`IntersectionSVC` for data that lie on a Dask cluster.

    Workers count the values of their rows, from which the client finds the exact quantiles where the
    bins end. They turn rows into codes of one byte a value, and descend on these in parallel. The
    model is a sum of curves as that of `IntersectionSVC`, with the same objective.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The cluster; None for the current client, if there is one.
    C, n_bins, clip_quantile, scaling, loss, fit_intercept, class_weight, tol, max_iter, max_time, \
random_state, verbose
        As in `IntersectionSVC`; ``tol`` is that of `DaskAdditiveSVC`.
    kernel : {"intersection"}, default="intersection"
        The linear kernel, and the choice between both, are refused.
    solver : {"auto", "dual"}, default="auto"
        Dual coordinate descent for the hinge loss. The squared hinge loss is minimised by L-BFGS.
    multi_class : {"ovr"}, default="ovr"
        One class against the rest.
    warm_start, n_jobs
        Without effect on a cluster, where ``warm_start=True`` is refused.

    Attributes
    ----------
    classes_, tables_, intercept_, C_, kernel_mean_, scaling_, quantiser_, feature_ranges_, n_iter_, \
stop_reason_
        As in `IntersectionSVC`; ``n_iter_`` counts passes over all rows.
    violation_ : float
        As in `DaskAdditiveSVC`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.distributed import DaskIntersectionSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = da.from_array(X, chunks=(600, 64)), da.from_array(y, chunks=600)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     model = DaskIntersectionSVC(client=client).fit(X, y)
    ...     accuracy = model.score(X, y)
    >>> bool(accuracy > 0.95)
    True
    """

    _local_class = IntersectionSVC

    __init__ = add_client(IntersectionSVC)

    def _check_params(self) -> None:
        super()._check_params()
        if self.kernel != "intersection":
            raise ValueError(
                f"kernel: {self.kernel!r} is not available on a cluster; use 'intersection'"
            )
        if self.solver == "primal":
            raise ValueError("solver: 'primal' is not available on a cluster; use 'auto'")
        if self.multi_class != "ovr":
            raise ValueError(
                f"multi_class: {self.multi_class!r} is not available on a cluster; use 'ovr'"
            )

    def _represent_on(self, tasks: Tasks, data: TrainingData) -> Represented:
        self.kernel_ = self.kernel
        ranges = self._measure_on(tasks, data.blocks)
        self.feature_ranges_ = np.array([ranges.low, ranges.high])

        def find(columns: Any, above: FloatArray) -> FloatArray:
            return self._find_quantiles(tasks, data, columns, above)

        self._fit_bins(ranges, find)
        local = tasks.send("send-bins", self._make_local())
        n = len(data.blocks)
        represented = tasks.map("represent-rows", represent_bins, [local] * n, data.blocks)
        example = represent_bins(self, Block.of_rows(data.facts.extreme))
        scale = np.full(self.n_features_in_, self.quantiser_.n_bins - 1.0)
        return Represented(data.blocks, represented, example, scale, self.quantiser_.grid)

    def _find_quantiles(
        self, tasks: Tasks, data: TrainingData, columns: list[int] | None, above: FloatArray
    ) -> FloatArray:
        """Return the quantiles of some features, or of all values, over the rows of all blocks."""
        if columns is not None and len(columns) > COLUMNS_TOGETHER:
            starts = range(0, len(columns), COLUMNS_TOGETHER)
            groups = [slice(start, start + COLUMNS_TOGETHER) for start in starts]
            return np.concatenate(
                [self._find_quantiles(tasks, data, columns[at], above[at]) for at in groups]
            )
        kind = data.facts.extreme.dtype

        def weigh(prefixes: list[int], shift: int) -> FloatArray:
            counted = [
                tasks.submit("count-values", weigh_values, block, data.class_weights, kind,
                             columns, above, list(prefixes), shift)
                for block in data.blocks
            ]  # fmt: skip
            total = sum(found for _, found in tasks.gather_completed(counted))
            tasks.release(counted)
            return np.asarray(total)

        return select_quantiles(weigh, len(above), kind, float(self.clip_quantile))
