"""The clusters that an exported model may choose for a row on the border between them."""

import numpy as np

from widemargin.exact.expansion import vote

#: Rounding of the float32 kernel values by which Python chooses a cluster, and C in float32.
FLOAT32 = 1e-5

#: Least number that float32 holds with all its digits.
LEAST_FLOAT32 = float(np.finfo(np.float32).tiny)


def reaches_class(described, X, classes, slack, limit):
    """Whether each row gets its class in a cluster it may go to, decisions being off by ``limit``.

    ``slack`` is the error of the values by which a row is assigned to a group.
    """
    near = [possible_clusters(described.functions, row[None], slack) for row in X]
    return np.array(
        [
            any(
                _allows(described, described.functions.clusters[c], row[None], k, limit)
                for c in found
            )
            for row, k, found in zip(X, classes, near, strict=True)
        ],
        bool,
    )


def possible_clusters(functions, row, slack, number=0):
    """The clusters behind all groups whose value is the largest up to twice the slack."""
    fork = functions.forks[number]
    kernel = functions.clusters[0].kernel
    similar = kernel.exact(row, functions.samples[fork.samples])[0]
    sums = np.add.reduceat(similar, fork.bounds[:-1]) / np.diff(fork.bounds)
    sizes = np.add.reduceat(np.abs(similar), fork.bounds[:-1]) / np.diff(fork.bounds)
    if fork.on_sphere:
        values, sizes = sums / fork.norms, sizes / fork.norms
    else:
        values, sizes = sums - 0.5 * fork.squared_norms, sizes + 0.5 * fork.squared_norms
    margin = 2.0 * (slack + FLOAT32 * sizes.max())
    if kernel.floor and similar.max() < LEAST_FLOAT32:
        # All exponentials are zero to the exported model, which takes the first group then.
        margin = np.inf
    clusters = set()
    for group in np.flatnonzero(values >= values.max() - margin):
        target = fork.targets[group]
        behind = {target}
        if target < 0:
            behind = possible_clusters(functions, row, slack, -1 - target)
        clusters |= behind
    return clusters


def _allows(described, cluster, row, expected, limit):
    """Whether a cluster gives a row some class, or nearly does."""
    values = cluster.intercept + cluster.kernel.exact(row, cluster.vectors) @ cluster.coef.T
    if (np.abs(values) <= limit).any():
        return True
    if described.rule == "sign":
        return int(values[0, 0] >= 0) == expected
    if described.rule == "vote":
        return vote(values, len(described.classes))[0] == expected
    return values[0, expected] >= values[0].max() - 2.0 * limit
