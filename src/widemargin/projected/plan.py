"""Division of the memory, and number of candidates that time and memory permit."""

from dataclasses import replace
from time import perf_counter

import numpy as np

from widemargin.deadline import seconds_left
from widemargin.projected.basis import VALUE_BYTES, KernelRows
from widemargin.projected.candidates import ROW_PIECES, TILE_COLUMNS, TILE_ROWS
from widemargin.projected.selection import Search

#: Numbers held for each row beside kernel values: by the problem and columns, and by each machine.
ROW_NUMBERS, MACHINE_NUMBERS = 12, 10
#: Matrices of shape (candidates, basis vectors) held at a time, beside one for each machine.
SCORE_MATRICES = 2
#: Bytes that are not counted, so that small fits work with any limit.
UNCOUNTED_BYTES = 16 * 10**6
#: Share of the time in which candidates may be scored while the basis grows.
SCORING_SHARE = 0.5
#: Cost of a candidate in kernel values for each row: once, and for each basis vector; if the kernel
#: values of candidates are held, and if they are computed each time.
HELD_PASSES, COMPUTED_PASSES = (1.0, 0.3), (2.0, 2.0)
#: Minimum number of candidates.
MIN_CANDIDATES = 8
#: Most products of rows, candidates and bases of ``candidates="auto"``, and fewest candidates.
AUTO_WORK, AUTO_CANDIDATES = 400_000_000, 500
#: Rows and columns of the block of kernel values whose computation is timed.
TIMED_ROWS, TIMED_COLUMNS = 4096, 16


def suit_candidates(n_rows: int, n_bases: int) -> int:
    """Return how many candidates ``candidates="auto"`` takes, so that a fit takes seconds."""
    return min(n_rows, max(AUTO_CANDIDATES, AUTO_WORK // (n_rows * n_bases)))


def plan_memory(
    data: KernelRows, search: Search, n_machines: int, n_subproblems: int
) -> tuple[bool, Search]:
    """Decide which kernel values are held, and how many candidates there may be.

    Parameters
    ----------
    data : KernelRows
        The training rows; they hold a copy afterwards if there is enough memory.
    search : Search
        Options, with ``max_bytes`` for everything.
    n_machines : int
        Number of machines that share a basis.
    n_subproblems : int
        Number of binary problems in the fit.

    Returns
    -------
    is_held : bool
        Whether the kernel values of the basis can be held.
    search : Search
        The options, with ``max_bytes`` for kernel values of candidates, and with fewer candidates if
        the scores of all would not fit.
    """
    n, n_basis = len(data), min(search.n_basis, len(data))
    numbers = ROW_NUMBERS + MACHINE_NUMBERS * n_machines + n_subproblems
    fixed = data.points.nbytes + VALUE_BYTES * n * numbers
    per_score = VALUE_BYTES * (n_basis + 2) * (n_machines + SCORE_MATRICES)
    # Each thread has a tile of kernel values and one of their squares; each piece of rows has sums.
    per_tile = VALUE_BYTES * data.workers.n_threads * min(n, TILE_ROWS)
    per_tile += VALUE_BYTES * (n_basis + 2) * min(ROW_PIECES, n // TILE_ROWS + 1)
    least = fixed + MIN_CANDIDATES * (per_score + per_tile) - UNCOUNTED_BYTES
    if search.max_bytes < least:
        raise ValueError(
            f"memory: {search.max_bytes:,} bytes are too few; these data and n_basis={search.n_basis} "
            f"need {least:,} bytes. Raise memory, or lower n_basis"
        )
    room = max(0, search.max_bytes - fixed)
    if data.copy_bytes <= room // 4:
        data.hold_copy()
        room -= data.copy_bytes
    column_bytes = VALUE_BYTES * n * n_basis
    is_held = 2 * column_bytes <= room
    room -= column_bytes if is_held else 0
    # Scores take at most half of the remaining memory, kernel values of candidates the rest.
    half = (room + UNCOUNTED_BYTES) // 2
    most = max(
        MIN_CANDIDATES,
        min(TILE_COLUMNS, half // (per_score + per_tile)),
        (half - TILE_COLUMNS * per_tile) // per_score,
    )
    search = limit_candidates(search, n, most)
    n_candidates = n if search.n_candidates is None else search.n_candidates
    taken = n_candidates * per_score + min(n_candidates, TILE_COLUMNS) * per_tile
    return is_held, replace(search, max_bytes=max(0, room - taken))


def plan_time(data: KernelRows, search: Search, n_searches: int) -> Search:
    """Return the options with fewer candidates, if there is no time to score all of them."""
    if search.deadline is None:
        return search
    n = len(data)
    budget = SCORING_SHARE * seconds_left(search.deadline) / (n * _time_value(data))
    n_vectors = n_searches * min(search.n_basis, n)
    first, later = HELD_PASSES
    n_held = min(budget / (first + later * n_vectors), search.max_bytes / (8.0 * n))
    first, later = COMPUTED_PASSES
    n_affordable = max(n_held, budget / (first + later * n_vectors), MIN_CANDIDATES)
    return limit_candidates(search, n, int(min(n_affordable, n)))


def limit_candidates(search: Search, n_rows: int, most: int) -> Search:
    """Return the options with at most ``most`` candidates."""
    wanted = n_rows if search.n_candidates is None else search.n_candidates
    return search if wanted <= most else replace(search, n_candidates=most)


def _time_value(data: KernelRows) -> float:
    """Measure the seconds for one kernel value, with all threads."""
    rows = np.arange(min(len(data), TIMED_ROWS))
    columns = rows[:TIMED_COLUMNS]
    # The first call may have to load compiled code.
    data.block(columns, data.workers, rows)
    began = perf_counter()
    data.block(columns, data.workers, rows)
    return max(perf_counter() - began, 1e-9) / (len(rows) * len(columns))
