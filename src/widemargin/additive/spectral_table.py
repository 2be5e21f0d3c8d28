"""Spectral tables: the best symmetric approximation of a kernel on the bins by a few numbers each."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.scalar_kernels import ScalarKernel
from widemargin.parallel import single_blas

#: Largest matrix that is decomposed; the numbers of further bins are computed from its eigenvectors.
MAX_LANDMARKS = 512
#: Share of the weight that is spread evenly: bins that training data missed count a little.
EVEN_SHARE = 0.01
#: ``rank="auto"`` leaves out no more than this share of the kernel's weighted trace.
TRACE_SHARE = 1e-3
#: Beyond this rank, tables are no longer the right representation.
MAX_RANK = 16


@dataclass(frozen=True)
class Spectrum:
    """Leading eigenvectors of a kernel on the bins.

    Attributes
    ----------
    table : ndarray of shape (n_bins, rank)
        ``table @ table.T`` approximates the kernel between bins.
    rank : int
        Numbers for each bin.
    left_out : float
        Share of the weighted trace that the approximation leaves out.
    """

    table: NDArray[np.float64]
    rank: int
    left_out: float


def spectral_table(
    kernel: ScalarKernel,
    grid: NDArray[np.float64],
    counts: NDArray[np.float64],
    rank: int | None,
) -> Spectrum:
    """Table of a kernel on grid points that occur with some frequency.

    Of all symmetric tables of this rank it has the smallest squared error, weighted by how often
    pairs of bins occur.

    Parameters
    ----------
    kernel : ScalarKernel
        Positive semidefinite on the grid.
    grid : ndarray of shape (n_bins,)
        Values of the bins.
    counts : ndarray of shape (n_bins,)
        How often each bin occurs.
    rank : int or None
        Numbers for each bin; None for as few as leave out little, in steps of four.
    """
    share = (1.0 - EVEN_SHARE) * counts / counts.sum() + EVEN_SHARE / len(grid)
    chosen = _choose_landmarks(counts)
    # Every bin counts with the nearest landmark.
    nearest = np.searchsorted(0.5 * (chosen[1:] + chosen[:-1]), np.arange(len(grid)))
    weight = np.sqrt(np.bincount(nearest, share, len(chosen)))
    landmarks = grid[chosen]
    K = kernel(landmarks, landmarks)
    with single_blas():
        values, vectors = np.linalg.eigh(weight[:, None] * (0.5 * (K + K.T)) * weight)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    tail = 1.0 - np.cumsum(values) / max(values.sum(), 1e-300)
    if rank is None:
        needed = int(np.searchsorted(-tail, -TRACE_SHARE)) + 1
        # Compiled loops take four numbers at a time.
        rank = -(-needed // 4) * 4
    positive = int(np.count_nonzero(values > 1e-12 * values[0]))
    rank = max(1, min(rank, positive))
    # Nystrom's extension; at the landmarks it is the eigenvectors themselves.
    scaled = weight[:, None] * vectors[:, :rank] / np.sqrt(values[:rank])
    table = kernel(grid, landmarks) @ scaled
    # Computed for all bins, since ``tail`` counts the error at the landmarks only.
    kept = share @ np.square(table).sum(axis=1) / max(share @ kernel.diag(grid), 1e-300)
    return Spectrum(table, rank, float(max(1.0 - kept, 0.0)))


def _choose_landmarks(counts: NDArray[np.float64]) -> NDArray[np.intp]:
    """All bins if they are few; else the most frequent, and others that are denser near the first.

    Kernels of histograms change most near zero: counts of one and two are further apart than any
    large ones.
    """
    if len(counts) <= MAX_LANDMARKS:
        return np.arange(len(counts))
    half = MAX_LANDMARKS // 2
    frequent = np.argsort(-counts, kind="stable")[:half]
    spaced = np.rint(np.linspace(0.0, 1.0, half) ** 2 * (len(counts) - 1))
    return np.union1d(frequent, spaced.astype(np.intp))
