"""The DC-SVM classifier for data that lie on a Dask cluster."""

from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from widemargin.budget import Budget
from widemargin.distributed.backgrounds import fetch_rows
from widemargin.distributed.binary_problems import Setting
from widemargin.distributed.blocks import as_floats, stack
from widemargin.distributed.lean_model import make_lean
from widemargin.distributed.levels import (
    LevelRun,
    SolvedLevel,
    choose_block_level,
    close_levels,
)
from widemargin.distributed.queries import CollectionsMixin, add_client
from widemargin.distributed.reduced import (
    change_model,
    change_rows,
    reduce_levels,
    take_first,
)
from widemargin.distributed.rounds import solve_whole
from widemargin.distributed.row_store import RowStore
from widemargin.distributed.tasks import Tasks
from widemargin.distributed.training_data import TrainingData
from widemargin.divide.cluster_models import EarlyModel
from widemargin.divide.dc_svc import DCSVC
from widemargin.divide.level_reports import LevelReporter
from widemargin.divide.probe import may_skip_levels
from widemargin.exact.definiteness import warn_if_indefinite
from widemargin.exact.svc_compatibility import find_bound
from widemargin.kernel_arguments import (
    check_kernel_range,
    refuse_negative,
    resolve_kernel,
    scale_gamma,
)
from widemargin.kernels import Kernel, is_precomputed
from widemargin.kernels.anova import AnovaKernel
from widemargin.memory import parse_bytes
from widemargin.problem import Problem
from widemargin.progress import show_levels

#: Rows that the client looks at to choose the precision of kernel values.
LIKE_ROWS = 1000
#: Bytes for a kernel matrix at the client.
CLIENT_BYTES = 10**9


class DaskDCSVC(CollectionsMixin, DCSVC):
    """`DCSVC` for data that lie on a Dask cluster.

    Rows stay on the workers. The client samples some, finds the clusters from these, and receives the
    support vectors of the model. Workers assign rows to clusters, send rows to each other, and solve
    the clusters, each as a task of its own that Dask computes again if a worker is lost.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The cluster; None for the current client, if there is one.
    C, kernel, gamma, degree, coef0, fit_intercept, multi_class, class_weight, tol, max_iter, \
n_clusters, n_levels, stop_level, sample_size, partition, adaptive, background, overlap, n_nearest, \
keep_levels, random_state, verbose, callback
        As in `DCSVC`. The kernel is a function of two rows: "precomputed" is refused.
    memory : int or str, default="auto"
        Bytes of kernel values that a task may hold. "auto" stands for a quarter of the memory of a
        worker, shared by its threads. Local predictions may take as much.
    max_time : float or None, default=None
        Seconds after which the fit stops. The model is that of the level that was being solved. The
        clocks of the machines must agree.
    combine : {"early", "naive"}, default="early"
        As in `DCSVC`.
    skip_levels : bool, default=True
        Whether levels are left out whose clusters would be tiny.
    refine, warm_start, n_jobs
        Without effect on a cluster, where ``warm_start=True`` is refused.

    Attributes
    ----------
    levels_, level_, support_clusters_, cluster_intercepts_, classes_, support_, support_vectors_, \
n_support_, dual_coef_, intercept_, objective_, duality_gap_, n_iter_, stop_reason_, kernel_, \
n_features_in_, feature_names_in_
        As in `DCSVC`. ``support_`` counts rows over all partitions in their order, and
        ``support_vectors_`` has the type of the training data, ``uint8`` pixels for example.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.distributed import DaskDCSVC
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> X, y = da.from_array(X, chunks=(500, 2)), da.from_array(y, chunks=500)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     model = DaskDCSVC(gamma=2.0, stop_level=1, client=client).fit(X, y)
    ...     accuracy = model.score(X, y)
    >>> bool(accuracy > 0.95)
    True
    """

    _local_class = DCSVC

    __init__ = add_client(DCSVC)

    def _fit_on(self, tasks: Tasks, data: TrainingData, end: float | None, n_threads: int) -> None:
        began = perf_counter()
        setting = self._make_setting(tasks, data, end)
        store = RowStore()
        levels = self._solve_on(tasks, data, setting, began, n_threads, store)
        self.shape_fit_ = (data.facts.n_given, self.n_features_in_)
        found = reduce_levels(setting, levels, store, self.keep_levels)
        solutions = found.levels[-1].solutions
        self._keep_results(
            found.problem, setting.kernel, found.subproblems, solutions, found.support
        )
        self._keep_levels(found.levels, found.parts)
        self.restore_model()

    def to_local(self) -> DCSVC:
        local: DCSVC = super().to_local()
        local._parts = change_rows(local._parts, as_floats, as_floats)
        local.support_vectors_ = take_first(local._parts.vectors, len(self.support_))
        # As it was fitted, whatever the parameters are now.
        local._model = change_model(self._model, as_floats)
        if local._stages is not None:
            local._stages = [change_model(stage, as_floats) for stage in local._stages]
        return local

    def _make_sent(self) -> Any:
        local = super()._make_sent()
        # Neither what this process has computed for its own predictions, nor rows that the model has.
        model = change_model(local._model, lambda rows: rows)
        local._model = make_lean(model) if isinstance(model, EarlyModel) else model
        local._stages = None
        del local._parts, local.support_vectors_
        return local

    def _check_params(self) -> None:
        super()._check_params()
        if is_precomputed(self.kernel):
            raise ValueError(
                "kernel: a precomputed matrix does not divide into rows on a cluster; use DCSVC"
            )
        if self.warm_start:
            raise ValueError("warm_start: not available on a cluster; set it to False")
        if self.combine == "bcm":
            raise ValueError("combine: 'bcm' is not available on a cluster; use 'early' or 'naive'")

    def _make_setting(self, tasks: Tasks, data: TrainingData, end: float | None) -> Setting:
        """Resolve the kernel, and choose the precision of its values from some rows."""
        kernel = self._make_kernel(data)
        if kernel.needs_nonnegative and len(data.facts.negative):
            refuse_negative(
                data.facts.negative, getattr(self, "feature_names_in_", None),
                f"the {kernel.name!r} kernel",
            )  # fmt: skip
        step = max(1, data.n_rows // LIKE_ROWS)
        some = fetch_rows(tasks, data.blocks, data.sizes, np.arange(0, data.n_rows, step))
        rows = stack([some.X, data.facts.extreme])
        points = kernel.prepare(rows)
        diagonal = kernel.diag(points)
        check_kernel_range(kernel, diagonal)
        warn_if_indefinite(kernel, rows, diagonal, stacklevel=6)
        plan = self._plan(data.n_rows, is_warm=False)
        return Setting(
            kernel=kernel,
            like=kernel.take(points, np.arange(1)),
            classes=data.classes,
            is_one_vs_one=self.multi_class == "ovo",
            bound=find_bound(self.C, diagonal),
            fit_intercept=self.fit_intercept,
            budget=Budget(self.tol, self.max_iter),
            memory=None if self.memory == "auto" else parse_bytes(self.memory),
            seed=plan.seed,
            end=end,
        )

    def _make_kernel(self, data: TrainingData) -> Kernel:
        gamma = self.gamma
        if isinstance(gamma, str) and gamma == "scale":
            gamma = scale_gamma(data.facts.variance, self.n_features_in_)
        if needs_means(self.kernel):
            raise ValueError(
                "kernel: an ANOVA kernel needs means over all rows, which are not measured on a "
                "cluster; give a kernel with curve_mean and pair_mean, such as kernel_ of a DCSVC "
                "fitted to a sample of the rows"
            )
        # With gamma known, the kernel needs to know no more of the rows than their number of columns.
        nothing = np.zeros(0, np.intp)
        few = Problem(data.facts.extreme, nothing, data.classes, np.zeros(0), np.zeros(0), nothing)
        return resolve_kernel(self.kernel, gamma, self.degree, self.coef0, few)

    def _solve_on(
        self, tasks: Tasks, data: TrainingData, setting: Setting, began: float, n_threads: int,
        store: RowStore,
    ) -> list[SolvedLevel]:  # fmt: skip
        """Solve the levels on the cluster, and the whole problem unless the fit stops early."""
        plan = self._plan(data.n_rows, is_warm=False)
        if self.skip_levels and not self.keep_levels and may_skip_levels(plan, data.n_rows):
            is_auto = self.background == "auto"
            plan = replace(plan, is_measured=is_auto and plan.background > 0)
        sent = tasks.send("send-setting", setting)
        run = LevelRun(
            tasks, setting, sent, plan, self.keep_levels,
            CLIENT_BYTES if self.memory == "auto" else parse_bytes(self.memory), n_threads, store,
        )  # fmt: skip
        levels, blocks = [], data.blocks
        last = plan.stop_level or choose_block_level(plan, n_threads)
        with show_levels(self.verbose) as show:
            listener = self._level_listener(show)
            for level, after in run.solve(data.blocks, data.sizes, last, began, listener):
                levels.append(level)
                blocks = after
            if plan.stop_level == 0 and not (levels and run.is_late()):
                report = LevelReporter(0, np.array([data.n_rows]), began, listener)
                levels.append(solve_whole(tasks, setting, sent, blocks, report, store))
        return close_levels(levels, plan.stop_level)


def needs_means(kernel: Any) -> bool:
    """Return whether a kernel has constants that are means over the training rows."""
    if isinstance(kernel, AnovaKernel):
        return not (kernel.curve_mean and kernel.pair_mean)
    return isinstance(kernel, str) and kernel.startswith("anova")
