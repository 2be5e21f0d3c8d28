"""Descriptions of fitted estimators in plain arrays, from which every export is written."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from widemargin.additive.additive_svr import AdditiveSVR
from widemargin.additive.anchor_model import RegressionModel
from widemargin.additive.classifier_base import LinearClassifier
from widemargin.additive.curves import BinEncoder, BinModel, LogEncoder, TableModel
from widemargin.additive.indicator_model import IndicatorModel
from widemargin.additive.knot_model import KnotModel
from widemargin.additive.mixins import CurvesMixin
from widemargin.additive.pair_model import PairModel
from widemargin.additive.power_mean_table import NEGLIGIBLE
from widemargin.additive.quantiser import Quantiser
from widemargin.divide.cluster_models import ClusterParts, EarlyModel
from widemargin.divide.local_classifiers import LocalClassifiers
from widemargin.divide.partition import Partition, split_by_group
from widemargin.exact.calibration import Calibration
from widemargin.exact.classifier_base import ExactKernelClassifier
from widemargin.exact.expansion import Expansion
from widemargin.exact.fold_search import FoldSearch, is_refitted
from widemargin.exact.kernel_machine import KernelMachine
from widemargin.exact.kernel_one_class import KernelOneClassSVM
from widemargin.exact.regressor_base import KernelRegressor
from widemargin.export.scaling import Scaling, describe_scalers
from widemargin.kernels import KERNELS, Kernel, Precomputed
from widemargin.kernels.base import as_dense
from widemargin.kernels.summed import Form, SummedKernel
from widemargin.projected.classifier_base import BasisClassifier

FloatArray = NDArray[np.float64]

#: Least squared norm of the mean of a group, as in kernel k-means.
MIN_SQUARED_NORM = 1e-30
#: Support vectors whose predictions show how much those of a regression vary.
SPREAD_ROWS = 500
_EXPORTED = ExactKernelClassifier | KernelMachine | CurvesMixin | LinearClassifier | BasisClassifier


@dataclass(frozen=True)
class KernelSum:
    """Functions ``f_p(x) = sum_i coef[p, i] k(vectors[i], x) + intercept[p]``.

    Attributes
    ----------
    kernel : Kernel
        A kernel that can be written down.
    vectors : ndarray of shape (n_vectors, n_features)
        Support vectors, basis vectors or anchors.
    coef : ndarray of shape (n_functions, n_vectors)
        Coefficients.
    intercept : ndarray of shape (n_functions,)
        Constants.
    """

    kernel: Kernel
    vectors: FloatArray
    coef: FloatArray
    intercept: FloatArray


@dataclass(frozen=True)
class CurveSum:
    """Functions ``f_p(x) = sum_j curves[p, offsets[j] + code_j(x_j)] + intercept[p]``.

    Attributes
    ----------
    quantiser : Quantiser
        Gives the code of a value.
    offsets : ndarray of shape (n_features + 1,)
        Where the curve of each feature begins. Codes beyond its end count as its last.
    curves : ndarray of shape (n_functions, offsets[-1])
        Values of the curves at the codes.
    intercept : ndarray of shape (n_functions,)
        Constants.
    """

    quantiser: Quantiser
    offsets: NDArray[np.int64]
    curves: FloatArray
    intercept: FloatArray


@dataclass(frozen=True)
class LogSum:
    """Functions ``f_p(x) = sum_jr coef[p, j, r] log(z_j / unit + offset)^r + intercept[p]``.

    Here ``z_j`` is ``x_j``, but no less than zero and no more than ``unit``.

    Attributes
    ----------
    unit, offset : float
        Of the logarithm.
    zero : float
        Features up to this add nothing; -inf if all add something.
    coef : ndarray of shape (n_functions, n_features, n_powers)
        Coefficients.
    intercept : ndarray of shape (n_functions,)
        Constants.
    """

    unit: float
    offset: float
    zero: float
    coef: FloatArray
    intercept: FloatArray


@dataclass(frozen=True)
class Fork:
    """One choice between groups on the way to a cluster.

    The value of a group is the mean kernel between a query and its samples, less half of
    ``squared_norms`` or, with ``on_sphere``, divided by their root. The largest wins.

    Attributes
    ----------
    samples : ndarray of shape (m,)
        Rows of the sampled points.
    bounds : ndarray of shape (n_groups + 1,)
        Group g has ``samples[bounds[g]:bounds[g + 1]]``.
    squared_norms : ndarray of shape (n_groups,)
        Of the mean of each group.
    on_sphere : bool
        Which of the two rules holds.
    targets : list of int
        Where each group leads: the number of a cluster, or ``-1 - n`` for fork n.
    """

    samples: NDArray[np.intp]
    bounds: NDArray[np.intp]
    squared_norms: FloatArray
    on_sphere: bool
    targets: list[int]

    @property
    def norms(self) -> FloatArray:
        """Norms of the means, bounded away from zero as in kernel k-means."""
        return np.sqrt(np.maximum(self.squared_norms, MIN_SQUARED_NORM))


@dataclass(frozen=True)
class ClusterSum:
    """Functions of the cluster a query belongs to, or of several, and of a background.

    Attributes
    ----------
    samples : ndarray of shape (n_samples, n_features)
        The sampled points of all forks.
    forks : list of Fork
        The way to the cluster begins at the first.
    clusters : list of KernelSum
        The functions of each cluster.
    n_nearest : int
        Number of nearest clusters whose functions are added up with weights (`weigh_clusters`). If it
        is larger than one, there is one fork, its groups in the order of their clusters, and the value
        of a cluster is the largest of its groups.
    background : KernelSum or None
        Functions that are added to those of the clusters.
    """

    samples: FloatArray
    forks: list[Fork]
    clusters: list[KernelSum]
    n_nearest: int = 1
    background: KernelSum | None = None

    @property
    def sums(self) -> list[KernelSum]:
        """The functions of all clusters, and behind them those of the background."""
        return self.clusters + ([] if self.background is None else [self.background])

    @property
    def is_plain(self) -> bool:
        """Whether one cluster decides alone, as in DC-SVM Eq. 11."""
        return self.n_nearest == 1 and self.background is None


@dataclass(frozen=True)
class Margin:
    """A difference between decision values that matters, and what it is."""

    size: float
    text: str


CLASS_MARGIN = Margin(1.0, "the margin of a class")


@dataclass(frozen=True)
class Description:
    """A classifier, a regression or a one-class model.

    Attributes
    ----------
    functions : KernelSum, CurveSum, LogSum or ClusterSum
        The decision functions.
    rule : {"sign", "argmax", "vote", "target", "targets"}
        How decision values become a prediction. "sign" is the class ``classes[f >= threshold]`` of a
        single function. "argmax" is the class of the largest. "vote" is one vote for each pair of
        classes (a, b), a < b in lexicographic order: b if f >= 0, else a; the first class with most
        votes wins. "target" and "targets" are the decision values themselves, as a vector or as a
        matrix.
    classes : ndarray of shape (n_classes,)
        The labels; empty for a regression.
    n_features : int
        Features of a query.
    feature_names : list of str or None
        Their names, if the training data had any.
    scaling : list of Scaling
        Scalings of the features, in the order in which they are applied.
    name : str
        Name of the estimator.
    threshold : float
        Least decision value of the second class by the rule "sign".
    margin : Margin
        Difference between decision values that matters, with which errors are compared.
    calibration : Calibration or None
        How decision values become probabilities, if they do.
    """

    functions: KernelSum | CurveSum | LogSum | ClusterSum
    rule: str
    classes: NDArray[Any]
    n_features: int
    feature_names: list[str] | None
    scaling: list[Scaling]
    name: str
    threshold: float = 0.0
    margin: Margin = CLASS_MARGIN
    calibration: Calibration | None = None

    @property
    def has_classes(self) -> bool:
        """Whether predictions are classes."""
        return len(self.classes) > 0

    @property
    def n_functions(self) -> int:
        """Number of decision functions."""
        first = self.functions
        if isinstance(first, ClusterSum):
            first = first.clusters[0]
        return len(first.intercept)


def known(kernel: Kernel) -> SummedKernel:
    """Return the kernel as a `SummedKernel`, which all kernels in a description but ANOVA are."""
    assert isinstance(kernel, SummedKernel)
    return kernel


def is_linear(kernel: Kernel) -> bool:
    """Return whether the sum of kernels at several vectors is one scalar product."""
    return isinstance(kernel, SummedKernel) and kernel.form == Form()


def describe(model: Any) -> Description:
    """Return the description of a fitted estimator, or of a pipeline of scalers that ends in one."""
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps]
        inner = describe(steps[-1])
        scaling = [s for step in steps[:-1] for s in describe_scalers(step)] + inner.scaling
        names = getattr(model, "feature_names_in_", None)
        names = inner.feature_names if names is None else [str(name) for name in names]
        return replace(inner, feature_names=names, scaling=scaling)
    if isinstance(model, FoldSearch):
        return _describe_search(model)
    if not isinstance(model, _EXPORTED):
        raise TypeError(
            f"model: a {type(model).__name__} cannot be exported; give a fitted estimator of "
            "widemargin, or a pipeline of StandardScaler, MinMaxScaler or MaxAbsScaler and one"
        )
    check_is_fitted(model)
    names = getattr(model, "feature_names_in_", None)
    functions = _describe_functions(model._model)
    return Description(
        functions=functions,
        **_describe_rule(model, functions),
        n_features=model.n_features_in_,
        feature_names=None if names is None else [str(name) for name in names],
        scaling=_describe_origin(model),
        name=type(model).__name__,
    )


def _describe_search(model: FoldSearch) -> Description:
    """Return the description of the final model of a search, with its probabilities."""
    is_refitted(model)
    check_is_fitted(model)
    if isinstance(model.best_estimator_, LocalClassifiers):
        raise ValueError(
            "model: clusters with a C and gamma of their own cannot be exported; fit KernelSVCCV with "
            "n_clusters=None"
        )
    calibration = getattr(model, "calibration_", None)
    found = describe(model.best_estimator_)
    return replace(found, name=type(model).__name__, calibration=calibration)


def _describe_rule(model: Any, functions: Any) -> dict[str, Any]:
    """Return how the decision values of a model become predictions."""
    if isinstance(model, KernelOneClassSVM):
        margin = Margin(abs(model.offset_), "the offset")
        classes = np.array([-1, 1])
        return {
            "rule": "sign", "classes": classes, "threshold": model._threshold, "margin": margin
        }  # fmt: skip
    if isinstance(model, KernelRegressor):
        margin = Margin(_measure_spread(model._model), "the standard deviation of predictions")
        rule = "target" if model._is_single else "targets"
        return {"rule": rule, "classes": np.zeros(0, int), "margin": margin}
    if isinstance(model, AdditiveSVR):
        margin = Margin(_measure_curves(functions), "the standard deviation of predictions at bins")
        return {"rule": "target", "classes": np.zeros(0, int), "margin": margin}
    one_vs_one = getattr(model, "_one_vs_one", False) and len(model.classes_) > 2
    rule = "vote" if one_vs_one else "sign" if len(model.classes_) == 2 else "argmax"
    return {"rule": rule, "classes": model.classes_}


def _measure_spread(model: Expansion) -> float:
    """Return the largest standard deviation of the targets predicted for some support vectors."""
    if model.vectors is None or model.vectors.shape[0] == 0:
        return 0.0
    return float(model.decide(model.vectors[:SPREAD_ROWS], n_jobs=1).std(axis=0).max())


def _measure_curves(functions: CurveSum) -> float:
    """Return the standard deviation of a sum of curves if every bin of a feature is as frequent."""
    curves = np.split(functions.curves[0], functions.offsets[1:-1])
    return float(np.sqrt(sum(float(np.var(curve)) for curve in curves)))


def _describe_origin(model: Any) -> list[Scaling]:
    """Return the shift of features that an additive model of signed columns applies."""
    origin = getattr(model, "origin_", np.zeros(0))
    if not origin.any():
        return []
    ones, zeros = np.ones(len(origin)), np.zeros(len(origin))
    return [Scaling(origin, ones, ones, zeros, 0.0, np.inf)]


def _describe_functions(model: Any) -> KernelSum | CurveSum | LogSum | ClusterSum:
    if isinstance(model, Expansion):
        return _describe_sum(model.kernel, model.vectors, model.coef, model.intercept)
    if isinstance(model, RegressionModel) and model.explanatory is None:
        zeros = np.zeros(len(model.coef))
        return _describe_sum(model.kernel, model.anchors, model.coef, zeros)
    if isinstance(model, EarlyModel):
        return _describe_clusters(model.parts, model.n_nearest)
    if isinstance(model, KnotModel):
        model = model.to_bins()
    if isinstance(model, BinModel):
        curves = np.asarray(model.curves, np.float64)
        return CurveSum(model.quantiser, model.offsets, curves, model.intercept)
    if isinstance(model, TableModel) and isinstance(model.encoder, BinEncoder):
        quantiser = model.encoder.quantiser
        # Curves end at the largest code in training.
        sizes = quantiser.last_codes() + 1
        curves = model.coef @ model.encoder.table.T
        flat = np.hstack([curves[:, j, :size] for j, size in enumerate(sizes)])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return CurveSum(quantiser, offsets, flat, model.intercept)
    if isinstance(model, TableModel) and isinstance(model.encoder, LogEncoder):
        log = model.encoder
        zero = NEGLIGIBLE * log.unit if log.skips_zero else -np.inf
        return LogSum(log.unit, log.offset, zero, model.coef, model.intercept)
    if isinstance(model, IndicatorModel):
        raise ValueError(
            "model: missing values and categories cannot be exported; fill them before AdditiveSVC, "
            'with missing="error"'
        )
    if isinstance(model, PairModel):
        raise ValueError(
            "model: surfaces of pairs of features cannot be exported; fit AdditiveSVC with "
            "interactions=0, or KernelSVC with an ANOVA kernel"
        )
    raise ValueError(
        f"model: its predictor, {type(model).__name__}, cannot be exported; of DCSVC give one with "
        'combine="early" or "naive", of LRSVC one without explanatory function'
    )


def _describe_sum(kernel: Kernel, vectors: Any, coef: FloatArray, intercept: FloatArray) -> Any:
    _require_named(kernel)
    return KernelSum(kernel, as_dense(vectors), coef, intercept)


def _require_named(kernel: Kernel) -> None:
    if KERNELS.get(kernel.name) is not type(kernel) or isinstance(kernel, Precomputed):
        raise ValueError(
            f"model: its kernel is a {type(kernel).__name__}, which cannot be written down; fit one "
            "of the named kernels"
        )


def _describe_clusters(parts: ClusterParts, n_nearest: int) -> ClusterSum:
    # A model of a precomputed kernel has no support vectors to select from.
    _require_named(parts.kernel)
    members = split_by_group(parts.clusters, len(parts.intercept))
    clusters = [
        _describe_sum(parts.kernel, parts.vectors[rows], parts.coef[:, rows], parts.intercept[c])
        for c, rows in enumerate(members)
    ]
    forks: list[Fork] = []
    assert parts.partition is not None
    if n_nearest == 1:
        _add_fork(forks, parts.partition, 0)
    else:
        forks.append(_join_groups(parts.partition))
    background = None
    if parts.background is not None:
        under = parts.background
        background = _describe_sum(under.kernel, under.vectors, under.coef, under.intercept)
    return ClusterSum(as_dense(parts.samples), forks, clusters, n_nearest, background)


def _join_groups(partition: Partition) -> Fork:
    """Return one fork with the groups of all clusters, in the order of the clusters."""
    flat, clusters = partition.list_groups()
    order = np.argsort(clusters, kind="stable")
    pieces = [flat.sample[flat.bounds[g] : flat.bounds[g + 1]] for g in order]
    bounds = np.cumsum([0, *map(len, pieces)])
    return Fork(
        np.concatenate(pieces), bounds, flat.squared_norms[order], flat.on_sphere,
        clusters[order].tolist(),
    )  # fmt: skip


def _add_fork(forks: list[Fork], partition: Partition, first_cluster: int) -> int:
    """Append a fork and its inner forks; return the number of clusters so far."""
    targets: list[int] = []
    forks.append(
        Fork(
            partition.sample,
            partition.bounds,
            partition.squared_norms,
            partition.on_sphere,
            targets,
        )
    )
    behind = []
    for part in range(partition.n_parts):
        child = partition.children.get(part)
        if child is None:
            behind.append(first_cluster)
            first_cluster += 1
        else:
            behind.append(-1 - len(forks))
            first_cluster = _add_fork(forks, child, first_cluster)
    targets.extend(behind[part] for part in partition.part_of)
    return first_cluster
