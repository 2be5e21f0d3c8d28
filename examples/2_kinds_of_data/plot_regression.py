"""
Regression, with error bars over folds
======================================

``KernelSVR`` ignores errors smaller than ``epsilon``. A larger ``epsilon`` leaves fewer support
vectors. This example shows what that costs in accuracy.
"""

# %%
# The task is to predict the progress of diabetes after a year from ten measurements. The score is
# R2 on ten folds, repeated twice.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.model_selection import RepeatedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import KernelSVR

X, y = load_diabetes(return_X_y=True)
folds = RepeatedKFold(n_splits=10, n_repeats=2, random_state=0)

# %%
# Targets are scaled, so that ``epsilon`` is in standard deviations of the target.
rows = []
for epsilon in (0.01, 0.1, 0.3, 0.6, 1.0, 1.4):
    model = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), KernelSVR(C=1, gamma=0.02, epsilon=epsilon)),
        transformer=StandardScaler(),
    )
    found = cross_validate(model, X, y, cv=folds, return_estimator=True)
    vectors = [len(fitted.regressor_[-1].support_) for fitted in found["estimator"]]
    score = found["test_score"]
    rows.append((epsilon, score.mean(), score.std() / np.sqrt(len(score)), np.mean(vectors)))
table = pd.DataFrame(rows, columns=["epsilon", "R2", "standard error", "support vectors"])
print(table.round(3).to_string(index=False))

# %%
# The bars are one standard error of the mean over folds. Folds share training rows, so that the
# true error is a little larger.
figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
axis.errorbar(table["epsilon"], table["R2"], table["standard error"], marker="o", capsize=4)
axis.set(xlabel="epsilon (standard deviations of the target)", ylabel="R2 on held-out folds")
other = axis.twinx()
other.plot(table["epsilon"], table["support vectors"], color="0.6", linestyle="--")
other.set_ylabel("support vectors (dashed)", color="0.4")
plt.show()
