"""Snapshots of a basis and of the machines on it."""

from dataclasses import dataclass, replace

import numpy as np

from widemargin.callbacks import Stage
from widemargin.projected.basis import FloatArray
from widemargin.projected.machine import BasisSolution, Machine


def describe_machines(machines: list[Machine], vectors: FloatArray | None = None) -> Stage:
    """Return the basis that machines share, with their coefficients and objectives."""
    solutions = [machine.solution for machine in machines]
    return Stage(
        rows=tuple(machines[0].columns.rows),
        coef=np.array([s.u[1:] for s in solutions]),
        intercept=np.array([machine.intercept for machine in machines]),
        objective=np.array([s.objective for s in solutions]),
        n_wrong=np.array([np.count_nonzero(s.errors >= 1.0) for s in solutions]),
        n_support=np.array([np.count_nonzero(m.support) for m in machines]),
        vectors=vectors,
    )


def describe_constant(machines: list[Machine]) -> Stage:
    """Return the snapshot of an empty basis: intercepts, and one vector with zero coefficients."""
    stage = describe_machines(machines)
    return replace(stage, rows=(0,), coef=np.zeros((len(machines), 1)))


@dataclass(frozen=True)
class Reached:
    """The last basis for which all machines were at their optimum.

    Attributes
    ----------
    stage : Stage
        The basis.
    solutions : list of BasisSolution
        The solutions of the machines.
    """

    stage: Stage
    solutions: list[BasisSolution]

    @property
    def is_separated(self) -> bool:
        """Whether all rows are classified correctly in all problems."""
        return not self.stage.n_wrong.any()
