"""
Pairs of features that act together
===================================

A sum of curves cannot represent an interaction: a feature whose effect depends on another one. An
ANOVA kernel has all pairs of features at once, and the model can still be drawn.
"""

# %%
# The data are made up. Young people with a high income and old people with a low one buy; the number
# of rooms matters for everybody, and the last column is noise. Income is in thousands.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from widemargin import AdditiveSVC, KernelSVC
from widemargin.interactions import decompose
from widemargin.plotting import plot_shapes

rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "age": rng.integers(18, 90, 1500),
        "income": rng.lognormal(3.0, 0.8, 1500).round(1),
        "rooms": rng.integers(1, 9, 1500),
        "noise": rng.normal(size=1500),
    }
)
score = (54 - X["age"]) / 20 * (np.log(X["income"]) - 3) + 0.25 * (X["rooms"] - 4.5)
y = np.where(score + 0.4 * rng.normal(size=1500) > 0, "yes", "no")
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Ranks of the columns make their units comparable. Curves alone miss most of what there is to learn.
ranks = QuantileTransformer(n_quantiles=200)
curves = make_pipeline(ranks, AdditiveSVC(kernel="intersection")).fit(X_train, y_train)
pairs = make_pipeline(ranks, KernelSVC(kernel="anova_chi2", C=10)).fit(X_train, y_train)
print(
    f"curves only {curves.score(X_test, y_test):.3f}, all pairs {pairs.score(X_test, y_test):.3f}"
)

# %%
# ``decompose`` splits the decision function into curves and surfaces. They are ranked by their share
# of its variance.
parts = decompose(pairs, X_train)
for term in parts.rank_terms()[:5]:
    print(f"{100 * term.share:5.1f} %  {' and '.join(term.names)}")

# %%
# The picture shows the most important terms in the units of the data. A surface holds what the
# curves of its two features cannot.
plot_shapes(parts, n_features=3, n_pairs=1)
plt.show()

# %%
# ``AdditiveSVC`` with ``interactions=1`` keeps the curves and the most important pair, and predicts
# as fast as an additive model.
few = make_pipeline(ranks, AdditiveSVC(kernel="intersection", interactions=1)).fit(X_train, y_train)
names = [X.columns[j] for j in few[-1].interactions_[0]]
print(f"curves and {' x '.join(names)}: {few.score(X_test, y_test):.3f}")
