"""What a machine on some basis looks like from outside."""

import numpy as np

from widemargin.solvers.projected import Machine, Stage


def describe_machine(machine: Machine) -> Stage:
    """The basis of one machine, its coefficients and what they reach."""
    solution = machine.solution
    return Stage(
        rows=tuple(machine.columns.rows),
        coef=solution.u[None, 1:],
        intercept=solution.u[:1],
        objective=np.array([solution.objective]),
        n_wrong=np.array([np.count_nonzero(solution.errors >= 1.0)]),
        n_support=np.array([np.count_nonzero(machine.support)]),
    )
