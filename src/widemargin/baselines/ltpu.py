"""LTPU: a linear SVM on locally tuned processing units (Gaussian units)."""

from typing import Any

from widemargin.arguments import check_integer
from widemargin.baselines.features import FeatureMap, FeaturesMixin, KernelMap, choose_centres
from widemargin.kernel_arguments import resolve_gamma
from widemargin.kernels import RBF
from widemargin.problem import Problem


class LTPUSVC(FeaturesMixin):
    """Linear SVM on Gaussian units around centres of clusters.

    The network of Moody and Darken (1989): the centres c are those of k-means in the space of the
    data, the units ``exp(-gamma |x - c|^2)`` all have the same width, and only the weights of the
    units are learned from the labels, here by a linear SVM.

    Parameters
    ----------
    n_units : int, default=300
        Number of units. If there are fewer distinct rows, each of them is a centre.
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    gamma : float, "scale" or "auto", default="scale"
        Width of the units, as for `KernelSVC`.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a row on the wrong side of its margin.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=0.1
        A fit stops when the projected gradients of a problem differ by less than this.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model. They include the time for centres and
        units, which are always computed; one pass is always made.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the choice of centres and of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    centers_ : ndarray or csr_matrix of shape (n_units, n_features)
        Centres of the units.
    gamma_ : float
        Width of the units.
    coef_ : ndarray of shape (n_functions, n_units)
        ``decision = expand(X) @ coef_.T + intercept_``.
    intercept_ : ndarray of shape (n_functions,)
        Constants of the decision functions. They are regularised like the coefficients.
    n_iter_ : int or ndarray
        Number of passes for each decision function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"`` or ``"max_time"``.
    violation_ : float
        Largest spread of projected gradients in the last pass.

    References
    ----------
    J. Moody, C. J. Darken, "Fast learning in networks of locally-tuned processing units", Neural
    Computation 1, 1989.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.baselines import LTPUSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LTPUSVC(C=10, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        n_units: int = 300,
        C: float = 1.0,
        gamma: float | str = "scale",
        loss: str = "hinge",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 0.1,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_units = n_units
        self.C = C
        self.gamma = gamma
        self.loss = loss
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.max_time = max_time
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("n_units", self.n_units, low=1)

    def _choose_map(self, problem: Problem, seed: int) -> FeatureMap:
        self.gamma_ = resolve_gamma(self.gamma, problem)
        self.centers_ = choose_centres(problem, self.n_units, seed)
        return KernelMap(RBF(self.gamma_), self.centers_)
