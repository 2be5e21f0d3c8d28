"""Deformed digits: bytes, the same every time, and the labels of round strokes."""

from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.papers import sets
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks import deformed_digits


@pytest.fixture
def plain_digits(monkeypatch):
    """Ten images, each with a bright square whose brightness tells its class."""
    images = np.zeros((10, 28, 28), np.uint8)
    images[:, 10:18, 10:18] = 20 * np.arange(1, 11)[:, None, None]
    labels = np.arange(10)
    source = SimpleNamespace(X_train=images, y_train=labels)
    monkeypatch.setattr(deformed_digits, "load", lambda name: source)


@pytest.mark.usefixtures("plain_digits")
def test_digits_are_deformed_alike_by_the_same_seed():
    X, y = deformed_digits.deform_digits(40, seed=3)
    assert X.dtype == np.uint8
    assert X.shape == (40, 784)
    assert_array_equal(X, deformed_digits.deform_digits(40, seed=3)[0])
    assert (deformed_digits.deform_digits(40, seed=4)[0] != X).any()
    # The brightness inside the square survives, so that it tells the class.
    digit = X.max(axis=1) // 20 - 1
    assert_array_equal(y, np.isin(digit, deformed_digits.ROUND_DIGITS))


def test_a_map_keeps_the_brightness_of_the_middle():
    image = np.zeros((28, 28), np.float32)
    image[8:20, 8:20] = 100.0
    for seed in range(5):
        moved = deformed_digits.draw_map(np.random.default_rng(seed)) @ image.ravel()
        assert_allclose(moved.reshape(28, 28)[13:15, 13:15], 100.0, rtol=1e-5)
        # Scaled by at most 1.15 in each direction, and nothing falls off the edge.
        assert 0.85**2 * 0.95 <= moved.sum() / image.sum() <= 1.15**2 * 1.05


@pytest.mark.usefixtures("plain_digits")
def test_the_set_has_signed_labels_and_rows_of_its_own_for_testing(monkeypatch):
    monkeypatch.setattr(sets, "DEFORMED_AT_ONCE", 16)
    monkeypatch.setattr(sets, "DEFORMED_TEST_ROWS", 8)
    data = sets.read_deformed(40)
    assert data.X_train.shape == (40, 784)
    assert data.X_test.shape == (8, 784)
    assert set(data.y_train) == {-1, 1}
    assert_array_equal(data.X_train[:16], deformed_digits.deform_digits(16, 0)[0])
    assert_array_equal(data.X_train[32:], deformed_digits.deform_digits(8, 2)[0])
