"""One example of LASVM written plainly, every gradient computed from scratch.

Moves make gradients equal, so which member is extreme is often a matter of rounding: all outcomes of
such choices are returned.
"""

from dataclasses import dataclass

import numpy as np

#: Gradients that differ by less may count as equal.
TIE = 1e-5


@dataclass(frozen=True)
class PlainLasvm:
    """One binary problem with the kernel matrix given; signed dual variables."""

    K: np.ndarray
    y: np.ndarray
    upper: np.ndarray
    tol: float

    def gradient(self, alpha):
        return self.y - self.K @ alpha

    def tops(self, alpha, members):
        """Members that may rise and have the largest gradient."""
        g = self.gradient(alpha)
        high = np.where(self.y > 0, self.upper, 0.0)
        rising = [s for s in members if alpha[s] < high[s]]
        return [s for s in rising if g[s] >= max(g[rising]) - TIE]

    def bottoms(self, alpha, members):
        """Members that may fall and have the smallest gradient."""
        g = self.gradient(alpha)
        low = np.where(self.y > 0, 0.0, -self.upper)
        falling = [s for s in members if alpha[s] > low[s]]
        return [s for s in falling if g[s] <= min(g[falling]) + TIE]

    def move(self, alpha, i, j):
        """Direction search along i up and j down, if the pair violates."""
        g = self.gradient(alpha)
        if g[i] - g[j] <= self.tol:
            return alpha
        room_i = (self.upper[i] if self.y[i] > 0 else 0.0) - alpha[i]
        room_j = alpha[j] - (0.0 if self.y[j] > 0 else -self.upper[j])
        curvature = self.K[i, i] + self.K[j, j] - 2 * self.K[i, j]
        step = min((g[i] - g[j]) / max(curvature, 1e-12), room_i, room_j)
        moved = alpha.copy()
        moved[i] += step
        moved[j] -= step
        return moved

    def process(self, alpha, members, k):
        """Coefficients after a new member k has moved."""
        if self.y[k] > 0:
            pairs = [(k, j) for j in self.bottoms(alpha, members)]
        else:
            pairs = [(i, k) for i in self.tops(alpha, members)]
        return [self.move(alpha, i, j) for i, j in pairs] or [alpha]

    def reprocess(self, alpha, members):
        """Coefficients after the most violating pair has moved."""
        pairs = [(i, j) for i in self.tops(alpha, members) for j in self.bottoms(alpha, members)]
        return [self.move(alpha, i, j) for i, j in pairs] or [alpha]

    def learn(self, alpha, members, k):
        """All that one example can lead to."""
        if k in members:
            return self.reprocess(alpha, members)
        members = [*members, k]
        return [
            final
            for processed in self.process(alpha, members, k)
            for final in self.reprocess(processed, members)
        ]

    def may_stay(self, alpha, members, slack):
        """Members that do not leave; ``slack`` moves the borders outwards."""
        g, tops, bottoms = (
            self.gradient(alpha), self.tops(alpha, members), self.bottoms(alpha, members)
        )  # fmt: skip
        if not tops or not bottoms:
            return set(members)
        high, low = g[tops].max() + slack, g[bottoms].min() - slack
        return {
            s for s in members if alpha[s] != 0 or (g[s] > low if self.y[s] > 0 else g[s] < high)
        }
