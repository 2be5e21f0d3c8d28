"""Translation between the exact estimators and LIBSVM's model files."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.arguments import check_integer
from widemargin.files.container import ModelFileError
from widemargin.files.libsvm_text import LibsvmModel, read_libsvm_model
from widemargin.kernels import RBF, Kernel, Linear, Poly, Precomputed, Sigmoid
from widemargin.problem import class_pairs

#: LIBSVM's names of kernels by ours.
_NAMES = {
    "linear": "linear", "rbf": "rbf", "poly": "polynomial", "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}  # fmt: skip
#: Estimators by LIBSVM's types of models.
LIBSVM_ESTIMATORS = {
    "c_svc": "KernelSVC",
    "epsilon_svr": "KernelSVR",
    "one_class": "KernelOneClassSVM",
}


def to_libsvm_model(model: Any, one_vs_one: bool) -> LibsvmModel:
    """Return a fitted `KernelSVC` as a model of LIBSVM.

    LIBSVM's function of a pair is positive for the first class, ours for the second, so every sign
    turns round.
    """
    k = len(model.classes_)
    check_libsvm(model.kernel_.name, one_vs_one, model.classes_)
    return LibsvmModel(
        **_write_kernel(model.kernel_),
        labels=tuple(int(label) for label in model.classes_),
        rho=model.intercept_,
        n_support=model.n_support_.astype(np.int64),
        coef=-_to_rows(model._dual_coef_, model.n_support_, k),
        vectors=_vectors(model),
    )


def to_libsvm_function(model: Any, svm_type: str) -> LibsvmModel:
    """Return a fitted estimator without classes as a model of LIBSVM."""
    check_libsvm_kernel(model.kernel_.name)
    n_targets = len(model.intercept_)
    if n_targets > 1:
        raise ValueError(
            f"y: LIBSVM's format holds a single target, but the model has {n_targets}; fit and write "
            "one model for each target"
        )
    return LibsvmModel(
        **_write_kernel(model.kernel_),
        labels=(),
        rho=-model.intercept_,
        n_support=np.zeros(0, np.int64),
        coef=model._dual_coef_,
        vectors=_vectors(model),
        svm_type=svm_type,
    )


def check_libsvm(kernel: str, one_vs_one: bool, classes: NDArray[Any]) -> None:
    """Raise an error for a classifier that LIBSVM's format cannot hold."""
    if not one_vs_one:
        raise ValueError(
            "multi_class: LIBSVM's format holds one-vs-one models only; fit with multi_class='ovo'"
        )
    check_libsvm_kernel(kernel)
    is_integer = classes.dtype.kind in "iub" or (
        classes.dtype.kind == "f" and np.array_equal(classes, np.round(classes))
    )
    if not is_integer:
        raise ValueError(
            f"y: LIBSVM's format holds integer labels only, but the classes are {classes.tolist()}; "
            "encode them with sklearn.preprocessing.LabelEncoder before fitting"
        )


def check_libsvm_kernel(kernel: Any) -> None:
    """Raise an error for a kernel that LIBSVM does not have."""
    if not isinstance(kernel, str) or kernel not in _NAMES:
        raise ValueError(f"kernel: LIBSVM does not know {kernel!r}; it has {', '.join(_NAMES)}")


def read_libsvm_attributes(
    path: str | os.PathLike[str], svm_type: str, n_features: int | None
) -> dict[str, Any]:
    """Return the fitted attributes of an estimator from a file of LIBSVM, which must be of a type.

    The file does not say how a solver came to the model, so the objective and the gap are NaN.
    """
    file = read_libsvm_model(path)
    if file.svm_type != svm_type:
        raise ModelFileError(
            f"{os.fspath(path)}: the file holds a model of type {file.svm_type}; read it with "
            f"{LIBSVM_ESTIMATORS[file.svm_type]}.from_libsvm"
        )
    attributes = _read_classes(file) if svm_type == "c_svc" else _read_function(file)
    kernel, vectors = attributes["kernel_"], attributes["support_vectors_"]
    given = isinstance(kernel, Precomputed)
    least = int(attributes["support_"].max(initial=0)) + 1 if given else vectors.shape[1]
    width = max(least, 1) if n_features is None else n_features
    check_integer("n_features", width, low=max(least, 1))
    if not given:
        vectors.resize(vectors.shape[0], width)
    n_problems = len(attributes["intercept_"])
    unknown = np.nan if n_problems == 1 else np.full(n_problems, np.nan)
    return attributes | {
        "n_features_in_": width,
        "objective_": unknown,
        "duality_gap_": unknown,
        "n_iter_": 0 if svm_type != "c_svc" else np.zeros(n_problems, np.int64),
        "stop_reason_": "unknown",
    }


def _read_function(file: LibsvmModel) -> dict[str, Any]:
    """Return the kernel expansion of a model without classes."""
    return _read_vectors(file, np.arange(file.vectors.shape[0])) | {
        "_dual_coef_": file.coef,
        "intercept_": -file.rho,
        "n_support_": np.array([file.vectors.shape[0]], np.int32),
    }


def _read_classes(file: LibsvmModel) -> dict[str, Any]:
    """Return the kernel expansions of a classifier, with sorted classes."""
    order = np.argsort(file.labels)
    k = len(order)
    owner = np.repeat(np.arange(k), file.n_support)
    by_class = np.concatenate([np.flatnonzero(owner == c) for c in order])
    coef, intercept = [], []
    for a, b in class_pairs(k):
        first, second = int(order[a]), int(order[b])
        # With the classes the other way round in the file, its sign is already ours.
        sign = -1.0 if first < second else 1.0
        first, second = min(first, second), max(first, second)
        row = np.zeros(len(owner))
        row[owner == first] = file.coef[second - 1, owner == first]
        row[owner == second] = file.coef[first, owner == second]
        coef.append(sign * row[by_class])
        intercept.append(-sign * file.rho[class_pairs(k).index((first, second))])
    return _read_vectors(file, by_class) | {
        "classes_": np.array(file.labels)[order],
        "_dual_coef_": np.array(coef).reshape(len(coef), len(owner)),
        "intercept_": np.array(intercept),
        "n_support_": file.n_support[order].astype(np.int32),
    }


def _read_vectors(file: LibsvmModel, order: NDArray[np.intp]) -> dict[str, Any]:
    """Return the kernel and the support vectors in some order."""
    kernel = _make_kernel(file)
    given = isinstance(kernel, Precomputed)
    serial = np.asarray(file.vectors.toarray()).ravel() - 1 if given else np.arange(len(order))
    return {
        "kernel_": kernel,
        "support_": serial[order].astype(np.int32),
        "support_vectors_": np.empty((0, 0)) if given else file.vectors[order],
    }


def _write_kernel(kernel: Kernel) -> dict[str, Any]:
    """Return a kernel as fields of `LibsvmModel`."""
    params = kernel.params()
    return {
        "kernel": _NAMES[kernel.name],
        "degree": int(params.get("degree", 3)),
        "gamma": float(params.get("gamma", 0.0)),
        "coef0": float(params.get("coef0", 0.0)),
    }


def _make_kernel(file: LibsvmModel) -> Kernel:
    if file.kernel == "rbf":
        return RBF(file.gamma)
    if file.kernel == "polynomial":
        return Poly(file.gamma, file.degree, file.coef0)
    if file.kernel == "sigmoid":
        return Sigmoid(file.gamma, file.coef0)
    return Linear() if file.kernel == "linear" else Precomputed()


def _to_rows(
    dual_coef: NDArray[np.float64], n_support: NDArray[Any], k: int
) -> NDArray[np.float64]:
    """Return one-vs-one coefficients in LIBSVM's k - 1 rows: one per vector and other class."""
    rows = np.zeros((k - 1, dual_coef.shape[1]))
    owner = np.repeat(np.arange(k), n_support)
    for pair, (a, b) in zip(dual_coef, class_pairs(k), strict=True):
        rows[b - 1, owner == a] = pair[owner == a]
        rows[a, owner == b] = pair[owner == b]
    return rows


def _vectors(model: Any) -> Any:
    if isinstance(model.kernel_, Precomputed):
        return sparse.csr_matrix(model.support_.astype(float).reshape(-1, 1) + 1)
    return sparse.csr_matrix(model.support_vectors_)
