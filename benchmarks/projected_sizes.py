"""How few basis vectors are as accurate as LIBSVM, beside SpSVM and as rows that move."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments import Row
from benchmarks.projected_models import (
    accuracy,
    chosen,
    count_vectors,
    fit_quietly,
    libsvm,
    measure_objective,
    psvm,
    time_once,
)
from benchmarks.projected_sets import PAPER, Case, load_case

#: Shares of LIBSVM's support vectors at which PSVM is judged. The last is the most that its paper
#: says it needs.
SHARES = (0.05, 0.1, 0.2)
#: Shares at which vectors that move are judged.
MOVED_SHARES = (0.01, 0.02, 0.05)


def run_size() -> Iterator[Row]:
    """Model size beside LIBSVM; vectors are summed over the classes.

    The smallest basis of one forward fit that is as accurate on the test rows as LIBSVM, or half a
    point less accurate: chosen by looking at the test rows, as the paper does; at most a quarter of
    the support vectors. Then refined bases of 5, 10 and 20 % of LIBSVM's support vectors. Parameters
    are those of ``tables``, then those of the paper. "One basis" serves all classes, refined; its
    vectors, and there LIBSVM's, are counted once however many classes use them.
    """
    for name in PAPER:
        case = load_case(name)
        theirs = case.paper
        yield {"parameters": "own"} | compare_sizes(
            case, chosen(case, "LIBSVM"), chosen(case, "PSVM")
        )
        yield {"parameters": "paper"} | compare_sizes(
            case, (theirs.libsvm.p, theirs.libsvm.q), (theirs.psvm.p, theirs.psvm.q)
        )
        if case.n_problems > 1:
            yield {"parameters": "own, one basis"} | compare_shared(
                case, chosen(case, "LIBSVM"), chosen(case, "PSVM")
            )
            yield {"parameters": "paper, one basis"} | compare_shared(
                case, (theirs.libsvm.p, theirs.libsvm.q), (theirs.psvm.p, theirs.psvm.q)
            )


def compare_sizes(case: Case, peer_point: tuple[float, float], point: tuple[float, float]) -> Row:
    """How small a basis reaches LIBSVM's accuracy, and what bases of given shares reach."""
    peer = fit_quietly(libsvm(case, *peer_point), case.X_train, case.y_train)
    n_support, peer_test = count_vectors(peer), accuracy(peer, case.X_test, case.y_test)
    sizes, accuracies = follow_path(case, point, n_support // (4 * case.n_problems))
    row: Row = {
        "data": case.name,
        "LIBSVM vectors": n_support,
        "LIBSVM test (%)": peer_test,
        "most tried": int(sizes[-1]),
        "best test (%)": float(accuracies.max()),
    }
    for label, least in (("equal", peer_test), ("within 0.5", peer_test - 0.5)):
        enough = np.flatnonzero(accuracies >= least - 1e-9)
        size = int(sizes[enough[0]]) if len(enough) else None
        row[f"{label}: vectors"] = size
        row[f"{label}: share (%)"] = None if size is None else 100.0 * size / n_support
    for share in SHARES:
        model = psvm(case, *point, n_basis=max(1, round(share * n_support / case.n_problems)))
        fit_quietly(model, case.X_train, case.y_train)
        row[f"test (%) at {100 * share:.0f} %"] = accuracy(model, case.X_test, case.y_test)
    return row | {"size": judge_size(row["equal: share (%)"], row["within 0.5: share (%)"])}


def compare_shared(case: Case, peer_point: tuple[float, float], point: tuple[float, float]) -> Row:
    """What refined bases that serve all classes reach, by shares of LIBSVM's distinct vectors."""
    peer = fit_quietly(libsvm(case, *peer_point), case.X_train, case.y_train)
    n_support = len(np.unique(np.concatenate([part.support_ for part in peer.estimators_])))
    peer_test = accuracy(peer, case.X_test, case.y_test)
    reached = []
    for share in SHARES:
        model = psvm(case, *point, n_basis=max(1, round(share * n_support)), shared_basis=True)
        fit_quietly(model, case.X_train, case.y_train)
        size = len(model.basis_indices_)
        reached.append((size, accuracy(model, case.X_test, case.y_test)))
    row: Row = {
        "data": case.name,
        "LIBSVM vectors": n_support,
        "LIBSVM test (%)": peer_test,
        "most tried": reached[-1][0],
        "best test (%)": max(test for _, test in reached),
    }
    for label, least in (("equal", peer_test), ("within 0.5", peer_test - 0.5)):
        size = next((size for size, test in reached if test >= least - 1e-9), None)
        row[f"{label}: vectors"] = size
        row[f"{label}: share (%)"] = None if size is None else 100.0 * size / n_support
    for share, (_, test) in zip(SHARES, reached, strict=True):
        row[f"test (%) at {100 * share:.0f} %"] = test
    return row | {"size": judge_size(row["equal: share (%)"], row["within 0.5: share (%)"])}


def run_moved() -> Iterator[Row]:
    """Basis vectors that move, beside rows and LIBSVM, at the parameters chosen for LIBSVM.

    Vectors are summed over the classes, each of which has the same number, at most a twentieth of
    LIBSVM's. "Rows" are chosen and refined (PSVM), "moved" go on from rows that are not refined. The
    error is that of the difference between the accuracies of moved vectors and LIBSVM's, from the rows
    on which the two differ. One thread.
    """
    for name in PAPER:
        case = load_case(name)
        point = chosen(case, "LIBSVM")
        peer = fit_quietly(libsvm(case, *point), case.X_train, case.y_train)
        n_support, answers = count_vectors(peer), peer.predict(case.X_test) == case.y_test
        each = [round(share * n_support / case.n_problems) for share in MOVED_SHARES]
        for n_basis in sorted({max(1, size) for size in each}):
            rows = psvm(case, *point, n_basis=n_basis)
            moved = psvm(case, *point, n_basis=n_basis, refine=False, move=True)
            row: Row = {
                "data": name,
                "LIBSVM vectors": n_support,
                "LIBSVM test (%)": 100.0 * float(answers.mean()),
            }
            for label, model in (("rows", rows), ("moved", moved)):
                row[f"{label} (s)"] = time_once(model, case)
                row[f"{label} J"] = measure_objective(model, case.X_train, case.y_train)
                row[f"{label} test (%)"] = accuracy(model, case.X_test, case.y_test)
            size = count_vectors(moved)
            differ = np.count_nonzero((moved.predict(case.X_test) == case.y_test) != answers)
            yield row | {
                "vectors": size,
                "share (%)": 100.0 * size / n_support,
                "error (points)": 100.0 * float(np.sqrt(differ)) / len(answers),
            }


def judge_size(equal: float | None, within: float | None) -> str:
    """Whether the share of vectors that the paper promises is enough."""
    most = 100.0 * SHARES[-1]
    if equal is not None and equal <= most:
        return f"as accurate with {equal:.1f} %"
    if within is not None and within <= most:
        return f"within 0.5 points with {within:.1f} %"
    return f"less accurate with {most:.0f} %"


def follow_path(
    case: Case, point: tuple[float, float], n_most: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Vectors and test accuracy of a growing basis."""
    n_basis = max(case.paper.n_psvm, n_most)
    model = psvm(case, *point, refine=False, n_basis=n_basis)
    fit_quietly(model, case.X_train, case.y_train)
    sizes = np.count_nonzero(model._path.coef, axis=2).sum(axis=1)
    path = model.basis_path(case.X_test, case.y_test)[:-1]
    return sizes, 100.0 * np.array([stage.accuracy for stage in path])
