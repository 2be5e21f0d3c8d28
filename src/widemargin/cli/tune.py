"""The command ``widemargin tune``: C and gamma by cross-validation, then a model file."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from widemargin.cli.model_summary import format_model
from widemargin.exact.calibration import METHODS
from widemargin.files.atomic_output import check_output
from widemargin.files.data_files import Table

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_AMOUNT = re.compile(r"([0-9]*\.?[0-9]+)\s*([a-z]*)")


def parse_seconds(text: str) -> float:
    """Return the seconds in a text such as ``90``, ``90s``, ``10m`` or ``1.5h``."""
    match = _AMOUNT.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give for example 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def parse_values(text: str) -> int | list[float]:
    """Return a number of values, or the values of a list with commas."""
    try:
        return [float(part) for part in text.split(",")] if "," in text else int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number of values nor a list such as 0.1,1,10"
        ) from error


def parse_degrees(text: str) -> Any:
    """Return a degree, or the degrees of a list with commas."""
    return _parse_list(text, int, "a degree nor a list such as 2,3")


def parse_coef0(text: str) -> Any:
    """Return a number, or the numbers of a list with commas."""
    return _parse_list(text, float, "a number nor a list such as 0,1")


def _parse_list(text: str, kind: Callable[[str], float], wanted: str) -> Any:
    try:
        return [kind(part) for part in text.split(",")] if "," in text else kind(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither {wanted}") from error


def add_tune_options(tune: Any) -> None:
    """Add the options of a search."""
    tune.add_argument("--Cs", type=parse_values, default=10, help="a number, or values: 0.1,1,10")
    tune.add_argument("--gammas", type=parse_values, default=10, help="a number, or values")
    tune.add_argument("--cv", type=int, default=5, help="folds")
    tune.add_argument("--scoring", default=None, help="a scorer of scikit-learn; default: accuracy")
    tune.add_argument(
        "--calibration", choices=METHODS, default=None,
        help="calibrate probabilities with the held-out rows, for predict --proba",
    )  # fmt: skip
    tune.add_argument("--search", choices=("auto", "grid", "halving", "regions"), default="auto")
    tune.add_argument("--kernel", default="rbf")
    tune.add_argument("--degree", type=parse_degrees, default=3, help="of poly; or several: 2,3,4")
    tune.add_argument(
        "--coef0", type=parse_coef0, default=0.0, help="of poly and sigmoid; or several: 0,1"
    )
    tune.add_argument("--multi-class", choices=("ovo", "ovr"), default="ovo")
    tune.add_argument("--class-weight", choices=("balanced",), default=None)
    tune.add_argument("--max-time", type=parse_seconds, default=None, help="such as 90s or 10m")
    tune.add_argument("--memory", default="auto", help="for example '2 GB'")
    tune.add_argument("--n-jobs", type=int, default=None)


def fit_scaled(model: Any, scale: str | None, X: Any, y: Any) -> Any:
    """Fit an estimator to data that are scaled first; returns the scaler, None if there is none.

    Sparse data are not centred, so that they stay sparse.
    """
    from scipy.sparse import issparse
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

    if scale is None:
        model.fit(X, y)
        return None
    if scale == "standard":
        scaler = StandardScaler(with_mean=not issparse(X))
    else:
        scaler = MinMaxScaler() if scale == "minmax" else MaxAbsScaler()
    model.fit(scaler.fit_transform(X), y)
    return scaler


def save_scaled(scaler: Any, model: Any, path: Path) -> None:
    """Write a model file that contains the scaler, if there is one."""
    from sklearn.pipeline import make_pipeline

    import widemargin

    widemargin.save(model if scaler is None else make_pipeline(scaler, model), path)


def run_tune(
    args: argparse.Namespace, read: Callable[..., Table], name_columns: Callable[..., Any]
) -> None:
    """Search, fit the best classifier to all rows and write it.

    ``read`` reads the data file, ``name_columns`` gives its columns their names.
    """
    import widemargin

    check_output(Path(args.output))
    names = (
        "Cs", "gammas", "cv", "scoring", "calibration", "search", "kernel", "degree", "coef0",
        "multi_class", "class_weight", "max_time", "memory", "n_jobs",
    )  # fmt: skip
    model = widemargin.KernelSVCCV(
        **{name: getattr(args, name) for name in names}, verbose=0 if args.quiet else 1
    )
    table = read(args, "classes")
    if table.y is None:
        raise ValueError(f"{args.file}: the file has no labels to learn from")
    scaler = fit_scaled(model, args.scale, name_columns(table.X, table.feature_names), table.y)
    save_scaled(scaler, model if args.calibration else model.best_estimator_, args.output)
    if not args.quiet:
        print(format_model(model))
        print(f"written to {args.output}")
