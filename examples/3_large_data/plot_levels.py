"""
The levels of divide and conquer
================================

``DCSVC`` divides the rows into clusters, solves each cluster, and goes on with fewer and larger
clusters up to the whole problem. This example keeps the model of every level and shows what each
one costs and reaches.
"""

# %%
# The data are a noisy chessboard of 20,000 rows, which has many support vectors.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from widemargin import DCSVC
from widemargin.plotting import plot_levels

rng = np.random.default_rng(0)


def draw(n):
    X = rng.uniform(size=(n, 2))
    y = np.floor(6 * X).astype(int).sum(axis=1) % 2
    return X, np.where(rng.uniform(size=n) < 0.1, 1 - y, y)


X, y = draw(20_000)
X_test, y_test = draw(5_000)

model = DCSVC(C=10, gamma=50, n_levels=3, keep_levels=True).fit(X, y)
table = pd.DataFrame(
    {
        "level": [record.level for record in model.levels_],
        "clusters": [record.n_clusters for record in model.levels_],
        "support vectors": [record.n_support for record in model.levels_],
        "test accuracy": [np.mean(p == y_test) for p in model.staged_predict(X_test)],
    }
)
print(table.round(4).to_string(index=False))

# %%
# A tenth of the labels is wrong, so that 90 % is the best possible accuracy. Each level minimises
# an objective of its own, with the kernel taken as zero between clusters.
plot_levels(model, X_test, y_test)
plt.show()
