"""Random training data and random estimators."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import make_moons

import widemargin
from tests.fuzz.cases import CLASSIFIERS, ESTIMATORS, is_regressor
from tests.reference import kernels as reference

HISTOGRAM_KERNELS = (
    "chi2", "exp_chi2", "intersection", "hellinger", "jensen_shannon", "power_mean", "anova_chi2",
    "anova_intersection",
)  # fmt: skip
STANDARD_KERNELS = ("rbf", "linear", "poly", "sigmoid", "anova_rbf")
GAMMA_SHARES = [0.4, 0.15, 0.2, 0.2, 0.05]
#: How often an estimator is drawn, in the order of `ESTIMATORS`; for exports, classifiers only.
SHARES = [0.27, 0.14, 0.08, 0.06, 0.06, 0.06, 0.06, 0.09, 0.07, 0.02, 0.06, 0.03]
CLASSIFIER_SHARES = [0.4, 0.2, 0.1, 0.08, 0.08, 0.07, 0.07]


@dataclass(frozen=True)
class Data:
    """Training data: ``X`` as the estimator gets it, labels, and weights of the rows or None."""

    X: Any
    y: Any
    sample_weight: Any


def draw_data(case, *, n_rows, nonnegative=False, flawless=False):
    """Rows of a random kind, with random flaws, in a random format."""
    kind = case.choose("blobs", "moons", "noise", "binary", "counts")
    n_features = int(case.power(0, 1.5))
    n_classes = case.choose(2, 2, 2, 3, 4)
    X, labels = _draw_rows(case, kind, n_rows, n_features, min(n_classes, n_rows))
    n_flaws = 0 if flawless else case.choose(0, 1, 2, p=[0.4, 0.4, 0.2])
    flaws = [case.choose(*FLAWS) for _ in range(n_flaws)]
    for flaw in flaws:
        X, labels = FLAWS[flaw](case, X, labels)
    if nonnegative:
        X = np.abs(X)
    storage = case.choose(*STORAGES) if case.happens(0.5) else "float64"
    case.note("data", f"{kind} {X.shape} {'+'.join(flaws) or 'plain'} {storage}")
    return Data(STORAGES[storage](X), _name_labels(case, labels), _draw_weights(case, len(labels)))


def _draw_rows(case, kind, n, d, n_classes):
    rng = case.rng
    labels = rng.permutation(np.arange(n) % n_classes)
    if kind == "moons":
        X, labels = make_moons(n, noise=0.2, random_state=int(rng.integers(2**31)))
        return np.hstack([X, rng.normal(size=(n, max(d - 2, 0)))])[:, :d], labels
    if kind == "noise":
        return rng.normal(size=(n, d)), labels
    if kind == "binary":
        X = (rng.random((n, d)) < 0.3).astype(float)
    elif kind == "counts":
        X = rng.poisson(2.0, size=(n, d)).astype(float)
    else:
        return rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(n_classes, d))[labels], labels
    X[:, 0] += labels * rng.integers(0, 2, n)
    return X, labels


def _repeat_rows(case, X, labels):
    rows = case.rng.integers(len(X), size=len(X))
    rows[:2] = np.argmin(labels), np.argmax(labels)
    # Half of the time the copies of a row contradict each other.
    return X[rows], labels if case.happens(0.5) else labels[rows]


def _shift(case, X, labels):
    offsets = np.where(case.rng.random(X.shape[1]) < 0.5, case.power(2, 9), 0.0)
    return X + offsets, labels


def _plant_wild_value(case, X, labels):
    X = X.copy()
    row, column = case.rng.integers(len(X)), case.rng.integers(X.shape[1])
    X[row, column] = case.choose(-1.0, 1.0) * case.power(3, 16)
    return X, labels


def _make_constant(case, X, labels):
    constant = case.rng.random(X.shape[1]) < 0.5
    return np.where(constant, case.power(-3, 6), X), labels


FLAWS = {
    "tiny": lambda case, X, y: (X * case.power(-12, -2), y),
    "denormal": lambda case, X, y: (X * case.power(-312, -150), y),
    "large": lambda case, X, y: (X * case.power(2, 9), y),
    "extreme": lambda case, X, y: (X * case.power(20, 304), y),
    "offset": _shift,
    "repeated": _repeat_rows,
    "constant": _make_constant,
    "wild": _plant_wild_value,
    "mostly zero": lambda case, X, y: (X * (case.rng.random(X.shape) < 0.1), y),
}


def _store_integers(X):
    return np.clip(np.round(X), -(2.0**53), 2.0**53).astype(np.int64)


def _store_float32(X):
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


STORAGES = {
    "float64": lambda X: X,
    "float32": _store_float32,
    "int64": _store_integers,
    "fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "csr": sparse.csr_matrix,
    "csr float32": lambda X: sparse.csr_matrix(_store_float32(X)),
    "csc": sparse.csc_matrix,
}


def _name_labels(case, labels):
    kind = case.choose("int", "text", "float", "negative")
    if kind == "text":
        return np.array(["ab", "äö", "c", "d"])[labels]
    return {"int": labels, "float": labels.astype(float), "negative": -3 * labels}[kind]


def _draw_weights(case, n):
    kind = case.choose("none", "random", "zeros", "spread", p=[0.7, 0.15, 0.1, 0.05])
    if kind == "none":
        return None
    weights = case.rng.random(n) + 0.1
    if kind == "zeros":
        weights[case.rng.random(n) < 0.2] = 0.0
    elif kind == "spread":
        weights *= 10.0 ** case.rng.uniform(-6, 4, n)
    return weights


def draw_targets(case, data):
    """Numbers that follow the labels, in place of them; sometimes two for each row."""
    labels = np.unique(data.y, return_inverse=True)[1]
    shape = (len(labels), 2) if case.happens(0.15) else (len(labels),)
    noise = 0.3 * case.rng.normal(size=shape)
    y = (labels.reshape(-1, *[1] * (len(shape) - 1)) + noise) * case.power(-3, 3)
    return y + (case.power(0, 4) if case.happens(0.2) else 0.0)


def draw_estimator(case, *, exported=False):
    """An estimator with random parameters; KernelSVC more often than others."""
    if exported:
        name = case.choose(*CLASSIFIERS, p=CLASSIFIER_SHARES)
    else:
        name = case.choose(*ESTIMATORS, p=SHARES)
    params = {"C": case.power(-3, 4), "random_state": 0} | PARAMETERS[name](case)
    if name in ("KernelOneClassSVM", "KernelSVCCV", "KernelSVRCV"):
        del params["C"]
    if name in (*CLASSIFIERS, "KernelSVCCV") and case.happens(0.2):
        params["class_weight"] = "balanced"
    case.note("estimator", f"{name}({', '.join(f'{k}={v!r}' for k, v in params.items())})")
    return getattr(widemargin, name)(**params)


def _draw_kernel(case, *, precomputed=False):
    kernel = case.choose(*STANDARD_KERNELS, p=[0.45, 0.25, 0.17, 0.08, 0.05])
    if case.happens(0.2):
        kernel = case.choose(*HISTOGRAM_KERNELS)
    if precomputed and case.happens(0.1):
        kernel = "precomputed"
    return {
        "kernel": kernel,
        "gamma": case.choose(
            "scale", "auto", case.power(-3, 2), case.power(-1, 2), 0.0, p=GAMMA_SHARES
        ),
        "degree": case.choose(0, 1, 2, 3, 4),
        "coef0": case.choose(0.0, 0.0, 1.0, -0.5),
    }


def _draw_exact(case):
    return _draw_machine(case) | {
        "fit_intercept": case.happens(0.7),
        "multi_class": case.choose("ovo", "ovr"),
    }


def _draw_machine(case):
    """Parameters of the exact solver for any problem."""
    params = _draw_kernel(case, precomputed=True)
    params["tol"] = case.choose(1e-3, 1e-3, 1e-2, 1e-4, 1e-6)
    if case.happens(0.1):
        params["max_iter"] = int(case.power(0, 4))
    if case.happens(0.1):
        params["memory"] = case.choose("100 kB", "1 MB", "10 MB")
    return params


def _draw_divided(case):
    return _draw_exact(case) | _draw_levels(case, "early", "naive", "bcm")


def _draw_levels(case, *combinations):
    """Parameters of divide and conquer; half of the time those of the paper."""
    params = {
        "n_clusters": case.choose(2, 3, 4),
        "n_levels": case.choose(1, 2, 3),
        "sample_size": case.choose(20, 100, 1000),
        "adaptive": case.happens(0.7),
        "refine": case.happens(0.7),
        "skip_levels": case.happens(0.7),
        "partition": case.choose("merged", "merged", "kmeans"),
    }
    if case.happens(0.5):
        params["stop_level"] = case.choose(1, params["n_levels"])
        params["combine"] = case.choose(*combinations)
        params["overlap"] = case.choose(0.0, 0.2, 2.0)
        params["n_nearest"] = case.choose(1, 1, 2, 4)
        if "bcm" in combinations:
            params["background"] = case.choose(0, 0, 20, "auto")
    return params


def _draw_exact_regression(case):
    params = _draw_machine(case) | {"epsilon": case.choose(0.0, 0.1, case.power(-4, 2))}
    return params | {"fit_intercept": case.happens(0.7)}


def _draw_divided_regression(case):
    return _draw_exact_regression(case) | _draw_levels(case, "early", "naive")


def _draw_novelty(case):
    return _draw_machine(case) | {"nu": case.choose(0.5, 1.0, float(case.rng.uniform(0.001, 1.0)))}


def _draw_search(case):
    params = {
        "Cs": [case.power(-2, 3) for _ in range(case.choose(1, 2, 3))],
        "gammas": [case.power(-3, 2) for _ in range(case.choose(1, 2))],
        "cv": 2,
        "search": case.choose("grid", "halving"),
        "kernel": case.choose("rbf", "rbf", "poly", "linear", "exp_chi2", "anova_rbf"),
    }
    if params["kernel"] == "linear":
        del params["gammas"]
    return params


def _draw_classification_search(case):
    return _draw_search(case) | {
        "search": case.choose("grid", "halving", "regions"),
        "calibration": case.choose(None, "sigmoid", "isotonic", "temperature"),
        "multi_class": case.choose("ovo", "ovr"),
        "fit_intercept": case.happens(0.7),
    }


def _draw_regression_search(case):
    return _draw_search(case) | {"epsilons": [0.1, case.power(-3, 1)]}


def _draw_projected(case):
    return _draw_kernel(case) | {
        "n_basis": case.choose(1, 3, 10, 0.1, "auto"),
        "move": case.happens(0.3),
        "refine": case.happens(0.7),
        "shared_basis": case.happens(0.3),
    }


def _draw_regression(case):
    return _draw_kernel(case) | {
        "n_anchors": case.choose(1, 5, 30),
        "anchors": case.choose("kmeans", "random"),
        "loss": case.choose("hinge", "squared_hinge"),
    }


def _draw_additive(case):
    return {
        "kernel": case.choose("chi2", "intersection", "hellinger", "jensen_shannon", "power_mean"),
        "n_bins": case.choose(2, 16, 256, 1000),
        "loss": case.choose("hinge", "squared_hinge"),
        "solver": case.choose("dual", "dual", "sgd"),
        "scaling": case.choose("auto", None, "max", "range"),
        "interactions": case.choose(0, 0, 1, 5),
        "fit_intercept": case.happens(0.7),
    }


def _draw_intersection(case):
    params = {
        "n_bins": case.choose(1, 10, 100),
        "clip_quantile": case.choose(0.5, 0.975, 1.0),
        "loss": case.choose("hinge", "squared_hinge"),
        "solver": case.choose("auto", "dual", "primal"),
    }
    if params["solver"] == "auto" and params["loss"] == "hinge" and case.happens(0.5):
        params["multi_class"] = "crammer_singer"
    return params


def _draw_power_mean(case):
    return {
        "p": case.choose(-1.0, -4.0, 0.0, -np.inf),
        "n_anchors": case.choose(2, 3, 6),
        "lut": case.happens(0.4),
        "loss": case.choose("hinge", "squared_hinge"),
        "solver": case.choose("dual", "dual", "sgd"),
    }


PARAMETERS = {
    "KernelSVC": _draw_exact,
    "DCSVC": _draw_divided,
    "ProjectedSVC": _draw_projected,
    "LRSVC": _draw_regression,
    "AdditiveSVC": _draw_additive,
    "IntersectionSVC": _draw_intersection,
    "PowerMeanSVC": _draw_power_mean,
    "KernelSVR": _draw_exact_regression,
    "DCSVR": _draw_divided_regression,
    "KernelSVRCV": _draw_regression_search,
    "KernelOneClassSVM": _draw_novelty,
    "KernelSVCCV": _draw_classification_search,
}


def suit_targets(case, model, data):
    """The data with numbers for labels if the estimator is a regressor, or without any."""
    if is_regressor(model):
        return replace(data, y=draw_targets(case, data))
    return replace(data, y=None) if type(model).__name__ == "KernelOneClassSVM" else data


def needs_histograms(model):
    """Whether the estimator takes features >= 0 only."""
    additive = type(model).__name__ in ("AdditiveSVC", "IntersectionSVC", "PowerMeanSVC")
    return additive or model.kernel in HISTOGRAM_KERNELS


def kernel_rows(model, X):
    """Data as the estimator takes them: kernel values between the rows if it is precomputed."""
    if getattr(model, "kernel", None) != "precomputed":
        return X
    rows = reference.to_dense(X)
    with np.errstate(all="ignore"):
        spread = rows.std() or 1.0
        return reference.rbf(rows / spread, gamma=1.0 / rows.shape[1])
