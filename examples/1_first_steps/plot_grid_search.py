"""
A tuned model
=============

``C`` and ``gamma`` decide how well a kernel SVM predicts. This example searches both with scikit-learn's ``GridSearchCV``
and draws the map of cross-validated accuracy.
"""

# %%
# The task is to recognise handwritten digits. The scaler is part of the pipeline, so that every fold is scaled by its
# training rows alone.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from widemargin import KernelSVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

Cs, gammas = np.logspace(-1, 2, 4), np.logspace(-2.5, 0.5, 6)
search = GridSearchCV(
    make_pipeline(MinMaxScaler(), KernelSVC()),
    {"kernelsvc__C": Cs, "kernelsvc__gamma": gammas},
    cv=3,
).fit(X_train, y_train)
print("best parameters ", {k: float(v) for k, v in search.best_params_.items()})
print(f"cross-validation {search.best_score_:.4f}")
print(f"test accuracy    {search.score(X_test, y_test):.4f}")

# %%
# The map shows a wide region of good values. Search on a coarse logarithmic grid first.
scores = search.cv_results_["mean_test_score"].reshape(len(Cs), len(gammas))
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
picture = axis.imshow(scores, origin="lower", cmap="viridis", vmin=0.9, aspect="auto")
axis.set_xticks(range(len(gammas)), [f"{g:.3g}" for g in gammas])
axis.set_yticks(range(len(Cs)), [f"{c:g}" for c in Cs])
axis.set(xlabel="gamma", ylabel="C", title="Cross-validated accuracy")
for i, j in np.ndindex(scores.shape):
    axis.text(j, i, f"{scores[i, j]:.3f}", ha="center", va="center", color="w", fontsize=8)
figure.colorbar(picture)
plt.show()
