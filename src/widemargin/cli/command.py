"""The command ``widemargin``."""

import argparse
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.cli.model_summary import format_model
from widemargin.cli.options import LABEL_KINDS, make_parser
from widemargin.cli.quality import check_labels, describe_quality, format_answer
from widemargin.cli.tune import fit_scaled, run_tune, save_scaled
from widemargin.files.atomic_output import check_output, replace_file
from widemargin.files.csv_text import DELIMITERS
from widemargin.files.data_files import Table, read_table


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    args = make_parser(trains="train" in argv).parse_args(argv)
    warnings.showwarning = _show_warning
    try:
        _COMMANDS[args.command](args)
        return 0
    except (OSError, ValueError, TypeError, LookupError, ImportError, MemoryError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"widemargin: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("widemargin: interrupted", file=sys.stderr)
        return 130


def _show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"widemargin: {category.__name__}: {message}", file=sys.stderr)


def _read_file(args: argparse.Namespace, kind: str, n_features: int | None = None) -> Table:
    delimiter = None if args.delimiter is None else DELIMITERS[args.delimiter]
    return read_table(
        args.file, label=args.label, n_features=n_features, form=args.format, delimiter=delimiter,
        kind=kind,
    )  # fmt: skip


def _run_demo(args: argparse.Namespace) -> None:
    from widemargin.demo import run_demo

    run_demo(
        args.dataset, C=args.C, gamma=args.gamma, n_rows=args.rows, max_seconds=args.max_seconds
    )


def _run_train(args: argparse.Namespace) -> None:
    import widemargin
    from widemargin.cli.train_options import take_parameters
    from widemargin.compilation import compilation
    from widemargin.parameters import check_choices

    check_output(args.output)
    if args.libsvm and args.scale:
        raise ValueError("--libsvm: LIBSVM's format holds no scaler; scale the data file instead")
    given = take_parameters(args, args.estimator)
    model = getattr(widemargin, args.estimator)(**given, verbose=0 if args.quiet else 1)
    check_choices(model)
    kind = LABEL_KINDS.get(args.estimator, "classes")
    table = _read_file(args, kind)
    if table.y is None and kind != "none":
        raise ValueError(f"{args.file}: the file has no labels to learn from")
    if args.libsvm:
        _check_libsvm(model, table)
    X = _name_columns(table.X, table.feature_names)
    with compilation.silence() if args.quiet else nullcontext():
        scaler = fit_scaled(model, args.scale, X, table.y)
    if args.libsvm:
        model.to_libsvm(args.output)
    else:
        save_scaled(scaler, model, args.output)
    if not args.quiet:
        print(format_model(model))
        print(f"written to {args.output}")


def _check_libsvm(model: Any, table: Table) -> None:
    """Refuse what LIBSVM's format cannot hold, before the model is trained."""
    from widemargin.files.libsvm_models import (
        LIBSVM_ESTIMATORS,
        check_libsvm,
        check_libsvm_kernel,
    )

    if type(model).__name__ not in LIBSVM_ESTIMATORS.values():
        raise ValueError(
            f"--libsvm: only {', '.join(LIBSVM_ESTIMATORS.values())} can be written as a model of "
            "LIBSVM"
        )
    if hasattr(model, "multi_class"):
        classes = np.unique(np.asarray(table.y))
        check_libsvm(model.kernel, model.multi_class == "ovo" or len(classes) == 2, classes)
    else:
        check_libsvm_kernel(model.kernel)


def _run_tune(args: argparse.Namespace) -> None:
    run_tune(args, _read_file, _name_columns)


def _run_predict(args: argparse.Namespace) -> None:
    from sklearn.base import is_regressor

    if args.output is not None:
        check_output(args.output)
    model = _load_model(args.model)
    _check_answers(args, model)
    kind = "classes" if args.ignore_labels or not is_regressor(model) else "numbers"
    table = _read_file(args, kind, model.n_features_in_)
    labels = None
    is_label = not (args.decision or args.proba)
    if table.y is not None and is_label and not args.ignore_labels:
        labels = check_labels(model, table.y, args.file)
    X = _name_columns(table.X, table.feature_names)
    predict = model.predict_proba if args.proba else (
        model.decision_function if args.decision else model.predict
    )  # fmt: skip
    answers = predict(X)
    quality = describe_quality(model, answers, labels, args.file) if is_label else ""
    lines = "".join(format_answer(answer) + "\n" for answer in answers)
    if args.output is None:
        sys.stdout.write(lines)
    else:
        with replace_file(args.output) as stream:
            stream.write(lines.encode())
    if quality:
        print(quality, file=sys.stderr)


def _check_answers(args: argparse.Namespace, model: Any) -> None:
    """Refuse options that ask for what a model does not have."""
    if args.decision and args.proba:
        raise ValueError("--proba: give --decision or --proba, not both")
    if args.decision and not hasattr(model, "decision_function"):
        raise ValueError(
            f"--decision: a {type(model).__name__} has no decision values; leave the option out"
        )
    if args.proba and not hasattr(model, "predict_proba"):
        raise ValueError(
            f"--proba: this {type(model).__name__} has no probabilities; make the model with "
            "widemargin tune --calibration sigmoid"
        )


def _run_info(args: argparse.Namespace) -> None:
    from sklearn.pipeline import Pipeline

    model = _load_model(args.model)
    if isinstance(model, Pipeline):
        print(f"scaled by {', '.join(type(step).__name__ for _, step in model.steps[:-1])}")
        model = model[-1]
    print(format_model(model))


def _run_export(args: argparse.Namespace) -> None:
    from widemargin.export import to_c, to_onnx

    model = _load_model(args.model)
    if args.output.suffix == ".c":
        to_c(model, args.output, dtype=args.dtype, libm=args.libm, input_range=args.input_range)
    elif args.output.suffix == ".onnx":
        with replace_file(args.output) as stream:
            stream.write(to_onnx(model, dtype=args.dtype).SerializeToString())
        print(f"written to {args.output}")
    else:
        raise ValueError(f"--output: {args.output} must end in .c or .onnx")


def _load_model(path: Path) -> Any:
    """Return a model in our own format, or else in LIBSVM's; the first line tells which."""
    import widemargin
    from widemargin.files.libsvm_models import LIBSVM_ESTIMATORS

    with path.open("rb") as stream:
        key, *values = stream.readline(64).split() or [b""]
    if key != b"svm_type":
        return widemargin.load(path)
    # Reading an unknown type as a classifier gives the error that names the types.
    name = LIBSVM_ESTIMATORS.get(b" ".join(values).decode("ascii", "replace"), "KernelSVC")
    return getattr(widemargin, name).from_libsvm(path)


def _name_columns(X: Any, names: list[str] | None) -> Any:
    """Data with column names where the file had them and pandas is there to carry them."""
    return X if names is None else _with_pandas(X, names)


def _with_pandas(X: Any, names: list[str]) -> Any:
    from importlib.util import find_spec

    if find_spec("pandas") is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def _run_warmup(args: argparse.Namespace) -> None:
    from widemargin.warmup import run_warmup

    n_functions = run_warmup(args.estimators)
    print(f"{n_functions} functions compiled; the others were in the cache")


_COMMANDS = {
    "demo": _run_demo,
    "train": _run_train,
    "tune": _run_tune,
    "predict": _run_predict,
    "info": _run_info,
    "export": _run_export,
    "warmup": _run_warmup,
}


if __name__ == "__main__":
    raise SystemExit(main())
