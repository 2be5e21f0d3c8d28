"""Data sets for examples, tests and benchmarks, always as a train and a test part.

:func:`load` looks in three places and takes the first that has the set:

1. ``NAME.npz`` in the folder named by the environment variable ``WIDEMARGIN_DATA``;
2. the sets bundled with scikit-learn (no network);
3. OpenML, through :func:`sklearn.datasets.fetch_openml`.

Values, labels and dtypes are those of the source: nothing is scaled, encoded or cast. Small
integer dtypes therefore stay small; cast to a float type before forming products.

Notes
-----
An ``.npz`` file holds either ``X_train``, ``y_train``, ``X_test``, ``y_test`` or, where no split
is published, ``X``, ``y``. A sparse matrix ``P`` is held as ``P_data``, ``P_indices``,
``P_indptr``, ``P_shape`` (CSR). Other keys are ignored, and pickled objects are refused.
"""

import os
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, Union

import numpy as np
from numpy.lib.npyio import NpzFile

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Dataset", "DatasetNotFoundError", "available", "load", "read_part"]

Matrix: TypeAlias = Union[np.ndarray, "csr_matrix"]

_FOLDER_VARIABLE = "WIDEMARGIN_DATA"
_BUNDLED = ("breast_cancer", "digits", "iris", "wine")
# No separator, drive colon or leading dot can pass, so a name never leaves the folder; the
# punctuation allowed is what OpenML names use.
_NAME = re.compile(r"\w[\w.()+,=@ -]*", re.ASCII)

_SPLIT_KEYS = ("X_train", "y_train", "X_test", "y_test")
_CSR_PARTS = ("data", "indices", "indptr", "shape")
_KNOWN_KEYS = frozenset(
    {"X", "y", *_SPLIT_KEYS}
    | {f"{key}_{part}" for key in ("X", "X_train", "X_test") for part in _CSR_PARTS}
)
# What numpy and zipfile raise on a truncated, altered or foreign file; OSError comes from a bad
# offset inside the archive (the file is already open by then), RuntimeError from encryption or
# an unknown compression, TokenError and OverflowError from the header of an array.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, TokenError,
    OverflowError,
)  # fmt: skip

_SPLIT_SEED = 0
_SPLIT_STRIDE = 5


class DatasetNotFoundError(LookupError):
    """No local file, bundled set or OpenML set could be had under the name asked for."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set in a train and a test part of equal width.

    Attributes
    ----------
    name : str
        The name it was loaded by.
    X_train, X_test : ndarray or scipy.sparse.csr_matrix of shape (n_rows, n_features)
        Feature values as the source has them.
    y_train, y_test : ndarray of shape (n_rows,)
        Labels as the source has them; a test label may be absent from the training part.
    source : str
        Where the data came from.
    canonical_split : bool
        True if the two parts are the published ones, False if :func:`load` made them.
    feature_names : tuple of str or None
        Names of the columns, where the source gives them.
    """

    name: str
    X_train: Matrix = field(repr=False)
    y_train: np.ndarray = field(repr=False)
    X_test: Matrix = field(repr=False)
    y_test: np.ndarray = field(repr=False)
    source: str
    canonical_split: bool
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)


def load(name: str) -> Dataset:
    """Load a data set by name.

    Looks for ``NAME.npz`` in the folder named by the environment variable ``WIDEMARGIN_DATA``,
    then among scikit-learn's bundled sets, then on OpenML; only the last uses the network.
    A local file hides a bundled or OpenML set of the same name, and ``source`` tells which one
    was loaded. Values are returned as stored: nothing is scaled, encoded or cast.

    Parameters
    ----------
    name : str
        Name of the set: letters, digits, spaces and ``_.()+,=@-``, starting with a letter, a
        digit or an underscore.

    Returns
    -------
    Dataset
        The train and test parts. Two CSR parts stored with different widths are both given the
        larger one.

    Raises
    ------
    DatasetNotFoundError
        If none of the three places has the set.
    ValueError
        If the name has other characters, or the set found is damaged or inconsistent.

    Notes
    -----
    A set without a published split is split here, the same way every time: the rows are
    shuffled with a fixed seed and every fifth goes to the test part (20 %, rounded up). When
    each class has at least two rows they are first grouped by class, so that each class keeps
    its share to within one row and none is missing from the training part.

    Examples
    --------
    >>> from widemargin.datasets import load
    >>> digits = load("digits")
    >>> digits.X_train.shape, digits.X_test.shape
    ((1437, 64), (360, 64))
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"name: {name!r} is an invalid data set name; use letters, digits, spaces and _.()+,=@- "
            "only, starting with a letter, a digit or an underscore"
        )
    path = _find_file(name)
    if path is not None:
        return _load_file(name, path)
    if name in _BUNDLED:
        return _load_bundled(name)
    return _load_openml(name)


def available() -> list[str]:
    """List the names that can be loaded without network.

    Returns
    -------
    list of str
        Sorted names of the ``.npz`` files in the ``WIDEMARGIN_DATA`` folder and of the sets
        bundled with scikit-learn. The files are listed, not opened.

    Examples
    --------
    >>> from widemargin.datasets import available
    >>> "digits" in available()
    True
    """
    folder = _get_folder()
    paths = folder.glob("*.npz") if folder is not None else ()
    local = {path.stem for path in paths if path.is_file() and _NAME.fullmatch(path.stem)}
    return sorted(local.union(_BUNDLED))


def read_part(path: Path) -> tuple[Matrix, np.ndarray | None]:
    """Read the training part, or the only part, of an npz file in the format of this module.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    X, y : matrix and ndarray or None
        The rows and their labels, if the file has any.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from widemargin.datasets import read_part
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.npz"
    ...     np.savez(path, X=np.eye(3), y=np.array([0, 1, 1]))
    ...     X, y = read_part(path)
    >>> X.shape, y.tolist()
    ((3, 3), [0, 1, 1])
    """
    arrays = _read_arrays(path)
    origin = str(path)
    suffix = "_train" if any(key.startswith("X_train") for key in arrays) else ""
    if f"y{suffix}" not in arrays:
        return _get_matrix(arrays, f"X{suffix}", origin), None
    return _get_part(arrays, f"X{suffix}", f"y{suffix}", origin)


def _get_folder() -> Path | None:
    """Return the local data folder as the user named it, or None if the variable is not set."""
    value = os.environ.get(_FOLDER_VARIABLE)
    return Path(value).expanduser() if value else None


def _find_file(name: str) -> Path | None:
    """Return the local file of a set if there is one."""
    folder = _get_folder()
    if folder is None:
        return None
    path = folder / f"{name}.npz"
    return path if path.is_file() else None


def _load_file(name: str, path: Path) -> Dataset:
    """Load a set from an npz file."""
    arrays = _read_arrays(path)
    origin = str(path)
    # Any trace of a published split counts, so that a file which lost one of its parts is
    # reported instead of being split anew.
    canonical = any(key.startswith(_SPLIT_KEYS) for key in arrays)
    if canonical:
        X_train, y_train = _get_part(arrays, "X_train", "y_train", origin)
        X_test, y_test = _get_part(arrays, "X_test", "y_test", origin)
        X_train, X_test = _match_widths(X_train, X_test, origin)
    else:
        X, y = _get_part(arrays, "X", "y", origin)
        X_train, y_train, X_test, y_test = _split_part(X, y, origin)
    source = f"{_FOLDER_VARIABLE} ({path})"
    return Dataset(name, X_train, y_train, X_test, y_test, source, canonical)


def _load_bundled(name: str) -> Dataset:
    """Load one of the sets that come with scikit-learn."""
    from sklearn import datasets

    loader = f"load_{name}"
    bunch = getattr(datasets, loader)()
    return _split_bunch(name, bunch, f"scikit-learn ({loader})")


def _load_openml(name: str) -> Dataset:
    """Load a set from OpenML; whatever keeps it from being had ends in one error."""
    from http.client import HTTPException

    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml(name, as_frame=False, parser="auto")
    # OSError covers URLError, HTTPError, ConnectionError and TimeoutError. ValueError covers
    # scikit-learn's private OpenMLError (unknown name) and answers that are no JSON or fail
    # their checksum. ImportError means that pandas, which the parser needs, is not installed.
    except (OSError, HTTPException, ValueError, ImportError) as error:
        raise DatasetNotFoundError(_describe_search(name, error)) from error
    return _split_bunch(name, bunch, f"OpenML ({bunch.url})")


def _describe_search(name: str, error: Exception) -> str:
    """Say where a set was looked for and how it could be provided."""
    folder = _get_folder()
    if folder is None:
        tried = "the variable is not set"
    elif folder.is_dir():
        tried = f"it is {folder}, which has no such file"
    else:
        tried = f"it is {folder}, which is not a folder"
    return (
        f"data set {name!r} not found. Three ways to provide a set: "
        f"(1) set {_FOLDER_VARIABLE} to a folder that holds {name}.npz ({tried}); "
        f"(2) use one of the sets bundled with scikit-learn ({', '.join(_BUNDLED)}); "
        f"(3) use the name of a set on OpenML, with network access "
        f"(this time: {type(error).__name__}: {error})"
    )


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a file that belong to the format."""
    # Opened here because numpy would leave the file open when the archive is damaged.
    with path.open("rb") as stream, _open_archive(stream, path) as archive:
        return {key: _read_array(archive, key, path) for key in archive.files if key in _KNOWN_KEYS}


def _open_archive(stream: BinaryIO, path: Path) -> NpzFile:
    """Open an npz archive without reading its arrays."""
    try:
        archive = np.load(stream, allow_pickle=False)
    except _DAMAGE as error:
        raise ValueError(f"{path} is not a readable .npz archive ({error}); restore it") from error
    if not isinstance(archive, NpzFile):
        raise ValueError(f"{path} is a single array, not an .npz archive; use np.savez")
    return archive


def _read_array(archive: NpzFile, key: str, path: Path) -> np.ndarray:
    """Read one array of an archive."""
    try:
        array = archive[key]
    except _DAMAGE as error:
        raise ValueError(f"{path}: key {key!r} cannot be read: {error}") from error
    # numpy hands out the raw bytes of a member that is not an array.
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path}: key {key!r} is not an array")
    return array


def _get_part(
    arrays: dict[str, np.ndarray], X_key: str, y_key: str, origin: str
) -> tuple[Matrix, np.ndarray]:
    """Return the matrix and the labels of one part, checked against each other."""
    X = _get_matrix(arrays, X_key, origin)
    y = _get_array(arrays, y_key, origin)
    _check_part(X, y, X_key, y_key, origin)
    return X, y


def _get_array(arrays: dict[str, np.ndarray], key: str, origin: str) -> np.ndarray:
    """Return an array that must be there."""
    if key not in arrays:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise ValueError(f"{origin}: key {key!r} is missing; the file holds {found}")
    return arrays[key]


def _get_matrix(arrays: dict[str, np.ndarray], key: str, origin: str) -> Matrix:
    """Return a matrix, dense or CSR as it is stored."""
    if key in arrays or not any(f"{key}_{part}" in arrays for part in _CSR_PARTS):
        return _get_array(arrays, key, origin)
    return _build_csr(
        *(_get_array(arrays, f"{key}_{part}", origin) for part in _CSR_PARTS),
        key=key,
        origin=origin,
    )


def _build_csr(
    data: np.ndarray,
    indices: np.ndarray,
    indptr: np.ndarray,
    shape: np.ndarray,
    *,
    key: str,
    origin: str,
) -> "csr_matrix":
    """Build a CSR matrix, checking every index."""
    from scipy.sparse import csr_matrix

    for part, array in (("indices", indices), ("indptr", indptr), ("shape", shape)):
        # scipy would truncate fractional indices without a word.
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"{origin}: key '{key}_{part}' is {array.dtype}, not an integer type")
    try:
        matrix = csr_matrix((data, indices, indptr), shape=tuple(shape.tolist()))
        # The constructor does not look at column numbers, and a number out of range would make
        # compiled code read foreign memory.
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{origin}: sparse matrix {key!r} is damaged: {error}") from error
    return matrix


def _check_part(X: Matrix, y: np.ndarray, X_key: str, y_key: str, origin: str) -> None:
    """Raise ValueError unless X is a matrix and y has one label for each of its rows."""
    if X.ndim != 2:
        raise ValueError(f"{origin}: {X_key!r} must have 2 dimensions, has {X.ndim}")
    if y.ndim != 1:
        raise ValueError(f"{origin}: {y_key!r} must have 1 dimension, has {y.ndim}")
    if X.shape[0] != y.shape[0]:
        raise ValueError(
            f"{origin}: {X_key!r} has {X.shape[0]} rows but {y_key!r} has {y.shape[0]} labels"
        )
    if X.shape[0] == 0:
        raise ValueError(f"{origin}: {X_key!r} has no rows")


def _match_widths(X_train: Matrix, X_test: Matrix, origin: str) -> tuple[Matrix, Matrix]:
    """Widen the narrower part to the other; only a CSR part can be widened."""
    width = max(X_train.shape[1], X_test.shape[1])
    widened = [_widen_matrix(X, width) for X in (X_train, X_test)]
    if widened[0].shape[1] != widened[1].shape[1]:
        raise ValueError(
            f"{origin}: 'X_train' has {X_train.shape[1]} columns but 'X_test' has {X_test.shape[1]}"
        )
    return widened[0], widened[1]


def _widen_matrix(X: Matrix, width: int) -> Matrix:
    """Give a CSR matrix empty columns up to a width; return a dense one as it is."""
    if not isinstance(X, np.ndarray):
        X.resize(X.shape[0], width)
    return X


def _split_bunch(name: str, bunch: Any, source: str) -> Dataset:
    """Turn a scikit-learn Bunch, which has no test part, into a data set."""
    from scipy.sparse import csr_matrix, issparse

    X = csr_matrix(bunch.data) if issparse(bunch.data) else bunch.data
    # An OpenML set may have no target (None) or several; the check then says so.
    y = np.asarray(bunch.target)
    _check_part(X, y, "data", "target", source)
    names = tuple(str(column) for column in bunch.feature_names)
    return Dataset(name, *_split_part(X, y, source), source, False, names)


def _split_part(
    X: Matrix, y: np.ndarray, origin: str
) -> tuple[Matrix, np.ndarray, Matrix, np.ndarray]:
    """Split rows into X_train, y_train, X_test, y_test."""
    if y.shape[0] < 2:
        raise ValueError(f"{origin}: a single row cannot be split into train and test parts")
    train, test = _choose_rows(y)
    return X[train], y[train], X[test], y[test]


def _choose_rows(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose train and test rows, in shuffled order and stratified where classes allow it."""
    # The stream of RandomState is frozen by numpy's policy, that of Generator is not, and a
    # split must stay the same across versions.
    order = np.random.RandomState(_SPLIT_SEED).permutation(y.shape[0])
    # Labels of mixed types (strings with a missing one) cannot be sorted as they are.
    labels = y.astype(str) if y.dtype == object else y
    _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    ranked = order
    if counts.min() >= 2:
        ranked = order[np.argsort(codes[order], kind="stable")]
    in_test = np.zeros(y.shape[0], dtype=bool)
    in_test[ranked[::_SPLIT_STRIDE]] = True
    return order[~in_test[order]], order[in_test[order]]
