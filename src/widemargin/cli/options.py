"""The options of the command ``widemargin``."""

import argparse
from pathlib import Path
from typing import Any

from widemargin import __version__
from widemargin.files.csv_text import DELIMITERS
from widemargin.files.data_files import FORMATS

#: Parameters of the estimator that the command line offers, with their type.
_NUMBERS: dict[str, type] = {
    "C": float, "epsilon": float, "nu": float, "degree": int, "coef0": float, "tol": float,
    "max_iter": int, "max_time": float, "n_jobs": int, "random_state": int,
}  # fmt: skip
_DC_NUMBERS = ("n_clusters", "n_levels", "stop_level", "sample_size")
_ADDITIVE_NUMBERS: dict[str, type] = {
    "p": float, "rank": int, "n_bins": int, "n_anchors": int, "clip_quantile": float,
}  # fmt: skip
ESTIMATORS = (
    "KernelSVC", "KernelSVR", "KernelOneClassSVM", "DCSVC", "AdditiveSVC", "IntersectionSVC",
    "PowerMeanSVC", "LRSVC", "ProjectedSVC",
)  # fmt: skip
#: What the labels of a training file are, for estimators that are no classifiers.
LABEL_KINDS = {"KernelSVR": "numbers", "KernelOneClassSVM": "none"}
#: Options that are no parameters of estimators.
OTHERS = {
    "file", "output", "label", "format", "delimiter", "libsvm", "estimator", "quiet", "command",
}  # fmt: skip
_FILE_HELP = (
    "FILE is CSV (.csv, .tsv), arrays (.npz) or else svmlight/LIBSVM text; text may be compressed "
    "(.gz, .bz2). FILE may be - for standard input, which is svmlight text if it has index:value "
    "pairs and else CSV; --format says so where that cannot be told."
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="widemargin", description="Large-scale kernel support vector machines."
    )
    parser.add_argument("--version", action="version", version=f"widemargin {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_train(commands)
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
    demo.set_defaults(command="demo")


def _add_train(commands: Any) -> None:
    train = commands.add_parser(
        "train", help="fit an estimator to a file", description=
        "Fit an estimator to FILE and write a model file. The labels of a KernelSVR are numbers. A "
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
    train.add_argument("--kernel", default=None, help="default: that of the estimator")
    train.add_argument("--gamma", type=_gamma, default=None, help="number, scale or auto")
    train.add_argument(
        "--multi-class", "--multi_class", choices=("ovo", "ovr", "crammer_singer"), default=None
    )
    train.add_argument("--class-weight", "--class_weight", choices=("balanced",), default=None)
    train.add_argument("--memory", default=None, help="for example '2 GB'; default: auto")
    train.add_argument(
        "--fit-intercept", "--fit_intercept", action=argparse.BooleanOptionalAction, default=None
    )
    train.add_argument("--estimator", choices=ESTIMATORS, default="KernelSVC")
    for name, kind in _NUMBERS.items():
        train.add_argument(*_flags(name), type=kind, default=None)
    divide = train.add_argument_group("divide and conquer (--estimator DCSVC)")
    for name in _DC_NUMBERS:
        divide.add_argument(*_flags(name), type=int, default=None)
    divide.add_argument("--combine", choices=("early", "naive", "bcm"), default=None)
    divide.add_argument("--adaptive", action=argparse.BooleanOptionalAction, default=None)
    sparse = train.add_argument_group("sparse models (--estimator ProjectedSVC)")
    sparse.add_argument(
        *_flags("n_basis"), type=_size, default=None, help="number, share, '4 kB' or auto"
    )
    sparse.add_argument("--candidates", type=_size, default=None, help="number, share or all")
    sparse.add_argument("--move", action=argparse.BooleanOptionalAction, default=None)
    sparse.add_argument(
        *_flags("shared_basis"), action=argparse.BooleanOptionalAction, default=None
    )
    train.add_argument("--refine", action=argparse.BooleanOptionalAction, default=None)
    additive = train.add_argument_group("additive kernels and regression (the other estimators)")
    for name, kind in _ADDITIVE_NUMBERS.items():
        additive.add_argument(*_flags(name), type=kind, default=None)
    additive.add_argument("--loss", choices=("hinge", "squared_hinge"), default=None)
    additive.add_argument("--scaling", choices=("max",), default=None)
    additive.add_argument("--solver", default=None)
    additive.add_argument("--lut", action=argparse.BooleanOptionalAction, default=None)
    train.add_argument("--quiet", "-q", action="store_true", help="no progress, no summary")
    train.set_defaults(command="train")


def _flags(name: str) -> list[str]:
    """Return the names of an option: with hyphens, and with the underscores of the parameter."""
    return list(dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"]))


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


def _gamma(text: str) -> float | str:
    return text if text in ("scale", "auto") else float(text)


def _size(text: str) -> int | float | str:
    """Return an integer, a share of the rows, or an amount of memory as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
