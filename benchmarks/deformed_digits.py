"""Digits of mnist that are shifted, scaled and turned at random, as many as are wanted.

They stand in for mnist8m, whose authors deformed digits by random fields of tangents and by shifts.
"""

from typing import Any

import numpy as np
from scipy import sparse

from widemargin.datasets import load

#: Digits that are drawn with a round stroke: the positive class.
ROUND_DIGITS = (0, 3, 6, 8, 9)


def deform_digits(n_rows: int, seed: int, n_maps: int = 50) -> tuple[Any, Any]:
    """Some digits of mnist: ``n_maps`` random maps of the plane, each for as many images."""
    source, rng = load("mnist"), np.random.default_rng(seed)
    rows = rng.integers(len(source.y_train), size=n_rows)
    images = source.X_train.reshape(-1, 784)[rows].astype(np.float32)
    for part in np.array_split(np.arange(n_rows), n_maps):
        images[part] = images[part] @ draw_map(rng).T
    y = np.isin(source.y_train[rows], ROUND_DIGITS).astype(np.int64)
    return np.clip(images.round(), 0, 255).astype(np.uint8), y


def draw_map(rng: np.random.Generator, side: int = 28) -> Any:
    """A random map of the plane as a matrix that interpolates the pixels of an image."""
    angle, scale = rng.uniform(-0.2, 0.2), rng.uniform(0.85, 1.15, 2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / scale
    at = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij")).reshape(2, -1)
    middle = (side - 1) / 2
    found = turn @ (at - middle) + middle + rng.uniform(-2, 2, (2, 1))
    low = np.floor(found).astype(int)
    parts, pixels = [], np.arange(side * side)
    for step in np.ndindex(2, 2):
        corner = low + np.array(step)[:, None]
        weight = np.prod(1.0 - np.abs(found - corner), axis=0)
        inside = ((corner >= 0) & (corner < side)).all(axis=0)
        places = corner[0] * side + corner[1]
        parts.append(
            sparse.csr_matrix(
                (weight[inside], (pixels[inside], places[inside])), (side * side, side * side)
            )
        )
    return sum(parts).toarray().astype(np.float32)
