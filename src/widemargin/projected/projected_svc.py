"""`ProjectedSVC`, the scikit-learn classifier of PSVM."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from widemargin.arguments import check_flag, check_integer, check_number, check_verbose, draw_seed
from widemargin.callback_support import report_rounds
from widemargin.callbacks import Stage
from widemargin.deadline import share_time, start_deadline
from widemargin.kernels import Kernel
from widemargin.memory import parse_bytes
from widemargin.parallel import open_workers
from widemargin.problem import Problem
from widemargin.progress import show_bases
from widemargin.projected.classifier_base import (
    BasisClassifier,
    count_changes,
    count_rows,
    is_count_or_share,
    split_classes,
)
from widemargin.projected.moving import can_move
from widemargin.projected.path import join_stages, make_path
from widemargin.projected.plan import limit_candidates, suit_candidates
from widemargin.projected.problems import choose_bases, join_listeners
from widemargin.projected.selection import PathPoint, Search, Selection
from widemargin.projected.size_search import (
    AUTO_SIZE,
    MOVED_SIZES,
    SizedDecisions,
    count_affordable,
    explain_basis,
    find_size,
    fit_each_size,
)

#: Factor on the tolerance while sizes of moved bases are compared: their accuracies on held-out rows
#: need no more, and moving the vectors of seven sizes in five folds takes most of the time.
SIZE_TOL = 10.0


class ProjectedSVC(BasisClassifier):
    """Sparse kernel SVM with a chosen number of basis vectors.

    Minimises ``w' K w + C sum max(0, error)^2`` over coefficients w, an intercept and the basis
    vectors, where K is the kernel matrix of the basis (PSVM of Peng, Rafferty and Ferguson, 2017).
    Basis vectors are training rows. The fit adds the row that lowers the objective most, one after
    another, and then exchanges basis vectors for other rows as long as that lowers the objective.
    Models with 5 to 20 % of the support vectors of an SVM are often as accurate.

    Parameters
    ----------
    n_basis : int, float, str, default=50
        Number of basis vectors of each binary problem: a number, a share of the training rows, or an
        amount of memory such as ``"4 kB"`` for all vectors and coefficients in float32 (without the
        scalers of a pipeline). ``"auto"`` chooses the number by cross-validation: the smallest, up to
        100, whose held-out accuracy is within one standard error of the best. With ``move=True`` it
        compares 1, 2, 4, ... 64 vectors. Fewer vectors are used if they separate the training rows, or
        if no more rows are linearly independent.
    C : float, default=1.0
        Cost of a squared error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        Kernel as for `KernelSVC`, except ``"precomputed"``.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`.
    refine : bool, default=True
        Whether to exchange basis vectors after the basis has grown (the second stage of PSVM). If the
        basis separates the training rows, this stage removes vectors as long as it still does.
    move : bool, default=False
        Whether to optimise the positions of the basis vectors in the end. They are then no longer
        training rows, and far fewer of them reach the same accuracy. This goes beyond the paper. It
        works with the kernels rbf, poly and linear, and makes vectors of sparse data dense.
    candidates : "auto", "all", int or float, default="auto"
        Rows that may become basis vectors: all, or a random sample of the given number or share. The
        sample is drawn again when a tenth of it (1 in 25 if there are many more rows) is in the basis.
        A sample takes less time and reaches a higher objective. "auto" takes all rows unless rows
        times rows times bases exceed 400 million, as for 20,000 rows of two classes or 4,000 rows of
        26; then it draws as many as keep the product at that, but at least 500.
    shared_basis : bool, default=False
        With more than two classes, whether all one-vs-rest problems share one basis. In a model of the
        same size each class then has more vectors, and predictions compute fewer kernel values.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=1e-3
        Relative decrease of the objective below which an exchange is not made. Steps that move vectors
        stop at a tenth of it.
    max_iter : int, default=1000
        Maximum number of exchanges of basis vectors, and, with ``move=True``, maximum number of steps
        that move them. The limits hold for each binary problem. Vectors added to the basis, and
        vectors removed from it, do not count.
    max_time : float or None, default=None
        Seconds after which the fit stops with the best basis so far. Binary problems share the time,
        and ``n_basis="auto"`` uses at most half of it. If there is too little time to score all
        candidates, a sample is drawn. If a stopped model is less accurate on the training rows than
        the most frequent class, it predicts that class.
    memory : int or str, default="auto"
        Limit on the memory beside the data, in bytes or as text such as ``"2 GB"``. Kernel values take
        most of it: 8 bytes for each row and basis vector, 4 (8 for few rows) for each row and
        candidate. Values that do not fit are computed each time they are needed; if the scores of all
        candidates do not fit, a sample of candidates is drawn. About 16 MB are not counted. If the
        limit is too small, an error states the amount that is needed.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the samples of candidates and of the folds of ``n_basis="auto"``.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line at every change of the basis.
    callback : callable or None, default=None
        Called as ``callback(stage)`` with the present `Stage` after every change of a basis.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    basis_indices_ : ndarray of shape (n_vectors,)
        Training rows that are basis vectors of any problem, sorted. With ``move=True``, the training
        row from which each vector started, problem by problem.
    basis_vectors_ : ndarray or csr_matrix of shape (n_vectors, n_features)
        The basis vectors.
    coef_ : ndarray of shape (n_functions, n_vectors)
        ``decision = kernel(X, basis_vectors_) @ coef_.T + intercept_``; zero where a vector is not in
        the basis of a problem.
    intercept_ : ndarray of shape (n_functions,)
        Intercepts.
    n_basis_ : int or ndarray of shape (n_functions,)
        Number of basis vectors of each problem.
    objective_ : float or ndarray of shape (n_functions,)
        Objective of each problem.
    n_support_ : int or ndarray of shape (n_functions,)
        Number of training rows with a positive error.
    kernel_ : Kernel
        The kernel, with its parameters.
    n_iter_ : int
        Number of vectors added to the basis, plus exchanges, plus steps that moved vectors; of the
        problem with the largest sum. It is at most ``n_basis + max_iter``, and with ``move=True`` at
        most ``n_basis + 2 max_iter``. Removals of vectors do not count.
    stop_reason_ : str
        ``"converged"``, ``"separated"`` if fewer basis vectors separate the rows, ``"rank"`` if no
        further row is linearly independent, ``"max_iter"`` or ``"max_time"``.
    auto_path_ : list of PathPoint
        With ``n_basis="auto"``: objective and held-out accuracy at every size.

    References
    ----------
    J.-X. Peng, K. Rafferty, S. Ferguson, "A fast algorithm for sparse support vector machines for
    mobile computing applications", Neurocomputing 230, 2017.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from widemargin import ProjectedSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ProjectedSVC(n_basis=10)).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.95
    True
    """

    def __init__(
        self,
        *,
        n_basis: int | float | str = 50,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        refine: bool = True,
        move: bool = False,
        candidates: int | float | str = "auto",
        shared_basis: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        max_time: float | None = None,
        memory: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        callback: Callable[[Stage], object] | None = None,
    ) -> None:
        self.n_basis = n_basis
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.refine = refine
        self.move = move
        self.candidates = candidates
        self.shared_basis = shared_basis
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callback = callback

    def staged_decision_function(self, X: Any) -> Iterator[NDArray[np.float64]]:
        """Compute decision values with 1, 2, 3, ... basis vectors, then those of the final model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Yields
        ------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Decision values as of `decision_function`; the last are those of the final model.
        """
        checked = self._check_queries(X)
        memory = parse_bytes(self.memory)
        for decisions in self._path.decide(checked, max_bytes=memory, n_jobs=self.n_jobs):
            yield self._scores(decisions)
        yield self._scores(self._model.decide(checked, max_bytes=memory, n_jobs=self.n_jobs))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Predict classes with 1, 2, 3, ... basis vectors, then with the final model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data.

        Yields
        ------
        labels : ndarray of shape (n_samples,)
            Class labels.
        """
        for scores in self.staged_decision_function(X):
            yield self._labels(scores)

    def basis_path(self, X: Any, y: Any) -> list[PathPoint]:
        """Return objective and accuracy against the size of the basis.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Data; usually not the training data.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        path : list of PathPoint
            One for each size of the growing basis, and one for the final model.
        """
        y = column_or_1d(y)
        check_consistent_length(X, y)
        accuracies = [float(np.mean(labels == y)) for labels in self.staged_predict(X)]
        objectives = [*self._path.objective.sum(axis=1), float(np.sum(self.objective_))]
        sizes = [*range(1, len(self._path) + 1), int(np.max(self.n_basis_))]
        return [
            PathPoint(size, float(objective), accuracy)
            for size, objective, accuracy in zip(sizes, objectives, accuracies, strict=True)
        ]

    def _check_params(self) -> None:
        super()._check_params()
        check_number("tol", self.tol, above=0)
        check_integer("max_iter", self.max_iter, low=1)
        check_number("max_time", self.max_time, above=0, optional=True)
        for name in ("refine", "move", "shared_basis"):
            check_flag(name, getattr(self, name))
        check_verbose(self.verbose)
        if not (isinstance(self.n_basis, str) or is_count_or_share(self.n_basis)):
            raise ValueError(explain_basis(self.n_basis))
        if self.candidates not in ("auto", "all") and not is_count_or_share(self.candidates):
            raise ValueError(
                f"candidates: {self.candidates!r} is not allowed; give 'auto', 'all', a positive "
                "number, or a share of the rows between 0 and 1"
            )

    def _select(self, problem: Problem, kernel: Kernel) -> list[Selection]:
        if hasattr(self, "auto_path_"):
            del self.auto_path_
        search = Search(
            n_basis=AUTO_SIZE,
            n_candidates=None,
            refine=self.refine,
            move=self.move,
            tol=self.tol,
            max_iter=self.max_iter,
            deadline=start_deadline(self.max_time),
            max_bytes=parse_bytes(self.memory),
        )
        if self.move and not can_move(kernel):
            raise ValueError(
                f"move: basis vectors can move with the kernels rbf, poly and linear, not with "
                f"{kernel.name!r}; set move=False, or use one of these kernels"
            )
        seed = draw_seed(self.random_state)
        if isinstance(self.n_basis, str) and self.n_basis == "auto":
            half = replace(
                search,
                refine=False,
                tol=(SIZE_TOL if search.move else 1.0) * search.tol,
                deadline=share_time(search.deadline, 2),
            )
            size = self._find_size(problem, kernel, half, seed)
        else:
            size = self._count_basis(problem)
        return self._search(problem, kernel, replace(search, n_basis=size), seed)

    def _count_basis(self, problem: Problem) -> int:
        """Return the number of basis vectors of each problem that ``n_basis`` stands for."""
        if not isinstance(self.n_basis, str):
            return count_rows(self.n_basis, len(problem.labels))
        n_functions = 1 if len(problem.classes) == 2 else len(problem.classes)
        n_bases = 1 if self.shared_basis else n_functions
        return count_affordable(self.n_basis, problem.X.shape[1], n_functions, n_bases)

    def _find_size(self, problem: Problem, kernel: Kernel, search: Search, seed: int) -> int:
        """Choose the number of basis vectors by cross-validation, and set ``auto_path_``."""
        sizes = MOVED_SIZES if search.move else np.arange(1, search.n_basis + 1)
        options: dict[str, Any] = {"max_bytes": search.max_bytes, "n_jobs": self.n_jobs}

        def fit_sizes(part: Problem, queries: Any) -> SizedDecisions:
            if not search.move:
                path = make_path(part.X, kernel, self._search(part, kernel, search, seed))
                return SizedDecisions(*path.decide_sizes(queries, sizes, **options))

            def fit_one(size: int) -> tuple[NDArray[np.float64], float, int]:
                found = self._search(part, kernel, replace(search, n_basis=size), seed)
                basis = join_stages([selection.final for selection in found], part.X)
                decisions = basis.expand(kernel).decide(queries, **options)
                n_vectors = max(len(selection.final.rows) for selection in found)
                return decisions, float(basis.objective.sum()), n_vectors

            # Vectors that have moved leave no smaller models behind: each size is a fit of its own.
            return fit_each_size(fit_one, sizes, search.deadline)

        size, self.auto_path_ = find_size(
            problem, sizes, fit_sizes, deadline=search.deadline, seed=seed
        )
        return size

    def _search(
        self, problem: Problem, kernel: Kernel, search: Search, seed: int
    ) -> list[Selection]:
        """Choose the basis of each binary problem, or the shared basis."""
        n = len(problem.labels)
        subproblems = split_classes(problem)
        groups = (
            [subproblems] if self.shared_basis else [[subproblem] for subproblem in subproblems]
        )
        if self.candidates == "auto":
            search = limit_candidates(search, n, suit_candidates(n, len(groups)))
        elif not isinstance(self.candidates, str):
            search = replace(search, n_candidates=count_rows(self.candidates, n))
        listen = report_rounds(self)
        with (
            open_workers(self.n_jobs) as workers,
            show_bases(len(groups), self.verbose, listen) as show,
        ):
            rows = self._read_rows(problem, kernel, workers)
            return choose_bases(
                problem, rows, groups, search, float(self.C), np.random.default_rng(seed),
                join_listeners(show, self.callback),
            )  # fmt: skip

    def _keep(self, problem: Problem, selections: list[Selection]) -> None:
        super()._keep(problem, selections)
        self.n_iter_ = count_changes(selections)
        self._path = make_path(problem.X, self.kernel_, selections)
        self._requested = max(s.n_requested for s in selections)

    def _count_reached(self) -> str:
        if self.coef_.any():
            return f"{np.max(self.n_basis_)} basis vectors"
        return "no useful basis vector, so that it predicts the most frequent class"

    def _advice(self) -> str | None:
        return {
            "rank": f"found no more than {np.max(self.n_basis_)} independent basis vectors of the "
            f"{self._requested} asked for; lower n_basis, scale the features, or use a narrower "
            "kernel",
            "max_iter": f"made max_iter={self.max_iter} exchanges or moves of basis vectors; raise it "
            "or tol",
            "max_time": f"stopped after max_time={self.max_time} s with {self._count_reached()}; "
            "allow more time for a better basis",
        }.get(self.stop_reason_)
