"""How predictions compare with the labels of a file, and how they are written."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Labels of a one-class model.
_OUTLIER, _INLIER = -1, 1


def check_labels(model: Any, labels: NDArray[Any], file: Path) -> NDArray[Any]:
    """Return the labels of a file as a model's predictions can be compared with them."""
    return _match_labels(labels, model.classes_, file) if hasattr(model, "classes_") else labels


def describe_quality(
    model: Any, answers: NDArray[Any], labels: NDArray[Any] | None, file: Path
) -> str:
    """Return how good predictions are, in a line; empty where labels are needed and missing."""
    from sklearn.base import is_outlier_detector, is_regressor

    if is_outlier_detector(model):
        return _describe_inliers(answers, labels)
    if labels is None:
        return ""
    if is_regressor(model):
        return _describe_errors(answers, labels, file)
    return _describe_accuracy(answers, labels, model.classes_, file)


def _describe_inliers(answers: NDArray[Any], labels: NDArray[Any] | None) -> str:
    """Return the share of inliers, and the accuracy where the labels are 1 and -1."""
    n_inside = int(np.count_nonzero(answers == _INLIER))
    text = f"inliers {n_inside / len(answers):.4%} ({n_inside:,}/{len(answers):,})"
    if labels is None or not np.isin(labels, (_OUTLIER, _INLIER)).all():
        return text
    right = int(np.count_nonzero(answers == labels))
    return f"{text}, accuracy {right / len(answers):.4%} ({right:,}/{len(answers):,})"


def _describe_errors(answers: NDArray[Any], labels: NDArray[Any], file: Path) -> str:
    """Return R2 and the mean absolute error, both averaged over the targets."""
    from sklearn.metrics import mean_absolute_error, r2_score

    if answers.shape != labels.shape:
        raise ValueError(
            f"{file}: the targets have shape {labels.shape}, but the model predicts "
            f"{answers.shape}; give as many targets as the model was trained on, or --ignore-labels"
        )
    error = mean_absolute_error(labels, answers)
    if (np.ptp(labels, axis=0) == 0).any():
        return (
            f"mean absolute error {error:.6g} ({len(answers):,} rows; R2 needs targets that vary)"
        )
    score = r2_score(labels, answers)
    return f"R2 {score:.6f}, mean absolute error {error:.6g} ({len(answers):,} rows)"


def _match_labels(labels: NDArray[Any], classes: NDArray[Any], file: Path) -> NDArray[Any]:
    """Return the labels of a file in the type of the model's labels, texts or numbers."""
    same_type = (labels.dtype.kind == "U") == (classes.dtype.kind == "U")
    values, positions = np.unique(labels, return_inverse=True)
    if same_type and np.isin(values, classes).any():
        return labels
    by_key = {_label_key(label): label for label in classes}
    matched = [by_key.get(_label_key(value)) for value in values]
    if any(label is not None for label in matched):
        return np.array(matched, dtype=object)[positions]
    if not same_type:
        raise ValueError(
            f"{file}: its labels ({_list_labels(values)}) are not of the type of the model's classes "
            f"({_list_labels(classes)}); say with --label where the labels are, or give "
            "--ignore-labels"
        )
    return labels


def _label_key(label: Any) -> float | str:
    """Return one key for 1, 1.0 and '1', which are the same label in files of different formats."""
    try:
        return float(str(label))
    except ValueError:
        return str(label)


def _describe_accuracy(
    answers: NDArray[Any], labels: NDArray[Any], classes: NDArray[Any], file: Path
) -> str:
    right = int(np.count_nonzero(answers == labels))
    if not right and set(classes.tolist()).isdisjoint(labels.tolist()):
        return (
            f"no accuracy: none of the labels of {file} ({_list_labels(np.unique(labels))}) is a "
            f"class of the model ({_list_labels(classes)})"
        )
    return f"accuracy {right / len(answers):.4%} ({right:,}/{len(answers):,})"


def _list_labels(labels: NDArray[Any]) -> str:
    return ", ".join(repr(label) for label in labels[:3].tolist()) + (", ..." * (len(labels) > 3))


def format_answer(answer: Any) -> str:
    """Return a prediction, or the decision values of a row, as a line of text."""
    if isinstance(answer, np.ndarray):
        return " ".join(f"{value:.9g}" for value in answer)
    return f"{answer:.9g}" if isinstance(answer, np.floating) else str(answer)
