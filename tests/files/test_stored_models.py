"""Model files written by an earlier version load and give the same decisions."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import is_regressor

import widemargin

FOLDER = Path(__file__).parent / "stored_models"
NAMES = sorted(path.stem for path in FOLDER.glob("*.wm"))


def test_every_estimator_has_a_stored_file():
    assert {name.split("-")[0] for name in NAMES} == {
        "AdditiveSVC", "DCSVC", "DCSVR", "IntersectionSVC", "KernelOneClassSVM", "KernelSVC",
        "KernelSVCCV", "KernelSVR", "KernelSVRCV", "LRSVC", "PowerMeanSVC", "ProjectedSVC",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_decisions_are_those_of_the_version_that_wrote_the_file(name):
    stored = np.load(FOLDER / "decisions.npz")
    X = stored["X"]
    if "sparse" in name:
        X = sparse.csr_matrix(X * (X > 0.3))
    model = widemargin.load(FOLDER / f"{name}.wm")
    # Other processors add in another order.
    decide = model.predict if is_regressor(model) else model.decision_function
    assert_allclose(decide(X), stored[name], rtol=1e-5, atol=1e-5)
    if hasattr(model, "predict_proba"):
        values = stored[f"{name} probabilities"]
        assert_allclose(model.predict_proba(X), values, rtol=1e-5, atol=1e-5)
