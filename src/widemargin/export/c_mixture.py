"""Early prediction in C by several nearest clusters, on top of a background."""

import numpy as np

from widemargin.divide.cluster_models import WEIGHT_POWER
from widemargin.export.c_parts import write_groups, write_route
from widemargin.export.c_text import Program
from widemargin.export.description import ClusterSum


def write_mixture(program: Program, functions: ClusterSum) -> None:
    """Add ``@decide``: a weighted sum of the functions of some clusters, and those of the background.

    The vectors and intercepts of the background are behind those of all clusters.
    """
    n_clusters, n_terms = len(functions.clusters), len(functions.sums) - len(functions.clusters)
    n_terms += functions.n_nearest
    # One cluster more is ranked than has a weight.
    n_ranked = functions.n_nearest + (functions.n_nearest > 1)
    if functions.n_nearest == 1:
        write_route(program, functions, "float", "float")
        choose = "    terms[0] = @route(z);\n    weights[0] = 1.0f;"
    else:
        _write_rank(program, functions, n_ranked)
        choose = "    @rank(z, terms, weights);"
    if functions.background is not None:
        last = functions.n_nearest
        choose += f"\n    terms[{last}] = {n_clusters};\n    weights[{last}] = 1.0f;"
    program.stack += 4 * functions.samples.shape[1] + 8 * (n_ranked + 1) + 8 * n_ranked
    program.function(
        f"""
/* Sum of the functions of some clusters, with weights, and of the background behind them. */
void @decide(const float *x, float *decisions)
{{
    float z[@@_N_FEATURES];
    float weights[{n_ranked + 1}];
    int terms[{n_ranked + 1}];
    @scale(x, z);
{choose}
    for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
        decisions[p] = 0.0f;
    }}
    for (int t = 0; t < {n_terms}; t++) {{
        for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
            decisions[p] += weights[t] * @intercepts[terms[t] * @@_N_FUNCTIONS + p];
        }}
        for (int i = @starts[terms[t]]; i < @starts[terms[t] + 1]; i++) {{
            const float k = weights[t] * @kernel(z, @vectors + i * @@_N_FEATURES);
            for (int p = 0; p < @@_N_FUNCTIONS; p++) {{
                decisions[p] += @coef[p * @@_N_VECTORS + i] * k;
            }}
        }}
    }}
}}
"""
    )


def _write_rank(program: Program, functions: ClusterSum, n_ranked: int) -> None:
    """Add ``@rank``: the nearest clusters of a query, and weights that fall to zero at the last."""
    write_groups(program, functions)
    n_clusters = len(functions.clusters)
    ends = np.searchsorted(functions.forks[0].targets, np.arange(n_clusters), side="right")
    program.array("cluster_ends", ends.astype(np.int32))
    power = " * ".join(["t"] * WEIGHT_POWER)
    program.function(
        f"""
/* Nearest clusters of a query, and their weights. */
static void @rank(const float *x, int *nearest, float *weights)
{{
    float values[{n_ranked}];
    float total = 0.0f, span;
    int at = 0, g = 0;
    for (int r = 0; r < {n_ranked}; r++) {{
        values[r] = -3.4e38f;
        nearest[r] = 0;
    }}
    for (int c = 0; c < {n_clusters}; c++) {{
        float most = -3.3e38f;
        int place = {n_ranked};
        for (; g < @cluster_ends[c]; g++) {{
            float sum = 0.0f;
            for (; at < @group_ends[g]; at++) {{
                sum += @kernel(x, @samples + @fork_samples[at] * @@_N_FEATURES);
            }}
            const float value = sum * @group_factors[g] - @group_terms[g];
            most = value > most ? value : most;
        }}
        while (place > 0 && values[place - 1] < most) {{
            place--;
        }}
        if (place < {n_ranked}) {{
            for (int r = {n_ranked - 1}; r > place; r--) {{
                values[r] = values[r - 1];
                nearest[r] = nearest[r - 1];
            }}
            values[place] = most;
            nearest[place] = c;
        }}
    }}
    span = values[0] - values[{n_ranked - 1}];
    for (int r = 0; r < {n_ranked - 1}; r++) {{
        float t = r == 0 ? 1.0f : 0.0f;
        if (span > 0.0f) {{
            t = (values[r] - values[{n_ranked - 1}]) / span;
        }}
        weights[r] = {power};
        total += weights[r];
    }}
    for (int r = 0; r < {n_ranked - 1}; r++) {{
        weights[r] /= total;
    }}
}}
"""
    )
