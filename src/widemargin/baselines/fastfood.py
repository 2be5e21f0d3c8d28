"""Fastfood: a linear SVM on random Fourier features, without a dense random matrix."""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.arguments import check_integer
from widemargin.baselines import fastfood_fast as fast
from widemargin.baselines.features import FeatureMap, FeaturesMixin, split_rows
from widemargin.kernel_arguments import resolve_gamma
from widemargin.kernels.base import as_dense, check_width
from widemargin.parallel import Workers, open_workers
from widemargin.problem import Problem


class FastfoodSVC(FeaturesMixin):
    """Linear SVM on the Fastfood features of the rbf kernel.

    Random Fourier features are cosines and sines of random projections. Fastfood of Le, Sarlos and
    Smola (2013) makes the projections by blocks of Hadamard transforms, random signs, permutations
    and diagonal matrices, in ``O(log d)`` operations each for d features. Each projection gives a
    cosine and a sine, so that the approximate kernel of a row with itself is one.

    Parameters
    ----------
    n_features : int, default=1024
        Number of Fourier features, rounded up to an even number: a cosine and a sine for each
        projection. Projections are computed in blocks, whose size is the number of features of the
        data rounded up to a power of two. Surplus projections of the last block are left out.
    C : float, default=1.0
        Cost of an error; smaller values regularise more.
    gamma : float, "scale" or "auto", default="scale"
        Width of the kernel, as for `KernelSVC`.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss of a row on the wrong side of its margin.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=0.1
        A fit stops when the projected gradients of a problem differ by less than this.
    max_iter : int, default=1000
        Maximum number of passes over the data.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model. They include the time for the features,
        which are always computed; one pass is always made.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the projections and of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    n_features_ : int
        Number of Fourier features.
    gamma_ : float
        Width of the kernel.
    coef_ : ndarray of shape (n_functions, n_random_features)
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
    Q. Le, T. Sarlos, A. Smola, "Fastfood: approximating kernel expansions in loglinear time",
    International Conference on Machine Learning, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin.baselines import FastfoodSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FastfoodSVC(C=10, random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.9
    True
    """

    def __init__(
        self,
        *,
        n_features: int = 1024,
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
        self.n_features = n_features
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
        check_integer("n_features", self.n_features, low=1)

    def _choose_map(self, problem: Problem, seed: int) -> FeatureMap:
        self.gamma_ = resolve_gamma(self.gamma, problem)
        shares = problem.sample_weights / problem.sample_weights.sum()
        features = draw_fastfood(
            shares @ problem.X, self.gamma_, self.n_features, self._dtype(problem), seed
        )
        self.n_features_ = features.width
        return features


@dataclass(frozen=True)
class FastfoodMap(FeatureMap):
    """Feature map: cosines and sines of Fastfood's random projections.

    A block of projections is ``scale H factors P H signs x``. The arrays ``signs``, ``order`` and
    ``factors`` have shape (n_blocks, size), with one number for each diagonal element, and one index
    for each of P.

    Attributes
    ----------
    center : ndarray of shape (n_features,)
        Subtracted from every row: the kernel is the same, and the angles are small.
    signs : ndarray
        Plus or minus one.
    order : ndarray of intp
        The permutations P.
    factors : ndarray
        Standard normal numbers.
    scale : ndarray of shape (n_projections,)
        Gives the rows of the product the norms that rows of a Gaussian matrix have; of the last block
        only the first ones.
    """

    center: NDArray[np.float64]
    signs: NDArray[Any]
    order: NDArray[np.intp]
    factors: NDArray[Any]
    scale: NDArray[Any]

    @property
    def width(self) -> int:
        return 2 * self.scale.size

    def project(self, X: Any, workers: Workers) -> NDArray[Any]:
        """Return the projections of rows."""
        check_width(X.shape[1], len(self.center))
        shifted = (as_dense(X) - self.center).astype(self.signs.dtype)
        out = np.empty((len(shifted), self.scale.size), self.scale.dtype)
        parts = (self.signs, self.order, self.factors, self.scale)
        workers.run(len(out), lambda i, j: fast.project(shifted[i:j], *parts, out[i:j]))
        return out

    def fill(self, X: Any, out: NDArray[Any], workers: Workers) -> None:
        angles = self.project(X, workers)
        half = angles.shape[1]
        workers.run(len(out), lambda i, j: np.cos(angles[i:j], out=out[i:j, :half]))
        workers.run(len(out), lambda i, j: np.sin(angles[i:j], out=out[i:j, half:]))
        out *= 1.0 / sqrt(half)

    def make_model(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> "FastfoodModel":
        return FastfoodModel(self, coef.astype(self.scale.dtype), intercept)


@dataclass(frozen=True)
class FastfoodModel:
    """Model that is linear in Fastfood's features.

    Attributes
    ----------
    features : FastfoodMap
        The features.
    coef : ndarray of shape (n_functions, width)
        Their coefficients, of the type of the features.
    intercept : ndarray of shape (n_functions,)
        Constants.
    """

    features: FastfoodMap
    coef: NDArray[Any]
    intercept: NDArray[np.float64]

    def decide(self, X: Any, *, n_jobs: int | None) -> NDArray[np.float64]:
        """Return the decision values of the rows of ``X``, shape (n, n_functions)."""
        out = np.empty((X.shape[0], len(self.coef)))
        with open_workers(n_jobs) as workers:
            for rows in split_rows(X, self.features.width):
                numbers = np.empty((len(out[rows]), self.features.width), self.coef.dtype)
                self.features.fill(X[rows], numbers, workers)
                out[rows] = numbers @ self.coef.T + self.intercept
        return out


def draw_fastfood(
    center: NDArray[np.float64], gamma: float, n_features: int, dtype: type, seed: int
) -> FastfoodMap:
    """Draw projections for ``n_features`` features of the rbf kernel, or one more."""
    rng = np.random.default_rng(seed)
    size = 1 << (len(center) - 1).bit_length()
    n_projections = -(-n_features // 2)
    n_blocks = -(-n_projections // size)
    signs = rng.choice([-1.0, 1.0], (n_blocks, size))
    order = rng.permuted(np.tile(np.arange(size), (n_blocks, 1)), axis=1)
    factors = rng.standard_normal((n_blocks, size))
    # Rows of H factors P H have the norm sqrt(size) |factors|.
    norms = np.linalg.norm(factors, axis=1, keepdims=True) * sqrt(size)
    lengths = sqrt(2.0 * gamma) * np.sqrt(rng.chisquare(size, (n_blocks, size)))
    scale = (lengths / norms).ravel()[:n_projections]
    return FastfoodMap(
        center, signs.astype(dtype), order, factors.astype(dtype), scale.astype(dtype)
    )
