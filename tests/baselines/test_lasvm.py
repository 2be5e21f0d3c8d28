"""LaSVC: the same steps as a plain LASVM, the optimum in the end, and sums and bounds that hold.

The file is also the script that one of the tests starts without the compiler.
"""

import os
import pickle
import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.counting import CountingKernel
from tests.reference.lasvm import PlainLasvm
from tests.reference.svm_dual import objective, violation
from widemargin import KernelSVC
from widemargin.baselines import LaSVC, lasvm, lasvm_machine
from widemargin.baselines.lasvm_machine import Machine, Plan
from widemargin.kernels import make_kernel
from widemargin.parallel import Workers


def laplacian(A, B):
    return np.exp(-0.2 * cdist(A, B, "cityblock"))


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.2},
    "callable": {"kernel": laplacian},
}


def make_data(n=600, seed=0):
    return make_classification(
        n, 6, n_informative=4, n_redundant=0, flip_y=0.1, class_sep=0.7, random_state=seed
    )


def make_machine(n=60, max_bytes=10**7, seed=0):
    """A machine for tiny data, and a plain one for the same."""
    X, y = make_data(n, seed)
    sign, upper = 2.0 * y - 1.0, np.random.default_rng(seed).uniform(0.5, 5.0, n)
    kernel = make_kernel("rbf", gamma=0.3, degree=3, coef0=0.0)
    machine = Machine(kernel, kernel.prepare(X), sign, upper, max_bytes, Workers(1, None))
    return machine, PlainLasvm(rbf_kernel(X, gamma=0.3), sign, upper, 1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_every_example_does_what_a_plain_lasvm_does(seed, monkeypatch):
    monkeypatch.setattr(lasvm_machine, "FIRST_SLOTS", 3)
    machine, plain = make_machine(seed=seed)
    rng = np.random.default_rng(seed)
    alpha, members = np.zeros(60), set()
    for k in np.concatenate([rng.permutation(60) for _ in range(3)]):
        coef = machine.run(Plan([np.array([k])], 1e-3, False, None)).coef
        possible = plain.learn(alpha, sorted(members), k)
        before, alpha = {*members, k}, np.nan_to_num(coef)
        members = set(np.flatnonzero(~np.isnan(coef)))
        assert min(np.abs(alpha - other).max() for other in possible) < 1e-5
        assert plain.may_stay(alpha, sorted(before), -1e-5) <= members
        assert members <= plain.may_stay(alpha, sorted(before), 1e-5)
    assert np.count_nonzero(alpha) > 20


def run_tight(max_bytes=8 * 5 * 60, block=7):
    """A machine with few lines and slots, which crosses all borders; and the plain one."""
    sizes = (lasvm_machine.BLOCK, lasvm_machine.FIRST_SLOTS)
    lasvm_machine.BLOCK, lasvm_machine.FIRST_SLOTS = block, 3
    machine, plain = make_machine(max_bytes=max_bytes)
    rng = np.random.default_rng(0)
    outcome = machine.run(Plan([rng.permutation(60) for _ in range(3)], 1e-3, True, None))
    lasvm_machine.BLOCK, lasvm_machine.FIRST_SLOTS = sizes
    return machine, outcome, plain


@pytest.mark.parametrize("max_bytes", [16 * 60, 8 * 5 * 60, 10**7])
@pytest.mark.parametrize("block", [1, 7, 100])
def test_kept_values_and_gradients_are_right(max_bytes, block):
    machine, outcome, plain = run_tight(max_bytes, block)
    m, alpha = machine.members, np.nan_to_num(outcome.coef)
    inside = np.flatnonzero(m.owner >= 0)
    rows = m.owner[inside]
    assert_array_equal(machine.rows.slot_of[rows], inside)
    assert_allclose(m.gradient[inside], plain.gradient(alpha)[rows], atol=1e-5)
    lines = np.flatnonzero(m.slot_at >= 0)
    assert 0 < len(lines) <= min(len(inside), max_bytes // 8 // len(m.alpha))
    held = m.store[np.ix_(lines, inside)]
    assert_allclose(held, plain.K[np.ix_(m.owner[m.slot_at[lines]], rows)], atol=1e-6)
    assert_allclose(outcome.objective, objective(plain.K, plain.y, alpha), rtol=1e-6)
    left = violation(
        plain.K[np.ix_(rows, rows)], plain.y[rows], plain.upper[rows], alpha[rows], True
    )
    assert left < 1.1e-3


def test_room_is_made_for_new_rows_only():
    machine, _ = make_machine()
    plan = Plan([np.arange(60)], 1e-3, False, None)
    machine.run(plan)
    store = machine.members.store
    machine.run(plan)
    assert machine.members.store is store


@pytest.mark.parametrize("memory", [10**7, 40 * 8 * 210, 3 * 8 * 210])
def test_finishing_ends_where_tol_is_out_of_reach(memory, monkeypatch):
    monkeypatch.setattr(lasvm_machine, "CALL_ENTRIES", 300_000)
    X, y = make_data(210)
    model = LaSVC(gamma=0.3, C=1e3, tol=1e-17, memory=memory, random_state=0, max_time=60.0)
    with pytest.warns(ConvergenceWarning, match="tol"):
        model.fit(X, y)
    assert model.stop_reason_ == "stalled"


@pytest.mark.parametrize("kernel", KERNELS)
def test_epochs_and_finishing_come_close_to_libsvm(kernel):
    """What is left is rows that left the set and would come back: within 0.2 % after ten passes."""
    X, y = make_data()
    model = LaSVC(n_epochs=10, random_state=0, **KERNELS[kernel]).fit(X, y)
    peer = SVC(**KERNELS[kernel]).fit(X, y)
    K = laplacian(X, X) if kernel == "callable" else model.kernel_.exact(X, X)
    sign, coef, best = 2.0 * y - 1.0, np.zeros(len(y)), np.zeros(len(y))
    coef[model.support_], best[peer.support_] = model.dual_coef_[0], peer.dual_coef_[0]
    optimum = objective(K, sign, best)
    assert model.stop_reason_ == "converged"
    assert_allclose(model.objective_, objective(K, sign, coef), rtol=1e-4)
    assert optimum * (1 + 1e-6) <= model.objective_ <= optimum * (1 - 2e-3)
    assert (model.predict(X) == peer.predict(X)).mean() > 0.98


def test_the_set_is_solved_after_finishing():
    X, y = make_data()
    model = LaSVC(gamma=0.3, C=3.0, random_state=0).fit(X, y)
    K, at = rbf_kernel(model.support_vectors_, gamma=0.3), model.support_
    upper = np.full(len(at), 3.0)
    left = violation(K, 2.0 * y[at] - 1.0, upper, model.dual_coef_[0], True)
    assert left < 1.1e-3
    online = LaSVC(gamma=0.3, C=3.0, finish=np.False_, random_state=0).fit(X, y)
    assert online.stop_reason_ == "n_epochs"
    assert online.objective_ > model.objective_


def test_small_problems_are_solved_exactly():
    X, y = make_data(150)
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    model = LaSVC(gamma=0.3, random_state=0).fit(X, y, sample_weight=weights)
    peer = KernelSVC(gamma=0.3).fit(X, y, sample_weight=weights)
    assert_allclose(model.objective_, peer.objective_, rtol=1e-12)
    assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    C=st.floats(0.01, 100.0),
    n_classes=st.integers(2, 3),
    repeats=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_sums_and_bounds_hold_after_every_call(sizes, C, n_classes, repeats, seed):
    rng = np.random.default_rng(seed)
    model = LaSVC(C=C, gamma=0.5)
    for size in sizes:
        X = rng.integers(0, 3, (size, 2)).astype(float) if repeats else rng.normal(size=(size, 2))
        y = rng.integers(0, n_classes, size)
        weights = rng.uniform(0.0, 2.0, size) * (rng.random(size) < 0.9)
        weights[0] = 1.0
        before = np.sum(getattr(model, "objective_", 0.0))
        model.partial_fit(X, y, classes=np.arange(n_classes), sample_weight=weights)
        coef = model.dual_coef_
        assert_allclose(coef.sum(axis=1), 0.0, atol=1e-9 * C * (1 + coef.shape[1]))
        assert np.abs(coef).max(initial=0.0) <= 2.0 * C
        assert model.n_support_.sum() == coef.shape[1]
        K = rbf_kernel(model.support_vectors_, gamma=0.5) if coef.size else np.zeros((0, 0))
        quadratic = 0.5 * np.einsum("pi,ij,pj->p", coef, K, coef)
        assert_allclose(
            model.objective_, quadratic - np.abs(coef).sum(axis=1), rtol=1e-4, atol=1e-6
        )
        assert np.sum(model.objective_) <= before + 1e-6 * (1 + abs(before))
        assert model.predict(X).shape == y.shape


def test_calls_in_pieces_are_one_pass():
    X, y = make_data()
    whole = LaSVC(gamma=0.3).partial_fit(X, y, classes=[0, 1])
    pieces = LaSVC(gamma=0.3)
    for start in range(0, len(y), 70):
        pieces.partial_fit(X[start : start + 70], y[start : start + 70], classes=[0, 1])
    # Ties between gradients, broken by rounding, make the routes differ.
    assert_allclose(pieces.objective_, whole.objective_, rtol=2e-2)
    assert_allclose(pieces.n_iter_, whole.n_iter_, rtol=0.05)
    assert (pieces.predict(X) == whole.predict(X)).mean() > 0.95


@pytest.mark.parametrize("n", [150, 300])
def test_partial_fit_goes_on_from_fit(n):
    X, y = make_data()
    model = LaSVC(gamma=0.3, random_state=0).fit(X[:n], y[:n])
    before, n_iter = model.objective_, model.n_iter_
    model.partial_fit(X[n:], y[n:])
    assert model.objective_ < before
    assert model.n_iter_ > n_iter
    assert not hasattr(model, "support_")
    K, coef = rbf_kernel(model.support_vectors_, gamma=0.3), model.dual_coef_[0]
    assert_allclose(model.objective_, objective(K, np.sign(coef), coef), rtol=1e-6)
    again = model.fit(X[:n], y[:n])
    assert_allclose(again.objective_, before)


def test_partial_fit_computes_what_it_uses(entries):
    X, y = make_data(1000)
    model = LaSVC(kernel=CountingKernel(0.3)).partial_fit(X[1:], y[1:], classes=[0, 1])
    entries.clear()
    model.partial_fit(X[:1], y[:1])
    # The example, and up to two members for each of two moves.
    assert 0 < sum(entries) <= 6 * 1000 < model.n_support_.sum() ** 2


@pytest.mark.parametrize("params", [{"n_jobs": 0}, {"memory": 100}])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_failed_first_call_leaves_no_trace(method, params):
    X, y = make_data(300)
    model = LaSVC(gamma=0.3, **params)
    with pytest.raises(ValueError, match=next(iter(params))):
        model.fit(X, y) if method == "fit" else model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_params(n_jobs=None, memory="auto").partial_fit(X[:, :4], y + 5, classes=[5, 6])
    assert set(model.predict(X[:, :4])) == {5, 6}


def test_a_failed_later_call_leaves_the_model():
    X, y = make_data(300)
    model = LaSVC(gamma=0.3).partial_fit(X[:200], y[:200], classes=[0, 1])
    before = model.decision_function(X)
    with pytest.raises(ValueError, match="memory"):
        model.set_params(memory=100).partial_fit(X[200:], y[200:])
    assert_array_equal(model.set_params(memory="auto").decision_function(X), before)


def test_one_class_at_first():
    X, y = make_data()
    model = LaSVC(gamma=0.3).partial_fit(X[y == 0], y[y == 0], classes=[0, 1])
    assert set(model.predict(X)) == {0}
    model.partial_fit(X[y == 1], y[y == 1])
    assert model.score(X, y) > 0.8


def test_many_classes_are_learned_against_the_rest():
    X, y = make_blobs([300, 200, 120], centers=None, cluster_std=2.5, random_state=0)
    model = LaSVC(gamma=0.1, n_epochs=5, random_state=0).fit(X, y)
    peer = KernelSVC(gamma=0.1, multi_class="ovr").fit(X, y)
    assert model.dual_coef_.shape[0] == 3 == len(model.objective_)
    assert_allclose(model.objective_, peer.objective_, rtol=2e-3)
    assert (model.predict(X) == peer.predict(X)).mean() > 0.98
    assert_array_equal(model.n_support_, np.bincount(y[model.support_]))


def test_sparse_data_and_float32():
    X, y = make_data()
    X[np.abs(X) < 0.7] = 0.0
    dense = LaSVC(gamma=0.3, random_state=0).fit(X, y)
    for data in (csr_matrix(X), X.astype(np.float32)):
        other = LaSVC(gamma=0.3, random_state=0).fit(data, y)
        assert_allclose(other.objective_, dense.objective_, rtol=2e-2)
        assert (other.predict(data) == dense.predict(X)).mean() > 0.95
    mixed = LaSVC(gamma=0.3).partial_fit(csr_matrix(X[:300]), y[:300], classes=[0, 1])
    mixed.partial_fit(X[300:], y[300:]).partial_fit(csr_matrix(X[:9]), y[:9])
    assert mixed.score(X, y) > 0.8


def test_weights_of_rows_and_classes_scale_the_cost():
    X, y = make_data()
    weights = np.where(y == 1, 3.0, 0.5)
    params = {"gamma": 0.3, "random_state": 0}
    by_row = LaSVC(**params).fit(X, y, sample_weight=weights)
    by_class = LaSVC(class_weight={0: 0.5, 1: 3.0}, **params).fit(X, y)
    assert_array_equal(by_row.dual_coef_, by_class.dual_coef_)
    assert by_row.dual_coef_.max() == 3.0
    assert by_row.dual_coef_.min() == -0.5


def test_fits_repeat_and_travel():
    X, y = make_data()
    names = np.array(["no", "yes"])[y]
    a, b, c = (LaSVC(gamma=0.3, random_state=s).fit(X, names) for s in (0, 0, 1))
    assert_array_equal(a.dual_coef_, b.dual_coef_)
    assert not np.array_equal(a.support_, c.support_)
    assert_array_equal(a.support_vectors_, X[a.support_])
    copied = pickle.loads(pickle.dumps(a))
    assert_array_equal(copied.predict(X), a.predict(X))
    copied.partial_fit(X[:50], names[:50])
    assert_array_equal(clone(a).fit(X, names).support_, a.support_)
    assert set(a.predict(X)) == {"no", "yes"}


def test_threads_give_the_same_answer():
    X, y = make_data(4000)
    models = [LaSVC(gamma=0.3, random_state=0, n_jobs=n).fit(X, y) for n in (1, 2, 3)]
    one, two, three = (model.decision_function(X) for model in models)
    assert len(models[0].support_) > 1000  # Enough for several pieces.
    assert_array_equal(two, one)
    assert_array_equal(three, one)


def test_time_limit_leaves_a_model():
    X, y = make_data()
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = LaSVC(gamma=0.3, max_time=1e-9, random_state=0).fit(X, y)
    assert model.stop_reason_ == "max_time"
    assert np.isfinite(model.decision_function(X)).all()


def test_every_class_gets_its_share_of_the_time(monkeypatch):
    """A second passes each time that somebody looks at the clock."""
    clock = SimpleNamespace(perf_counter=count().__next__)
    for module in (lasvm, lasvm_machine):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(lasvm_machine, "BLOCK", 10)
    X, y = make_blobs(400, centers=4, cluster_std=3.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model = LaSVC(gamma=0.1, max_time=40.0, random_state=0).fit(X, y)
    assert 30 < max(model.n_iter_) < 3 * min(model.n_iter_)


def test_partial_fit_takes_in_all_examples_whatever_the_time():
    X, y = make_data()
    hurried, calm = (
        LaSVC(gamma=0.3, max_time=limit).partial_fit(X, y, classes=[0, 1]) for limit in (1e-9, None)
    )
    assert hurried.stop_reason_ == "n_epochs"
    assert_array_equal(hurried.dual_coef_, calm.dual_coef_)


def test_progress_is_shown(capsys):
    X, y = make_data()
    LaSVC(gamma=0.3, n_epochs=2, random_state=0, verbose=2).fit(X, y)
    *lines, closing = capsys.readouterr().err.splitlines()
    assert [line.split()[1:4] for line in lines] == [
        ["example", number, "violation"]
        for number in ("256", "512", "600", "856", "1,112", "1,200")
    ]
    assert "done" in closing


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"C": 0.0}, "C: "),
        ({"tol": -1.0}, "tol"),
        ({"n_epochs": 0}, "n_epochs"),
        ({"finish": "no"}, "finish"),
        ({"max_time": 0.0}, "max_time"),
        ({"kernel": "precomputed"}, "kernel"),
        ({"kernel": "rbs"}, "kernel"),
        ({"gamma": -1.0}, "gamma"),
        ({"memory": 100}, "memory"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_parameters_are_named(params, message):
    X, y = make_data(60)
    with pytest.raises(ValueError, match=message):
        LaSVC(**params).fit(X, y)


def test_bad_pieces_are_named():
    X, y = make_data(60)
    with pytest.raises(ValueError, match="classes"):
        LaSVC().partial_fit(X, y)
    with pytest.raises(ValueError, match="class_weight"):
        LaSVC(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="not among the classes"):
        LaSVC().partial_fit(X, y + 1, classes=[0, 1])
    with pytest.raises(ValueError, match="features"):
        LaSVC().partial_fit(X, y, classes=[0, 1]).partial_fit(X[:, :3], y)


def test_loops_run_without_the_compiler():
    """Indices out of range raise there, and go unseen compiled."""
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    run = subprocess.run(
        [sys.executable, __file__], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert_allclose(float(run.stdout), run_tight()[1].objective, rtol=1e-3)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([LaSVC(random_state=0)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


if __name__ == "__main__":
    print(run_tight()[1].objective)
