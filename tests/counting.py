"""A kernel that notes how many entries it computes; the fixture `entries` gives the numbers."""

from widemargin.kernels import RBF

counts: list[int] = []


class CountingKernel(RBF):
    """A radial kernel; see above."""

    def block(self, a, rows, b, cols, out, workers):
        counts.append(len(rows) * len(cols))
        super().block(a, rows, b, cols, out, workers)
