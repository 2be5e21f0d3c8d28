"""The map from the papers to the code names functions that exist, and misses no number."""

import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

PAGE = (Path(__file__).parents[1] / "docs" / "paper-map.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
NAMES = sorted(set(re.findall(r"`(widemargin\.[\w.]+)`", PAGE)))
#: What each paper numbers: its last equation, and everything else.
NUMBERED = {
    "DC-SVM": (11, ["Algorithm 1", "Lemma 1", "Theorem 1", "Theorem 2", "Theorem 3"]),
    "PmSVM and LR-SVM": (
        42,
        ["Theorem 1", "Proposition 1", *(f"Algorithm {number}" for number in range(1, 5))],
    ),
    "ICD": (13, ["Algorithm 1", "Algorithm 2"]),
    "PSVM": (70, ["Theorem for basis checking", *(f"Procedure {n}" for n in range(1, 5))]),
}
REASONS = ("definition", "proof", "identity", "background")


def find(name):
    """What a dotted name stands for: a function, a class or a method, where it is defined."""
    parts = name.split(".")
    for n_parts in range(len(parts) - 1, 1, -1):
        module = ".".join(parts[:n_parts])
        try:
            found = getattr(import_module(module), parts[n_parts])
        except ModuleNotFoundError:
            continue
        if found.__module__ != module:
            raise AttributeError(f"{name} is defined in {found.__module__}")
        for part in parts[n_parts + 1 :]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def rows_of(section):
    """Cells of the table of a section, without its head."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("name", NAMES)
def test_named_function_exists(name):
    found = find(name)
    assert callable(found) or isinstance(found, property)


@pytest.mark.parametrize(
    "name",
    [
        "widemargin.nothing.at_all",
        "widemargin.problem.nothing",
        "widemargin.problem.Problem.nothing",
        "widemargin.validation.Problem",
    ],
)
def test_a_name_that_is_missing_or_elsewhere_is_noticed(name):
    with pytest.raises((ModuleNotFoundError, AttributeError)):
        find(name)


@pytest.mark.parametrize("section", NUMBERED)
def test_every_number_has_one_row(section):
    last, others = NUMBERED[section]
    numbers = [row[0] for row in rows_of(section)]
    assert len(set(numbers)) == len(numbers)
    assert {*(f"Eq. {number}" for number in range(1, last + 1)), *others} <= set(numbers)


@pytest.mark.parametrize("section", NUMBERED)
def test_every_row_names_a_function_or_a_reason(section):
    for number, what, function, difference in rows_of(section):
        assert what, number
        is_named = re.fullmatch(r"`widemargin\.[\w.]+`", function) is not None
        is_excused = not function and difference.startswith(REASONS)
        assert is_named or is_excused, number
        assert difference, number


C, N_ROWS = 3.7, 30


class Fixed:
    """PSVM's quantities for given basis vectors and support vectors, solved anew (Eq. 14)."""

    def __init__(self, basis, support, K, y):
        values, among = K[np.ix_(support, basis)], K[np.ix_(basis, basis)]
        self.H = among / C + values.T @ values
        self.inverse = np.linalg.inv(self.H)
        self.l = self.inverse @ values.sum(axis=0)
        # Eq. 28 divided by C.
        self.q = len(support) - values.sum(axis=0) @ self.l
        projector = np.eye(len(support)) - values @ self.inverse @ values.T
        self.b = projector.sum(axis=0) @ y[support] / projector.sum()
        self.w = self.inverse @ values.T @ (y[support] - self.b)
        self.errors = 1.0 - y[support] * (values @ self.w + self.b)
        self.J = self.w @ among @ self.w + C * self.errors @ self.errors
        self.values = values


@pytest.fixture
def psvm():
    """Kernel matrix and labels of a small problem."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N_ROWS, 3)), np.sign(rng.normal(size=N_ROWS))
    return np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2)), y


def test_corrected_removal(psvm):
    """Eq. 56, 58 and 61 with the diagonal of the inverse, q / C, and the factor C."""
    basis, support = [0, 1, 2, 3], range(N_ROWS)
    now, smaller = Fixed(basis, support, *psvm), Fixed(basis[:-1], support, *psvm)
    share = now.l[-1] / now.q
    room = now.inverse[-1, -1] + share * now.l[-1]
    assert_allclose(smaller.J - now.J, C * now.w[-1] ** 2 / room)
    eta = now.w[-1] / room
    assert_allclose(smaller.w, now.w[:-1] - eta * (share * now.l[:-1] + now.inverse[:-1, -1]))
    assert_allclose(smaller.b, now.b + eta * share)
    printed = C * now.w[-1] ** 2 / (now.H[-1, -1] + share * now.l[-1])
    assert abs(printed - (smaller.J - now.J)) > 0.5 * (smaller.J - now.J)


def test_corrected_addition(psvm):
    """Eq. 42 with minus signs for w, Eq. 44 with the factor C, Eq. 45 for q / C."""
    (K, y), basis, new = psvm, [0, 1, 2, 3], 4
    now, larger = Fixed(basis, range(N_ROWS), K, y), Fixed([*basis, new], range(N_ROWS), K, y)
    column = K[:, new]
    h = K[basis, new] / C + now.values.T @ column
    schur = K[new, new] / C + column @ column - h @ now.inverse @ h
    rest = column.sum() - h @ now.l
    slope = h @ now.w - column @ (y - now.b)
    room = schur - rest**2 / now.q
    eta, share = slope / room, rest / now.q
    assert_allclose(now.J - larger.J, C * slope**2 / room)
    step = eta * (share * now.l - now.inverse @ h)
    assert_allclose(larger.w, np.append(now.w - step, -eta))
    assert_allclose(larger.b, now.b + eta * share)
    assert_allclose(larger.q, now.q - rest**2 / schur)


def test_corrected_row_that_leaves(psvm):
    """Eq. 33 to 35 with l in place of its transpose and q / C."""
    (K, y), basis = psvm, [0, 1, 2, 3]
    now, fewer = Fixed(basis, range(N_ROWS), K, y), Fixed(basis, range(N_ROWS - 1), K, y)
    row, error = K[-1, basis], now.errors[-1]
    half, rest = now.inverse @ row, 1.0 - row @ now.l
    eta = y[-1] * error / (now.q * (row @ half - 1.0) + rest**2)
    assert_allclose(fewer.w, now.w + eta * (now.q * half - rest * now.l))
    assert_allclose(fewer.b, now.b + eta * rest)
    assert_allclose(fewer.q, now.q + rest**2 / (row @ half - 1.0))


def test_corrected_first_basis_vector(psvm):
    """Eq. 64 with the factor C, and Eq. 69 without it."""
    K, y = psvm
    one = Fixed([0], range(N_ROWS), K, y)
    labels, column = y - y.mean(), K[:, 0] - K[:, 0].mean()
    eta = K[0, 0] / C + column @ column
    assert_allclose(one.J, C * (labels @ labels - (labels @ column) ** 2 / eta))
    assert_allclose(one.q, N_ROWS * eta / one.H[0, 0])
