"""The data of the demonstration; `cli/test_cli.py` runs it as a whole."""

import numpy as np
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits

from widemargin.demo import cut_windows, prepare_data


def test_windows_are_the_pixels_around_a_pixel():
    image = np.arange(64).reshape(1, 64)
    X, y = cut_windows(image)
    assert X.shape == (64, 24)
    row, column = 3, 4
    window = image.reshape(8, 8)[row - 2 : row + 3, column - 2 : column + 3].ravel()
    assert_array_equal(X[8 * row + column], np.delete(window, 12))
    assert_array_equal(X[0][:10], 0)
    assert_array_equal(y == "dark", image[0] > 8)


def test_images_of_the_test_are_not_trained_on():
    data = prepare_data("digits", n_rows=500)
    assert data.X.shape == (500, 24)
    assert data.X_test.shape == (10_000, 24)
    assert 0 <= data.X_test.min() <= data.X_test.max() <= 1
    assert len(load_digits().target) * 64 > len(data.y) + len(data.y_test)


def test_other_data_sets():
    data = prepare_data("iris", n_rows=50)
    assert data.X.shape == (50, 4)
    assert "iris" in data.title
