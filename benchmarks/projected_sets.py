"""The seven data sets of the PSVM paper, prepared as there, and what its tables say about them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import train_test_split

from benchmarks.papers.published import read_published
from widemargin.datasets import load

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Figures:
    """A row of Table 2, 3 or 4.

    Attributes
    ----------
    p, q : float
        ``C = 2^p`` and ``gamma = 2^q / (2 s)``, with the s of Table 1.
    vectors : int
        Support or basis vectors, summed over the classes.
    train, test : float
        Success rates in percent.
    seconds : float
        Running time on a Pentium III with 800 MHz.
    """

    p: float
    q: float
    vectors: int
    train: float
    test: float
    seconds: float


@dataclass(frozen=True)
class Paper:
    """What the paper says about a data set.

    Attributes
    ----------
    name : str
        Its name there.
    scale : float
        Mean of the least and the largest squared norm (Table 1).
    libsvm, psvm, spsvm : Figures
        Tables 2, 3 and 4.
    n_psvm, n_spsvm : int
        Basis vectors of each class that come to the published sum. PSVM stops early at classes that
        fewer vectors separate; on segment 22 come to 77 at the published parameters.
    """

    name: str
    scale: float
    libsvm: Figures
    psvm: Figures
    spsvm: Figures
    n_psvm: int
    n_spsvm: int


#: Names that the paper has for two of the sets.
PRINTED_NAMES = {"a1a": "adult", "w1a": "webcat"}
#: Basis vectors of a class, for PSVM and SpSVM, where they are not the published sum.
A_CLASS = {"dna": (48, 46), "segment": (22, 26)}


def read_paper(name: str) -> Paper:
    """What the paper says about a data set."""
    (sizes,) = (r for r in read_published("psvm-table-1")["rows"] if r["dataset"] == name)
    libsvm, psvm, spsvm = (read_figures(f"psvm-table-{number}", name) for number in (2, 3, 4))
    n_psvm, n_spsvm = A_CLASS.get(name, (psvm.vectors, spsvm.vectors))
    return Paper(
        PRINTED_NAMES.get(name, name), sizes["sigma2"], libsvm, psvm, spsvm, n_psvm, n_spsvm
    )


def read_figures(table: str, name: str) -> Figures:
    """A row of a table with the parameters that belong to it."""
    published = read_published(table)
    (row,) = (r for r in published["rows"] if r["dataset"] == name)
    settings = published["settings"][name]
    vectors = row["n_support"] if "n_support" in row else row["n_basis"]
    return Figures(
        settings["C_log2"], settings["gamma_q"], vectors, row["accuracy_train"], row["accuracy"],
        row["fit_s"],
    )  # fmt: skip


PAPER = {
    name: read_paper(name)
    for name in ("splice", "a1a", "w1a", "colon", "leukemia", "dna", "segment")
}
#: The sets that the comparison of speed is about.
LARGER = ("splice", "a1a", "w1a", "dna", "segment")
#: Training rows of the sets without a published split, which is made here.
OWN_SPLITS = {"colon": 30, "segment": 1120}


@dataclass(frozen=True)
class Case:
    """A data set, ready to be fitted.

    Attributes
    ----------
    name : str
        Its name here.
    X_train, y_train, X_test, y_test : ndarray or csr_matrix
        The two parts.
    scale : float
        Mean of the least and the largest squared norm of all rows.
    """

    name: str
    X_train: Any
    y_train: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    scale: float

    @property
    def paper(self) -> Paper:
        """What the paper says about it."""
        return PAPER[self.name]

    @property
    def n_problems(self) -> int:
        """Binary problems, one against the rest if classes are more than two."""
        n_classes = len(np.unique(self.y_train))
        return 1 if n_classes == 2 else n_classes


def load_case(name: str, division: int = 0) -> Case:
    """Load one of the sets, scaled as the published squared norms tell.

    ``division`` is the seed of the division of sets whose own one is not published.
    """
    source = load(name)
    n_train = source.X_train.shape[0]
    X = PREPARE.get(name, as_it_is)(_join(source.X_train, source.X_test))
    y = np.concatenate([source.y_train, source.y_test])
    rows = np.arange(len(y))
    train, test = rows[:n_train], rows[n_train:]
    if name in OWN_SPLITS:
        # The split made by the loader is undone.
        train, test = train_test_split(
            rows, train_size=OWN_SPLITS[name], stratify=y, random_state=division
        )
    norms = np.asarray(X.power(2).sum(axis=1) if sparse.issparse(X) else (X**2).sum(axis=1))
    scale = 0.5 * float(norms.min() + norms.max())
    return Case(name, X[train], y[train], X[test], y[test], scale)


def _join(first: Any, second: Any) -> Any:
    if sparse.issparse(first):
        return sparse.csr_matrix(sparse.vstack([first, second]), dtype=np.float64)
    return np.concatenate([first, second]).astype(np.float64)


def as_it_is(X: Any) -> Any:
    return X


def normalise(X: FloatArray) -> FloatArray:
    """Rows, then columns, to mean zero and variance one, as LIBSVM's collection has them."""
    X = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, keepdims=True, ddof=1)
    return (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)


def stretch(X: FloatArray) -> FloatArray:
    """Columns to [-1, 1], constant ones to zero, as LIBSVM's ``svm-scale`` does."""
    low, high = X.min(axis=0), X.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.where(high > low, 2.0 * (X - low) / width - 1.0, 0.0)


PREPARE: dict[str, Callable[[Any], Any]] = {
    "colon": lambda X: normalise(np.log(X)),
    "leukemia": normalise,
    "segment": stretch,
}
