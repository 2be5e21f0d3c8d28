"""A fit that a limit stops is at least as accurate on its rows as the largest class."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from widemargin import AdditiveSVC, IntersectionSVC


@pytest.mark.parametrize("max_iter", [1, 3, 20])
@pytest.mark.parametrize("cls", [AdditiveSVC, IntersectionSVC])
def test_few_passes_at_a_large_C(cls, max_iter):
    rng = np.random.default_rng(0)
    X = rng.random((2000, 5))
    y = (rng.random(2000) < 0.3).astype(int)
    model = cls(C=500.0, max_iter=max_iter, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert model.score(X, y) >= np.mean(y == 0)
