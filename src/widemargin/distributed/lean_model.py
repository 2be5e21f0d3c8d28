"""Early prediction in little memory, for workers: support vectors stay as they are given."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.distributed.blocks import CHECKED_ROWS, as_floats, measure_norms, stack
from widemargin.divide.cluster_models import ClusterParts, EarlyModel
from widemargin.exact.expansion import resolve_far
from widemargin.kernels import Index, Points
from widemargin.parallel import Workers

#: Bytes of support vectors, as numbers of four bytes, beyond which a worker prepares them by clusters.
LEAN_BYTES = 2**27


def make_lean(model: EarlyModel) -> EarlyModel:
    """Return the model itself, or one for workers if it has very many support vectors."""
    vectors = model.parts.vectors
    n_values = vectors.nnz if sparse.issparse(vectors) else vectors.size
    is_large = 4 * n_values > LEAN_BYTES
    return LeanEarlyModel(model.parts, model.n_nearest) if is_large else model


class LeanEarlyModel(EarlyModel):
    """Early prediction (DC-SVM Eq. 11) that prepares the support vectors of one cluster at a time.

    `EarlyModel` prepares all of them at once and keeps them, which is faster for few queries.
    """

    @cached_property
    def _points(self) -> Points:
        # The samples and the largest support vector fix the centre and the precision for all points.
        vectors, samples = self.parts.vectors, self.parts.samples
        return self.kernel.prepare(
            stack([as_floats(samples), as_floats(vectors[[find_extreme(self.parts)]])])
        )

    def _decide_cluster(self, c: int, queries: Points, rows: Index) -> NDArray[np.float64]:
        parts, members = self.parts, self._members[c]
        out = np.tile(parts.intercept[c], (len(rows), 1))
        if len(members) and len(rows):
            target = self.kernel.prepare(parts.vectors[members], like=self._points)
            every, coef = np.arange(len(members)), np.ascontiguousarray(parts.coef[:, members].T)
            alone = Workers(1, None)
            self.kernel.accumulate(queries, rows, target, every, coef, out, alone)
            resolve_far(
                self.kernel, queries, rows, target, every, coef, parts.intercept[c], out, alone
            )
        return out


def find_extreme(parts: ClusterParts) -> int:
    """Return the support vector with the largest norm."""
    largest, found = -np.inf, 0
    for start in range(0, parts.vectors.shape[0], CHECKED_ROWS):
        norms = measure_norms(parts.vectors[start : start + CHECKED_ROWS])
        if norms.max() > largest:
            largest, found = norms.max(), start + int(norms.argmax())
    return found
