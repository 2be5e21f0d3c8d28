"""
Probabilities that can be trusted
=================================

A decision value is no probability. ``CalibratedClassifierCV`` turns it into one. A reliability
diagram shows whether events that are predicted with 70 % happen in 70 % of the cases.
"""

# %%
# The data have two classes that overlap, so that no model can be certain.
import matplotlib.pyplot as plt
import pandas as pd
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import train_test_split

from widemargin import KernelSVC

X, y = make_classification(6000, n_features=10, n_informative=6, flip_y=0.15, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

# %%
# The first row of the table squeezes decision values into 0 to 1 without any calibration. The
# second and third fit a sigmoid or a monotone curve on held-out folds.
svc = KernelSVC(C=1, gamma=0.1)
predicted = {"sigmoid of decision": expit(3 * svc.fit(X_train, y_train).decision_function(X_test))}
for method in ("sigmoid", "isotonic"):
    calibrated = CalibratedClassifierCV(svc, method=method, ensemble=False).fit(X_train, y_train)
    predicted[f"calibrated, {method}"] = calibrated.predict_proba(X_test)[:, 1]

table = pd.DataFrame(
    {
        name: {"log loss": log_loss(y_test, p), "Brier score": brier_score_loss(y_test, p)}
        for name, p in predicted.items()
    }
).T
print(table.round(4).to_string())

# %%
# Smaller losses are better. In the diagram, a perfect model is on the dotted line.
figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
for name, p in predicted.items():
    CalibrationDisplay.from_predictions(y_test, p, n_bins=10, name=name, ax=axis)
axis.set(title="Reliability diagram", xlabel="predicted probability", ylabel="observed share")
plt.show()
