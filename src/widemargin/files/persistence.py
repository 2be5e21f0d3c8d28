"""Saving and loading fitted estimators as model files."""

import os
from collections.abc import Mapping
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from widemargin.additive.additive_svc import AdditiveSVC
from widemargin.additive.additive_svr import AdditiveSVR
from widemargin.additive.intersection_svc import IntersectionSVC
from widemargin.additive.lr_svc import LRSVC
from widemargin.additive.power_mean_svc import PowerMeanSVC
from widemargin.divide.dc_svc import DCSVC
from widemargin.divide.dc_svr import DCSVR
from widemargin.divide.kernel_svc_cv import KernelSVCCV
from widemargin.exact.kernel_one_class import KernelOneClassSVM
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.exact.kernel_svr import KernelSVR
from widemargin.exact.kernel_svr_cv import KernelSVRCV
from widemargin.files.additive_schema import (
    read_additive,
    read_regression,
    write_additive,
    write_regression,
)
from widemargin.files.container import ModelFileError, read_model_file, require, write_model_file
from widemargin.files.divide_schema import (
    read_divided,
    read_divided_svr,
    write_divided,
    write_divided_svr,
)
from widemargin.files.estimator_schema import Schema, State
from widemargin.files.kernel_schema import (
    read_exact,
    read_one_class,
    read_svr,
    write_exact,
    write_one_class,
    write_svr,
)
from widemargin.files.projected_schema import read_projected, write_projected
from widemargin.files.scaled_models import KIND, check_pipeline, read_pipeline, write_pipeline
from widemargin.files.search_schema import read_search, write_search
from widemargin.files.stored_params import check_params
from widemargin.projected.projected_svc import ProjectedSVC

_SCHEMAS = (
    Schema(KernelSVC, write_exact, read_exact),
    Schema(KernelSVR, write_svr, read_svr),
    Schema(KernelSVCCV, write_search, read_search),
    Schema(KernelSVRCV, write_search, read_search),
    Schema(KernelOneClassSVM, write_one_class, read_one_class),
    Schema(DCSVC, write_divided, read_divided),
    Schema(DCSVR, write_divided_svr, read_divided_svr),
    Schema(ProjectedSVC, write_projected, read_projected),
    Schema(AdditiveSVC, write_additive, read_additive),
    Schema(AdditiveSVR, write_additive, read_additive),
    Schema(IntersectionSVC, write_additive, read_additive),
    Schema(PowerMeanSVC, write_additive, read_additive),
    Schema(LRSVC, write_regression, read_regression),
)
#: Schemas of the estimators that can be saved, by the name their files carry.
SAVEABLE = {schema.estimator.__name__: schema for schema in _SCHEMAS}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file.

    The file holds a JSON header and raw arrays, no pickle: reading one never runs code. Callbacks
    are not kept, nor the models of levels below that of a `DCSVC` or `DCSVR`. Of a `KernelSVCCV` or
    `KernelSVRCV` the file holds the final model, its probabilities, the grid and the scores, but not
    ``cv_results_`` and ``decision_oof_``.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library, or a pipeline of `StandardScaler`, `MinMaxScaler` or
        `MaxAbsScaler` that ends in one. Callable kernels cannot be saved.
    path : path-like
        Where to write; an existing file is replaced once the new one is complete. A target that is
        not a regular file raises `FileExistsError`.

    Examples
    --------
    >>> import os, tempfile
    >>> import widemargin
    >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]
    >>> model = widemargin.KernelSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.wm")
    ...     widemargin.save(model, path)
    ...     same = widemargin.load(path)
    >>> same.predict([[0.5], [4.5]])
    array([0, 1])
    """
    if isinstance(model, Pipeline):
        check_pipeline(model)
        kind, state = _write(model.steps[-1][1])
        write_model_file(path, KIND, *write_pipeline(model, kind, state))
        return
    kind, state = _write(model)
    write_model_file(path, kind, *state)


def _write(model: Any) -> tuple[str, State]:
    """Return the kind of an estimator, and its header values and arrays."""
    kind = type(model).__name__
    schema = SAVEABLE.get(kind)
    if schema is None or schema.estimator is not type(model):
        raise TypeError(
            f"model: a {kind} cannot be saved; give a fitted {', '.join(SAVEABLE)}, or a pipeline of "
            "scalers and one of these"
        )
    check_is_fitted(model)
    # Loading refuses parameters that a fit refuses, so that a file must not hold them.
    check_params(model, getattr(model, "classes_", None))
    return kind, schema.write(model)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that `save` wrote.

    Parameters
    ----------
    path : path-like
        The file. Reading it runs no code of it, and a damaged or inconsistent file raises
        `ValueError`. Checksums detect accidental damage only: an attacker who can change a
        file can also write matching checksums and a model with other predictions. Load files from
        sources that you trust, or verify a signature first.

    Returns
    -------
    estimator
        A fitted estimator that predicts as the saved one did.

    Examples
    --------
    >>> import os, tempfile
    >>> import widemargin
    >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]
    >>> model = widemargin.KernelSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.wm")
    ...     widemargin.save(model, path)
    ...     same = widemargin.load(path)
    >>> same.predict([[0.5], [4.5]])
    array([0, 1])
    """
    file = read_model_file(path)
    if file.kind not in (*SAVEABLE, KIND):
        raise ModelFileError(
            f"cannot read {os.fspath(path)!r}: it holds a {file.kind!r:.80}, which this version of "
            f"widemargin does not know (written by {file.library_version:.40}); upgrade"
        )
    try:
        if file.kind == KIND:
            return read_pipeline(file.meta, file.arrays, _read)
        return _read(file.kind, file.meta, file.arrays)
    except ModelFileError as error:
        raise ModelFileError(f"cannot read {os.fspath(path)!r}: {error}") from error


def _read(kind: Any, meta: dict[str, Any], arrays: Mapping[str, Any]) -> Any:
    require(isinstance(kind, str) and kind in SAVEABLE, f"it holds a {kind!r:.80}")
    schema = SAVEABLE[kind]
    return schema.read(schema.estimator, meta, arrays)
