"""The part of the file of a `KernelSVCCV` whose clusters have parameters of their own."""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from widemargin.arguments import is_finite_number
from widemargin.divide.local_classifiers import LocalClassifiers
from widemargin.divide.local_search import ClusterChoice, Division
from widemargin.exact.kernel_svc import KernelSVC
from widemargin.files.container import require
from widemargin.files.divide_schema import read_partition, write_partition
from widemargin.files.estimator_schema import State
from widemargin.files.fields import Context
from widemargin.files.header_values import read_kernel, write_kernel
from widemargin.files.kernel_schema import read_exact, write_exact
from widemargin.kernels import Precomputed


def write_local(model: LocalClassifiers) -> State:
    """Return the header values and arrays of the classifiers of all clusters."""
    division = model.division
    arrays = write_partition(division.partition, division.samples)
    metas = []
    for number, classifier in enumerate(model.models):
        meta, own = write_exact(classifier)
        metas.append(meta)
        arrays |= {f"{_prefix(number)}{name}": array for name, array in own.items()}
    return {"kernel": write_kernel(division.kernel), "models": metas}, arrays


def read_local(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> LocalClassifiers:
    """Return the classifiers of all clusters, refusing those that do not fit together."""
    metas: Any = meta.get("models")
    fits = isinstance(metas, list) and metas and all(isinstance(each, dict) for each in metas)
    require(bool(fits), "the classifiers of its clusters are wrong")
    models: list[Any] = []
    for number, each in enumerate(metas):
        prefix = _prefix(number)
        own = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        models.append(read_exact(KernelSVC, each, own))
    require(all(_is_alike(each, models[0]) for each in models), "its classifiers are not alike")
    kernel = read_kernel(meta.get("kernel"))
    require(not isinstance(kernel, Precomputed), "its clusters cannot be found")
    context = Context({"n_features": models[0].n_features_in_}, kernel)
    partition, samples = read_partition(arrays, context)
    require(partition.n_clusters == len(models), "its clusters do not match its partition")
    return LocalClassifiers(Division(kernel, samples, partition), models)


def _prefix(number: int) -> str:
    """What the names of the arrays of a cluster begin with."""
    return f"cluster{number}_"


def _is_alike(model: KernelSVC, other: KernelSVC) -> bool:
    """Whether two classifiers have the same features, classes and binary problems."""
    return (
        model.n_features_in_ == other.n_features_in_
        and np.array_equal(model.classes_, other.classes_)
        and model._one_vs_one == other._one_vs_one
        and model.multi_class == other.multi_class
        and not isinstance(model.kernel_, Precomputed)
    )


def write_choice(choice: ClusterChoice) -> dict[str, Any]:
    """Return the choice of a cluster as JSON values, which have no NaN."""
    values = asdict(choice)
    return {n: None if isinstance(v, float) and math.isnan(v) else v for n, v in values.items()}


def read_choices(values: Any) -> list[ClusterChoice]:
    """Return the choices of all clusters."""
    require(isinstance(values, list), "the choices of its clusters are wrong")
    return [_read_choice(value) for value in values]


def _read_choice(value: Any) -> ClusterChoice:
    fits = isinstance(value, dict) and set(value) == {each.name for each in fields(ClusterChoice)}
    fits = fits and all(number is None or is_finite_number(number) for number in value.values())
    fits = fits and type(value["n_rows"]) is int and value["n_rows"] >= 0 and value["C"] is not None
    require(fits, "the choice of a cluster is wrong")
    unknown = {name: math.nan for name in ("score", "common_score") if value[name] is None}
    return ClusterChoice(**value | unknown)


def check_choices(choices: list[ClusterChoice], model: Any) -> None:
    """Refuse choices that are not those of the classifiers of a search."""
    is_local = isinstance(model, LocalClassifiers)
    require(
        any(choice.is_own for choice in choices) == is_local, "its clusters have no classifiers"
    )
    if is_local:
        chosen = [(choice.C, choice.gamma) for choice in choices]
        fitted = [
            (each.C, None if gamma is None else each.gamma)
            for each, (_, gamma) in zip(model.models, chosen, strict=False)
        ]
        require(
            len(choices) == len(model.models) and chosen == fitted,
            "the choices of its clusters are not those of their classifiers",
        )
