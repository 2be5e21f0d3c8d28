"""Saving and loading fitted estimators as model files."""

import os
from typing import Any

from sklearn.utils.validation import check_is_fitted

from widemargin.divide.dc_svc import DCSVC
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.files.additive_schema import LINEAR, export_linear, import_linear
from widemargin.files.container import ModelFileError, read_model_file, write_model_file
from widemargin.files.divide_schema import export_clusters, import_clusters
from widemargin.files.kernel_schema import State, export_state, import_state
from widemargin.files.projected_schema import export_projected, import_projected
from widemargin.files.stored_params import check_params
from widemargin.projected.projected_svc import ProjectedSVC

#: Estimators that can be saved, by the name their files carry.
SAVEABLE: dict[str, type[Any]] = {
    "KernelSVC": KernelSVC, "DCSVC": DCSVC, "ProjectedSVC": ProjectedSVC, **LINEAR
}  # fmt: skip


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file.

    The file holds a JSON header and raw arrays, no pickle: reading one never runs code. Callbacks
    are not kept, nor the models of levels below that of a `DCSVC`.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this library. Callable kernels cannot be saved.
    path : path-like
        Where to write; an existing file is replaced once the new one is complete. A target that is
        not a regular file raises `FileExistsError`.
    """
    kind = type(model).__name__
    if SAVEABLE.get(kind) is not type(model):
        raise TypeError(
            f"model: a {kind} cannot be saved; give a fitted {', '.join(SAVEABLE)} (of a pipeline, "
            "save the last step)"
        )
    check_is_fitted(model)
    # What a fit would refuse, loading refuses too, so that it must not get into a file.
    check_params(model, model.classes_)
    write_model_file(path, kind, *_export(model))


def _export(model: Any) -> State:
    if isinstance(model, ProjectedSVC):
        return export_projected(model)
    if type(model).__name__ in LINEAR:
        return export_linear(model)
    meta, arrays = export_state(model)
    if isinstance(model, DCSVC):
        more_meta, more_arrays = export_clusters(model)
        return meta | more_meta, arrays | more_arrays
    return meta, arrays


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that `save` wrote.

    Parameters
    ----------
    path : path-like
        The file. Reading it runs no code of it, and a damaged or inconsistent file raises
        `ValueError`. Its checksums find damage by chance; they are no signature: whoever can change
        a file can also write checksums that match, and with them a model that predicts what they
        like. Load files from sources that you trust, or verify a signature first.

    Returns
    -------
    estimator
        A fitted estimator that predicts as the saved one did.
    """
    file = read_model_file(path)
    if file.kind not in SAVEABLE:
        raise ModelFileError(
            f"cannot read {os.fspath(path)!r}: it holds a {file.kind!r:.80}, which this version of "
            f"widemargin does not know (written by {file.library_version:.40}); upgrade"
        )
    try:
        if file.kind == "ProjectedSVC":
            return import_projected(file.meta, file.arrays)
        if file.kind in LINEAR:
            return import_linear(LINEAR[file.kind], file.meta, file.arrays)
        model = import_state(SAVEABLE[file.kind], file.meta, file.arrays)
        if isinstance(model, DCSVC):
            import_clusters(model, file.meta, file.arrays)
        model.restore_model()
        return model
    except ModelFileError as error:
        raise ModelFileError(f"cannot read {os.fspath(path)!r}: {error}") from error
