"""How many candidates there are."""

import numpy as np
import pytest

from widemargin import ProjectedSVC
from widemargin.projected import plan
from widemargin.projected.plan import suit_candidates


@pytest.mark.parametrize(
    ("n_rows", "n_bases", "expected"),
    [(20_000, 1, 20_000), (3_900, 26, 3_900), (15_000, 26, 1025), (10**6, 10, 500), (300, 99, 300)],
)
def test_auto_takes_all_rows_where_that_takes_seconds(n_rows, n_bases, expected):
    assert suit_candidates(n_rows, n_bases) == expected


def test_auto_draws_candidates_where_the_work_is_too_much(monkeypatch, digits):
    X, y = digits[0][:400], digits[1][:400]
    whole = ProjectedSVC(n_basis=5, candidates="all").fit(X, y)
    same = ProjectedSVC(n_basis=5).fit(X, y)
    assert np.array_equal(same.basis_indices_, whole.basis_indices_)
    monkeypatch.setattr(plan, "AUTO_CANDIDATES", 50)
    monkeypatch.setattr(plan, "AUTO_WORK", 1000)
    drawn = ProjectedSVC(n_basis=5).fit(X, y)
    given = ProjectedSVC(n_basis=5, candidates=50).fit(X, y)
    assert np.array_equal(drawn.basis_indices_, given.basis_indices_)
    assert not np.array_equal(drawn.basis_indices_, whole.basis_indices_)
