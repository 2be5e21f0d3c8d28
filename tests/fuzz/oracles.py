"""What answers are compared with: LIBSVM's dual objective, and the model's own answers.

The dual of a binary problem is: minimise ``f(b) = 0.5 b'Kb - y'b`` over ``0 <= y_i b_i <= upper_i``,
and ``sum(b) = 0`` with an intercept. When no pair of variables violates the optimality conditions by
more than ``tol``, convexity gives ``f(b) - f(z) <= tol * m`` for every feasible ``z``, where ``m`` is
the mass that has to be moved from ``b`` to ``z``: ``0.5 * sum|b - z|`` with an intercept, and
``sum|b - z|`` without. The duality gap is at most ``tol * sum(upper)``. To ``tol`` comes what float32
kernel values can hide: ``r * max_i sum_j |K_ij b_j|``, with ``r`` of `rounding_of`.
"""

import pickle
import time
import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC, SVR, OneClassSVM
from sklearn.utils.class_weight import compute_class_weight

import widemargin
from tests.fuzz.cases import Wrong, answers, is_refusal, is_regressor, require
from tests.reference import kernels as reference
from tests.reference import svm_dual
from widemargin.problem import class_pairs

#: Share of a sum of float32 kernel values that their rounding may change, with room to spare.
FLOAT32 = 2e-6
#: Share of the sum of its terms by which rounding may change a sum in float64.
FLOAT64 = 1e-9
#: Numbers whose products float64 cannot hold.
UNDERFLOW = 1e-150
#: Moves after which LIBSVM is stopped: any point it reaches is an upper bound of the optimum.
LIBSVM_MOVES = 200_000
#: Binary problems of a fit that are compared; the others are like them.
MOST_PROBLEMS = 3


@dataclass(frozen=True)
class Dual:
    """One binary problem in float64, and the model's coefficients for it."""

    K: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    coef: np.ndarray
    offset: float
    objective: float
    duality_gap: float
    rounding: float


def duals_of(model, data):
    """The first binary problems of a fitted `KernelSVC` or exact `DCSVC`."""
    K, rounding = exact_kernel(model, data.X), rounding_of(model, data.X)
    classes, labels = np.unique(data.y, return_inverse=True)
    upper = model.C * row_weights(model, data, classes, labels)
    k = len(classes)
    if k == 2:
        pairs = [(0, 1)]
    else:
        pairs = class_pairs(k) if model.multi_class == "ovo" else [(None, c) for c in range(k)]
    for p, (negative, positive) in enumerate(pairs[:MOST_PROBLEMS]):
        taken = (negative is None) | (labels == positive) | (labels == negative)
        rows = np.flatnonzero(taken & (upper > 0))
        coef = np.zeros(len(labels))
        coef[model.support_] = reference.to_dense(model.dual_coef_)[p]
        yield Dual(
            K[np.ix_(rows, rows)], np.where(labels[rows] == positive, 1.0, -1.0), upper[rows],
            coef[rows], float(model.intercept_[p]), float(np.ravel(model.objective_)[p]),
            float(np.ravel(model.duality_gap_)[p]), rounding,
        )  # fmt: skip


def exact_kernel(model, X):
    """The kernel matrix of the training rows in float64, by the formula of the kernel."""
    if model.kernel_.name == "precomputed":
        return reference.to_dense(X)
    return getattr(reference, model.kernel_.name)(X, **model.kernel_.params())


def rounding_of(model, X):
    """Share of a kernel value that its rounding to float32 may change, with room to spare.

    Of exponential kernels, the exponent is rounded: ``gamma (|x| + |z| - 2 s(x, z))``, where ``|x|``
    is a squared distance to the centre (rbf) or a sum of features (exp_chi2). Each of the three terms
    is rounded to a share of itself, and an error of the exponent is a relative error of the value.
    """
    if model.kernel_.name not in ("rbf", "exp_chi2"):
        return FLOAT32
    rows = reference.to_dense(X)
    if model.kernel_.name == "rbf":
        sizes = ((rows - np.median(rows, axis=0)) ** 2).sum(axis=1)
    else:
        sizes = rows.sum(axis=1)
    # The median, so that a few wild values excuse nothing. With gamma = 0 all values are one, also
    # where sizes are infinite.
    exponent = model.kernel_.gamma * float(np.median(sizes)) if model.kernel_.gamma else 0.0
    return FLOAT32 * (1.0 + exponent)


def row_weights(model, data, classes, labels):
    """Factor on C of each row: its own weight times that of its class."""
    weights = np.ones(len(labels)) if data.sample_weight is None else data.sample_weight
    if model.class_weight is None:
        return weights
    kept = np.asarray(data.y)[weights > 0]
    return weights * compute_class_weight(model.class_weight, classes=classes, y=kept)[labels]


def is_convex(model, K):
    """Whether the kernel matrix is positive semidefinite, so that the optimum is one."""
    known = model.kernel_.name not in ("sigmoid", "poly", "precomputed")
    if known or (model.kernel_.name == "poly" and model.kernel_.coef0 >= 0):
        return True
    values = np.linalg.eigvalsh(K)
    return values[0] >= -1e-9 * max(values[-1], 1e-300)


def check_dual(model, dual):
    """Feasible, with the objective and gap that the model reports, and a gap that tol allows."""
    mass = np.abs(dual.coef)
    outside = np.maximum(-dual.y * dual.coef, dual.y * dual.coef - dual.upper).max()
    require(outside <= 1e-6 * dual.upper.max(), "feasible", f"a coefficient is {outside:g} outside")
    if model.fit_intercept:
        total = abs(dual.coef.sum())
        require(total <= 1e-6 * mass.sum(), "feasible", f"coefficients sum to {total:g}")
    sums = np.abs(dual.K) @ mass
    objective = svm_dual.objective(dual.K, dual.y, dual.coef)
    slack = dual.rounding * (0.5 * mass @ sums + mass.sum())
    compare("objective_", dual.objective, objective, slack)
    gap = svm_dual.duality_gap(dual.K, dual.y, dual.upper, dual.coef, dual.offset)
    slack += dual.rounding * float(dual.upper @ (sums + 1.0 + abs(dual.offset)))
    compare("duality_gap_", dual.duality_gap, gap, slack)
    allowed = effective_tol(model, dual) * dual.upper.sum() + slack
    require(gap <= allowed, "gap", f"converged with a duality gap of {gap:g} > {allowed:g}")


def compare(place, reported, computed, slack):
    """Require a reported number to be the computed one."""
    text = f"reported {reported:.9g}, computed {computed:.9g}, allowed difference {slack:.3g}"
    # Smaller numbers are products of numbers so small that float64 loses their products.
    require(abs(reported - computed) <= max(slack, UNDERFLOW), place, text)


def effective_tol(model, dual):
    """``tol``, and what the rounding of float32 kernel values can hide."""
    return model.tol + dual.rounding * float((np.abs(dual.K) @ np.abs(dual.coef)).max())


@dataclass(frozen=True)
class GeneralDual:
    """Minimise ``0.5 b'Kb + linear'b + epsilon |b|_1`` over bounds, with the sum of b held or free."""

    K: np.ndarray
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    epsilon: float
    total: float | None
    coef: np.ndarray
    offset: float
    objective: float
    duality_gap: float
    rounding: float

    def value(self, b):
        """The objective at ``b``."""
        return 0.5 * b @ self.K @ b + self.linear @ b + self.epsilon * np.abs(b).sum()

    def gap(self):
        """Primal plus dual objective of the model's coefficients and offset."""
        above = self.K @ self.coef + self.linear + self.offset
        # The largest value of -above b - epsilon |b| over the bounds, which contain zero.
        rise = self.upper * np.maximum(-above - self.epsilon, 0.0)
        fall = -self.lower * np.maximum(above - self.epsilon, 0.0)
        quadratic = self.coef @ self.K @ self.coef
        held = 0.0 if self.total is None else self.offset * self.total
        half = self.value(self.coef) - 0.5 * quadratic
        return quadratic + half + float((rise + fall).sum()) + held


def general_duals(model, data):
    """The problems of a fitted regressor, one for each target, or of a novelty detector."""
    K, rounding = exact_kernel(model, data.X), rounding_of(model, data.X)
    n = len(K)
    weights = np.ones(n) if data.sample_weight is None else data.sample_weight
    kept = weights > 0
    targets = np.zeros((n, 1)) if data.y is None else data.y.reshape(n, -1)
    for t, y in enumerate(targets.T):
        coef = np.zeros(n)
        coef[model.support_] = reference.to_dense(model.dual_coef_)[t]
        if data.y is None:
            bounds, total, epsilon = (np.zeros(n), weights), model.nu * weights.sum(), 0.0
        else:
            bounds = (-model.C * weights, model.C * weights)
            total, epsilon = (0.0 if model.fit_intercept else None), model.epsilon
        yield GeneralDual(
            K[np.ix_(kept, kept)], -y[kept], bounds[0][kept], bounds[1][kept], epsilon, total,
            coef[kept], float(model.intercept_[t]), float(np.ravel(model.objective_)[t]),
            float(np.ravel(model.duality_gap_)[t]), rounding,
        )  # fmt: skip


def check_general_dual(model, dual):
    """As `check_dual` and `check_against_libsvm`, for regression and novelty detection."""
    mass, reach = np.abs(dual.coef), max(dual.upper.max(), -dual.lower.min())
    outside = np.maximum(dual.lower - dual.coef, dual.coef - dual.upper).max()
    require(outside <= 1e-6 * reach, "feasible", f"a coefficient is {outside:g} outside")
    if dual.total is not None:
        missed = abs(dual.coef.sum() - dual.total)
        require(missed <= 1e-6 * mass.sum(), "feasible", f"the sum is off by {missed:g}")
    sums = np.abs(dual.K) @ mass
    slopes = sums + np.abs(dual.linear) + dual.epsilon
    slack = dual.rounding * float(mass @ slopes)
    compare("objective_", dual.objective, dual.value(dual.coef), slack)
    ranges = dual.upper - dual.lower
    slack += dual.rounding * float(ranges @ (slopes + abs(dual.offset)))
    gap = dual.gap()
    compare("duality_gap_", dual.duality_gap, gap, slack)
    tol = model.tol + dual.rounding * float(sums.max())
    require(gap <= tol * ranges.sum() + slack, "gap", f"converged with a duality gap of {gap:g}")
    theirs = libsvm_coef(model, dual)
    if theirs is None:
        return
    best, found = dual.value(theirs), dual.value(dual.coef)
    moved = (0.5 if dual.total is not None else 1.0) * np.abs(dual.coef - theirs).sum()
    mass = np.maximum(mass, np.abs(theirs))
    # LIBSVM's coefficients meet the condition on their sum up to rounding only.
    rounding = FLOAT64 * float(mass @ (np.abs(dual.K) @ mass + np.abs(dual.linear) + dual.epsilon))
    allowed = tol * moved + rounding
    text = f"objective {found:.9g}, LIBSVM's {best:.9g}, allowed difference {allowed:.3g}"
    require(found - best <= allowed, "libsvm", text)


def libsvm_coef(model, dual):
    """LIBSVM's variables of the same problem, or None if it finds none, as with nu = 1.

    LIBSVM has an intercept always; without one, more points are feasible.
    """
    if is_regressor(model):
        peer = SVR(kernel="precomputed", C=1.0, epsilon=dual.epsilon)
    else:
        peer = OneClassSVM(kernel="precomputed", nu=model.nu)
    peer.set_params(tol=model.tol, max_iter=LIBSVM_MOVES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            peer.fit(dual.K, -dual.linear, sample_weight=dual.upper)
        except ValueError as error:
            require("not finite" in str(error), "libsvm", str(error))
            return None
    coef = np.zeros(len(dual.K))
    coef[peer.support_] = peer.dual_coef_[0]
    return coef


def check_decisions(model, X):
    """Require the decisions that the formula of the kernel gives in float64."""
    if len(getattr(model, "classes_", ())) > 2 and model.multi_class == "ovo":
        return
    K = exact_kernel(model, X)[:, model.support_]
    coef = reference.to_dense(model.dual_coef_).T
    expected = K @ coef + model.intercept_
    slack = np.abs(K) @ np.abs(coef) + np.abs(model.intercept_) + 1.0
    found = answers(model, X).reshape(expected.shape)
    excess = np.abs(found - expected) / (rounding_of(model, X) * slack)
    text = f"decisions differ by {excess.max():.3g} times the allowed difference"
    require((excess <= 1.0).all() or not np.isfinite(expected).all(), "formula", text)


def check_against_libsvm(model, dual):
    """Require an objective no worse than LIBSVM's, whose problem has an intercept.

    Without one, more points are feasible, so that the optimum is no worse either.
    """
    peer, _ = fit_libsvm(dual.K, dual.y, dual.upper, model.tol)
    theirs = np.zeros(len(dual.y))
    theirs[peer.support_] = peer.dual_coef_[0]
    best = svm_dual.objective(dual.K, dual.y, theirs)
    objective = svm_dual.objective(dual.K, dual.y, dual.coef)
    moved = (0.5 if model.fit_intercept else 1.0) * np.abs(dual.coef - theirs).sum()
    mass = np.maximum(np.abs(dual.coef), np.abs(theirs))
    # LIBSVM's coefficients sum to zero up to rounding only.
    rounding = FLOAT64 * (mass @ np.abs(dual.K) @ mass + mass.sum())
    allowed = effective_tol(model, dual) * moved + rounding
    text = f"objective {objective:.9g}, LIBSVM's {best:.9g}, allowed difference {allowed:.3g}"
    require(objective - best <= allowed, "libsvm", text)


def fit_libsvm(K, y, upper, tol):
    """LIBSVM on a kernel matrix, and the processor seconds it takes."""
    peer = SVC(kernel="precomputed", C=1.0, tol=tol, max_iter=LIBSVM_MOVES)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer.fit(K, y, sample_weight=upper)
    return peer, time.process_time() - began


def libsvm_seconds(model, data):
    """Processor seconds of LIBSVM on the data of an exact model; zero for others."""
    if not hasattr(model, "duality_gap_"):
        return 0.0
    if not hasattr(model, "classes_"):
        began = time.process_time()
        for dual in general_duals(model, data):
            libsvm_coef(model, dual)
        return time.process_time() - began
    classes, labels = np.unique(data.y, return_inverse=True)
    upper = model.C * row_weights(model, data, classes, labels)
    return fit_libsvm(exact_kernel(model, data.X), labels, upper, model.tol)[1]


def check_answers(model, X, folder):
    """Finite decisions that depend on neither company nor order, nor on saving and pickling."""
    X = X if sparse.issparse(X) else np.asarray(X)
    decisions = answers(model, X)
    require(np.isfinite(decisions).all(), "finite", "a decision on the training data is not finite")
    if not is_regressor(model):
        known = getattr(model, "classes_", [-1, 1])
        require(np.isin(model.predict(X), known).all(), "labels", "an unknown label")
    if hasattr(model, "predict_proba"):
        values = model.predict_proba(X)
        fits = (values >= 0).all() and np.allclose(values.sum(axis=1), 1.0)
        require(fits, "probabilities", f"{values!r:.200}")
    order = np.random.default_rng(0).permutation(X.shape[0])
    X = X.tocsr() if sparse.issparse(X) else X
    # Votes of one-vs-one jump where a decision is zero up to rounding.
    if decisions.ndim == 1 or getattr(model, "multi_class", "") != "ovo":
        slack = FLOAT32 * largest_sum(model, X, decisions)
        check_near("row order", answers(model, X[order]), decisions[order], slack)
        check_near("one row", answers(model, X[order[:1]]), decisions[order[:1]], slack)
    copy = pickle.loads(pickle.dumps(model))
    check_same("pickle", answers(copy, X), decisions)
    widemargin.save(model, folder / "model.wm")
    check_same("save", answers(widemargin.load(folder / "model.wm"), X), decisions)
    if hasattr(model, "explain"):
        check_shares(model, X, decisions)


def check_same(place, found, expected):
    """Require equality to the last bit."""
    differs = np.abs(found - expected).max(initial=0.0)
    require(np.array_equal(found, expected), place, f"decisions differ by up to {differs:g}")


def largest_sum(model, X, decisions):
    """A bound on the sum of absolute terms of a decision on the training data; one at least."""
    # Of a tuner, the model that it chose.
    model = getattr(model, "best_estimator_", model)
    largest = max(np.abs(decisions).max(), 1.0)
    if not hasattr(model, "dual_coef_"):
        return largest
    K = exact_kernel(model, X)
    value = np.abs(K).max() if np.isfinite(K).all() else np.inf
    return max(largest, abs(model.dual_coef_).sum(axis=1).max() * value)


def check_near(place, found, expected, slack):
    """Require equality up to the rounding of float32, which depends on the order of sums."""
    differs = np.abs(found - expected).max()
    require(differs <= slack, place, f"decisions differ by up to {differs:g} > {slack:g}")


def check_shares(model, X, decisions):
    """Require that shares of features and the intercept add up to the decisions."""
    shares = model.explain(X)
    intercept = np.ravel(getattr(model, "intercept_", 0.0))
    total = shares.sum(axis=-1) + (intercept if decisions.ndim == 2 else intercept[0])
    # Tables and products are float32 on larger data.
    slack = FLOAT32 * (np.abs(shares).sum(axis=-1) + np.abs(intercept).max() + 1.0)
    differs = np.abs(total - decisions)
    require((differs <= slack).all(), "explain", f"shares miss decisions by {differs.max():g}")


def check_untouched(model, X, decisions, other):
    """Require that a failed fit on ``other`` left the old model, or none."""
    try:
        model.predict(other)
    except NotFittedError:
        return
    except ValueError as error:
        require(is_refusal(error), "failed refit", f"predict raises {error}")
    else:
        raise Wrong("failed refit", "the old model predicts data of another width")
    check_same("failed refit", answers(model, X), decisions)
