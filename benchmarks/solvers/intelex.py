"""oneDAL, as the SVC and SVR of scikit-learn-intelex."""

from typing import Any

from benchmarks.records import PairExpansion
from benchmarks.settings import CACHE_MEGABYTES, THREADS, TOL
from benchmarks.solvers import sklearn as libsvm

try:
    # Imported by its own name, so that scikit-learn itself stays unpatched.
    from sklearnex.svm import SVC, SVR
except ImportError as error:
    raise ImportError(
        "scikit-learn-intelex is not installed: pip install 'widemargin[bench]', or leave intelex "
        "out with --solvers"
    ) from error

WARM_UP_ROWS = (300,)
MODELS = {"exact": SVC, "regression": SVR}


def make_model(suite: str, params: dict[str, float], threads: int = THREADS) -> Any:
    return MODELS[suite](
        kernel="rbf", tol=TOL, cache_size=CACHE_MEGABYTES, n_jobs=threads, **params
    )


def extract_expansion(model: Any, y_train: Any) -> PairExpansion:
    # It hands what it does not support to scikit-learn without a word.
    if not hasattr(model, "_onedal_estimator"):
        raise RuntimeError("scikit-learn-intelex fell back to LIBSVM; this is no time of its own")
    return libsvm.extract_expansion(model, y_train)
