"""
Rare classes: weights move the boundary
=======================================

If one class is rare, a model that never predicts it is often right. ``class_weight="balanced"``
makes an error on the rare class cost more.
"""

# %%
# One row in thirty belongs to the rare class.
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.metrics import (
    PrecisionRecallDisplay,
    balanced_accuracy_score,
    precision_score,
    recall_score,
)
from sklearn.model_selection import train_test_split

from widemargin import KernelSVC

X, y = make_classification(
    6000, n_features=8, n_informative=5, weights=[0.967], class_sep=0.8, flip_y=0.01, random_state=1
)  # fmt: skip
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

models = {
    str(weight): KernelSVC(C=1, gamma=0.1, class_weight=weight).fit(X_train, y_train)
    for weight in (None, "balanced", {1: 5})
}
rows = {}
for name, model in models.items():
    predicted = model.predict(X_test)
    rows[name] = {
        "accuracy": model.score(X_test, y_test),
        "balanced accuracy": balanced_accuracy_score(y_test, predicted),
        "precision": precision_score(y_test, predicted),
        "recall": recall_score(y_test, predicted),
    }
print(pd.DataFrame(rows).T.rename_axis("class_weight").round(3).to_string())

# %%
# Accuracy alone is misleading. On these data the model without weights ranks rows best (its curve is
# highest), and a lower threshold on its decision function finds more rare rows. Compare both ways.
figure, axis = plt.subplots(figsize=(6, 4.2), layout="constrained")
for name, model in models.items():
    PrecisionRecallDisplay.from_estimator(
        model, X_test, y_test, ax=axis, name=f"class_weight={name}"
    )
axis.set(title="Precision and recall of the rare class", xlabel="recall", ylabel="precision")
plt.show()
