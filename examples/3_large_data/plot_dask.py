"""
Clusters on Dask
================

``DCSVC`` solves its clusters through joblib. Inside ``joblib.parallel_config(backend="dask")``
they run on the workers of a Dask cluster. The model is the same as with threads.
"""

# %%
# Two workers of this machine stand for a cluster. On a real one, give ``Client`` the address of
# its scheduler.
import time

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from dask.distributed import Client

from widemargin import DCSVC

rng = np.random.default_rng(0)
X = rng.uniform(size=(12_000, 2))
y = np.floor(6 * X).astype(int).sum(axis=1) % 2

model = DCSVC(C=10, gamma=50, n_levels=1, n_clusters=16, stop_level=1)
local = model.fit(X, y).decision_function(X[:1000])

with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    began = time.perf_counter()
    with joblib.parallel_config(backend="dask"):
        model.fit(X, y)
    seconds = time.perf_counter() - began
    workers = len(client.scheduler_info()["workers"])
on_dask = model.decision_function(X[:1000])

print(
    pd.Series(
        {
            "workers": workers,
            "seconds": round(seconds, 2),
            "clusters": model.levels_[-1].n_clusters,
            "largest difference to threads": float(np.abs(on_dask - local).max()),
        }
    ).to_string()
)

# %%
# Each point of the picture has the colour of its predicted class.
figure, axis = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
axis.scatter(*X[:3000].T, c=model.predict(X[:3000]), cmap="coolwarm", s=6)
axis.set(title="Predictions of the early model", xlabel="feature 0", ylabel="feature 1")
plt.show()
