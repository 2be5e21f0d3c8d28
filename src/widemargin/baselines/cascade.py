"""`CascadeSVC`, the scikit-learn classifier of the cascade SVM."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin.arguments import check_flag, check_integer, check_number, draw_seed
from widemargin.baselines.cascade_layers import Cascade, CascadeFit, add_layers
from widemargin.budget import Budget
from widemargin.exact.classifier_base import ExactKernelClassifier, one_or_all
from widemargin.exact.solution import Solution
from widemargin.exact.solve import polish
from widemargin.kernels import Kernel
from widemargin.parallel import open_workers
from widemargin.parameters import check_choices
from widemargin.problem import Problem, Subproblem


class CascadeSVC(ExactKernelClassifier):
    """Cascade of kernel SVMs.

    The rows are split at random into ``2**n_layers`` parts, and an SVM is trained on each part. The
    support vectors of two parts form one set of the next layer, until a single set remains. Its
    solution is the model of one round. In the next round these support vectors are added to every part
    of the first layer. The rounds converge to the optimum of `KernelSVC`.

    Parameters
    ----------
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    kernel : str, callable or Kernel, default="rbf"
        As for `KernelSVC`.
    gamma, degree, coef0
        Parameters of the kernel, as for `KernelSVC`.
    n_layers : int, default=3
        Number of times that sets are merged in pairs. It is smaller for a binary problem whose parts
        would have fewer than 200 rows, or fewer than two rows of a class.
    max_rounds : int or None, default=1
        Maximum number of rounds; None to continue to the optimum. A single round is not expected to
        converge, so it gives no warning.
    fit_intercept : bool, default=True
        Whether the decision function has a constant term.
    multi_class : {"ovo", "ovr"}, default="ovo"
        With more than two classes: one problem for each pair of classes, or one for each class
        against the rest.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=1e-3
        Violation of the optimality conditions to which sets are solved, and at which rounds end.
    memory : int or str, default="auto"
        Bound on working memory in bytes, or text such as ``"2 GB"``.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model.
    n_jobs : int or None, default=None
        Number of threads; None or -1 for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the division of the rows into parts.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every round of a set's solver.

    Attributes
    ----------
    n_rounds_ : int or ndarray of shape (n_problems,)
        Rounds made; an integer for a single problem.
    layers_ : list of LayerRecord
        What happened in each layer of the last round, the parts first: ``n_sets``, ``n_rows``,
        ``n_support``, ``seconds``; added up over the binary problems, of which each has a last round
        of its own.
    stop_reason_ : str
        ``"converged"`` if no training row violates the optimality conditions by ``tol``,
        ``"max_rounds"``, ``"max_time"``, or ``"stalled"`` when ``tol`` is finer than float32 kernel
        values allow.
    classes_, support_, support_vectors_, n_support_, dual_coef_, intercept_, objective_, \
duality_gap_, n_iter_, kernel_, n_features_in_, feature_names_in_
        As in `KernelSVC`. The objective and the gap are those of all rows.

    Notes
    -----
    With the support vectors, the two rows that violate the optimality conditions most are fed back.
    Without them a round can stand still before the optimum where no support vector is on the margin.

    References
    ----------
    H. P. Graf, E. Cosatto, L. Bottou, I. Durdanovic, V. Vapnik, "Parallel support vector machines:
    the cascade SVM", Advances in Neural Information Processing Systems 17, 2004.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin.baselines import CascadeSVC
    >>> X, y = make_moons(2000, noise=0.1, random_state=0)
    >>> model = CascadeSVC(C=10, random_state=0).fit(X, y)
    >>> [layer.n_sets for layer in model.layers_], bool(model.score(X, y) > 0.98)
    ([8, 4, 2, 1], True)
    """

    warm_start = False

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        n_layers: int = 3,
        max_rounds: int | None = 1,
        fit_intercept: bool = True,
        multi_class: str = "ovo",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        memory: int | str = "auto",
        max_time: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_layers = n_layers
        self.max_rounds = max_rounds
        self.fit_intercept = fit_intercept
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.tol = tol
        self.memory = memory
        self.max_time = max_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        check_choices(self)
        check_number("C", self.C, above=0)
        check_number("tol", self.tol, above=0)
        check_number("max_time", self.max_time, above=0, optional=True)
        check_flag("fit_intercept", self.fit_intercept)
        check_integer("n_layers", self.n_layers, low=0)
        if self.max_rounds is not None:
            check_integer("max_rounds", self.max_rounds, low=1)

    def _solve(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        deadline: float | None,
    ) -> list[Solution]:
        points, duals, cache_bytes = self._prepare(problem, kernel, subproblems)
        seed = draw_seed(self.random_state)
        rng = np.random.default_rng(seed)
        cascades = [Cascade(dual, self.n_layers, rng) for dual in duals]
        budget = Budget(self.tol, -1, deadline, cache_bytes)
        with open_workers(self.n_jobs) as workers:
            fit = CascadeFit(kernel, points, workers, budget, seed, self.verbose)
            fit.run(cascades, self.max_rounds)
        self.layers_ = add_layers(cascades)
        self.n_rounds_ = one_or_all([cascade.n_rounds for cascade in cascades])
        return [
            polish(kernel, problem.X, points, cascade.dual, cascade.solution, Budget(self.tol))
            if len(cascade.parts) == 1
            else cascade.solution
            for cascade in cascades
        ]

    def _keep(
        self,
        problem: Problem,
        kernel: Kernel,
        subproblems: list[Subproblem],
        results: list[Solution],
    ) -> None:
        super()._keep(problem, kernel, subproblems, results)
        if self.stop_reason_ == "max_iter":  # One iteration of a cascade is a round.
            self.stop_reason_ = "max_rounds"

    def _warn_unless_converged(self) -> None:
        advice = {
            "max_rounds": f"max_rounds={self.max_rounds} was reached; raise it, or give None to go on "
            "to the optimum",
            "max_time": f"max_time={self.max_time} s has passed; allow more time",
            "stalled": f"tol={self.tol:g} is finer than float32 kernel values allow on these data; "
            "scale the features or raise tol",
        }.get(self.stop_reason_)
        one_pass = self.stop_reason_ == "max_rounds" and self.max_rounds == 1
        if advice and not one_pass:
            warnings.warn(
                f"CascadeSVC stopped before convergence: {advice}", ConvergenceWarning, stacklevel=4
            )
