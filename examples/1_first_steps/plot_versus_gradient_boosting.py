"""
Beside gradient boosting: some won, some lost
=============================================

No method wins everywhere. This example compares ``KernelSVC`` with scikit-learn's gradient
boosting on five tasks. The last two are made so that a kernel SVM loses.
"""

# %%
# Three sets ship with scikit-learn. The fourth hides four useful features among 60 that are
# noise: an rbf kernel compares all of them, a tree picks. The fifth has a step in a single
# feature, on an axis.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from widemargin import KernelSVC

rng = np.random.default_rng(0)
steps = rng.uniform(size=(1500, 20))
digits, digit = load_digits(return_X_y=True)
tasks = {
    "digits, odd or even": (digits, digit % 2),
    "breast cancer": load_breast_cancer(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "60 noise features": make_classification(
        1500, 64, n_informative=4, n_redundant=0, n_clusters_per_class=4, random_state=3
    ),
    "steps on axes": (steps, np.floor(8 * steps[:, 0]).astype(int) % 2),
}
models = {
    "KernelSVC": make_pipeline(StandardScaler(), KernelSVC(C=10)),
    "gradient boosting": HistGradientBoostingClassifier(max_iter=50, random_state=0),
}

# %%
# Each cell is the mean accuracy over three folds, with default parameters but for C and 50 trees.
with threadpool_limits(1):  # the threads of gradient boosting wait for each other on a busy machine
    table = pd.DataFrame(
        {
            name: {task: cross_val_score(model, *data, cv=3).mean() for task, data in tasks.items()}
            for name, model in models.items()
        }
    )
table["winner"] = table.idxmax(axis=1)
print(table.round(3).to_string())

# %%
# Prefer gradient boosting for tables with many useless columns, with categories or with missing
# values. Prefer a kernel SVM where rows that are close have the same label: images, spectra,
# signals.
axis = table[list(models)].plot.barh(figsize=(7, 3.6), color=["tab:blue", "0.6"])
axis.set(xlabel="accuracy over three folds", xlim=(0.4, 1))
axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
axis.figure.tight_layout()
plt.show()
