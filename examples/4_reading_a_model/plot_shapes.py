"""
The curves of a medical model
=============================

The decision of an ``AdditiveSVC`` is a sum of curves, one for each feature. This example draws
the curves of a classifier of tumours: what each measurement adds to the score for malignant.
"""

# %%
# The data are thirty measurements of cell nuclei, in a DataFrame. ``scaling="max"`` brings
# features in different units to the same scale.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score, train_test_split

from widemargin import AdditiveSVC
from widemargin.plotting import plot_shapes

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = AdditiveSVC().fit(X_train, y_train)
print(f"five folds    {cross_val_score(AdditiveSVC(), X, y).mean():.3f}")
print(f"test accuracy {model.score(X_test, y_test):.3f}")

# %%
# The panels show the six features with the largest effect. The histogram under a curve shows
# where the data are. The curve is faint where there are few.
plot_shapes(model, X_train)
plt.show()

# %%
# A curve shows what the model does, not what causes a disease: features that measure nearly the
# same share their effect.
