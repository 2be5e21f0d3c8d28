"""AdditiveSVC for data that lie on a Dask cluster."""

from typing import Any

import numpy as np

from widemargin.additive.additive_svc import AdditiveSVC
from widemargin.distributed.additive_collections import AdditiveCollectionsMixin, Represented
from widemargin.distributed.additive_tasks import (
    count_codes,
    describe_columns,
    encode_block,
    join_columns,
    move_block,
    represent_block,
)
from widemargin.distributed.blocks import Block
from widemargin.distributed.queries import add_client
from widemargin.distributed.tasks import Tasks
from widemargin.distributed.training_data import TrainingData


class DaskAdditiveSVC(AdditiveCollectionsMixin, AdditiveSVC):
    """`AdditiveSVC` for data that lie on a Dask cluster.

    Workers turn their rows into codes of one byte a value, and descend on these in parallel. The
    client merges the ranges of the features and counts of the bins, and adds up the coefficients. The
    model is a sum of curves as that of `AdditiveSVC`, with the same objective.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The cluster; None for the current client, if there is one.
    C, kernel, p, rank, n_bins, scaling, loss, multi_class, fit_intercept, class_weight, tol, \
max_iter, max_time, random_state, verbose
        As in `AdditiveSVC`, but with the squared hinge loss ``tol`` is the largest ``violation_`` as
        defined below, which is not that of `AdditiveSVC`: equal values do not stop at equal accuracy.
    binning : {"auto", "uniform", "sqrt"}, default="auto"
        As in `AdditiveSVC`, without quantiles, for which all values would have to be in one place.
    solver : {"dual"}, default="dual"
        Dual coordinate descent for the hinge loss. The squared hinge loss is minimised by L-BFGS.
    alpha, eta0, missing, categorical_features, monotonic_cst, warm_start, interactions, n_jobs
        Without effect on a cluster, where other values than the default are refused for all but
        ``alpha``, ``eta0`` and ``n_jobs``.

    Attributes
    ----------
    classes_, tables_, coef_, intercept_, C_, kernel_mean_, rank_, left_out_, feature_ranges_, \
origin_, n_iter_, stop_reason_, violation_
        As in `AdditiveSVC`; ``n_iter_`` counts passes over all rows. With the squared hinge loss,
        ``violation_`` is 50 times the squared norm of the gradient of the primal objective, divided by
        this objective; the largest of all classes. Without a free intercept it bounds the percentage
        of the objective that is above the optimum. With a free intercept, which has no penalty, it
        is no bound.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.distributed import DaskAdditiveSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> X, y = da.from_array(X, chunks=(600, 64)), da.from_array(y, chunks=600)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     model = DaskAdditiveSVC(client=client).fit(X, y)
    ...     accuracy = model.score(X, y)
    >>> bool(accuracy > 0.95)
    True
    """

    _local_class = AdditiveSVC

    __init__ = add_client(AdditiveSVC)

    def _check_params(self) -> None:
        super()._check_params()
        if self.solver != "dual":
            raise ValueError(f"solver: {self.solver!r} is not available on a cluster; use 'dual'")
        if self.missing != "error":
            raise ValueError(
                'missing: not available on a cluster; fill the values, and use "error"'
            )
        for name in ("categorical_features", "monotonic_cst"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name}: not available on a cluster; set it to None")
        if self.binning == "quantile":
            raise ValueError(
                "binning: 'quantile' is not available on a cluster; use 'auto' or another"
            )
        if self.interactions:
            raise ValueError("interactions: not available on a cluster; set it to 0")

    def _fit_on(self, tasks: Tasks, data: TrainingData, end: float | None, n_threads: int) -> None:
        super()._fit_on(tasks, data, end, n_threads)
        self.n_seen_, self.t_ = data.n_rows, int(np.max(self.n_iter_)) * data.n_rows

    def _represent_on(self, tasks: Tasks, data: TrainingData) -> Represented:
        blocks, n = self._take_blocks(tasks, data), len(data.blocks)
        ranges = self._measure_on(tasks, blocks)
        self.feature_ranges_ = np.array([ranges.low, ranges.high]) + self.origin_
        self._fit_grid(ranges)
        quantiser = tasks.send("send-bins", self.quantiser_)
        codes = tasks.map("encode-rows", encode_block, [quantiser] * n, blocks)
        counted = tasks.map(
            "count-codes", count_codes, [quantiser] * n, codes, blocks, [data.class_weights] * n
        )
        chosen = self._choose_table_from(np.sum(tasks.gather(counted), axis=0))
        self._table, self.rank_, self.left_out_ = chosen.table, chosen.rank, chosen.left_out
        local = tasks.send("send-table", self._make_local())
        represented = tasks.map("represent-rows", represent_block, [local] * n, blocks, codes)
        tasks.release([*codes, *counted])
        few = Block.of_rows(data.facts.extreme)
        few = move_block(few, self.origin_) if self.origin_.any() else few
        example = represent_block(self, few, self.quantiser_.encode(few.X))
        grid = self.quantiser_.grid if self.rank_ == 0 else None
        return Represented(blocks, represented, example, self._scales(), grid)

    def _take_blocks(self, tasks: Tasks, data: TrainingData) -> list[Any]:
        """Return the rows as the kernel needs them: centred data are moved, as `AdditiveSVC` does."""
        self.origin_ = np.zeros(self.n_features_in_)
        if not self._needs_nonnegative() or len(data.facts.negative) == 0:
            return data.blocks
        n = len(data.blocks)
        described = tasks.map(
            "measure-columns", describe_columns, data.blocks, [data.class_weights] * n
        )
        self._choose_origin(data.facts.negative, join_columns(tasks.gather(described)))
        moved = tasks.map("move-origin", move_block, data.blocks, [self.origin_] * n)
        tasks.release([*data.blocks, *described])
        return moved
