"""How well tables of a few numbers for each code approximate a kernel of two numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.kernel_approximation import AdditiveChi2Sampler

from benchmarks.experiments import Row
from widemargin.additive.power_mean_table import PAPER_ANCHORS, chebyshev_anchors, regression_tables
from widemargin.additive.scalar_kernels import ScalarKernel, make_scalar_kernel
from widemargin.additive.spectral_table import spectral_table
from widemargin.baselines.fourier import choose_interval, map_values

#: Numbers between which kernels are approximated, and which of them stands for 0.09.
GRID = (np.arange(1000) + 0.5) / 1000
FIXED = int(0.09 * len(GRID))
#: Anchors of a Nystroem embedding, as in PmSVM's Figure 2, and how many of its numbers are kept.
NYSTROEM_ANCHORS, NYSTROEM_RANKS = 128, (3, 6, 128)
#: The approximation that PmSVM recommends.
PAPER_TABLE = "PmSVM, paper's anchors"


def make_tables() -> dict[str, Callable[[ScalarKernel], tuple[Any, Any]]]:
    """Approximations of a kernel on the grid: two tables whose product stands in for its matrix."""
    tables: dict[str, Callable[[ScalarKernel], tuple[Any, Any]]] = {
        PAPER_TABLE: lambda k: regression_tables(k, GRID, np.array(PAPER_ANCHORS), 0.05)
    }
    for n in (3, 4, 5, 6):
        tables[f"PmSVM, {n} Chebyshev anchors"] = lambda k, n=n: regression_tables(
            k, GRID, chebyshev_anchors(n), 0.05
        )
    for rank in (3, 4, 6, 8):
        tables[f"spectral, rank {rank}"] = lambda k, rank=rank: (
            (spectral_table(k, GRID, np.ones(len(GRID)), rank).table,) * 2
        )
    sampler = AdditiveChi2Sampler().fit_transform(GRID[:, None])
    tables["AdditiveChi2Sampler, 3 columns"] = lambda k: (sampler, sampler)
    for n in (2, 3, 4):
        tables[f"Fourier map, {2 * n - 1} columns"] = lambda k, n=n: (
            (map_values(GRID, k.name, n, choose_interval(k.name, n)),) * 2
        )
    for rank in NYSTROEM_RANKS:
        name = f"Nystroem, {NYSTROEM_ANCHORS} anchors, {rank} numbers"
        tables[name] = lambda k, rank=rank: (embed_nystroem(k, rank),) * 2
    return tables


def embed_nystroem(kernel: ScalarKernel, rank: int) -> Any:
    """The leading numbers of the Nystroem embedding of the grid, with anchors at random in (0, 1)."""
    anchors = np.random.default_rng(0).random(NYSTROEM_ANCHORS)
    values, vectors = np.linalg.eigh(kernel(anchors, anchors))
    # The last eigenvalues of a smooth kernel are rounding errors.
    leading = np.argsort(-values)[:rank]
    leading = leading[values[leading] > 1e-12 * values.max()]
    return kernel(GRID, anchors) @ (vectors[:, leading] / np.sqrt(values[leading]))


def run_approximation() -> Iterator[Row]:
    """Figures 1, 2 and 4 of PmSVM: mean deviation from the kernel on a uniform grid of (0, 1)^2.

    The paper: 5.5e-3 and 1.94 % for chi-square with its three anchors; 3.6e-3 for the intersection
    along y = 0.09, there with 6.3e-3 for the Fourier map. Spectral tables are weighted uniformly.
    """
    for name, make in make_tables().items():
        row: Row = {"table": name}
        for kernel in ("chi2", "intersection"):
            if kernel == "intersection" and "Chi2" in name:
                continue
            scalar = make_scalar_kernel(kernel)
            read, write = make(scalar)
            exact = scalar(GRID, GRID)
            error = np.abs(read @ write.T - exact)
            row[f"{kernel}: mean"] = float(error.mean())
            row[f"{kernel}: relative (%)"] = float(100 * (error / exact).mean())
            row[f"{kernel}: largest relative (%)"] = float(100 * (error / exact).max())
            row[f"{kernel}: mean at 0.09"] = float(error[:, FIXED].mean())
        yield row
