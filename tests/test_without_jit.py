"""The compiled loops as plain Python: indices out of range raise there, and go unseen compiled.

The file is also the script that the test starts without the compiler.
"""

import os
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    AdditiveSVR,
    IntersectionSVC,
    KernelSVC,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.additive import intersection_rows
from widemargin.baselines import PWLSGDSVC, SIKMASVC, FastfoodSVC
from widemargin.exact import descent_state as box_qp
from widemargin.exact import full_matrix as whole
from widemargin.exact import pair_moves_fast as box_qp_fast
from widemargin.exact import working_matrix as working
from widemargin.kernels import base, tiles_fast

#: Tiles so small that thirty rows cross their borders; constants of compiled code cannot change.
TINY_TILES = {
    "DENSE_ROWS": 8, "DENSE_COLS": 12, "SPARSE_ROWS": 8, "SPARSE_COLS": 12, "SPARSE_COLS_WIDE": 4,
    "WIDE_FEATURES": 5, "FEW_FEATURES": 4, "VECTOR": 4,
}  # fmt: skip
TINY_BLOCKS = {"BLOCK": 7, "SQUARE": 3}
#: The same for the working matrix and the samples of the solver, in either run: the route that few
#: moves take depends on them.
TINY_SIZES = {
    working: {"MAX_SIDE": 11, "PART": 5, "STRIP": 3},
    box_qp: {"MIN_SAMPLE": 8, "MAX_SAMPLE": 8},
    whole: {"WHOLE_ROWS": 0, "SINGLE_ROWS": 0},
    base: {"SMALL_ROWS": 0},
}
#: Ways that few rows are solved otherwise.
ROUTES = {"whole": (whole, {"WHOLE_ROWS": 100}), "small": (base, {"SMALL_ROWS": 100})}

MODELS = {
    "dense": {"gamma": 0.5},
    "sparse": {"gamma": 0.5},
    "sparse narrow": {"gamma": 0.5},
    "float64 sums": {"gamma": 500.0},
    "sparse float64 sums": {"gamma": 500.0},
    "no intercept": {"gamma": 0.5, "fit_intercept": False},
    "one-vs-rest": {"gamma": 0.5, "multi_class": "ovr"},
    "little memory": {"gamma": 0.5, "memory": 6000, "multi_class": "ovr"},
    "few moves": {"gamma": 0.5, "max_iter": 3},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "coef0": 1.0},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.1},
    "chi2": {"kernel": "chi2"},
    "chi2 without intercept": {"kernel": "chi2", "fit_intercept": False},
    "exp_chi2": {"kernel": "exp_chi2"},
    "intersection": {"kernel": "intersection"},
    "hellinger": {"kernel": "hellinger"},
    "jensen_shannon": {"kernel": "jensen_shannon"},
    "power_mean": {"kernel": "power_mean"},
    "precomputed": {"kernel": "precomputed"},
}

#: With data that are dense or sparse.
LINEAR_MODELS = {
    "additive": AdditiveSVC(),
    "additive hinge": AdditiveSVC(loss="hinge", fit_intercept=False),
    "additive rank 6": AdditiveSVC(rank=6),
    "additive bins": AdditiveSVC(kernel="intersection"),
    "additive quantiles": AdditiveSVC(binning="quantile", n_bins=300),
    "stochastic": AdditiveSVC(solver="sgd", max_iter=5),
    "power mean": PowerMeanSVC(C=1.0),
    "power mean table": PowerMeanSVC(C=1.0, lut=True),
    "intersection": IntersectionSVC(),
    "intersection primal": IntersectionSVC(solver="primal"),
    "intersection at once": IntersectionSVC(multi_class="crammer_singer"),
    "regression": LRSVC(n_anchors=5),
    "basis": ProjectedSVC(n_basis=4),
    "drawn basis": ProjectedSVC(n_basis=4, candidates=10),
    "fastfood": FastfoodSVC(n_features=16),
    "ramps": PWLSGDSVC(n_segments=4, max_iter=3),
    "hats": PWLSGDSVC(n_segments=4, max_iter=3, regulariser="identity"),
    "levels": SIKMASVC(n_bins=5),
}


TARGET_MODELS = {
    "curves": AdditiveSVR(n_jobs=1),
    "curves of bins": AdditiveSVR(kernel="intersection", n_jobs=1, max_iter=20),
    "curves without squares": AdditiveSVR(loss="epsilon_insensitive", n_jobs=1, max_iter=20),
}

#: Those that turn values into codes, whose gaps may be too large for one byte.
CODED = (AdditiveSVC, IntersectionSVC, PowerMeanSVC, SIKMASVC)


def spread(X):
    """Six features among many."""
    stored = sparse.csr_matrix(X)
    columns = np.array([0, 1, 2, 3, 258, 299])[stored.indices]
    return sparse.csr_matrix((stored.data, columns, stored.indptr), (len(X), 300))


def fit_models():
    """Decisions of every model on thirty training rows of three classes."""
    rng = np.random.default_rng(0)
    dense = rng.random((30, 6)) + 0.01
    few = dense * (rng.random((30, 6)) < 0.2)
    y = np.digitize(dense[:, 0] + 0.2 * rng.random(30), [0.4, 0.8])
    decisions = {}
    for name, params in MODELS.items():
        X = sparse.csr_matrix(few) if "sparse" in name else dense
        X = X[:, :4] if "narrow" in name else X
        X = dense @ dense.T if name == "precomputed" else X
        model = KernelSVC(tol=1e-5, n_jobs=1, **params).fit(X, y)
        decisions[name] = model.decision_function(X)
    for route, (module, sizes) in ROUTES.items():
        for name in ("dense", "no intercept", "few moves"):
            with mock.patch.multiple(module, **sizes):
                model = KernelSVC(tol=1e-5, n_jobs=1, **MODELS[name]).fit(dense, y)
            decisions[f"{name} {route}"] = model.decision_function(dense)
    for combine in ("early", "bcm"):
        model = DCSVC(
            tol=1e-5, n_jobs=1, gamma=0.5, n_clusters=3, n_levels=1, stop_level=1, combine=combine
        )
        decisions[combine] = model.fit(dense, y).decision_function(dense)
    for name, model in LINEAR_MODELS.items():
        for kind, X in (("dense", dense), ("sparse", sparse.csr_matrix(few))):
            model.set_params(random_state=0, n_jobs=1).fit(X, y)
            decisions[f"{name} {kind}"] = model.decision_function(X)
        if isinstance(model, AdditiveSVC | IntersectionSVC):
            # Few rows of bins go by their kernel matrix in float64.
            with mock.patch.multiple(base, SMALL_ROWS=100):
                few_passes = clone(model).set_params(max_iter=10).fit(dense, y)
            decisions[f"{name} small"] = few_passes.decision_function(dense)
        if isinstance(model, IntersectionSVC):
            X = sparse.csr_matrix(few)
            with mock.patch.multiple(intersection_rows, DENSE_VALUES=-1, SPARSE_SHARE=0.0):
                decisions[f"{name} knots"] = model.fit(X, y).decision_function(few)
        if isinstance(model, CODED):
            X = spread(few)
            decisions[f"{name} wide"] = model.fit(X, y).decision_function(X)
    for name, model in TARGET_MODELS.items():
        for kind, X in (("dense", dense), ("sparse", sparse.csr_matrix(few))):
            decisions[f"{name} {kind}"] = model.fit(X, y + dense[:, 1]).predict(X)
    return decisions


def shrink(module, sizes, set_size=setattr):
    for name, size in sizes.items():
        assert hasattr(module, name), name
        set_size(module, name, size)


@pytest.mark.filterwarnings("ignore:.* stopped before convergence")
def test_compiled_and_plain_loops_agree(tmp_path, monkeypatch):
    path = tmp_path / "decisions.npz"
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    run = subprocess.run(
        [sys.executable, __file__, str(path)], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    for module, sizes in TINY_SIZES.items():
        shrink(module, sizes, monkeypatch.setattr)
    compiled = fit_models()
    with np.load(path) as plain:
        assert set(plain) == set(compiled)
        for name, decisions in compiled.items():
            assert_allclose(plain[name], decisions, rtol=0, atol=1e-3, err_msg=name)


if __name__ == "__main__":
    shrink(tiles_fast, TINY_TILES)
    shrink(box_qp_fast, TINY_BLOCKS)
    for module, sizes in TINY_SIZES.items():
        shrink(module, sizes)
    np.savez(sys.argv[1], **fit_models())
