"""
The exact solver: growing samples
=================================

``KernelSVC`` solves a random sample first, and then larger samples up to all rows, each from the
solution of the last. This example fits samples of three sizes and shows that a small sample already
has nearly the final boundary, so that most of the other rows need no work.
"""

# %%
# The data are two half circles with noise. Circles mark the support vectors of each sample.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin import KernelSVC

X, y = make_moons(2000, noise=0.2, random_state=0)
sizes = (100, 500, 2000)
models = {size: KernelSVC(C=10, gamma=2).fit(X[:size], y[:size]) for size in sizes}

side = np.linspace(0, 1, 120)
across, up = np.meshgrid(-1.7 + 4.4 * side, -1.3 + 3.1 * side)
grid = np.column_stack([across.ravel(), up.ravel()])

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
for axis, (size, model) in zip(axes, models.items(), strict=True):
    heights = model.decision_function(grid).reshape(across.shape)
    axis.contour(across, up, heights, levels=[0], colors="black", linewidths=1.8)
    axis.scatter(*X[:size].T, c=y[:size], cmap="coolwarm", s=6, alpha=0.5)
    axis.scatter(*model.support_vectors_.T, s=30, facecolors="none", edgecolors="black", lw=0.7)
    axis.set_title(f"{size:,} rows, {len(model.support_)} support vectors", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
plt.show()

# %%
# How many of the 2,000 rows lie on the wrong side of the margin of each model, or on it? Only these
# rows change the next solution.
signs = 2 * y - 1
for size, model in models.items():
    inside = signs * model.decision_function(X) < 1
    print(f"{size:5,} rows solved: {inside.sum():4,} of {len(X):,} rows touch the margin")
