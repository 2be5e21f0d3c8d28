"""Options and results of the search for a basis.

A search stops for one of these reasons (`StopReason`), from best to worst; a fit of several binary
problems reports the worst of theirs:

- ``CONVERGED``: no exchange and no step lowers the objective by the tolerance;
- ``SEPARATED``: fewer basis vectors than requested classify all training rows correctly;
- ``RANK``: no further row is linearly independent of the basis;
- ``MAX_ITER``: the limit on exchanges, or on steps that move vectors, was reached;
- ``MAX_TIME``: the deadline has passed.
"""

from dataclasses import dataclass

from widemargin.budget import StopReason
from widemargin.callbacks import Stage


@dataclass(frozen=True)
class Search:
    """Options of the search for a basis.

    Attributes
    ----------
    n_basis : int
        Number of basis vectors.
    n_candidates : int or None
        Size of the random sample of candidates; None for all rows.
    refine : bool
        Whether to exchange basis vectors after growing (PSVM Procedure 4).
    move : bool
        Whether to optimise the positions of the vectors in the end, see `move_basis`.
    tol : float
        Relative decrease of J below which an exchange is not made.
    max_iter : int
        Maximum number of exchanges, and of steps that move vectors.
    deadline : float or None
        Time at which to stop, by `time.perf_counter`.
    max_bytes : int
        Memory for kernel values of candidates.
    """

    n_basis: int
    n_candidates: int | None = None
    refine: bool = True
    move: bool = False
    tol: float = 1e-4
    max_iter: int = 1000
    deadline: float | None = None
    max_bytes: int = 2 * 10**9


@dataclass(frozen=True)
class Selection:
    """Result of a search.

    Attributes
    ----------
    final : Stage
        The chosen basis.
    path : list of Stage
        The bases of stage I (PSVM Procedure 3), each with one vector more than the one before.
    stop_reason : StopReason
        Why the search ended.
    n_exchanges : int
        Number of exchanges, plus steps that moved vectors.
    n_requested : int
        Number of basis vectors that was requested.
    """

    final: Stage
    path: list[Stage]
    stop_reason: StopReason
    n_exchanges: int
    n_requested: int


@dataclass(frozen=True)
class PathPoint:
    """A model of one size on the path to the full basis.

    Attributes
    ----------
    n_basis : int
        Number of basis vectors of each binary problem.
    objective : float
        J, summed over the binary problems.
    accuracy : float
        Share of rows classified correctly.
    """

    n_basis: int
    objective: float
    accuracy: float
