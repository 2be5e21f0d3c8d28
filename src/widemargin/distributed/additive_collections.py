"""Mixin of the additive classifiers for data that lie on a Dask cluster: represent, solve, model."""

from abc import abstractmethod
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from widemargin.additive.coded_rows import count_coefs
from widemargin.additive.dual_descent import LinearResult
from widemargin.additive.quantiser import Ranges, join_ranges
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
    measure_block,
    pose_block,
    weigh_block,
)
from widemargin.distributed.blocks import FloatArray
from widemargin.distributed.queries import CollectionsMixin
from widemargin.distributed.tasks import Tasks
from widemargin.distributed.training_data import TrainingData
from widemargin.kernel_arguments import check_norms
from widemargin.progress import show_passes


class Represented(NamedTuple):
    """Rows on the cluster as numbers.

    Attributes
    ----------
    blocks : list of futures
        The rows of the blocks.
    data : list of futures
        Their representations.
    example : Representation
        That of a few rows: any rows tell the shape of the coefficients, and turn these into a model.
    scale : ndarray of shape (n_features,)
        Factor on the kernel of each feature.
    grid : ndarray of shape (n_bins,) or None
        As in `Geometry`.
    """

    blocks: list[Any]
    data: list[Any]
    example: Any
    scale: FloatArray
    grid: FloatArray | None


class AdditiveCollectionsMixin(CollectionsMixin):
    """Fits of additive kernels on Dask collections.

    A class represents its rows in `_represent_on`.
    """

    loss: str
    multi_class: str
    fit_intercept: Any
    warm_start: bool
    tol: float
    max_iter: int
    random_state: Any
    verbose: int
    n_features_in_: int
    feature_ranges_: FloatArray
    kernel_mean_: float
    _model: Any
    _keep_kernel_mean: Callable[[float, float], None]
    _has_intercept: Callable[[], bool]
    _has_free_intercept: Callable[[], bool]

    @abstractmethod
    def _represent_on(self, tasks: Tasks, data: TrainingData) -> Represented:
        """Choose bins, and represent the rows of all blocks."""

    def _check_params(self) -> None:
        super()._check_params()
        if self.warm_start:
            raise ValueError("warm_start: not available on a cluster; set it to False")

    def _fit_on(self, tasks: Tasks, data: TrainingData, end: float | None, n_threads: int) -> None:
        """Represent, solve, model: as the local estimator does, on the blocks of a cluster."""
        self.classes_ = data.classes
        blocks, represented, example, scale, grid = self._represent_on(tasks, data)
        n = len(blocks)
        weighed = tasks.map(
            "weigh-rows", weigh_block, represented, blocks, [data.class_weights] * n
        )
        self._weigh(tasks.gather(weighed))
        local = tasks.send("send-settings", self._make_local())
        coded = tasks.map("pose-problems", pose_block, [local] * n, represented, blocks)
        tasks.release([*represented, *blocks, *weighed])
        is_free = self._has_free_intercept()
        geometry = Geometry(scale, grid, self.kernel_mean_ if is_free else 1.0)
        result = self._descend_on(tasks, coded, example, geometry, end)
        self._model = example.make_model(result.coef, result.extra)

    def _measure_on(self, tasks: Tasks, blocks: list[Any]) -> Ranges:
        """Measure the ranges of the features of all rows."""
        return reduce(join_ranges, tasks.gather(tasks.map("find-ranges", measure_block, blocks)))

    def _weigh(self, weighed: list[Weighed]) -> None:
        """Find the mean of k(x, x), which is the unit of C and of the intercept."""
        check_norms("X: kernel values", np.array([w.largest_norm for w in weighed]), "MinMaxScaler")
        weight = sum(w.weight for w in weighed)
        mean = sum(w.norm_sum for w in weighed) / weight
        self._keep_kernel_mean(mean - self._has_intercept(), weight)

    def _descend_on(
        self, tasks: Tasks, coded: list[Any], example: Any, geometry: Geometry, end: float | None
    ) -> LinearResult:
        n_problems = 1 if len(self.classes_) == 2 else len(self.classes_)
        start = Shared(
            np.zeros((n_problems, count_coefs(example.rows))),
            np.zeros((n_problems, example.rows.n_extra)),
        )
        plan = DescentPlan(self.tol, self.max_iter, end, draw_seed(self.random_state),
                           self._has_free_intercept())  # fmt: skip
        with show_passes(self.verbose, "round") as show:
            if self.loss == "squared_hinge":
                result = SmoothRun(tasks, coded, geometry, plan, show).solve(start)
            else:
                result = run_rounds(tasks, coded, start, geometry, plan, show)
        self.n_iter_ = int(result.n_iter[0]) if n_problems == 1 else result.n_iter
        self.stop_reason_ = result.stop_reason.value
        self.violation_ = float(result.violation.max())
        return result
