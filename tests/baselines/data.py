"""Data to try the comparators on."""

from sklearn.datasets import make_classification


def make_data(n=300, seed=0, *, n_classes=2, n_features=6):
    """Classes that overlap, in a few clusters each."""
    return make_classification(
        n, n_features, n_informative=4, n_redundant=0, n_classes=n_classes, flip_y=0.1,
        class_sep=0.7, random_state=seed,
    )  # fmt: skip
