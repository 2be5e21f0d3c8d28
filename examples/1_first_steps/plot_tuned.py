"""
A tuned model
=============

``C`` and ``gamma`` decide how well a kernel SVM predicts. ``KernelSVCCV`` chooses both by
cross-validation. This example draws the scores of all cells and compares the result with default
parameters.
"""

# %%
# The task is to recognise handwritten digits. Integers for ``Cs`` and ``gammas`` make a grid from
# the data.
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from widemargin import KernelSVC, KernelSVCCV
from widemargin.plotting import plot_search

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0)

tuned = KernelSVCCV(Cs=5, gammas=5, cv=3, calibration="sigmoid").fit(X_train, y_train)
print(f"C = {tuned.C_:.3g}, gamma = {tuned.gamma_:.3g}, held-out score {tuned.best_score_:.4f}")

# %%
# The tuned model beside the defaults. The defaults suit these data: the two models differ by a
# row or two of 899.
plain = KernelSVC().fit(X_train, y_train)
print(
    pd.DataFrame(
        {
            "test accuracy": [plain.score(X_test, y_test), tuned.score(X_test, y_test)],
            "support vectors": [len(plain.support_), len(tuned.best_estimator_.support_)],
        },
        index=["default", "tuned"],
    ).round(4)
)

# %%
# The map shows a wide region of good values.
plot_search(tuned)
plt.show()
