"""Limits on time, iterations and memory: kept, within stated slack, with a model of some use."""

import gc
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone

import widemargin
from tests.fuzz.cases import CLASSIFIERS, answers, is_regressor, refusable, require

#: A fit may take max_time * (1 + share) + seconds of processor time, as the library promises.
TIME_SHARE, TIME_SECONDS = 0.1, 0.5
#: A fit may hold memory * (1 + share) + bytes beside the data; the library promises 20 MB.
MEMORY_SHARE, MEMORY_BYTES = 0.2, 30_000_000
#: How much less accurate than the most frequent class a model may be on its training data.
ACCURACY_SLACK = 0.01
#: How much worse than the mean of all rows a regression may be on those that are scored.
R2_SLACK = 0.02
WITH_MEMORY = ("KernelSVC", "DCSVC", "ProjectedSVC", "KernelSVR", "DCSVR", "KernelOneClassSVM")
LIMITED = (*CLASSIFIERS, "KernelSVR", "DCSVR", "KernelOneClassSVM")
STATUS = Path("/proc/self/status")


def run(case):
    """One limit on one estimator."""
    limit = case.choose("max_time", "max_iter", "memory")
    case.note("limit", limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LIMITS[limit](case)


def _draw(case, names, n_rows):
    """An estimator and data on which it takes long."""
    name = case.choose(*names)
    rng, d = case.rng, case.choose(5, 20, 50)
    X = rng.random((n_rows, d))
    y = (np.sin(6 * X[:, 0]) + 2 * X[:, 1] * X[:, 2] + rng.normal(size=n_rows) > 1).astype(int)
    params = {"C": case.power(-1, 3), "random_state": 0}
    if name == "KernelOneClassSVM":
        params = {"nu": case.power(-2, 0)}
    if name in ("DCSVC", "DCSVR") and case.happens(0.5):
        params["stop_level"] = 2
    if name in WITH_MEMORY:
        # Half of what is free, the default, may be more than a worker is allowed.
        params["memory"] = "1 GB"
    case.note("estimator", f"{name}({params}) on {X.shape}")
    return getattr(widemargin, name)(**params), X, y


def _limit_time(case):
    model, X, y = _draw(case, LIMITED, int(case.power(3.5, 5)))
    seconds = case.power(-1, 0.5)
    case.note("limit", f"max_time={seconds:.3f}")
    model.set_params(max_time=seconds)
    allowed = seconds * (1 + TIME_SHARE) + TIME_SECONDS
    # The first fit may have to compile, or was disturbed; only one that is late again counts.
    taken = _time_fit(model, X, y)
    if taken > allowed:
        taken = min(taken, _time_fit(model, X, y))
    require(taken <= allowed, "max_time", f"{taken:.2f} s > {allowed:.2f} s")
    rows = slice(0, 5000)
    require(np.isfinite(answers(model, X[rows])).all(), "finite", "a decision is not finite")
    if isinstance(model, widemargin.KernelOneClassSVM):
        return "right"
    # If some rows leave a doubt, all decide: a model that ran out of time knows a sample of them.
    slack = R2_SLACK if is_regressor(model) else ACCURACY_SLACK
    if _loses(model, X[rows], y[rows]) > slack:
        lost = _loses(model, X, y)
        require(lost <= slack, "score", f"{lost:.3f} below that of a constant")
    return "right"


def _loses(model, X, y):
    """How much a constant, the most frequent class or the mean, scores more on some rows."""
    constant = 0.0 if is_regressor(model) else max(y.mean(), 1 - y.mean())
    return constant - float(model.score(X, y))


def _time_fit(model, X, y):
    """Seconds of a fit; those of other work on the machine do not count."""
    began, spent = time.perf_counter(), time.process_time()
    refusable(model.fit, X, y)
    return min(time.perf_counter() - began, time.process_time() - spent)


def _limit_iterations(case):
    model, X, y = _draw(case, LIMITED, int(case.power(1, 3.5)))
    most = int(case.power(0, 3))
    case.note("limit", f"max_iter={most}")
    refusable(model.set_params(max_iter=most).fit, X, y)
    made, allowed = int(np.max(model.n_iter_)), allow_iterations(model)
    require(made <= allowed, "max_iter", f"{made} iterations, {allowed} allowed")
    require(np.isfinite(answers(model, X)).all(), "finite", "a decision is not finite")
    return "right"


def allow_iterations(model):
    """Return the largest ``n_iter_`` that the documented meaning of ``max_iter`` allows."""
    if isinstance(model, widemargin.ProjectedSVC):
        # n_iter_ counts the vectors that were added to the basis, max_iter the exchanges only.
        return model.n_basis + model.max_iter
    # In divide and conquer the limit holds in each cluster, and for the sample of the background, and
    # n_iter_ is the sum over all of them.
    levels = getattr(model, "levels_", ())
    has_background = getattr(getattr(model, "_parts", None), "background", None) is not None
    n_problems = sum(level.n_clusters for level in levels) + has_background
    return model.max_iter * max(n_problems, 1)


def _limit_memory(case):
    if not STATUS.exists():
        return "skipped"
    model, X, y = _draw(case, WITH_MEMORY, int(case.power(4, 4.7)))
    amount = int(case.power(7, 8.5))
    case.note("limit", f"memory={amount:,}")
    model.set_params(memory=amount, max_time=3.0)
    allowed = amount * (1 + MEMORY_SHARE) + MEMORY_BYTES
    # Compiling takes memory too.
    used = _measure_fit(clone(model), X, y)
    if used > allowed:
        used = min(used, _measure_fit(clone(model), X, y))
    text = f"{used / 1e6:.0f} MB beside the data, {allowed / 1e6:.0f} MB allowed"
    require(used <= allowed, "memory", text)
    return "right"


def _measure_fit(model, X, y):
    """Bytes by which the memory of this process grows at most during a fit."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _read_status("VmRSS")
    refusable(model.fit, X, y)
    return _read_status("VmHWM") - before


def _read_status(name):
    line = next(x for x in STATUS.read_text().splitlines() if x.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])


LIMITS = {"max_time": _limit_time, "max_iter": _limit_iterations, "memory": _limit_memory}
