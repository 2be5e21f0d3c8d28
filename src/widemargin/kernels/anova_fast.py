"""The compiled loop of exact values of ANOVA kernels between sparse rows."""

import numpy as np

from widemargin.compilation import jit


@jit
def sum_sparse_pairs(
    takes_minimum, n_features, a_data, a_indices, a_indptr, b_data, b_indices, b_indptr, sums, pairs
):
    """Sum the kernels of features, and of pairs of features, between all rows of two CSR matrices.

    The kernel of a feature is the smaller of two positive numbers or, unless ``takes_minimum``, twice
    their product divided by their sum. ``sums`` and ``pairs`` have a row for each row of the first
    matrix. Numbers are added in the order of the features.
    """
    spread = np.zeros(n_features)
    for j in range(b_indptr.size - 1):
        for k in range(b_indptr[j], b_indptr[j + 1]):
            spread[b_indices[k]] = b_data[k]
        for i in range(a_indptr.size - 1):
            total, products = 0.0, 0.0
            for k in range(a_indptr[i], a_indptr[i + 1]):
                x, z = a_data[k], spread[a_indices[k]]
                if z != 0.0:
                    low, high = min(x, z), max(x, z)
                    value = low if takes_minimum else 2.0 * low / (1.0 + low / high)
                    products += value * total
                    total += value
            sums[i, j], pairs[i, j] = total, products
        for k in range(b_indptr[j], b_indptr[j + 1]):
            spread[b_indices[k]] = 0.0
