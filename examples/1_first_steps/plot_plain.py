"""
A first model
=============

``KernelSVC`` separates two interleaved half circles. The picture shows the decision function, its
margin and the support vectors.
"""

# %%
# The data are 400 points of two classes with noise. A third of them is held out.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.model_selection import train_test_split

from widemargin import KernelSVC

X, y = make_moons(400, noise=0.25, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, random_state=0)

model = KernelSVC(C=10, gamma=1.0).fit(X_train, y_train)
print(f"test accuracy   {model.score(X_test, y_test):.3f}")
print(f"support vectors {len(model.support_)} of {len(X_train)} rows")
print(f"stop reason     {model.stop_reason_}")

# %%
# The solid line is where the decision function is zero. The dashed lines are the margin. Every
# row on the wrong side of its margin, or on it, is a support vector (circles).
across, up = np.meshgrid(np.linspace(-1.8, 2.8, 200), np.linspace(-1.3, 1.8, 200))
heights = model.decision_function(np.c_[across.ravel(), up.ravel()]).reshape(across.shape)

figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
axis.contourf(across, up, heights, levels=20, cmap="RdBu", alpha=0.5, vmin=-3, vmax=3)
axis.contour(across, up, heights, levels=[-1, 0, 1], colors="k", linestyles=["--", "-", "--"])
axis.scatter(*X_train.T, c=y_train, cmap="RdBu", s=18, edgecolors="k", linewidths=0.4)
axis.scatter(*model.support_vectors_.T, s=70, facecolors="none", edgecolors="k", linewidths=0.8)
axis.set(title="Decision function and support vectors", xlabel="feature 0", ylabel="feature 1")
plt.show()
