"""Mixin of `AdditiveSVC`: surfaces of pairs of features beside the curves (``interactions``)."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from widemargin.additive.coded_rows import sum_over_codes
from widemargin.additive.codes import Codes
from widemargin.additive.curves import BinEncoder, BinModel, TableModel, bin_offsets
from widemargin.additive.indicators_mixin import IndicatorsMixin
from widemargin.additive.monotone_mixin import MonotoneMixin
from widemargin.additive.pair_cells import (
    PairCells,
    PairRepresentation,
    join_codes,
    join_tables,
    make_cells,
    make_pair_model,
)
from widemargin.additive.pair_choice import choose_pairs
from widemargin.additive.pair_levels import LevelMaker
from widemargin.additive.pair_model import TIMES, PairModel
from widemargin.additive.representations import TableRepresentation, constants
from widemargin.additive.spectral_mixin import SpectralMixin
from widemargin.additive.tables_mixin import TablesMixin
from widemargin.arguments import draw_seed
from widemargin.deadline import seconds_left
from widemargin.memory import free_bytes
from widemargin.problem import Problem
from widemargin.validation import validate_monotonic_cst

#: Weight of all pairs together beside all features.
PAIR_WEIGHT = 1.0


class PairsMixin(MonotoneMixin, IndicatorsMixin, SpectralMixin, TablesMixin):
    """Some pairs of features, chosen by an exact SVM with all pairs, with a surface each."""

    interactions: int
    interactions_: NDArray[np.int64]

    @property
    def _may_have_bins(self) -> bool:
        return not self.interactions

    def interaction_functions(self) -> list[tuple[Any, Any, Any]]:
        """Compute the surfaces of the pairs in `interactions_`, on the grid of their levels.

        Returns
        -------
        surfaces : list of (first, second, heights)
            One for each pair: values of both features in their own units, at most 16 each, and what
            the pair adds to the decision, beyond the curves of both: shape (n_first, n_second) for two
            classes and (n_classes, n_first, n_second) for more. The last value is NaN if missing
            values have a height. Features of categories have their names, and ``"others"`` for those
            that share a height.
        """
        check_is_fitted(self)
        if not isinstance(self._model, PairModel):
            return []
        found = []
        for k, pair in enumerate(self._model.pairs):
            (first, i), (second, j) = (
                np.unique(values, return_index=True) for values in self._model.values[k]
            )
            heights = self._model.heights[:, k][:, i][:, :, j]
            heights = heights[0] if len(self.classes_) == 2 else heights
            found.append(
                (self._name_levels(pair[0], first), self._name_levels(pair[1], second), heights)
            )
        return found

    def _term_names(self) -> list[str]:
        names = super()._term_names()
        if not isinstance(self._model, PairModel):
            return names
        return names + [TIMES.join(names[j] for j in pair) for pair in self._model.pairs]

    def _name_levels(self, feature: int, values: NDArray[np.float64]) -> NDArray[Any]:
        """Return what levels of a feature stand for, as the user knows it."""
        categories = self.categories_[feature]
        if categories is None:
            return values + self._origin[feature]
        names: NDArray[Any] = np.full(len(values), "others", object)
        names[np.isnan(values)] = np.nan
        known = np.isfinite(values)
        names[known] = categories[values[known].astype(np.intp)]
        return names

    def _represent_training(self, problem: Problem, codes: Codes, deadline: float | None) -> Any:
        if not self.interactions:
            return super()._represent_training(problem, codes, deadline)
        self._keep_table(problem, codes)
        return self._represent_cells(problem, self._choose_cells(problem, codes, deadline))

    def _choose_cells(self, problem: Problem, codes: Codes, deadline: float | None) -> PairCells:
        """Choose the pairs, and the levels of their features."""
        scales, quantiser = self._scales(), self.quantiser_
        n_classes = len(problem.classes)
        n_functions = 1 if n_classes == 2 else n_classes
        n_bytes = 16 * n_functions * codes.n_features * quantiser.n_bins
        if n_bytes > free_bytes():
            raise ValueError(
                f"interactions: the curves of {codes.n_features:,} columns beside surfaces would take "
                f"{n_bytes / 2**30:.1f} GiB; select columns first, or set it to 0"
            )
        kernel, columns = self._scalar_kernel(), self._pair_columns()
        left = None if deadline is None else max(0.3 * seconds_left(deadline), 1e-3)
        # What a constrained feature does is its curve alone.
        is_free = validate_monotonic_cst(self) == 0
        pairs = choose_pairs(
            problem, quantiser.low, scales / quantiser.span,
            np.where(is_free[columns.sources], columns.sources, -1), kernel.name,
            int(self.interactions), draw_seed(self.random_state), left,
        )  # fmt: skip
        self.interactions_ = pairs
        maker = LevelMaker(kernel, quantiser, codes, problem.sample_weights, scales, columns)
        return make_cells(maker, pairs)

    def _represent_cells(self, problem: Problem, cells: PairCells) -> PairRepresentation:
        """Represent features and pairs as codes of one table."""
        data = TableRepresentation(
            BinEncoder(self.quantiser_, join_tables(self._table, cells)),
            join_codes(cells, cells.starts()[:-1]),
            self._join_scales(cells),
            constants(len(cells.rows), self._has_intercept()),
            self._dtype(problem),
        )
        return PairRepresentation(data, cells)

    def _join_scales(self, cells: PairCells) -> NDArray[np.float64]:
        """Return the factors on the kernels of all columns and, after them, of every pair."""
        maker, scales = cells.maker, self._scales()
        diagonal = sum_over_codes(maker.codes, maker.quantiser.grid, scales)
        mean = float(np.average(diagonal, weights=maker.weights))
        factor = PAIR_WEIGHT * mean / (cells.means.sum() or 1.0)
        return np.concatenate([scales, np.full(len(cells.pairs), factor)])

    def _fit_monotone(
        self, problem: Problem, codes: Codes, signs: NDArray[np.int8], deadline: float | None
    ) -> Any:
        if not self.interactions:
            return super()._fit_monotone(problem, codes, signs, deadline)
        cells = self._choose_cells(problem, codes, deadline)
        grid, n_columns = self.quantiser_.grid, codes.n_features
        table, scales, starts = (
            join_tables(self._table, cells),
            self._join_scales(cells),
            cells.starts(),
        )
        # The cells of a pair have codes from one on, since codes of zero may be left out.
        firsts = np.ones(len(cells.pairs), np.int64)
        ends = bin_offsets(codes)[-1] + np.cumsum(np.diff(starts) + 1)
        offsets = np.concatenate([bin_offsets(codes), ends])
        shifts = np.concatenate([np.zeros(n_columns, np.int64), starts[:-1] - 1])
        basis = self._make_basis(offsets, grid, scales, signs, table, shifts)
        norms = sum_over_codes(codes, grid, scales[:n_columns])
        for rows, cell_table, scale in zip(
            cells.rows.T, cells.tables, scales[n_columns:], strict=True
        ):
            norms += scale * np.square(cell_table).sum(axis=1)[rows]
        joined = join_codes(cells, firsts)
        flat, intercept = self._solve_monotone(problem, joined, basis, norms, deadline)
        parts = [flat[None, a:b] for a, b in pairwise(offsets)]
        curves = np.stack(
            [np.pad(part, ((0, 0), (0, len(grid) - part.shape[1])), mode="edge")
             for part in parts[:n_columns]], axis=1,
        )  # fmt: skip
        surfaces = [part[:, 1:] for part in parts[n_columns:]]
        return make_pair_model(curves, surfaces, intercept, cells)

    @property
    def _curves(self) -> TableModel | BinModel:
        curves = self._model if self._indicators is None else self._indicators.base
        return curves.base if isinstance(curves, PairModel) else curves
