"""Which cells samples leave, and where a search goes from there."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from widemargin.exact.search_halving import (
    OTHER_COST,
    POOR_GAMMA,
    find_next,
    find_survivors,
    sample_sizes,
)
from widemargin.exact.search_surface import Grid, Surface


def make_surface(means, known=None):
    """A surface of two folds with these mean scores (n_gammas, n_costs)."""
    means = np.asarray(means, float)
    known = np.ones(means.shape, bool) if known is None else np.asarray(known)
    grid = Grid(
        np.arange(1.0, 1 + len(means)), np.array([np.nan]), np.arange(1.0, 1 + means.shape[1])
    )
    surface = Surface(grid, 2)
    for cell in np.argwhere(known):
        at = (cell[0], 0, cell[1])
        surface.scores[at] = means[tuple(cell)] + np.array([-0.01, 0.01])
        surface.stop_reasons[at] = "converged"
    return surface


@pytest.mark.parametrize(
    ("n_rows", "sizes"),
    [(300, []), (400, [100]), (5000, [1250]), (6004, [375, 1501]), (20_000, [1250, 5000])],
)
def test_sizes_of_samples(n_rows, sizes):
    assert sample_sizes(n_rows) == sizes


def test_every_gamma_remains_with_its_best_cost():
    surface = make_surface([[0.5, 0.6, 0.72], [0.8, 0.9, 0.7], [0.75, 0.5, 0.6], [0.52, 0.51, 0.5]])
    survivors, notes = find_survivors(surface)
    expected = np.zeros((4, 1, 3), bool)
    expected[0, 0, 2] = expected[1, 0, 1] = expected[2, 0, 0] = True
    assert_array_equal(survivors, expected)
    assert (notes[survivors] == "").all()
    assert (notes[:3][~survivors[:3]] == OTHER_COST).all()
    # The fourth is nearer to the worst score, 0.5, than to the best, 0.9.
    assert (notes[3] == POOR_GAMMA).all()


def test_cells_that_were_not_evaluated_do_not_remain():
    known = np.array([[True, False], [True, True]])
    survivors, _ = find_survivors(make_surface([[0.8, 0.9], [0.7, 0.75]], known))
    assert_array_equal(survivors[:, 0], [[True, False], [False, True]])


def test_a_search_goes_uphill_to_a_cell_that_is_better_than_its_neighbours():
    means = 1.0 - 0.1 * np.hypot(np.arange(6)[:, None] - 4, np.arange(7) - 5)
    known = np.zeros(means.shape, bool)
    known[0, 0] = True
    n_steps = 0
    while True:
        following = find_next(make_surface(means, known))[:, 0]
        if not following.any():
            break
        assert not (following & known).any()
        known |= following
        n_steps += 1
    assert n_steps > 3
    assert known[4, 5]
    assert known[3:6, 4:7].all()
    assert not known.all()


def climb(surface_of, known):
    """Evaluate what `find_next` asks for until it asks for nothing; returns what is known then."""
    while True:
        following = find_next(surface_of(known))[:, 0]
        if not following.any():
            return known
        known = known | following


@pytest.mark.parametrize(("noise", "is_found"), [(0.03, True), (0.001, False)])
def test_a_search_explores_a_peak_that_folds_do_not_tell_from_the_best(noise, is_found):
    # Two hills; the cells that are known first are on both, the one on the lower hill is better.
    means = np.full((3, 12), 0.5)
    means[1, 1:4] = [0.88, 0.90, 0.88]
    means[1, 8:11] = [0.89, 0.95, 0.89]
    known = np.zeros(means.shape, bool)
    known[1, 2] = known[1, 8] = True

    def surface_of(known):
        surface = make_surface(means, known)
        # The folds of the second hill differ from those of the first by noise.
        surface.scores[:, :, 6:] += noise * np.array([-1.0, 1.0])
        return surface

    assert climb(surface_of, known)[1, 9] == is_found
