"""What a fitted `DCSVC` has beyond a `KernelSVC`, as plain values and arrays, and back."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from widemargin.divide.cluster_models import ClusterParts, Committee
from widemargin.divide.dc_svc import DCSVC
from widemargin.divide.partition import Partition
from widemargin.divide.records import LevelRecord
from widemargin.files.container import pack_csr, require, require_finite, unpack_csr
from widemargin.files.kernel_schema import require_vectors
from widemargin.kernels import Precomputed
from widemargin.validation import is_finite_number

_COMMITTEE = ("slope", "prior")
#: Levels of a nested partition that a file may have; fits make far fewer.
_MAX_DEPTH = 50


def export_clusters(model: DCSVC) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The clusters of the model's level; other levels that were kept are not exported."""
    parts = model._parts
    meta = {"levels": [asdict(record) for record in model.levels_], "level": model.level_}
    arrays: dict[str, NDArray[Any]] = {
        "support_clusters": model.support_clusters_,
        "cluster_intercepts": model.cluster_intercepts_,
    }
    if parts.partition is not None:
        arrays |= _flatten(parts.partition)
    if sparse.issparse(parts.samples):
        arrays |= pack_csr("samples", parts.samples)
    elif parts.samples is not None:
        arrays["samples"] = parts.samples
    if parts.committee is not None:
        arrays |= {f"committee_{name}": getattr(parts.committee, name) for name in _COMMITTEE}
    return meta, arrays


def import_clusters(model: DCSVC, meta: dict[str, Any], arrays: Mapping[str, Any]) -> None:
    """Give a model, whose attributes of a `KernelSVC` are set, its clusters back."""
    require(isinstance(meta.get("levels"), list) and meta["levels"], "its levels are wrong")
    model.levels_ = [_read_record(record) for record in meta["levels"]]
    model.level_ = model.levels_[-1].level
    require(meta.get("level") == model.level_ >= 0, "its level is wrong")
    n_problems, n_vectors = model.dual_coef_.shape
    clusters = _get(arrays, "support_clusters", np.int32, (n_vectors,))
    intercepts: Any = arrays.get("cluster_intercepts")
    require(intercepts is not None and intercepts.ndim == 2, "its clusters are wrong")
    n_clusters = len(intercepts)
    _get(arrays, "cluster_intercepts", np.float64, (n_clusters, n_problems))
    inside = (clusters >= 0).all() and (clusters < n_clusters).all()
    require(n_clusters > 0 and inside, "its clusters are wrong")
    partition: Partition | None = None
    samples: Any = None
    given = isinstance(model.kernel_, Precomputed)
    if model.level_ > 0:
        if not given:
            packed = "samples_data" in arrays
            samples = unpack_csr("samples", arrays) if packed else arrays.get("samples")
            good = samples is not None and samples.ndim == 2
            require(good and samples.shape[1] == model.n_features_in_, "its samples are wrong")
            require(samples.dtype.kind == "f", "its samples are wrong")
            require_vectors("samples", samples, model.kernel_)
        n_samples = model.n_features_in_ if given else samples.shape[0]
        partition = _restore(arrays, n_samples)
        require(partition.n_clusters == n_clusters, "its clusters do not match its partition")
    else:
        require(n_clusters == 1, "the whole problem has one cluster")
    model.support_clusters_, model.cluster_intercepts_ = clusters, intercepts
    model._stages = None
    model._parts = ClusterParts(
        kernel=model.kernel_,
        vectors=None if given else model.support_vectors_,
        columns=model.support_.astype(np.intp),
        clusters=clusters,
        coef=model.dual_coef_,
        intercept=intercepts,
        mean_intercept=model.intercept_,
        partition=partition,
        samples=samples,
        committee=_read_committee(model, arrays, n_clusters, n_problems),
    )


def _read_record(record: Any) -> LevelRecord:
    names = {field.name for field in fields(LevelRecord)}
    # Files of earlier versions do not say whether a level is complete.
    good = isinstance(record, dict) and set(record) | {"is_complete"} == names
    require(good and type(record.get("is_complete", True)) is bool, "a level is wrong")
    numbers = [value for name, value in record.items() if name != "is_complete"]
    require(all(map(is_finite_number, numbers)), "a level is wrong")
    return LevelRecord(**record)


def _read_committee(
    model: DCSVC, arrays: Mapping[str, Any], n_clusters: int, n_problems: int
) -> Committee | None:
    if model.combine != "bcm" or model.level_ == 0:
        return None
    shapes = [(n_clusters, n_problems), (n_problems,)]
    return Committee(
        *(
            _get(arrays, f"committee_{name}", np.float64, shape)
            for name, shape in zip(_COMMITTEE, shapes, strict=True)
        )
    )


def _get(arrays: Mapping[str, Any], name: str, dtype: type, shape: tuple[int, ...]) -> NDArray[Any]:
    array: Any = arrays.get(name)
    good = array is not None and array.dtype == dtype and array.shape == shape
    require(good, f"array {name!r} is wrong")
    require_finite(name, array)
    return array


def _flatten(partition: Partition) -> dict[str, NDArray[Any]]:
    """Nested partitions one after another; ``child`` gives the number of each part's, or -1."""
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
    return {
        "partition_sizes": np.concatenate([np.diff(node.bounds) for node in nodes]).astype(
            np.int64
        ),
        "partition_on_sphere": np.array([partition.on_sphere]),
        "partition_groups": np.array([len(node.squared_norms) for node in nodes], np.int64),
        "partition_sample": np.concatenate([node.sample for node in nodes]).astype(np.int64),
        "partition_squared_norms": np.concatenate([node.squared_norms for node in nodes]),
        "partition_part": np.concatenate([node.part_of for node in nodes]).astype(np.int64),
        "partition_child": np.concatenate(children).astype(np.int64),
    }


def _restore(arrays: Mapping[str, Any], n_samples: int) -> Partition:
    groups: Any = arrays.get("partition_groups")
    require(groups is not None and groups.ndim == 1 and len(groups), "its partition is missing")
    _get(arrays, "partition_groups", np.int64, groups.shape)
    require((groups > 0).all() and groups.max() <= 2**31, "its partition is wrong")
    total = (int(groups.sum()),)
    sizes = _get(arrays, "partition_sizes", np.int64, total)
    squared_norms = _get(arrays, "partition_squared_norms", np.float64, total)
    part_of = _get(arrays, "partition_part", np.int64, total)
    require((sizes > 0).all() and (sizes <= n_samples).all(), "its partition is wrong")
    sample = _get(arrays, "partition_sample", np.int64, (int(sizes.sum()),))
    require((sample >= 0).all() and (sample < n_samples).all(), "its partition is wrong")
    on_sphere = bool(_get(arrays, "partition_on_sphere", np.bool_, (1,))[0])
    ends = np.cumsum(groups)
    parts = np.array(
        [_count_parts(part_of[end - n : end]) for n, end in zip(groups, ends, strict=True)]
    )
    child_ends = np.cumsum(parts)
    child = _get(arrays, "partition_child", np.int64, (int(parts.sum()),))
    sample_ends = np.cumsum(np.add.reduceat(sizes, ends - groups))

    def build(number: int, depth: int) -> Partition:
        require(depth < _MAX_DEPTH, "its partition is too deep")
        mine = slice(ends[number] - groups[number], ends[number])
        bounds = np.concatenate([[0], np.cumsum(sizes[mine])]).astype(np.intp)
        below = child[child_ends[number] - parts[number] : child_ends[number]]
        # Numbers grow with depth, so a damaged file cannot send us in circles.
        valid = (below == -1) | ((below > number) & (below < len(groups)))
        require(valid.all(), "its partition is wrong")
        return Partition(
            sample[sample_ends[number] - bounds[-1] : sample_ends[number]].astype(np.intp),
            bounds,
            squared_norms[mine],
            on_sphere,
            part_of[mine].astype(np.int32),
            {p: build(int(n), depth + 1) for p, n in enumerate(below) if n >= 0},
        )

    return build(0, 0)


def _count_parts(part_of: NDArray[Any]) -> int:
    """Number of parts that groups belong to, which are numbered without gaps."""
    numbers = np.unique(part_of)
    require(np.array_equal(numbers, np.arange(len(numbers))), "its partition is wrong")
    return len(numbers)
