"""IntersectionSVC: an SVM with the histogram intersection kernel, by ICD."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from widemargin.additive.classifier_base import LinearClassifier, asked_classes
from widemargin.additive.coded_rows import Rows
from widemargin.additive.codes import Codes, thin_codes
from widemargin.additive.crammer_singer import MulticlassDual, solve_crammer_singer
from widemargin.additive.curves import BinModel, bin_offsets
from widemargin.additive.dual_descent import LinearResult, gather_results
from widemargin.additive.intersection_rows import (
    BinTables,
    KnotTables,
    LinearTables,
    choose_tables,
)
from widemargin.additive.kernel_choice import N_FOLDS, choose_by_folds, count_deals
from widemargin.additive.kernel_scale import KernelScaleMixin
from widemargin.additive.knot_model import KnotModel
from widemargin.additive.mixins import CurvesMixin
from widemargin.additive.primal_newton import UnaryRows, solve_primal
from widemargin.additive.quantiles import (
    FindQuantiles,
    find_quantiles,
    fit_clipped_bins,
    fit_own_bins,
)
from widemargin.additive.quantiser import Ranges, choose_scaling
from widemargin.additive.representations import constants
from widemargin.arguments import check_integer, check_number, draw_seed
from widemargin.callback_support import report_rounds
from widemargin.deadline import seconds_left, share_time
from widemargin.parameters import Choices
from widemargin.problem import Problem
from widemargin.progress import show_passes
from widemargin.validation import ANY_BLOCKS

#: The kernels that ``kernel="auto"`` compares; the first is the simplest.
KERNELS = ("linear", "intersection")
#: Share of the time that is left for the fits that compare them.
CHOICE_TIME = 0.3


class IntersectionSVC(CurvesMixin, KernelScaleMixin, LinearClassifier):
    """Support vector classifier with the histogram intersection kernel: ICD.

    The method of Wu, "A Fast Dual Method for HIK SVM Learning" (ECCV 2010). Feature values become
    whole numbers from 0 to ``n_bins``; the kernel is the sum over features of the smaller of two of
    them. A prediction is one look-up for each feature.

    Parameters
    ----------
    kernel : {"intersection", "linear", "auto"}, default="intersection"
        Kernel on the bins. The linear kernel is the sum over features of the product of two bins,
        divided by ``n_bins``; its decision curves are straight lines. ``"auto"`` fits both to parts of
        a sample of at most 2,000 rows, and takes the one that is right more often on the rows held
        out, the linear one of equals; see `kernel_`. This takes the time of three fits of each kernel
        to 1,333 rows, or of fifteen to two thirds of at most 400 rows.
    C : float or "scale", default="scale"
        Cost of an error. ``"scale"`` divides a constant by the mean of k(x, x), the sum of the bins of
        a row, over the training rows; see `C_`. The paper uses 0.001.
    n_bins : int, default=100
        Values from the smallest to the quantile of ``clip_quantile`` become 0 to ``n_bins``, larger
        ones ``n_bins`` (ICD Eq. 13). Histograms of whole numbers up to 4095 are used as they are.
    clip_quantile : float, default=0.975
        Share of all values that are not clipped. If the quantile is the smallest value or zero, as for
        sparse data, it is taken among the larger values only.
    scaling : {"auto", "max"} or None, default="auto"
        With None all features share one range of bins, as in the paper. With ``"max"`` the bins of
        each feature go from its own smallest value to its own quantile, for features in different
        units. ``"auto"`` is ``"max"`` if the data are dense and the widest range is more than ten
        times the lower quartile of the ranges (of counts also 5 times with the root of the number of
        features), or if no value reaches 1e-6; see `scaling_`.
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a row on the wrong side of its margin.
    solver : {"auto", "dual", "primal"}, default="auto"
        Dual coordinate descent, or Newton's method on the primal problem with the squared hinge
        loss. ``"auto"`` is the dual. The paper prefers the primal for many more features than rows;
        there the dual descent of this class uses the kernel matrix, which was faster in
        measurements.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        One class against the rest, or all classes at once, with the hinge loss and its own solver.
    fit_intercept : {"auto", "free", True, False}, default="auto"
        ``"free"`` fits an intercept without penalty, as `KernelSVC` does; True one that is regularised
        like a curve of height one; False none, as in the paper. ``"auto"`` is ``"free"``, except
        that ``solver="primal"`` and ``multi_class="crammer_singer"`` have no intercept.
    class_weight : dict, "balanced" or None, default=None
        Factor on C for each class.
    tol : float, default=0.1
        A fit stops when the projected gradients of a problem differ by less than this.
    max_iter : int, default=1000
        Maximum number of passes over the data and of steps of Newton's method together.
    max_time : float or None, default=None
        Seconds after which a fit stops with its current model, or with one that predicts the largest
        class if that is more accurate on the training rows.
    warm_start : bool, default=False
        Whether a fit starts from the last solution if the labels are the same. Only the dual solver of
        one class against the rest does.
    n_jobs : int or None, default=None
        Number of threads, which share the classes; None for all cores.
    random_state : int, RandomState or None, default=0
        Seed of the order of the rows.
        The default is 0, so that fits are repeatable; None draws a new seed for each fit.
    verbose : int, default=0
        1 for a progress line, 2 for a line every pass.

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    tables_ : ndarray of shape (n_functions, n_features, n_bins + 1)
        Value of every decision curve at every bin. The array is computed at each access, because the
        model keeps no bins beyond the largest training values.
    intercept_ : ndarray of shape (n_functions,)
        Constants of the decision functions.
    C_ : float
        The cost of an error that was used.
    kernel_ : str
        The kernel that was used, ``"intersection"`` or ``"linear"``.
    kernel_mean_ : float
        Mean of k(x, x) over the training rows.
    scaling_ : str or None
        The scaling that was used, ``"max"`` or None.
    quantiser_ : Quantiser
        Object that maps values to bins; ``grid``, ``low`` and ``span`` determine them.
    feature_ranges_ : ndarray of shape (2, n_features)
        Smallest and largest values in training.
    n_iter_ : int or ndarray
        Number of passes, and of steps of Newton's method, for each function.
    stop_reason_ : str
        ``"converged"``, ``"max_iter"``, ``"max_time"``, or ``"stalled"`` if rounding errors keep a fit
        from reaching ``tol``, as they may at a very large C.
    violation_ : float
        Largest violation of the optimality conditions at the end, as compared with ``tol``.

    Notes
    -----
    Of sparse data with many features the curves are kept at the bins that occur in training only;
    between these they are straight lines. Memory is then in proportion to the distinct pairs of a
    feature and a bin: the sparse tables of the paper.

    In predictions, values beyond the range of the bins count as its ends. If there are negative
    values, zero is a bin like any other, and every value of sparse data has a code of one byte, or of
    two with more than 256 bins. Otherwise only stored values have codes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from widemargin import IntersectionSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> IntersectionSVC().fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.9
    True
    """

    _model: BinModel | KnotModel
    _layout = ANY_BLOCKS
    _choices: ClassVar[Choices] = {
        "kernel": ("intersection", "linear", "auto"),
        "solver": ("auto", "dual", "primal"),
        "multi_class": ("ovr", "crammer_singer"),
        "fit_intercept": ("auto", "free", True, False),
        "scaling": ("auto", "max", None),
    }

    def __init__(
        self,
        *,
        kernel: str = "intersection",
        C: float | str = "scale",
        n_bins: int = 100,
        clip_quantile: float = 0.975,
        scaling: str | None = "auto",
        loss: str = "squared_hinge",
        solver: str = "auto",
        multi_class: str = "ovr",
        fit_intercept: bool | str = "auto",
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 0.1,
        max_iter: int = 1000,
        max_time: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.n_bins = n_bins
        self.clip_quantile = clip_quantile
        self.scaling = scaling
        self.loss = loss
        self.solver = solver
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
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
        check_integer("n_bins", self.n_bins, low=1)
        if self.n_bins > 2**16 - 1:
            raise ValueError(f"n_bins: must be at most {2**16 - 1:,}, got {self.n_bins:,}")
        check_number("clip_quantile", self.clip_quantile, above=0)
        if self.clip_quantile > 1:
            raise ValueError(f"clip_quantile: must be at most 1, got {self.clip_quantile!r}")
        if self.kernel != "intersection" and self.solver == "primal":
            raise ValueError(
                f"kernel: {self.kernel!r} needs solver='dual'; the primal solver is for 'intersection'"
            )
        if self.solver == "primal" and self.loss == "hinge":
            raise ValueError(
                "solver: the primal problem with loss='hinge' has no gradient; use "
                "loss='squared_hinge' or solver='dual'"
            )
        if self.fit_intercept not in ("auto", False) and not self._is_descent():
            raise ValueError(
                f"fit_intercept: {self.fit_intercept!r} needs solver='dual' and multi_class='ovr'; "
                "use 'auto' or False with other solvers"
            )

    def _is_descent(self) -> bool:
        """Return whether the solver is dual coordinate descent, one class against the rest."""
        return self.solver != "primal" and self.multi_class == "ovr"

    def _is_primal(self) -> bool:
        return self.solver == "primal" and self.multi_class == "ovr"

    def _has_intercept(self) -> bool:
        return bool(self.fit_intercept) and self._is_descent()

    def _has_free_intercept(self) -> bool:
        return self._has_intercept() and self.fit_intercept in ("auto", "free")

    def _fit(self, problem: Problem) -> None:
        """Fit to validated data: represent, solve, model."""
        deadline = self._deadline()
        self.kernel_ = self._choose_kernel(problem, deadline)
        codes = self._represent(problem)
        solve = self._solve_primal if self._is_primal() else self._solve_dual
        self._model = self._prefer_majority(solve(problem, codes, deadline), problem)

    def _choose_kernel(self, problem: Problem, deadline: float | None) -> str:
        if self.kernel != "auto":
            return self.kernel
        seed, limit = draw_seed(self.random_state), None
        if deadline is not None:
            n_fits = len(KERNELS) * N_FOLDS * count_deals(len(problem.labels))
            limit = max(CHOICE_TIME * seconds_left(deadline) / n_fits, 1e-3)
        settings = {"warm_start": False, "verbose": 0, "random_state": seed, "max_time": limit}

        def predict(kernel: str, train: Problem, test: Problem) -> NDArray[np.intp]:
            model = clone(self).set_params(kernel=kernel, **settings)
            model.n_features_in_ = problem.X.shape[1]
            model._fit(train)
            decisions = model._model.decide(test.X, self.n_jobs)
            return decisions[:, 0] > 0 if decisions.shape[1] == 1 else decisions.argmax(axis=1)

        return choose_by_folds(problem, KERNELS, predict, seed)

    def _represent(self, problem: Problem) -> Codes:
        """Choose the bins, and return the codes of the rows."""
        ranges = self._measure(problem)
        share = float(self.clip_quantile)
        self._fit_bins(ranges, partial(find_quantiles, problem.X, problem.sample_weights, share))
        return self._encode(problem.X)

    def _fit_bins(self, ranges: Ranges, find: FindQuantiles) -> None:
        """Choose the bins from the ranges of the features and the quantiles that are asked for."""
        self.scaling_ = choose_scaling(self.scaling, ranges, of_bins=True)
        fit_bins = fit_own_bins if self.scaling_ == "max" else fit_clipped_bins
        self.quantiser_ = fit_bins(ranges, self.n_bins, find)

    def _encode(self, X: Any) -> Codes:
        """Return the codes of some rows."""
        # Zero is a bin like any other if it is not the first, so every value has a code.
        is_whole = self.quantiser_.zero_code != 0
        return thin_codes(self.quantiser_.encode(X, is_whole=is_whole))

    def _solve_dual(
        self, problem: Problem, codes: Codes, deadline: float | None
    ) -> BinModel | KnotModel:
        at_once = self.multi_class == "crammer_singer"
        data = self._choose_rows(problem, codes, np.float64 if at_once else self._dtype(problem))
        solve = self._solve_at_once if at_once else self._descend
        result = solve(problem, data.rows, data.norms, deadline)
        coef, intercept = result.coef, result.extra.sum(axis=1, dtype=np.float64)
        if len(problem.classes) == 2 and len(coef) == 2:
            # Crammer and Singer's two functions are opposite, and their difference decides.
            coef, intercept = coef[1:] - coef[:1], np.zeros(1)
        return data.make_model(coef, intercept)

    def _choose_rows(
        self, problem: Problem, codes: Codes, dtype: type
    ) -> BinTables | KnotTables | LinearTables:
        extra = constants(len(codes), self._has_intercept())
        if self.kernel_ == "linear":
            return LinearTables(codes, self.quantiser_, extra, dtype)
        bins = BinTables(codes, self.quantiser_, bin_offsets(codes), extra, dtype)
        return choose_tables(codes, bins, len(asked_classes(problem)))

    def _solve_primal(self, problem: Problem, codes: Codes, deadline: float | None) -> BinModel:
        offsets = bin_offsets(codes)
        rows, settings = UnaryRows(codes, offsets), self._settings(problem, deadline)
        self._measure_kernel(problem, rows.multiply(np.ones(rows.size)))
        costs, asked, results = self._cost() * problem.weights, asked_classes(problem), []
        for number, c in enumerate(asked):
            own = replace(settings, deadline=share_time(deadline, len(asked) - number))
            y = np.where(problem.labels == c, 1.0, -1.0)
            results.append(solve_primal(rows, y, costs, own))
        result = gather_results(results)
        self._keep_progress(problem, result)
        return BinModel(self.quantiser_, offsets, result.coef, np.zeros(len(asked)))

    def _solve_at_once(
        self, problem: Problem, rows: Rows, norms: NDArray[np.float64], deadline: float | None
    ) -> LinearResult:
        self._measure_kernel(problem, norms)
        dual = MulticlassDual(
            labels=problem.labels.astype(np.int64),
            costs=self._cost() * problem.weights,
            norms=norms,
            n_classes=len(problem.classes),
        )
        with show_passes(self.verbose, listen=report_rounds(self)) as show:
            result = solve_crammer_singer(rows, dual, self._settings(problem, deadline), show)
        self._keep_progress(problem, result)
        return result

    @property
    def tables_(self) -> NDArray[np.float64]:
        """Value of every decision curve at every bin."""
        return self._model.full_curves()
