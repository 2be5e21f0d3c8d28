"""Schemas of the files of `DCSVC` and `DCSVR`: an exact estimator, and the clusters of a level."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.arguments import is_finite_number
from widemargin.divide.cluster_models import ClusterParts, Committee
from widemargin.divide.dc_svc import DCSVC
from widemargin.divide.dc_svr import DCSVR
from widemargin.divide.partition import Partition
from widemargin.divide.records import LevelRecord
from widemargin.exact.expansion import Expansion
from widemargin.files.container import require
from widemargin.files.estimator_schema import State
from widemargin.files.fields import (
    FLOATS,
    Context,
    Field,
    at_least,
    below,
    in_domain,
    read_fields,
    set_attributes,
    write_fields,
)
from widemargin.files.kernel_schema import (
    read_attributes,
    read_svr_attributes,
    write_exact,
    write_svr,
)
from widemargin.kernels import Precomputed

#: Depth of a nested partition that a file may have; fits make far fewer levels.
_MAX_DEPTH = 50
#: Values of parameters that files of earlier versions do not hold.
_EARLIER_PARAMS = {
    "partition": "merged", "skip_levels": True, "background": 0, "overlap": 0.0, "n_nearest": 1
}  # fmt: skip
_FIELDS = (
    Field("cluster_intercepts", np.float64, ("n_clusters", "n_problems")),
    Field("support_clusters", np.int32, ("n_vectors",), below("n_clusters"), may_be_empty=True),
)
#: The sampled rows that kernel k-means assigns clusters by.
_SAMPLES = (
    Field("samples", FLOATS, ("n_samples", "n_features"), in_domain, "samples", may_be_sparse=True),
)
#: Points that joined other clusters than their own, if clusters overlap.
_COPIES = (
    Field("copy_clusters", np.int32, ("n_copies",), below("n_clusters"), may_be_empty=True),
    Field("copy_rows", np.int64, ("n_copies",), at_least(0), may_be_empty=True),
    Field("copy_coef", np.float64, ("n_problems", "n_copies"), may_be_empty=True),
)
_COPIED_VECTORS = (
    Field(
        "copy_vectors", FLOATS, ("n_copies", "n_features"), in_domain, may_be_sparse=True,
        may_be_empty=True,
    ),
)  # fmt: skip
#: The model that the clusters change.
_BACKGROUND = (
    Field("background_rows", np.int64, ("n_background",), at_least(0), "columns", may_be_empty=True),
    Field(
        "background_coef", np.float64, ("n_problems", "n_background"), attribute="coef",
        may_be_empty=True,
    ),
    Field("background_intercept", np.float64, ("n_problems",), attribute="intercept"),
)  # fmt: skip
_BACKGROUND_VECTORS = (
    Field(
        "background_vectors", FLOATS, ("n_background", "n_features"), in_domain, "vectors",
        may_be_sparse=True, may_be_empty=True,
    ),
)  # fmt: skip
#: The weights of the Bayesian committee machine.
_COMMITTEE = (
    Field("committee_slope", np.float64, ("n_clusters", "n_problems"), attribute="slope"),
    Field("committee_prior", np.float64, ("n_problems",), attribute="prior"),
)
#: The nodes of a nested partition one after another, each with its groups and their samples.
#: ``partition_child`` holds the number of the node that divides a part further, or -1.
_PARTITION = (
    Field("partition_groups", np.int64, ("n_nodes",), at_least(1)),
    Field("partition_sizes", np.int64, ("n_groups",), at_least(1)),
    Field("partition_squared_norms", np.float64, ("n_groups",)),
    Field("partition_part", np.int64, ("n_groups",), at_least(0)),
    Field("partition_sample", np.int64, ("n_sampled",), below("n_samples")),
    Field("partition_on_sphere", np.bool_, (1,)),
    Field("partition_child", np.int64, ("n_parts",), at_least(-1)),
)


def write_divided(model: DCSVC) -> State:
    """Return the header values and arrays of a `DCSVC`, with the clusters of its last level only."""
    return _add_levels(model, *write_exact(model))


def write_divided_svr(model: DCSVR) -> State:
    """Return the header values and arrays of a `DCSVR`, with the clusters of its last level only."""
    return _add_levels(model, *write_svr(model))


def _add_levels(model: DCSVC | DCSVR, meta: dict[str, Any], arrays: dict[str, Any]) -> State:
    meta |= {"levels": [asdict(record) for record in model.levels_], "level": model.level_}
    parts = model._parts
    arrays |= write_fields(_FIELDS, model)
    if parts.partition is not None:
        arrays |= write_partition(parts.partition, parts.samples)
    if parts.committee is not None:
        arrays |= write_fields(_COMMITTEE, parts.committee)
    is_given = isinstance(parts.kernel, Precomputed)
    if len(parts.clusters) > len(model.support_):
        copies = _take_copies(parts, len(model.support_))
        arrays |= write_fields(_COPIES if is_given else _COPIES + _COPIED_VECTORS, copies)
    if parts.background is not None:
        fields = _BACKGROUND if is_given else _BACKGROUND + _BACKGROUND_VECTORS
        arrays |= write_fields(fields, parts.background)
    return meta, arrays


def write_partition(partition: Partition, samples: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a partition; ``samples`` is None if the kernel is precomputed."""
    arrays = write_fields(_PARTITION, _flatten(partition))
    if samples is not None:
        arrays |= write_fields(_SAMPLES, SimpleNamespace(samples=samples))
    return arrays


def read_partition(arrays: Mapping[str, Any], context: Context) -> tuple[Partition, Any]:
    """Return a partition and its sampled points, which are None if the kernel is precomputed."""
    samples: Any = None
    if isinstance(context.kernel, Precomputed):
        # Samples are columns of the kernel matrix.
        context.sizes["n_samples"] = context.sizes["n_features"]
    else:
        samples = read_fields(_SAMPLES, arrays, context)["samples"]
    return _restore(arrays, context), samples


def _take_copies(parts: ClusterParts, first: int) -> SimpleNamespace:
    """Return the arrays of the points that joined other clusters, which are behind all others."""
    return SimpleNamespace(
        copy_clusters_=parts.clusters[first:],
        copy_rows_=parts.columns[first:],
        copy_coef_=parts.coef[:, first:],
        copy_vectors_=None if parts.vectors is None else parts.vectors[first:],
    )


def read_divided(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> DCSVC:
    """Return a fitted `DCSVC`, refusing arrays that do not fit together."""
    if isinstance(meta.get("params"), dict):
        meta = {**meta, "params": {**_EARLIER_PARAMS, **meta["params"]}}
    model: DCSVC = read_attributes(cls, meta, arrays)
    _read_levels(model, meta, arrays)
    return model


def read_divided_svr(cls: type, meta: dict[str, Any], arrays: Mapping[str, Any]) -> DCSVR:
    """Return a fitted `DCSVR`, refusing arrays that do not fit together."""
    model: DCSVR = read_svr_attributes(cls, meta, arrays)
    _read_levels(model, meta, arrays)
    return model


def _read_levels(model: DCSVC | DCSVR, meta: dict[str, Any], arrays: Mapping[str, Any]) -> None:
    """Set the attributes of the levels, and the predictor."""
    require(isinstance(meta.get("levels"), list) and meta["levels"], "its levels are wrong")
    model.levels_ = [_read_record(record) for record in meta["levels"]]
    model.level_ = model.levels_[-1].level
    require(meta.get("level") == model.level_ >= 0, "its level is wrong")
    n_problems, n_vectors = model._dual_coef_.shape
    sizes = {
        "n_problems": n_problems, "n_vectors": n_vectors, "n_features": model.n_features_in_
    }  # fmt: skip
    context = Context(sizes, model.kernel_)
    set_attributes(model, _FIELDS, read_fields(_FIELDS, arrays, context))
    model._stages = None
    model._parts = _read_parts(model, arrays, context)
    model.restore_model()


def _read_parts(model: DCSVC | DCSVR, arrays: Mapping[str, Any], context: Context) -> ClusterParts:
    """Return what predictions from clusters need; level 0 is a single cluster of all rows."""
    samples: Any = None
    partition: Partition | None = None
    committee: Committee | None = None
    sizes = context.sizes
    is_precomputed = isinstance(model.kernel_, Precomputed)
    if model.level_ == 0 or "partition_groups" not in arrays:
        require(sizes["n_clusters"] == 1, "it has several clusters but no partition")
    else:
        partition, samples = read_partition(arrays, context)
        fits = partition.n_clusters == sizes["n_clusters"]
        require(fits, "its clusters do not match its partition")
        if model.combine == "bcm":
            committee = Committee(*read_fields(_COMMITTEE, arrays, context).values())
    parts = ClusterParts(
        kernel=model.kernel_,
        vectors=None if is_precomputed else model.support_vectors_,
        columns=model.support_.astype(np.intp),
        clusters=model.support_clusters_,
        coef=model._dual_coef_,
        intercept=model.cluster_intercepts_,
        mean_intercept=model.intercept_,
        partition=partition,
        samples=samples,
        committee=committee,
    )
    if "background_intercept" in arrays:
        parts = replace(parts, background=_read_background(model, arrays, context))
    return _read_copies(parts, arrays, context) if "copy_clusters" in arrays else parts


def _read_background(
    model: DCSVC | DCSVR, arrays: Mapping[str, Any], context: Context
) -> Expansion:
    """Return the model that the clusters change."""
    rows, coef, intercept = read_fields(_BACKGROUND, arrays, context).values()
    vectors: Any = None
    if isinstance(model.kernel_, Precomputed):
        require((rows < model.n_features_in_).all(), "its background is beyond the kernel matrix")
    else:
        vectors = read_fields(_BACKGROUND_VECTORS, arrays, context)["background_vectors"]
    return Expansion(model.kernel_, vectors, rows.astype(np.intp), coef, intercept)


def _read_copies(parts: ClusterParts, arrays: Mapping[str, Any], context: Context) -> ClusterParts:
    """Add the points that joined other clusters than their own."""
    clusters, rows, coef = read_fields(_COPIES, arrays, context).values()
    vectors: Any = None
    if parts.vectors is None:
        inside = (rows < context.sizes["n_features"]).all()
        require(inside, "array 'copy_rows' is beyond the kernel matrix")
    else:
        vectors = read_fields(_COPIED_VECTORS, arrays, context)["copy_vectors"]
        alike = sparse.issparse(vectors) == sparse.issparse(parts.vectors)
        require(alike, "of its support vectors only some are sparse")
    return parts.join(clusters, rows.astype(np.intp), coef, vectors)


def _read_record(record: Any) -> LevelRecord:
    names = {field.name for field in fields(LevelRecord)}
    # Files of earlier versions do not say whether a level is complete.
    good = isinstance(record, dict) and set(record) | {"is_complete"} == names
    require(good and type(record.get("is_complete", True)) is bool, "a level is wrong")
    numbers = [value for name, value in record.items() if name != "is_complete"]
    require(all(map(is_finite_number, numbers)), "a level is wrong")
    return LevelRecord(**record)


def _flatten(partition: Partition) -> SimpleNamespace:
    """Return the arrays of a nested partition, its nodes numbered in depth-first order."""
    nodes: list[Partition] = []
    children: list[list[int]] = []

    def visit(node: Partition) -> int:
        number = len(nodes)
        nodes.append(node)
        children.append([])
        children[number] = [
            visit(node.children[p]) if p in node.children else -1 for p in range(node.n_parts)
        ]
        return number

    visit(partition)
    return SimpleNamespace(
        partition_groups_=[len(node.squared_norms) for node in nodes],
        partition_sizes_=np.concatenate([np.diff(node.bounds) for node in nodes]),
        partition_squared_norms_=np.concatenate([node.squared_norms for node in nodes]),
        partition_part_=np.concatenate([node.part_of for node in nodes]),
        partition_sample_=np.concatenate([node.sample for node in nodes]),
        partition_on_sphere_=[partition.on_sphere],
        partition_child_=np.concatenate(children),
    )


def _restore(arrays: Mapping[str, Any], context: Context) -> Partition:
    """Return the nested partition that `_flatten` stored, refusing parts that do not add up."""
    found = read_fields(_PARTITION, arrays, context)
    groups, sizes, squared_norms, part_of, sample, on_sphere, child = found.values()
    ends = _end_positions(groups, len(sizes))
    _end_positions(sizes, len(sample))
    parts = np.array(
        [_count_parts(part_of[end - n : end]) for n, end in zip(groups, ends, strict=True)]
    )
    child_ends = _end_positions(parts, len(child))
    sample_ends = np.cumsum(np.add.reduceat(sizes, ends - groups))

    def build(number: int, depth: int) -> Partition:
        require(depth < _MAX_DEPTH, "its partition is too deep")
        mine = slice(ends[number] - groups[number], ends[number])
        bounds = np.concatenate([[0], np.cumsum(sizes[mine])]).astype(np.intp)
        inner = child[child_ends[number] - parts[number] : child_ends[number]]
        # Numbers grow with depth, so that no file can make this function call itself for ever.
        valid = (inner == -1) | ((inner > number) & (inner < len(groups)))
        require(valid.all(), "its partition is wrong")
        return Partition(
            sample[sample_ends[number] - bounds[-1] : sample_ends[number]].astype(np.intp),
            bounds,
            squared_norms[mine],
            bool(on_sphere[0]),
            part_of[mine].astype(np.int32),
            {p: build(int(n), depth + 1) for p, n in enumerate(inner) if n >= 0},
        )

    return build(0, 0)


def _end_positions(counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """Return where each of some consecutive pieces of an array ends; they must fill the array."""
    # The first condition keeps the sum from overflowing.
    fits = (counts <= total).all() and counts.sum() == total
    require(fits, "the parts of its partition do not add up")
    return np.cumsum(counts)


def _count_parts(part_of: NDArray[Any]) -> int:
    """Return the number of parts that groups belong to; parts are numbered without gaps."""
    numbers = np.unique(part_of)
    require(np.array_equal(numbers, np.arange(len(numbers))), "its partition is wrong")
    return len(numbers)
