"""
Novelty detection: what is not normal
=====================================

``KernelOneClassSVM`` learns what normal rows look like, without labels. Here normal rows are
benign tumours, and the model has never seen a malignant one.
"""

# %%
# The model is fitted to 250 benign tumours. ``nu=0.05`` says that about one in twenty of them may
# count as unusual.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from widemargin import KernelOneClassSVM

data = load_breast_cancer()
benign = np.random.default_rng(0).permutation(data.data[data.target == 1])
malignant = data.data[data.target == 0]
scaler = StandardScaler().fit(benign[:250])
parts = {
    "benign, training": scaler.transform(benign[:250]),
    "benign, unseen": scaler.transform(benign[250:]),
    "malignant": scaler.transform(malignant),
}

model = KernelOneClassSVM(nu=0.05, gamma=0.01).fit(parts["benign, training"])
for name, rows in parts.items():
    print(f"{name:17} {len(rows):4} rows, {np.mean(model.predict(rows) == -1):6.1%} outside")
scores = {name: model.score_samples(rows) for name, rows in parts.items()}
is_new = np.repeat([0, 1], [len(scores["benign, unseen"]), len(malignant)])
area = roc_auc_score(is_new, -np.r_[scores["benign, unseen"], scores["malignant"]])
print(f"area under the ROC curve of unseen rows {area:.3f}")

# %%
# Rows to the left of the boundary are outside. Move the boundary with a threshold on
# ``score_samples`` if another share of false alarms is acceptable.
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
bins = np.linspace(0, max(scores["benign, training"]), 40)
for name in ("benign, unseen", "malignant"):
    axis.hist(scores[name], bins=bins, density=True, alpha=0.6, label=name)
axis.axvline(model.offset_, color="k", linestyle="--", label="boundary")
axis.set(xlabel="score (low is unusual)", ylabel="density", title="Scores of rows never seen")
axis.legend(frameon=False)
plt.show()
