"""Compiled loops of kernel k-means."""

import numpy as np
from numba import njit

# Distance before the first group: infinity times a margin of zero would not be a number.
_FAR = np.float32(3e38)
# Share of a distance by which a nearer group must be nearer: any, or more than rounding.
_NONE, _TIE = np.float32(0.0), np.float32(2e-6)

# Forced inlining makes rounding reproducible: otherwise a process that compiles a function could
# optimise its copies differently from a process that loads the function from the cache.
jit = njit(cache=True, nogil=True, fastmath=True, error_model="numpy", forceinline=True)


@jit
def distance_to_mean(mean_kernel, squared_norm, on_sphere):
    """Return the squared distance of a point x to the mean of a group, minus ``k(x, x)``.

    ``||phi(x) - m||^2 - k(x, x) = ||m||^2 - 2 <phi(x), m>``, where ``mean_kernel`` is ``<phi(x), m>``,
    the mean of ``k(x, x_j)`` over the group, and ``squared_norm`` is ``||m||^2``. On the sphere it is
    minus the cosine of the angle to m, up to the norm of x.
    """
    if on_sphere:
        return -mean_kernel / np.sqrt(max(squared_norm, 1e-30))
    return squared_norm - 2.0 * mean_kernel


@jit
def add_row(row, out):
    """Add a row to ``out``."""
    for c in range(out.size):
        out[c] += row[c]


@jit
def add_by_group(K, groups, sums, sizes):
    """Compute for each group the sum ``sums[g]`` of its rows of the symmetric ``K``, and its size."""
    sums[:] = 0.0
    sizes[:] = 0
    for j in range(groups.size):
        sizes[groups[j]] += 1
        add_row(K[j], sums[groups[j]])


@jit
def take_nearer(totals, size, squared_norm, on_sphere, g, margin, best, nearest):
    """Assign to group g the points that are nearer to it than to the groups before it.

    ``totals[i]`` is the sum of the kernel between point i and the ``size`` members of the group. The
    distance is linear in it. ``margin`` is the share of a distance by which it must be smaller.
    """
    at_zero = distance_to_mean(0.0, squared_norm, on_sphere)
    slope = np.float32(distance_to_mean(1.0 / size, squared_norm, on_sphere) - at_zero)
    offset = np.float32(at_zero)
    # Unconditional stores let the compiler vectorise the loop.
    for i in range(best.size):
        distance = slope * totals[i] + offset
        is_nearer = distance < best[i] - margin * abs(best[i])
        nearest[i] = g if is_nearer else nearest[i]
        best[i] = distance if is_nearer else best[i]


@jit
def take_seed(K, diag, seed, g, nearest, groups):
    """Assign to group g the points that are nearer to its seed than to the seeds before it."""
    row = K[seed]
    for i in range(groups.size):
        distance = max(diag[i] + diag[seed] - 2.0 * row[i], 0.0)
        if distance < nearest[i]:
            nearest[i] = distance
            groups[i] = g
    nearest[seed] = 0.0
    groups[seed] = g


@jit
def draw_seed(nearest, noise, draw):
    """Draw a point with probability proportional to its squared distance from the nearest seed.

    Distances up to ``noise`` count as zero. Returns -1 if all are zero.
    """
    total = 0.0
    for i in range(nearest.size):
        total += nearest[i] if nearest[i] > noise else 0.0
    if total == 0.0:
        return -1
    reached, last = 0.0, -1
    for i in range(nearest.size):
        if nearest[i] > noise:
            reached += nearest[i]
            last = i
            if reached > draw * total:
                break
    return last


@jit
def seed_groups(K, diag, first, draws, noise, groups):
    """Find groups around k-means++ seeds, in place; ``draws`` are random numbers from [0, 1)."""
    nearest = np.full(groups.size, 1e300)
    take_seed(K, diag, first, 0, nearest, groups)
    for g in range(draws.size):
        seed = draw_seed(nearest, noise, draws[g])
        if seed < 0:
            break
        take_seed(K, diag, seed, g + 1, nearest, groups)


@jit
def assign_groups(block, bounds, squared_norms, on_sphere, best, out):
    """Find the nearest group of every point (DC-SVM Algorithm 1, line 9), and the distance to it.

    Points are the columns of ``block``, and the sampled points its rows: group g has the rows
    ``bounds[g]`` to ``bounds[g + 1]``. The first of several nearest groups is taken, where groups
    count as equally near up to the rounding of float32: that depends on the points beside a point. The
    inner loops run over points because groups are often small.
    """
    totals = np.empty(out.size, np.float32)
    best[:] = _FAR
    for g in range(squared_norms.size):
        totals[:] = 0.0
        for r in range(bounds[g], bounds[g + 1]):
            add_row(block[r], totals)
        size = np.float64(bounds[g + 1] - bounds[g])
        take_nearer(totals, size, squared_norms[g], on_sphere, np.int32(g), _TIE, best, out)


@jit
def take_cluster(to_cluster, c, best, nearest):
    """Assign to cluster c the points that are nearer to it than to the clusters before it."""
    for i in range(best.size):
        is_nearer = to_cluster[i] < best[i]
        nearest[i] = c if is_nearer else nearest[i]
        best[i] = to_cluster[i] if is_nearer else best[i]


@jit
def rank_clusters(block, bounds, squared_norms, on_sphere, clusters, distances, nearest):
    """Find the nearest clusters of every point, in ascending order, and the distances to them.

    The distance to a cluster is that to the nearest of its groups; ``clusters[g]`` is the cluster of
    group g. ``distances`` and ``nearest`` have one row for each rank and one column for each point.
    """
    n = nearest.shape[1]
    totals, to_cluster = np.empty(n, np.float32), np.full((clusters.max() + 1, n), _FAR)
    unused = np.empty(n, np.int32)
    for g in range(squared_norms.size):
        totals[:] = 0.0
        for r in range(bounds[g], bounds[g + 1]):
            add_row(block[r], totals)
        size, best = np.float64(bounds[g + 1] - bounds[g]), to_cluster[clusters[g]]
        take_nearer(totals, size, squared_norms[g], on_sphere, np.int32(g), _NONE, best, unused)
    # One pass over all clusters for each rank. The loops over points are vectorised, which takes a
    # fraction of the time of keeping the clusters of every point in order.
    distances[:] = _FAR
    for rank in range(len(nearest)):
        for c in range(len(to_cluster)):
            take_cluster(to_cluster[c], np.int32(c), distances[rank], nearest[rank])
        for i in range(n):
            to_cluster[nearest[rank, i], i] = _FAR


@jit
def improve_groups(K, groups, n_groups, on_sphere, max_rounds):
    """Run Lloyd's iterations of kernel k-means in place (DC-SVM Algorithm 1, line 8).

    Returns the objective ``sum_i ||phi(x_i) - m_g(i)||^2`` less the constant ``sum_i k(x_i, x_i)``.
    Stops when no point changes its group. A group that loses all its points stays empty.
    """
    n = groups.size
    sums, sizes = np.empty((n_groups, n), K.dtype), np.empty(n_groups, np.int64)
    squared_norms, best = np.empty(n_groups), np.empty(n, np.float32)
    nearest = np.empty(n, groups.dtype)
    spread = 0.0
    for _ in range(max_rounds):
        add_by_group(K, groups, sums, sizes)
        squared_norms[:] = 0.0
        for i in range(n):
            squared_norms[groups[i]] += sums[groups[i], i]
        best[:] = _FAR
        for k in range(groups.size):
            nearest[k] = groups[k]
        for g in range(n_groups):
            if sizes[g] > 0:
                size = np.float64(sizes[g])
                norm = squared_norms[g] / size**2
                take_nearer(sums[g], size, norm, on_sphere, g, _NONE, best, nearest)
        spread, n_moved = 0.0, 0
        for i in range(n):
            spread += best[i]
            n_moved += nearest[i] != groups[i]
            groups[i] = nearest[i]
        if n_moved == 0:
            break
    return spread
