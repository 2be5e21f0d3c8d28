"""Translation between `KernelSVC` and LIBSVM's model files."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.files.libsvm_text import LibsvmModel
from widemargin.kernels import RBF, Kernel, Linear, Poly, Precomputed, Sigmoid
from widemargin.problem import class_pairs

#: LIBSVM's names of kernels by ours.
_NAMES = {
    "linear": "linear", "rbf": "rbf", "poly": "polynomial", "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}  # fmt: skip


def to_libsvm_model(model: Any, one_vs_one: bool) -> LibsvmModel:
    """Return a fitted `KernelSVC` as a model of LIBSVM.

    LIBSVM's function of a pair is positive for the first class, ours for the second, so every sign
    turns round.
    """
    k = len(model.classes_)
    check_libsvm(model.kernel_.name, one_vs_one, model.classes_)
    params = model.kernel_.params()
    return LibsvmModel(
        kernel=_NAMES[model.kernel_.name],
        degree=int(params.get("degree", 3)),
        gamma=float(params.get("gamma", 0.0)),
        coef0=float(params.get("coef0", 0.0)),
        labels=tuple(int(label) for label in model.classes_),
        rho=model.intercept_,
        n_support=model.n_support_.astype(np.int64),
        coef=-_to_rows(model.dual_coef_, model.n_support_, k),
        vectors=_vectors(model),
    )


def check_libsvm(kernel: str, one_vs_one: bool, classes: NDArray[Any]) -> None:
    """Raise an error for a model that LIBSVM's format cannot hold."""
    if not one_vs_one:
        raise ValueError(
            "multi_class: LIBSVM's format holds one-vs-one models only; fit with multi_class='ovo'"
        )
    if kernel not in _NAMES:
        raise ValueError(f"kernel: LIBSVM does not know {kernel!r}; it has {', '.join(_NAMES)}")
    is_integer = classes.dtype.kind in "iub" or (
        classes.dtype.kind == "f" and np.array_equal(classes, np.round(classes))
    )
    if not is_integer:
        raise ValueError(
            f"y: LIBSVM's format holds integer labels only, but the classes are {classes.tolist()}; "
            "encode them with sklearn.preprocessing.LabelEncoder before fitting"
        )


def from_libsvm_model(file: LibsvmModel) -> dict[str, Any]:
    """Return the fitted attributes of a `KernelSVC` for a model of LIBSVM, with sorted classes."""
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
    kernel = _make_kernel(file)
    given = isinstance(kernel, Precomputed)
    serial = np.asarray(file.vectors.toarray()).ravel() - 1 if given else np.arange(len(owner))
    return {
        "classes_": np.array(file.labels)[order],
        "kernel_": kernel,
        "dual_coef_": np.array(coef).reshape(len(coef), len(owner)),
        "intercept_": np.array(intercept),
        "n_support_": file.n_support[order].astype(np.int32),
        "support_": serial[by_class].astype(np.int32),
        "support_vectors_": np.empty((0, 0)) if given else file.vectors[by_class],
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
