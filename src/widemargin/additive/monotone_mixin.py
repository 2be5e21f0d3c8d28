"""Mixin of `AdditiveSVC`: curves that must not fall, or must not rise."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.coded_rows import sum_over_codes
from widemargin.additive.codes import Codes, thin_codes
from widemargin.additive.curves import BinModel, bin_offsets
from widemargin.additive.monotone import CurveBasis, MonotoneProblem, solve_monotone
from widemargin.additive.tables_mixin import TablesMixin
from widemargin.callback_support import report_rounds
from widemargin.kernel_arguments import check_norms, name_columns
from widemargin.problem import Problem
from widemargin.progress import show_passes
from widemargin.validation import validate_monotonic_cst


class MonotoneMixin(TablesMixin):
    """Constraints on the curves of two classes (``monotonic_cst``)."""

    monotonic_cst: Any
    categories_: Any

    def _check_params(self) -> None:
        super()._check_params()
        if self.monotonic_cst is None:
            return
        for name, is_wrong, advice in (
            ("kernel", not self._is_homogeneous, "use a named kernel"),
            ("loss", self.loss != "squared_hinge", 'set it to "squared_hinge"'),
            ("solver", self.solver != "dual", 'set it to "dual"'),
        ):
            if is_wrong:
                given = getattr(self, name)
                raise ValueError(
                    f"{name}: {given!r} does not go together with monotonic_cst; {advice}"
                )

    def _fit_codes(self, problem: Problem, codes: Codes, deadline: float | None) -> Any:
        signs = validate_monotonic_cst(self)
        if not signs.any():
            return super()._fit_codes(problem, codes, deadline)
        self._refuse_categories(signs)
        if len(problem.classes) > 2:
            raise ValueError(
                f"monotonic_cst: constraints are for two classes, and y has {len(problem.classes)}; "
                "fit one class against the rest, for example with OneVsRestClassifier"
            )
        self._keep_table(problem, codes)
        return self._fit_monotone(problem, thin_codes(codes), signs, deadline)

    def _refuse_categories(self, signs: NDArray[np.int8]) -> None:
        both = [j for j, known in enumerate(self.categories_) if known is not None and signs[j]]
        if both:
            names = name_columns(np.array(both), getattr(self, "feature_names_in_", None))
            raise ValueError(
                f"monotonic_cst: categories have no order, but {names} has a constraint; set it to 0"
            )

    def _fit_monotone(
        self, problem: Problem, codes: Codes, signs: NDArray[np.int8], deadline: float | None
    ) -> Any:
        """Fit with constraints: represent, solve, model."""
        offsets = bin_offsets(codes)
        table = None if self.rank_ == 0 else self._table
        basis = self._make_basis(offsets, self.quantiser_.grid, self._scales(), signs, table)
        norms = sum_over_codes(codes, self.quantiser_.grid, self._scales())
        curves, intercept = self._solve_monotone(problem, codes, basis, norms, deadline)
        return BinModel(self.quantiser_, offsets, curves[None], intercept)

    def _make_basis(
        self,
        offsets: NDArray[np.int64],
        levels: NDArray[np.float64],
        scale: NDArray[np.float64],
        signs: NDArray[np.int8],
        table: NDArray[np.float64] | None,
        shifts: NDArray[np.int64] | None = None,
    ) -> CurveBasis:
        # Indicators of missing values and of categories, and pairs, come after the features.
        signs = np.pad(signs, (0, len(scale) - len(signs)))
        return CurveBasis(offsets, levels, scale, signs, table, shifts)

    def _solve_monotone(
        self,
        problem: Problem,
        codes: Codes,
        basis: CurveBasis,
        norms: NDArray[np.float64],
        deadline: float | None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return all curves one after the other, and the intercept; ``norms`` are without its."""
        norms = norms + self._has_intercept()
        check_norms("X: kernel values", norms, "MinMaxScaler")
        self._measure_kernel(problem, norms)
        monotone = MonotoneProblem(
            codes=codes,
            basis=basis,
            y=np.where(problem.labels == 1, 1.0, -1.0),
            costs=self._cost() * problem.weights,
            intercept_penalty=(
                float(not self._has_free_intercept()) if self._has_intercept() else None
            ),
        )
        with show_passes(self.verbose, listen=report_rounds(self)) as show:
            result = solve_monotone(monotone, self.tol, self.max_iter, deadline, show)
        self.n_iter_, self.violation_ = result.n_iter, result.violation
        self.stop_reason_ = result.stop_reason.value
        self.n_seen_, self.t_ = len(codes), result.n_iter * len(codes)
        return result.curves, np.array([result.intercept])
