"""The command ``widemargin``."""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin import __version__
from widemargin.cli.model_summary import format_model
from widemargin.files.atomic_output import check_output, replace_file
from widemargin.files.csv_text import DELIMITERS
from widemargin.files.data_files import FORMATS, Table, read_table

_FILE_HELP = (
    "FILE is CSV (.csv, .tsv), arrays (.npz) or else svmlight/LIBSVM text; text may be compressed "
    "(.gz, .bz2). FILE may be - for standard input, which is svmlight text if it has index:value "
    "pairs and else CSV; --format says so where that cannot be told."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    args = _make_parser(trains="train" in argv).parse_args(argv)
    warnings.showwarning = _show_warning
    try:
        return int(args.run(args) or 0)
    except (OSError, ValueError, TypeError, LookupError, ImportError, MemoryError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"widemargin: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("widemargin: interrupted", file=sys.stderr)
        return 130


def _show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"widemargin: {category.__name__}: {message}", file=sys.stderr)


def _make_parser(*, trains: bool) -> argparse.ArgumentParser:
    """Return the parser; options of estimators, whose import takes time, only if it ``trains``."""
    parser = argparse.ArgumentParser(
        prog="widemargin", description="Large-scale kernel support vector machines."
    )
    parser.add_argument("--version", action="version", version=f"widemargin {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_train(commands, with_parameters=trains)
    _add_predict(commands)
    _add_info(commands)
    _add_export(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo", help="train on real data next to scikit-learn's SVC and compare"
    )
    demo.add_argument(
        "--dataset",
        default="digits",
        metavar="NAME",
        help="a data set of widemargin.datasets; default: scikit-learn's digits, shifted about",
    )
    demo.add_argument("--C", type=float, default=10.0)
    demo.add_argument("--gamma", type=_gamma, default="scale")
    demo.set_defaults(run=_run_demo)


def _add_train(commands: Any, *, with_parameters: bool) -> None:
    train = commands.add_parser(
        "train", help="fit a classifier to a file", description=
        f"Fit a classifier to FILE and write a model file. {_FILE_HELP}",
    )  # fmt: skip
    train.add_argument("file", metavar="FILE", type=Path)
    train.add_argument("-o", "--output", metavar="MODEL", type=Path, required=True)
    train.add_argument("--label", help="CSV column with the labels: name or number; default: last")
    _add_file_options(train)
    train.add_argument(
        "--libsvm", action="store_true", help="write LIBSVM's text format instead of our own"
    )
    train.add_argument("--quiet", "-q", action="store_true", help="no progress, no summary")
    if with_parameters:
        from widemargin.cli.train_options import ESTIMATORS, add_parameters

        train.add_argument("--estimator", choices=ESTIMATORS, default="KernelSVC")
        add_parameters(train.add_argument_group("parameters of the estimator"))
    train.set_defaults(run=_run_train)


def _add_predict(commands: Any) -> None:
    predict = commands.add_parser(
        "predict", help="predict the rows of a file with a model", description=
        "Predict the rows of FILE with MODEL. The accuracy goes to standard error if FILE has labels. "
        f"{_FILE_HELP}",
    )  # fmt: skip
    predict.add_argument("model", metavar="MODEL", type=Path)
    predict.add_argument("file", metavar="FILE", type=Path)
    predict.add_argument(
        "-o", "--output", metavar="OUT", type=Path, help="default: standard output"
    )
    predict.add_argument("--label", help="CSV column with the labels, which is not a feature")
    predict.add_argument(
        "--ignore-labels", action="store_true", help="do not compare with the labels of FILE"
    )
    _add_file_options(predict)
    predict.add_argument(
        "--decision", action="store_true", help="write decision values instead of labels"
    )
    predict.set_defaults(run=_run_predict)


def _add_file_options(command: Any) -> None:
    """Add the options that say how to read the data."""
    command.add_argument(
        "--format", choices=FORMATS, default="auto", help="default: by name, or content of -"
    )
    command.add_argument(
        "--delimiter", choices=tuple(DELIMITERS), default=None,
        help="separator of CSV fields; default: found from the data",
    )  # fmt: skip


def _read_file(args: argparse.Namespace, n_features: int | None = None) -> Table:
    delimiter = None if args.delimiter is None else DELIMITERS[args.delimiter]
    return read_table(
        args.file, label=args.label, n_features=n_features, form=args.format, delimiter=delimiter
    )


def _add_info(commands: Any) -> None:
    info = commands.add_parser("info", help="describe a model file")
    info.add_argument("model", metavar="MODEL", type=Path)
    info.set_defaults(run=_run_info)


def _add_export(commands: Any) -> None:
    export = commands.add_parser(
        "export", help="write a model as C for devices, or as ONNX", description=
        "Write MODEL as OUT: C99 with its header if OUT ends in .c, ONNX if in .onnx.",
    )  # fmt: skip
    export.add_argument("model", metavar="MODEL", type=Path)
    export.add_argument("-o", "--output", metavar="OUT", type=Path, required=True)
    export.add_argument(
        "--dtype", default="float32", help="float32 or int16 in C, float32 or float64 in ONNX"
    )
    export.add_argument(
        "--input-range", "--input_range", type=float, default=None,
        help="largest size of a feature, for int16",
    )  # fmt: skip
    export.add_argument(
        "--libm", action=argparse.BooleanOptionalAction, default=True, help="whether C may use expf"
    )
    export.set_defaults(run=_run_export)


def _gamma(text: str) -> float | str:
    return text if text in ("scale", "auto") else float(text)


def _run_demo(args: argparse.Namespace) -> None:
    from widemargin.demo import run_demo

    run_demo(args.dataset, C=args.C, gamma=args.gamma)


def _run_train(args: argparse.Namespace) -> None:
    import widemargin
    from widemargin.cli.train_options import take_parameters
    from widemargin.files.libsvm_models import check_libsvm
    from widemargin.parameters import check_choices

    check_output(args.output)
    given = take_parameters(args, args.estimator)
    if args.libsvm and args.estimator != "KernelSVC":
        raise ValueError("--libsvm: only a KernelSVC can be written as a model of LIBSVM")
    model = getattr(widemargin, args.estimator)(**given, verbose=0 if args.quiet else 1)
    check_choices(model)
    table = _read_file(args)
    if table.y is None:
        raise ValueError(f"{args.file}: the file has no labels to learn from")
    if args.libsvm:
        classes = np.unique(table.y)
        check_libsvm(model.kernel, model.multi_class == "ovo" or len(classes) == 2, classes)
    model.fit(_name_columns(table.X, table.feature_names), table.y)
    if args.libsvm:
        model.to_libsvm(args.output)
    else:
        widemargin.save(model, args.output)
    if not args.quiet:
        print(format_model(model))
        print(f"written to {args.output}")


def _run_predict(args: argparse.Namespace) -> None:
    if args.output is not None:
        check_output(args.output)
    model = _load_model(args.model)
    table = _read_file(args, model.n_features_in_)
    labels = None
    if table.y is not None and not (args.decision or args.ignore_labels):
        labels = _match_labels(table.y, model.classes_, args.file)
    X = _name_columns(table.X, table.feature_names)
    answers = model.decision_function(X) if args.decision else model.predict(X)
    lines = "".join(_format_answer(answer) + "\n" for answer in answers)
    if args.output is None:
        sys.stdout.write(lines)
    else:
        with replace_file(args.output) as stream:
            stream.write(lines.encode())
    if labels is not None:
        print(_describe_accuracy(answers, labels, model.classes_, args.file), file=sys.stderr)


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


def _run_info(args: argparse.Namespace) -> None:
    print(format_model(_load_model(args.model)))


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
    """A model in our own format, or else in LIBSVM's, told apart by the first bytes."""
    from widemargin.exact.kernel_svc import KernelSVC
    from widemargin.files.persistence import load

    with path.open("rb") as stream:
        start = stream.read(16)
    return KernelSVC.from_libsvm(path) if start.startswith(b"svm_type") else load(path)


def _name_columns(X: Any, names: list[str] | None) -> Any:
    """Data with column names where the file had them and pandas is there to carry them."""
    return X if names is None else _with_pandas(X, names)


def _with_pandas(X: Any, names: list[str]) -> Any:
    from importlib.util import find_spec

    if find_spec("pandas") is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def _format_answer(answer: Any) -> str:
    if isinstance(answer, np.ndarray):
        return " ".join(f"{value:.9g}" for value in answer)
    return f"{answer:.9g}" if isinstance(answer, np.floating) else str(answer)


if __name__ == "__main__":
    raise SystemExit(main())
