"""
SVC and KernelSVC: the same optimum
===================================

Both classes solve the same problem to the same tolerance. This example fits both to digits,
compares the objective that they reach, and measures the time of each fit.
"""

# %%
# The 1,797 images of digits become 16,173 rows: each image is also shifted by a pixel in eight
# directions. The task is to tell even digits from odd ones.
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from widemargin import KernelSVC

images, labels = load_digits(return_X_y=True)
padded = np.pad(images.reshape(-1, 8, 8) / 16, ((0, 0), (1, 1), (1, 1)))
shifted = [padded[:, r : r + 8, c : c + 8].reshape(-1, 64) for r in range(3) for c in range(3)]
X, y = np.concatenate(shifted), np.tile(labels % 2, 9)
print(X.shape)

# %%
# The first fit compiles the library, once on each machine. A small fit does this before the clock
# starts. The objective is computed here from the coefficients of each model, not by the solvers.
KernelSVC(C=1, gamma=0.5).fit(X[:3000], y[:3000])


def measure(model):
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    b = model.dual_coef_[0]
    objective = 0.5 * b @ rbf_kernel(model.support_vectors_, gamma=0.5) @ b - np.abs(b).sum()
    return {"fit (s)": seconds, "dual objective": objective, "support vectors": len(b)}


table = pd.DataFrame(
    {
        "SVC": measure(SVC(C=1, gamma=0.5, cache_size=1000)),
        "KernelSVC": measure(KernelSVC(C=1, gamma=0.5)),
    }
).T
print(table.to_string(float_format="{:,.3f}".format))

# %%
# The objectives agree, and a lower one is better. The times are those of the machine that built
# this page; :doc:`/performance` has careful measurements on larger data.
figure, axis = plt.subplots(figsize=(6, 2.2), layout="constrained")
axis.barh(table.index, table["fit (s)"], color=["0.6", "tab:blue"])
axis.set(xlabel="seconds to fit", title="16,173 rows, the same optimum")
plt.show()
