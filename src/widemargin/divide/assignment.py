"""The clusters of new rows, from a partition and its sampled points."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.divide.partition import Partition
from widemargin.kernels import Kernel
from widemargin.parallel import open_workers


def assign_rows(
    kernel: Kernel, X: Any, partition: Partition, samples: Any, n_jobs: int | None
) -> NDArray[np.int32]:
    """Return the cluster of each row of ``X``.

    The sampled points of the partition are rows of ``samples``, or columns of ``X`` if that is part
    of a precomputed kernel matrix and ``samples`` is None.
    """
    points = None if samples is None else kernel.narrow(kernel.prepare(samples))
    queries = kernel.narrow(kernel.prepare(X, like=points), like=points)
    rows = np.arange(len(queries))
    with open_workers(n_jobs) as workers:
        return partition.assign(
            kernel, queries, rows, queries if points is None else points, workers
        )
