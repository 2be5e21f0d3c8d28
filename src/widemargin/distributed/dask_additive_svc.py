"""AdditiveSVC for data that lie on a Dask cluster."""

import time
from functools import reduce
from typing import Any, Self

import numpy as np

from widemargin.additive.additive_svc import AdditiveSVC
from widemargin.additive.coded_rows import count_coefs
from widemargin.additive.dual_descent import LinearResult
from widemargin.additive.quantiser import join_ranges
from widemargin.arguments import draw_seed
from widemargin.distributed.additive_rounds import (
    DescentPlan,
    Geometry,
    SmoothRun,
    run_rounds,
)
from widemargin.distributed.additive_tasks import (
    Shared,
    Weighed,
    count_codes,
    encode_block,
    measure_block,
    pose_block,
    represent_block,
    weigh_block,
)
from widemargin.distributed.blocks import Block
from widemargin.distributed.queries import CollectionsMixin, add_client
from widemargin.distributed.tasks import Tasks, check_workers, find_client
from widemargin.distributed.training_data import TrainingData, load_rows
from widemargin.kernel_arguments import check_norms
from widemargin.progress import show_passes
from widemargin.transaction import all_or_nothing


class DaskAdditiveSVC(CollectionsMixin, AdditiveSVC):
    """`AdditiveSVC` for data that lie on a Dask cluster.

    Workers turn their rows into codes of one byte a value, and descend on these in parallel. The
    client merges the ranges of the features and counts of the bins, and adds up the coefficients. The
    model is a sum of curves as that of `AdditiveSVC`, with the same objective.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The cluster; None for the current client.
    C, kernel, p, rank, n_bins, scaling, loss, multi_class, fit_intercept, class_weight, tol, \
max_iter, max_time, random_state, verbose
        As in `AdditiveSVC`, but with the squared hinge loss ``tol`` is the largest ``violation_`` as
        defined below, which is not that of `AdditiveSVC`: equal values do not stop at equal accuracy.
    binning : {"auto", "uniform", "sqrt"}, default="auto"
        As in `AdditiveSVC`, without quantiles, for which all values would have to be in one place.
    solver : {"dual"}, default="dual"
        Dual coordinate descent for the hinge loss. The squared hinge loss is minimised by L-BFGS.
    alpha, eta0, missing, categorical_features, monotonic_cst, warm_start, n_jobs
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
        Negative features are refused where the kernel needs non-negative ones, even if the data are
        centred.

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

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier.

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
        self._check_params()
        end = None if self.max_time is None else time.time() + self.max_time
        client = find_client(self.client)
        n_threads = check_workers(client)
        with Tasks(client) as tasks:
            data = load_rows(tasks, self, X, y, sample_weight, n_threads)
            self._fit_on(tasks, data, end)
        self._warn_unless_converged()
        return self

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
        if self.warm_start:
            raise ValueError("warm_start: not available on a cluster; set it to False")
        if self.binning == "quantile":
            raise ValueError(
                "binning: 'quantile' is not available on a cluster; use 'auto' or another"
            )

    def _fit_on(self, tasks: Tasks, data: TrainingData, end: float | None) -> None:
        """Represent, solve, model: as `AdditiveSVC` does, on the blocks of a cluster."""
        self.classes_, self.origin_ = data.classes, np.zeros(self.n_features_in_)
        if self._needs_nonnegative() and len(data.facts.negative):
            self._refuse(data.facts.negative)
        blocks, n = data.blocks, len(data.blocks)
        represented = self._represent_on(tasks, data)
        weighed = tasks.map(
            "weigh-rows", weigh_block, represented, blocks, [data.class_weights] * n
        )
        self._weigh(tasks.gather(weighed))
        local = tasks.send("send-settings", self.to_local())
        coded = tasks.map("pose-problems", pose_block, [local] * n, represented, blocks)
        tasks.release([*represented, *blocks])
        # Any rows tell the shape of the coefficients, and turn these into a model.
        few = Block.of_rows(data.facts.extreme)
        example = represent_block(self, few, self.quantiser_.encode(few.X))
        result = self._descend_on(tasks, coded, example, end)
        self.n_seen_, self.t_ = data.n_rows, int(result.n_iter.max()) * data.n_rows
        self._model = example.make_model(result.coef, result.extra)

    def _represent_on(self, tasks: Tasks, data: TrainingData) -> list[Any]:
        """Choose bins and table, and represent the rows of all blocks."""
        blocks, n = data.blocks, len(data.blocks)
        ranges = reduce(join_ranges, tasks.gather(tasks.map("find-ranges", measure_block, blocks)))
        self.feature_ranges_ = np.array([ranges.low, ranges.high])
        self._fit_grid(ranges)
        quantiser = tasks.send("send-bins", self.quantiser_)
        codes = tasks.map("encode-rows", encode_block, [quantiser] * n, blocks)
        counted = tasks.map(
            "count-codes", count_codes, [quantiser] * n, codes, blocks, [data.class_weights] * n
        )
        chosen = self._choose_table_from(np.sum(tasks.gather(counted), axis=0))
        self._table, self.rank_, self.left_out_ = chosen.table, chosen.rank, chosen.left_out
        local = tasks.send("send-table", self.to_local())
        represented = tasks.map("represent-rows", represent_block, [local] * n, blocks, codes)
        tasks.release([*codes, *counted])
        return represented

    def _weigh(self, weighed: list[Weighed]) -> None:
        """Find the mean of k(x, x), which is the unit of C and of the intercept."""
        check_norms("X: kernel values", np.array([w.largest_norm for w in weighed]), "MinMaxScaler")
        mean = sum(w.norm_sum for w in weighed) / sum(w.weight for w in weighed)
        mean -= self._has_intercept()
        self.kernel_mean_ = mean if mean > 0 else 1.0
        self._cost()

    def _descend_on(
        self, tasks: Tasks, coded: list[Any], example: Any, end: float | None
    ) -> LinearResult:
        is_free, scale = self._has_free_intercept(), self._scales()
        n_problems = 1 if len(self.classes_) == 2 else len(self.classes_)
        geometry = Geometry(
            scale, self.quantiser_.grid if self.rank_ == 0 else None,
            self.kernel_mean_ if is_free else 1.0,
        )  # fmt: skip
        start = Shared(
            np.zeros((n_problems, count_coefs(example.rows))),
            np.zeros((n_problems, example.rows.n_extra)),
        )
        plan = DescentPlan(self.tol, self.max_iter, end, draw_seed(self.random_state), is_free)
        with show_passes(self.verbose, "round") as show:
            if self.loss == "squared_hinge":
                result = SmoothRun(tasks, coded, geometry, plan, show).solve(start)
            else:
                result = run_rounds(tasks, coded, start, geometry, plan, show)
        self.n_iter_ = int(result.n_iter[0]) if n_problems == 1 else result.n_iter
        self.stop_reason_ = result.stop_reason.value
        self.violation_ = float(result.violation.max())
        return result
