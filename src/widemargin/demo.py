"""The demonstration: exact and early fits next to scikit-learn's ``SVC``."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import MaxAbsScaler

from widemargin.arguments import check_integer, check_number
from widemargin.callbacks import LevelProgress, Progress
from widemargin.datasets import load
from widemargin.demo_peer import fit_svc
from widemargin.demo_report import Row, format_bars, format_ratios, format_table
from widemargin.divide.dc_svc import DCSVC
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.progress import show_bar

IMAGE_SIDE, WINDOW_SIDE = 8, 5
N_TEST = 10_000
#: C and gamma for the pixels of digits.
DIGITS_PARAMS = {"C": 10.0, "gamma": 0.3}


class Data(NamedTuple):
    """Scaled rows for training and for the test, and what they are."""

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    title: str


def run_demo(
    dataset: str,
    *,
    C: float | None = None,
    gamma: float | str | None = None,
    n_rows: int = 60_000,
    max_seconds: float = 60.0,
) -> None:
    """Train all classifiers on a data set, showing progress, and print a table and bars.

    Parameters
    ----------
    dataset : str
        A name of `widemargin.datasets`. ``"digits"`` stands for the pixels of these images.
    C, gamma : float, optional
        Parameters of all classifiers.
    n_rows : int
        Number of training rows, if the data set has as many.
    max_seconds : float
        When to stop the fit of ``SVC``.
    """
    check_integer("rows", n_rows, low=100)
    check_number("max_seconds", max_seconds, above=0)
    data = prepare_data(dataset, n_rows)
    params: dict[str, Any] = _choose_params(dataset, C, gamma)
    print(f"{data.title}\n{data.X.shape[0]:,} training rows, {len(data.y_test):,} test rows, "
          f"{data.X.shape[1]} features, {len(np.unique(data.y))} classes; "
          f"rbf kernel, C={params['C']:g}, gamma={params['gamma']}\n", flush=True)  # fmt: skip
    models = {
        "KernelSVC, exact": KernelSVC(**params),
        "DCSVC, early": DCSVC(**params, n_levels=3, stop_level=3),
    }
    for model in models.values():
        compile_in_advance(model, data)
    rows = [measure(name, model, data) for name, model in models.items()]
    rows.append(fit_svc(params, data.X, data.y, data.X_test, data.y_test, max_seconds))
    for text in (format_table(rows), format_bars(rows), format_ratios(rows)):
        print("\n" + text, flush=True)


def _choose_params(dataset: str, C: float | None, gamma: float | str | None) -> dict[str, Any]:
    default = DIGITS_PARAMS if dataset == "digits" else {"C": 10.0, "gamma": "scale"}
    given = {"C": C, "gamma": gamma}
    return default | {name: value for name, value in given.items() if value is not None}


def prepare_data(dataset: str, n_rows: int) -> Data:
    """Load a data set and scale its features to at most 1."""
    data = load(dataset)
    if dataset == "digits":
        X, y = cut_windows(data.X_train)
        X_test, y_test = cut_windows(data.X_test)
        title = "Is a pixel of a scanned digit dark? The 24 pixels around it are the features."
    else:
        X, y, X_test, y_test = data.X_train, data.y_train, data.X_test, data.y_test
        title = f"{dataset} ({data.source})"
    rng = np.random.default_rng(0)
    rows = rng.permutation(X.shape[0])[:n_rows]
    test_rows = rng.permutation(X_test.shape[0])[:N_TEST]
    scaler = MaxAbsScaler().fit(X[rows].astype(np.float64))
    X, X_test = (scaler.transform(Z.astype(np.float64)) for Z in (X[rows], X_test[test_rows]))
    return Data(X, y[rows], X_test, y_test[test_rows], title)


def cut_windows(images: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Turn images of digits into one row for each pixel.

    Parameters
    ----------
    images : ndarray of shape (n_images, 64)
        Grey values from 0 to 16.

    Returns
    -------
    X : ndarray of shape (n_images * 64, 24)
        The pixels around each pixel, in a window of 5 by 5; zero beyond the border of the image.
    y : ndarray of shape (n_images * 64,)
        Whether the pixel itself is darker than 8.
    """
    margin, middle = WINDOW_SIDE // 2, WINDOW_SIDE**2 // 2
    square = images.reshape(-1, IMAGE_SIDE, IMAGE_SIDE)
    padded = np.pad(square, ((0, 0), (margin, margin), (margin, margin)))
    windows = sliding_window_view(padded, (WINDOW_SIDE, WINDOW_SIDE), axis=(1, 2))
    flat = windows.reshape(-1, WINDOW_SIDE**2)
    return np.delete(flat, middle, axis=1), np.where(flat[:, middle] > 8, "dark", "light")


def compile_in_advance(model: Any, data: Data) -> None:
    """Fit some rows, so that the clock does not measure the compiler.

    `widemargin.compilation` tells the user if anything is compiled at all.
    """
    # Problems of few and of many rows are solved by different loops.
    for n_rows in (300, 3000):
        few = slice(0, n_rows)
        clone(model).fit(data.X[few], data.y[few]).predict(data.X_test[few])


def measure(name: str, model: Any, data: Data) -> Row:
    """Fit one of our classifiers with a bar that shows how far it is."""
    with show_bar(name) as show:
        model.set_params(callback=_make_listener(show))
        began = perf_counter()
        model.fit(data.X, data.y)
        fit_seconds = perf_counter() - began
    began = perf_counter()
    accuracy = float(model.score(data.X_test, data.y_test))
    return Row(name, fit_seconds, perf_counter() - began, accuracy, len(model.support_))


def _make_listener(show: Callable[..., None]) -> Callable[[Any], None]:
    def listen(state: Progress | LevelProgress) -> None:
        if isinstance(state, Progress):
            show(state.n_seen / state.n_total, f"violation {state.violation:.2g}")
        else:
            show(state.n_done / state.n_clusters, f"clusters {state.n_done}/{state.n_clusters}")

    return listen
