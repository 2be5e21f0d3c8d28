"""Classifiers for data that lie on a Dask cluster, read in this order.

`tasks` runs functions on the workers. `collections` cuts Dask collections into pieces, `blocks` checks
and describes these where they lie, and `training_data` does so for all. `division` finds the clusters
of DC-SVM, `shuffle` moves rows to the worker that solves their cluster, and `levels` is DC-SVM
Algorithm 1 on these. `rounds` reaches the optimum by parallel block minimisation, and `dask_dc_svc` is
the classifier. `additive_tasks` and `additive_rounds` do the same for codes, and `dask_additive_svc`
and `dask_intersection_svc` are the classifiers with an additive kernel.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "DaskAdditiveSVC": "widemargin.distributed.dask_additive_svc",
    "DaskDCSVC": "widemargin.distributed.dask_dc_svc",
    "DaskIntersectionSVC": "widemargin.distributed.dask_intersection_svc",
}

__all__ = ["DaskAdditiveSVC", "DaskDCSVC", "DaskIntersectionSVC"]

if TYPE_CHECKING:
    from widemargin.distributed.dask_additive_svc import DaskAdditiveSVC
    from widemargin.distributed.dask_dc_svc import DaskDCSVC
    from widemargin.distributed.dask_intersection_svc import DaskIntersectionSVC


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'widemargin.distributed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
