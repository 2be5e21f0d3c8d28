"""The options of the command ``widemargin``."""

import argparse
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.files.csv_text import DELIMITERS
from widemargin.files.data_files import FORMATS

#: What can be trained and compiled in advance.
ESTIMATORS = (
    "KernelSVC", "KernelSVR", "KernelOneClassSVM", "DCSVC", "DCSVR", "AdditiveSVC", "AdditiveSVR",
    "IntersectionSVC", "PowerMeanSVC", "LRSVC", "ProjectedSVC",
)  # fmt: skip
#: What the labels of a training file are, for estimators that are no classifiers.
LABEL_KINDS = {
    "KernelSVR": "numbers", "DCSVR": "numbers", "AdditiveSVR": "numbers",
    "KernelOneClassSVM": "none",
}  # fmt: skip
_FILE_HELP = (
    "FILE is CSV (.csv, .tsv), arrays (.npz) or else svmlight/LIBSVM text; text may be compressed "
    "(.gz, .bz2). FILE may be - for standard input, which is svmlight text if it has index:value "
    "pairs and else CSV; --format says so where that cannot be told."
)


def make_parser(*, trains: bool) -> argparse.ArgumentParser:
    """Return the parser; options of estimators, whose import takes time, only if it ``trains``."""
    parser = argparse.ArgumentParser(
        prog="widemargin", description="Large-scale kernel support vector machines."
    )
    parser.add_argument("--version", action="version", version=f"widemargin {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_train(commands, with_parameters=trains)
    _add_tune(commands)
    _add_predict(commands)
    _add_info(commands)
    _add_export(commands)
    _add_warmup(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo", help="train on real data next to scikit-learn's SVC and compare"
    )
    demo.add_argument(
        "--dataset",
        default="digits",
        metavar="NAME",
        help="a data set of widemargin.datasets; default: the pixels of scikit-learn's digits",
    )
    demo.add_argument("--C", type=float, default=None, help="default: 10")
    demo.add_argument("--gamma", type=_gamma, default=None, help="default: 0.3, or scale")
    demo.add_argument("--rows", type=int, default=60_000, help="training rows; default: 60000")
    demo.add_argument(
        "--max-seconds", type=float, default=60.0, help="when to stop SVC; default: 60"
    )
    demo.set_defaults(command="demo")


def add_scale_option(command: Any) -> None:
    """Add the option for scaled features."""
    command.add_argument(
        "--scale", choices=("standard", "minmax", "max"), default=None,
        help="scale the features first; the model file contains the scaler",
    )  # fmt: skip


def _add_train(commands: Any, *, with_parameters: bool) -> None:
    train = commands.add_parser(
        "train", help="fit an estimator to a file", description=
        "Fit an estimator to FILE and write a model file. The labels of a regression (KernelSVR, "
        "DCSVR, AdditiveSVR) are numbers. A "
        "KernelOneClassSVM needs no labels: all columns of CSV are features unless --label names one. "
        f"{_FILE_HELP}",
    )  # fmt: skip
    train.add_argument("file", metavar="FILE", type=Path)
    train.add_argument("-o", "--output", metavar="MODEL", type=Path, required=True)
    train.add_argument("--label", help="CSV column with the labels: name or number; default: last")
    _add_file_options(train)
    train.add_argument(
        "--libsvm", action="store_true", help="write LIBSVM's text format instead of our own"
    )
    train.add_argument("--quiet", "-q", action="store_true", help="no progress, no summary")
    add_scale_option(train)
    if with_parameters:
        from widemargin.cli.train_options import add_parameters

        train.add_argument("--estimator", choices=ESTIMATORS, default="KernelSVC")
        add_parameters(train.add_argument_group("parameters of the estimator"))
    train.set_defaults(command="train")


def _add_tune(commands: Any) -> None:
    from widemargin.cli.tune import add_tune_options

    tune = commands.add_parser(
        "tune", help="choose C and gamma by cross-validation and fit a KernelSVC", description=
        "Choose C and gamma of a KernelSVC by cross-validation on FILE, fit it to all rows and write "
        "a model file. --scale scales by all rows before they are split into folds, because cells and "
        f"folds share the distances between rows. {_FILE_HELP}",
    )  # fmt: skip
    tune.add_argument("file", metavar="FILE", type=Path)
    tune.add_argument("-o", "--output", metavar="MODEL", type=Path, required=True)
    tune.add_argument("--label", help="CSV column with the labels: name or number; default: last")
    _add_file_options(tune)
    tune.add_argument("--quiet", "-q", action="store_true", help="no progress, no summary")
    add_scale_option(tune)
    add_tune_options(tune.add_argument_group("search"))
    tune.set_defaults(command="tune")


def _add_predict(commands: Any) -> None:
    predict = commands.add_parser(
        "predict", help="predict the rows of a file with a model", description=
        "Predict the rows of FILE with MODEL. If FILE has labels, the accuracy goes to standard "
        "error; for a regression R2 and the mean absolute error. "
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
    predict.add_argument(
        "--proba", action="store_true",
        help="write the probabilities of all classes, in the order that info prints; for models of "
        "tune --calibration",
    )  # fmt: skip
    predict.set_defaults(command="predict")


def _add_file_options(command: Any) -> None:
    """Add the options that say how to read the data."""
    command.add_argument(
        "--format", choices=FORMATS, default="auto", help="default: by name, or content of -"
    )
    command.add_argument(
        "--delimiter", choices=tuple(DELIMITERS), default=None,
        help="separator of CSV fields; default: found from the data",
    )  # fmt: skip


def _add_info(commands: Any) -> None:
    info = commands.add_parser("info", help="describe a model file")
    info.add_argument("model", metavar="MODEL", type=Path)
    info.set_defaults(command="info")


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
    export.set_defaults(command="export")


def _add_warmup(commands: Any) -> None:
    warmup = commands.add_parser(
        "warmup", help="compile in advance what estimators need", description=
        "Compile what the usual fits need and keep it in Numba's cache, for images of containers and "
        "for clusters. NUMBA_CACHE_DIR says where the cache is; default: beside the package.",
    )  # fmt: skip
    warmup.add_argument(
        "--estimators", nargs="+", choices=ESTIMATORS, default=ESTIMATORS, metavar="NAME",
        help=f"default: {' '.join(ESTIMATORS)}",
    )  # fmt: skip
    warmup.set_defaults(command="warmup")


def _gamma(text: str) -> float | str:
    return text if text in ("scale", "auto") else float(text)
