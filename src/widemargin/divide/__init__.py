"""DC-SVM (Hsieh, Si, Dhillon 2014), read in this order.

`partition` and `kernel_kmeans` divide the points, `levels` is Algorithm 1, `executors` solves clusters
in parallel, `probe` and `trial` decide whether levels and clusters pay, `cluster_models` and
`committee` predict from a level, `dc_svc` is the classifier, and `clusterer` is kernel k-means on its
own. `background`, `overlap` and `trial` are beyond the paper.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["PAPER", "KernelKMeans"]

#: Parameters of `DCSVC` with which it is the algorithm of the paper: ``DCSVC(**PAPER, ...)``.
PAPER: dict[str, Any] = {
    "partition": "kmeans",
    "skip_levels": False,
    "background": 0,
    "overlap": 0.0,
    "n_nearest": 1,
}

if TYPE_CHECKING:
    from widemargin.divide.clusterer import KernelKMeans


def __getattr__(name: str) -> Any:
    if name == "KernelKMeans":
        from widemargin.divide.clusterer import KernelKMeans

        return KernelKMeans
    raise AttributeError(f"module 'widemargin.divide' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
