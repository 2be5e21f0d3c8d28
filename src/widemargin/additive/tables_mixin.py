"""Mixins of the estimators on codes and a table: `AdditiveSVC`, `AdditiveSVR` and `FourierSVC`."""

import os
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from widemargin.additive.chunked_data import collect_chunks
from widemargin.additive.classifier_base import LinearClassifier
from widemargin.additive.codes import Codes, thin_codes
from widemargin.additive.curves import BinEncoder, BinModel, TableModel, bin_offsets
from widemargin.additive.descent_mixin import DescentMixin
from widemargin.additive.kernel_scale import KernelScaleMixin
from widemargin.additive.mixins import CurvesMixin, NonnegativeMixin, StochasticMixin
from widemargin.additive.quantiser import (
    SPACINGS,
    Quantiser,
    Ranges,
    choose_scaling,
    fit_quantiser,
)
from widemargin.additive.representations import (
    BinRepresentation,
    Representation,
    TableRepresentation,
    constants,
)
from widemargin.additive.spectral_table import Spectrum
from widemargin.arguments import check_integer
from widemargin.parameters import Choices
from widemargin.problem import Problem
from widemargin.transaction import all_or_nothing
from widemargin.validation import ANY_BLOCKS

#: Ratio of the largest values of two features beyond which a warning recommends scaling.
WIDE_RANGES = 100.0


class CodesMixin(NonnegativeMixin, CurvesMixin, KernelScaleMixin, DescentMixin):
    """Features that become codes, and a table that has a few numbers for each code.

    A class chooses its table in `_choose_table`. The products of the numbers of two codes approximate
    the kernel; a rank of zero stands for one value for each bin instead of a table.
    """

    n_bins: int
    binning: str
    scaling: str | None

    _model: TableModel | BinModel
    _layout = ANY_BLOCKS
    _choices: ClassVar[Choices] = {"binning": SPACINGS}

    @property
    @abstractmethod
    def _is_homogeneous(self) -> bool:
        """Whether ``k(c x, c y) = c k(x, y)``, as for all kernels but callables."""

    @abstractmethod
    def _choose_table(self, problem: Problem, codes: Codes) -> Spectrum:
        """Return the numbers of every bin of `quantiser_`."""

    def _check_params(self) -> None:
        super()._check_params()
        check_integer("n_bins", self.n_bins, low=2)
        if self.n_bins > 2**16:
            raise ValueError(f"n_bins: must be at most {2**16:,}, got {self.n_bins:,}")

    def _needs_nonnegative(self) -> bool:
        return self._is_homogeneous

    def _encode_training(self, problem: Problem) -> tuple[Problem, Codes]:
        """Return the training rows as the model needs them, and their codes; chooses the bins."""
        problem = self._place_features(problem)
        return problem, self._encode_features(problem)

    def _place_features(self, problem: Problem) -> Problem:
        """Return the training rows as the kernel needs them."""
        return replace(problem, X=self._take_features(problem.X, problem.sample_weights))

    def _fit_features(self, problem: Problem, deadline: float | None) -> Any:
        """Fit to features as the kernel needs them, and return the model."""
        return self._fit_codes(problem, self._encode_features(problem), deadline)

    @abstractmethod
    def _fit_codes(self, problem: Problem, codes: Codes, deadline: float | None) -> Any:
        """Fit to codes, and return the model."""

    def _encode_features(self, problem: Problem) -> Codes:
        """Choose the bins, and return the codes of the training rows."""
        self._fit_quantiser(problem)
        return self.quantiser_.encode(problem.X)

    def _represent_training(
        self, problem: Problem, codes: Codes, deadline: float | None
    ) -> Representation:
        """Choose the table and represent the training rows."""
        self._keep_table(problem, codes)
        return self._represent_codes(problem, codes, bin_offsets(codes))

    def _keep_table(self, problem: Problem, codes: Codes) -> None:
        chosen = self._choose_table(problem, codes)
        self._table, self.rank_, self.left_out_ = chosen.table, chosen.rank, chosen.left_out

    def _fit_quantiser(self, problem: Problem) -> None:
        self._fit_grid(self._measure(problem), problem.X, problem.sample_weights)

    def _fit_grid(self, ranges: Ranges, X: Any = None, weights: Any = None) -> Quantiser:
        self.scaling_ = self._choose_scaling(ranges) if self._is_homogeneous else None
        self.quantiser_ = fit_quantiser(
            ranges, self.n_bins, self.binning, per_feature=self._is_homogeneous,
            from_lowest=self.scaling_ == "range", X=X, weights=weights,
        )  # fmt: skip
        return self.quantiser_

    def _choose_scaling(self, ranges: Ranges) -> str | None:
        """Return what the parameter ``scaling`` means for columns of these ranges."""
        return choose_scaling(self.scaling, ranges)

    def _advise_scaling(self) -> str:
        largest = self.feature_ranges_[1] - self.origin_
        least = largest.min(initial=np.inf, where=largest > 0)
        is_wide = largest.max() > WIDE_RANGES * least
        # Scaling is not allowed with other kernels.
        if self.scaling_ is None and self._is_homogeneous and is_wide:
            return 'set scaling="range", since the ranges of the features differ widely'
        return super()._advise_scaling()

    def _scales(self) -> NDArray[np.float64]:
        """Factor on the kernel of each feature."""
        if not self._is_homogeneous:
            return np.ones(self.n_features_in_)
        if self.scaling_ is None:
            return self.quantiser_.span
        least, largest = self.feature_ranges_
        unit = largest - (least if self.scaling_ == "range" else self.origin_)
        return self.quantiser_.span / np.where(unit > 0, unit, 1.0)

    def _choose_codes(self, problem: Problem, codes: Codes) -> Codes:
        """Codes of all values if zeros matter to the kernel, else without most zeros."""
        zero = np.abs(self._table[self.quantiser_.zero_code]).max()
        adds_nothing = zero <= 1e-9 * np.abs(self._table).max()
        if codes.is_sparse:
            return codes if adds_nothing else self.quantiser_.encode(problem.X, is_whole=True)
        return thin_codes(codes) if adds_nothing and self.quantiser_.zero_code == 0 else codes

    def _represent_codes(
        self, problem: Problem, codes: Codes, offsets: NDArray[np.int64]
    ) -> Representation:
        extra, dtype = constants(len(codes), self._has_intercept()), self._dtype(problem)
        if self.rank_ == 0:
            codes = thin_codes(codes)
            return BinRepresentation(self.quantiser_, codes, offsets, self._scales(), extra, dtype)
        codes = self._choose_codes(problem, codes)
        encoder = BinEncoder(self.quantiser_, self._table)
        return TableRepresentation(encoder, codes, self._scales(), extra, dtype)

    @property
    def _curves(self) -> TableModel | BinModel:
        """The part of the model that has the curves."""
        return self._model

    @property
    def tables_(self) -> NDArray[np.float64]:
        """Numbers for each code."""
        model = self._curves
        if isinstance(model, BinModel):
            return np.eye(model.quantiser.n_bins)
        assert isinstance(model.encoder, BinEncoder)
        return model.encoder.table

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients of the numbers of a code."""
        model = self._curves
        return model.full_curves() if isinstance(model, BinModel) else model.coef


class TablesMixin(StochasticMixin, CodesMixin, LinearClassifier):
    """Classifiers on codes and a table: fits to all rows, and to data in pieces."""

    _model: TableModel | BinModel

    @all_or_nothing
    def fit_chunks(self, chunks: Any, codes_path: str | os.PathLike[str] | None = None) -> Self:
        """Fit the SVM model to data given in pieces, which need not fit into memory.

        The pieces are read twice: for the range of every feature, then for the codes, of one byte a
        value (two with more than 256 bins), on which the fit works. Of sparse pieces only the stored
        values have codes, unless that takes more memory or zeros matter to the kernel; each takes
        another byte, or two or four where rows are almost empty.

        Parameters
        ----------
        chunks : iterable or callable
            Gives ``(X, y)`` or ``(X, y, sample_weight)``, dense or sparse; pieces without rows are
            passed over. It must be possible to go through it twice: a list, or a function that
            returns a new iterator.
        codes_path : path-like, optional
            File to keep the codes in, mapped into memory; without it they are held in memory.

        Returns
        -------
        self : estimator
            The fitted classifier.
        """
        self._check_params()
        deadline = self._deadline()
        if self.binning == "quantile":
            raise ValueError("binning: quantiles need all data at once; use 'auto' or another")
        collected = collect_chunks(
            self, chunks, self._check_features, codes_path, self._fit_grid,
            # These kernels are zero at zero; others may need every value.
            may_be_sparse=self._is_homogeneous,
        )  # fmt: skip
        self.classes_, self.feature_ranges_ = collected.problem.classes, collected.ranges
        self.origin_ = np.zeros(self.n_features_in_)
        self._model = self._fit_codes(collected.problem, collected.codes, deadline)
        self._warn_unless_converged()
        return self

    def _fit(self, problem: Problem) -> None:
        deadline = self._deadline()
        problem = self._place_features(problem)
        self._model = self._prefer_majority(self._fit_features(problem, deadline), problem)

    def _fit_codes(
        self, problem: Problem, codes: Codes, deadline: float | None
    ) -> TableModel | BinModel:
        """Fit to codes: represent, solve, model."""
        data = self._represent_training(problem, codes, deadline)
        coef, extra = self._solve(problem, data, deadline)
        return data.make_model(coef, extra)

    def _prepare(self, problem: Problem) -> None:
        """Choose the bins and the table."""
        self._fit_quantiser(problem)
        self._keep_table(problem, self.quantiser_.encode(problem.X))

    def _represent(self, problem: Problem) -> Representation:
        codes = self.quantiser_.encode(problem.X)
        # Later rows may have larger codes than these.
        offsets = np.arange(codes.n_features + 1) * self.quantiser_.n_bins
        return self._represent_codes(problem, codes, offsets)
