"""Mixin: the spectral table of an additive kernel, for `AdditiveSVC` and `AdditiveSVR`."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import count_bins
from widemargin.additive.codes import Codes
from widemargin.additive.scalar_kernels import (
    ScalarKernel,
    check_scalar_kernel,
    is_homogeneous,
    make_scalar_kernel,
)
from widemargin.additive.spectral_table import MAX_RANK, Spectrum, spectral_table
from widemargin.additive.tables_mixin import CodesMixin
from widemargin.arguments import check_integer, check_number
from widemargin.kernels import Kernel
from widemargin.parameters import Choices
from widemargin.problem import Problem

#: Rank beyond which the intersection kernel is faster with a value for each bin than with a table.
BINS_RANK = 8


class SpectralMixin(CodesMixin):
    """A table of the leading eigenvectors of the kernel on the bins."""

    kernel: str | Kernel | Callable[[Any, Any], Any]
    p: float
    rank: int | str

    _has_range_scaling = True
    _choices: ClassVar[Choices] = {"scaling": ("auto", "range", "max", None)}

    def _check_params(self) -> None:
        super()._check_params()
        if self.rank != "auto":
            check_integer("rank", self.rank, low=1)
        if self.p != -np.inf:
            check_number("p", self.p)
        self._scalar_kernel()
        if self.scaling in ("range", "max") and not self._is_homogeneous:
            raise ValueError(
                "scaling: not available with a callable kernel, which need not be homogeneous; "
                "scale the features instead"
            )

    def _scalar_kernel(self) -> ScalarKernel:
        """Make the kernel of two numbers; a kernel that is not additive is refused."""
        return make_scalar_kernel(self.kernel, self.p)

    @property
    def _is_homogeneous(self) -> bool:
        return is_homogeneous(self.kernel)

    @property
    def _is_smooth(self) -> bool:
        return self._is_homogeneous and self._scalar_kernel().name != "intersection"

    @property
    def _may_have_bins(self) -> bool:
        """Whether a value for each bin may replace the table."""
        return True

    def _choose_table(self, problem: Problem, codes: Codes) -> Spectrum:
        counts = count_bins(codes, self.quantiser_.n_bins, problem.sample_weights)
        return self._choose_table_from(counts)

    def _choose_table_from(self, counts: NDArray[np.float64]) -> Spectrum:
        """Return the leading eigenvectors of the kernel on the bins that occur, as often as counted.

        The first bin, which holds the zeros, does not count.
        """
        kernel = self._scalar_kernel()
        # A homogeneous kernel has one table for all features, whose own ranges are factors on it. For
        # any other kernel all features share a range.
        values = self.quantiser_.grid if kernel.is_homogeneous else self.quantiser_.values(0)
        if not kernel.is_homogeneous:
            check_scalar_kernel(kernel, values)
        counts = np.concatenate([[0.0], counts[1:]])
        counts = counts if counts.any() else np.ones_like(counts)
        rank = None if self.rank == "auto" else int(self.rank)
        spectrum = spectral_table(kernel, values, counts, rank)
        if rank is None and spectrum.rank > MAX_RANK:
            spectrum = spectral_table(kernel, values, counts, MAX_RANK)
        is_long = rank is None and spectrum.rank > BINS_RANK and self._may_have_bins
        if is_long and kernel.name == "intersection":
            spectrum = Spectrum(spectrum.table, 0, 0.0)
        return spectrum
