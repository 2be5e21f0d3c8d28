"""Coefficients that change as multipliers of a condition, beside coordinate descent on all others.

The coefficient ``c`` belongs to a number ``t_i`` of every row. With ``z = sum(y_i a_i t_i)``, the
optimum asks for ``z = 0`` if the coefficient has no penalty and for ``z = c`` if it has. A pass keeps
``c`` at a centre plus ``step z``, and the next pass has a new centre: this is the method of
multipliers, with the coefficient as multiplier.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import FloatArray


class SlowCoefficient(NamedTuple):
    """A coefficient that updates change less than they would change the others.

    It is the last extra number of the rows, and the last but one must sum ``y_i a_i t_i``.

    Attributes
    ----------
    step : float
        The step; not above one if the coefficient has a penalty.
    size : float
        Mean size of the numbers ``t_i``.
    is_free : bool
        Whether the coefficient has no penalty.
    """

    step: float
    size: float
    is_free: bool


class Multipliers:
    """The slow coefficients of a few problems between two passes."""

    def __init__(self, slow: SlowCoefficient, n_problems: int) -> None:
        self.slow = slow
        self.moves = np.zeros(n_problems)

    def move(self, extra: NDArray[Any]) -> None:
        """Change the slow coefficients, the last of the extra coefficients of each problem."""
        extra[:, -1] += self.moves.astype(extra.dtype)

    def find_moves(self, extra: NDArray[Any], going: NDArray[np.bool_]) -> FloatArray:
        """Find the next moves, zero where ``going`` is false; returns how they change decisions."""
        missing = extra[:, -2].astype(np.float64)
        if not self.slow.is_free:
            missing -= extra[:, -1]
        self.moves = np.where(going, self.slow.step * missing, 0.0)
        return self.slow.size * np.abs(self.moves)
