"""Functions that are parameters: what they return and raise reaches the user under their name."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from widemargin import DCSVC, LRSVC, AdditiveSVC, KernelSVC, PowerMeanSVC, ProjectedSVC
from widemargin.kernels.custom import DIAGONAL_ROWS
from widemargin.projected.basis import find_root

ON_ROWS = [
    KernelSVC(),
    DCSVC(random_state=0),
    ProjectedSVC(n_basis=5),
    LRSVC(random_state=0),
]
ON_NUMBERS = [AdditiveSVC(random_state=0), PowerMeanSVC(random_state=0)]
#: What to make of right values, the error, and what it says.
WRONG = {
    "text": (lambda K: "hello", TypeError, "returned text"),
    "numbers as text": (lambda K: K.astype(str), TypeError, "returned text"),
    "None": (lambda K: None, TypeError, "returned None"),
    "None inside": (lambda K: [[None] * K.shape[1]] * len(K), TypeError, "a list that holds None"),
    "ragged": (lambda K: [list(row[:i]) for i, row in enumerate(K)], ValueError, "lists of diff"),
    "complex": (lambda K: K * (1 + 1j), TypeError, "returned complex numbers"),
    "a dictionary": (lambda K: {"K": K}, TypeError, "returned a dict"),
    "dates": (lambda K: K.astype("M8[s]"), TypeError, "values of type datetime64"),
    "wrong shape": (lambda K: K[:-1], ValueError, r"shape \(\d+, \d*\)"),
    "a number": (lambda K: 1.0, ValueError, r"shape \(\)"),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.random((120, 4))
    return X, (X[:, 0] + X[:, 1] > 1.0).astype(int)


def multiply(A, B):
    return np.asarray(A @ B.T)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("model", ON_ROWS, ids=lambda model: type(model).__name__)
def test_kernels_that_return_something_else(rows, model, wrong):
    change, kind, message = WRONG[wrong]
    model.set_params(kernel=lambda A, B: change(multiply(A, B)))
    with pytest.raises(kind, match=f"^kernel: the callable .*{message}.*; return "):
        model.fit(*rows)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("model", ON_NUMBERS, ids=lambda model: type(model).__name__)
def test_kernels_of_numbers_that_return_something_else(rows, model, wrong):
    change, kind, message = WRONG[wrong]
    # The diagonal is asked for as one row.
    model.set_params(kernel=lambda a, b: change(np.atleast_2d(np.minimum(a, b))))
    with pytest.raises(kind, match=f"^kernel: the callable .*{message}.*; return "):
        model.fit(*rows)


@pytest.mark.parametrize("wrong", sorted(set(WRONG) - {"wrong shape", "a number"}))
def test_explanatory_that_returns_something_else(rows, wrong):
    change, kind, message = WRONG[wrong]
    model = LRSVC(explanatory=lambda X: change(X**2), random_state=0)
    with pytest.raises(kind, match=rf"^explanatory: the callable .*{message}.*; return .* m\)$"):
        model.fit(*rows)


class OwnError(Exception):
    """An error that only a user's code raises."""


def fail(*arrays):
    raise OwnError("as the user wrote it")


@pytest.mark.parametrize("model", [*ON_ROWS, *ON_NUMBERS], ids=lambda model: type(model).__name__)
def test_what_a_kernel_raises_is_left_as_it_is(rows, model):
    with pytest.raises(OwnError) as caught:
        model.set_params(kernel=fail).fit(*rows)
    assert caught.value.args == ("as the user wrote it",)
    (note,) = caught.value.__notes__
    assert note.startswith(
        "kernel: the callable raised this OwnError when it was called with arrays"
    )


@pytest.mark.parametrize("model", ON_ROWS, ids=lambda model: type(model).__name__)
def test_what_a_kernel_raises_when_predicting(rows, model):
    X, y = rows
    calls = []
    model.set_params(kernel=lambda A, B: fail() if calls else multiply(A, B)).fit(X, y)
    calls.append("predict")
    with pytest.raises(OwnError) as caught:
        model.predict(X)
    assert caught.value.__notes__[0].startswith("kernel: the callable raised this OwnError")


def test_what_explanatory_raises_is_left_as_it_is(rows):
    with pytest.raises(OwnError, match="as the user wrote it") as caught:
        LRSVC(explanatory=fail).fit(*rows)
    (note,) = caught.value.__notes__
    assert note.endswith("when it was called with arrays of shape (100, 4)")


@pytest.mark.parametrize("model", ON_NUMBERS, ids=lambda model: type(model).__name__)
def test_a_function_of_single_numbers_is_told_to_take_arrays(rows, model):
    with pytest.raises(ValueError, match="ambiguous") as caught:
        model.set_params(kernel=lambda a, b: min(a, b)).fit(*rows)
    assert "k(x, y) must take arrays" in caught.value.__notes__[0]


def test_numbers_of_any_real_type_are_taken(rows):
    """Such as those of numpy.frompyfunc, which are objects, and whole numbers."""
    X, y = rows
    X = np.rint(10 * X)
    expected = KernelSVC(kernel=multiply).fit(X, y).decision_function(X)
    for change in (lambda K: K.astype(object), lambda K: K.astype(int), np.ndarray.tolist):
        model = KernelSVC(kernel=lambda A, B, change=change: change(multiply(A, B)))
        assert_array_equal(model.fit(X, y).decision_function(X), expected)
    exact = np.frompyfunc(Fraction, 1, 1)
    model = KernelSVC(kernel=lambda A, B: exact(multiply(A, B)))
    assert_array_equal(model.fit(X, y).decision_function(X), expected)


def test_a_basis_without_a_root_is_the_kernels_fault():
    with pytest.raises(ValueError, match=r"^kernel: the matrix of the basis vectors .* another"):
        find_root(np.array([[1.0, 2.0], [2.0, 1.0]]))


def tilted(A, B):
    """Not symmetric, and so no kernel."""
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1)) + A[:, :1]


def complaint(model, X, y):
    """What a fit fails with; nothing if its decisions are finite."""
    try:
        decisions = model.fit(X, y).decision_function(X)
    except ValueError as error:
        return str(error)
    return "" if np.isfinite(decisions).all() else "not finite"


@pytest.mark.parametrize("seed", [115, 130, 348, 395, 872, 1082, 1128])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bases_of_a_function_that_is_no_kernel(seed):
    """Rounding decides where factorisations fail; where they do, the error names the kernel."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 3))
    y = X[:, 0] + 0.5 * rng.normal(size=20) > 0
    message = complaint(ProjectedSVC(kernel=tilted, n_basis=5, max_iter=50), X, y)
    assert not message or message.startswith("kernel: the matrix of the basis vectors")


@pytest.mark.filterwarnings("ignore:The 'callable' kernel has a negative diagonal")
@pytest.mark.parametrize("sign", [0.0, -1.0])
def test_a_basis_needs_positive_kernel_values(rows, sign):
    with pytest.raises(
        ValueError, match=r"^kernel: no row has a positive kernel value with itself"
    ):
        ProjectedSVC(kernel=lambda A, B: sign * multiply(A, B)).fit(*rows)


def test_a_fit_asks_for_the_diagonal_of_a_callable_once():
    rng = np.random.default_rng(0)
    X, asked = rng.normal(size=(900, 3)), []

    def kernel(A, B):
        if A is B or (A.shape == B.shape and np.array_equal(A, B)):
            asked.append(len(A))
        return A @ B.T

    KernelSVC(kernel=kernel).fit(X, X[:, 0] > 0)
    rows = [n for n in asked if n <= DIAGONAL_ROWS]
    assert sum(rows) < 2 * 900
