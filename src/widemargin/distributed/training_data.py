"""Training data on the cluster: checked, described to the client, and turned into blocks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.distributed.blocks import (
    Facts,
    check_rows,
    describe_rows,
    encode_rows,
    join_facts,
    weigh_classes,
)
from widemargin.distributed.collections import (
    Pieces,
    cut_arrays,
    cut_collections,
    delay,
    is_collection,
)
from widemargin.distributed.tasks import Tasks
from widemargin.validation import validate_problem

#: Blocks per thread of the cluster into which plain arrays are cut.
BLOCKS_PER_THREAD = 2


@dataclass(frozen=True)
class TrainingData:
    """Rows on the cluster.

    Attributes
    ----------
    blocks : list of futures
        The rows, without empty blocks.
    sizes : list of int
        Number of rows of each block.
    facts : Facts
        What is known of all rows.
    classes : ndarray
        The labels, sorted.
    class_weights : ndarray
        Weight of each class, which is part of the weights of the rows.
    """

    blocks: list[Any]
    sizes: list[int]
    facts: Facts
    classes: NDArray[Any]
    class_weights: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return sum(self.sizes)


def load_rows(
    tasks: Tasks, estimator: Any, X: Any, y: Any, sample_weight: Any, n_threads: int
) -> TrainingData:
    """Check the training data where they lie; sets ``n_features_in_`` and ``feature_names_in_``."""
    given = (X, y, sample_weight)
    if any(is_collection(values) for values in given):
        pieces = cut_collections(*given)
        set_features(estimator, pieces)
    else:
        problem = validate_problem(
            estimator, X, y, sample_weight, estimator.class_weight, precomputed=False
        )
        labels = problem.classes[problem.labels]
        pieces = cut_arrays(
            problem.X, labels, problem.sample_weights, BLOCKS_PER_THREAD * n_threads
        )
    return _encode(tasks, _check(tasks, pieces), estimator.class_weight)


def set_features(estimator: Any, pieces: Pieces) -> None:
    """Set the number and the names of the features of the estimator."""
    estimator.n_features_in_ = pieces.n_features
    vars(estimator).pop("feature_names_in_", None)
    if pieces.feature_names is not None:
        estimator.feature_names_in_ = pieces.feature_names


def _check(tasks: Tasks, pieces: Pieces) -> list[Any]:
    """Start the checks of all pieces; Dask computes the collections for them."""
    delayed = [
        delay(check_rows, number, pieces.n_features, *piece, name=tasks.name("check-rows"))
        for number, piece in enumerate(zip(pieces.X, pieces.y, pieces.weights, strict=True))
    ]
    return tasks.keep(tasks.client.compute(delayed))


def _encode(tasks: Tasks, raw: list[Any], class_weight: Any) -> TrainingData:
    each = tasks.gather(tasks.map("describe-rows", describe_rows, raw))
    facts = join_facts(each)
    _require_classes(facts)
    class_weights = weigh_classes(class_weight, facts.labels, facts.counts)
    firsts = np.cumsum([0, *(fact.n_given for fact in each[:-1])])
    filled = [k for k, fact in enumerate(each) if fact.n_rows]
    blocks = [
        tasks.submit("number-rows", encode_rows, raw[k], facts.labels, class_weights, firsts[k])
        for k in filled
    ]
    tasks.release(raw)
    sizes = [each[k].n_rows for k in filled]
    return TrainingData(blocks, sizes, facts, facts.labels, class_weights)


def _require_classes(facts: Facts) -> None:
    if facts.n_given == 0:
        raise ValueError("X: Found array with 0 sample(s); a minimum of 1 is required")
    if facts.n_rows == 0:
        raise ValueError(
            "sample_weight: all weights are zero or negative; give at least one row a positive one"
        )
    if len(facts.labels) < 2:
        raise ValueError(
            f"y: the data hold one class only, {facts.labels[0]}; a classifier needs at least two"
        )
