"""
Sparse models: a few vectors instead of all support vectors
===========================================================

``ProjectedSVC`` chooses basis vectors one after another, each time the row that lowers the objective
most. This example draws the boundary of models with 3, 6 and 12 vectors beside the optimum, which has
153 support vectors.
"""

# %%
# One fit has the models of all sizes up to ``n_basis``; here each size is fitted by itself, so that
# vectors are also exchanged at that size.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from widemargin import KernelSVC, ProjectedSVC

X, y = make_moons(2000, noise=0.2, random_state=0)
X_test, y_test = make_moons(5000, noise=0.2, random_state=1)
models = [ProjectedSVC(n_basis=size, C=10, gamma=2).fit(X, y) for size in (3, 6, 12)]
models.append(KernelSVC(C=10, gamma=2).fit(X, y))

side = np.linspace(0, 1, 120)
across, up = np.meshgrid(-1.7 + 4.4 * side, -1.3 + 3.1 * side)
grid = np.column_stack([across.ravel(), up.ravel()])

figure, axes = plt.subplots(1, 4, figsize=(13, 3.4), sharey=True, layout="constrained")
for axis, model in zip(axes, models, strict=True):
    sparse = isinstance(model, ProjectedSVC)
    vectors = np.reshape(model.basis_vectors_ if sparse else model.support_vectors_, (-1, 2))
    heights = model.decision_function(grid).reshape(across.shape)
    axis.scatter(*X.T, c=y, cmap="coolwarm", s=4, alpha=0.25)
    axis.contour(across, up, heights, levels=[0], colors="black", linewidths=1.8)
    axis.scatter(
        *vectors.T, s=60 if sparse else 14, marker="*" if sparse else "o", color="black", lw=0.5
    )
    kind = "basis vectors" if sparse else "support vectors"
    accuracy = model.score(X_test, y_test)
    axis.set_title(f"{len(vectors)} {kind}\ntest accuracy {accuracy:.1%}", fontsize=10)
    axis.set_xticks([])
    axis.set_yticks([])
plt.show()
