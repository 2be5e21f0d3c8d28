"""Compiled loops that turn feature values into codes."""

from typing import Any

import numpy as np
from numba import njit

jit: Any = njit(cache=True, nogil=True, error_model="numpy")


@jit
def encode_values(values, columns, low, factor, ends, is_root, shift, last, out):
    """Compute codes ``int(((v - low) * factor)^(1 or 1/2) * last + shift)``.

    Before the root is taken, positions are clipped to the interval from 0 to ``ends``. ``columns``
    holds the feature of each value; ``shift`` is 0.5 to round and 0 to cut off.
    """
    # ICD Eq. 13 is the case without a root, and with ``shift`` 0.
    for k in range(values.size):
        j = columns[k]
        position = min(max((np.float64(values[k]) - low[j]) * factor[j], 0.0), ends[j])
        if is_root:
            position = np.sqrt(position)
        out[k] = int(position * last + shift)


@jit
def encode_rows(values, low, factor, ends, is_root, shift, last, out):
    """Compute the codes of dense rows; see `encode_values`."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            position = min(max((np.float64(values[i, j]) - low[j]) * factor[j], 0.0), ends[j])
            if is_root:
                position = np.sqrt(position)
            out[i, j] = int(position * last + shift)


@jit
def weigh_digits(bits, ends, weights, sign, every, above, prefix, shift, digit, n_bits, found):
    """Add the weights of values to those of their digits in ``found``.

    Values are given by their bits and end, of each row, at ``ends``; ``sign`` has the first bit set,
    ``every`` all. Turned round where they are negative, bits order as the values do; those that are
    above ``above`` and begin with ``prefix`` count. A digit has the ``n_bits`` bits of ``digit``, from
    ``shift`` on. All these numbers are of the type of the bits: mixed types become floats.
    """
    start = 0
    for i in range(ends.size):
        for k in range(start, ends[i]):
            # Minus zero is zero.
            value = bits[k] if bits[k] != sign else bits[k] ^ sign
            key = value ^ every if value & sign else value ^ sign
            if key > above and (key >> shift) >> n_bits == prefix:
                found[(key >> shift) & digit] += weights[i]
        start = ends[i]
