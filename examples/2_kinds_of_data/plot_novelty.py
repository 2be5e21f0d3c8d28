"""
Novelty detection: digits never seen before
===========================================

``KernelOneClassSVM`` learns what normal rows look like, without labels. Here normal rows are the digits 0 to 8, and the
digit 9 is new.
"""

# %%
# The model sees 800 images of the digits 0 to 8. ``nu=0.05`` says that about one in twenty of them may count as unusual.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from widemargin import KernelOneClassSVM

X, y = load_digits(return_X_y=True)
X = X / 16
rng = np.random.default_rng(0)
normal = rng.permutation(np.flatnonzero(y != 9))
train, unseen, novel = normal[:800], normal[800:], np.flatnonzero(y == 9)

model = KernelOneClassSVM(nu=0.05, gamma=0.15).fit(X[train])
scores = {name: model.score_samples(X[rows]) for name, rows in (("0 to 8", unseen), ("9", novel))}
is_novel = np.repeat([0, 1], [len(unseen), len(novel)])
area = roc_auc_score(is_novel, -np.concatenate(list(scores.values())))
print(f"training rows outside     {np.mean(model.predict(X[train]) == -1):.1%}")
print(f"unseen 0 to 8 outside     {np.mean(model.predict(X[unseen]) == -1):.1%}")
print(f"nines outside             {np.mean(model.predict(X[novel]) == -1):.1%}")
print(f"area under the ROC curve  {area:.3f}")

# %%
# Nines resemble other digits, so that not all are found. The images are the nines that the model finds most unusual
# (top) and least unusual (bottom).
order = novel[np.argsort(scores["9"])]
figure, panels = plt.subplot_mosaic(
    ["hhhhhh", "abcdef", "ghijkl".replace("h", "m")],
    figsize=(7, 5), height_ratios=[2.2, 1, 1], layout="constrained",
)  # fmt: skip
panels["h"].hist(list(scores.values()), bins=40, density=True, label=[*scores])
panels["h"].axvline(model.offset_[0], color="k", linestyle="--", label="boundary")
panels["h"].set(xlabel="score (low is unusual)", ylabel="density")
panels["h"].legend(frameon=False)
for name, row in zip("abcdefgmijkl", [*order[:6], *order[-6:]], strict=True):
    panels[name].imshow(X[row].reshape(8, 8), cmap="gray_r")
    panels[name].axis("off")
plt.show()
