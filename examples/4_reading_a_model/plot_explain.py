"""
The explanation of one decision
===============================

``explain`` says what each feature adds to the decision of a row. The parts and the intercept add
up to the decision value: nothing is estimated.
"""

# %%
# The model is that of :ref:`sphx_glr_auto_examples_4_reading_a_model_plot_shapes.py`. The row is the
# test row about which the model is least certain.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from widemargin import AdditiveSVC

data = load_breast_cancer(as_frame=True)
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = AdditiveSVC().fit(X_train, y_train)

decisions = model.decision_function(X_test)
row = int(np.argmin(np.abs(decisions)))
patient = X_test.iloc[[row]]
print(f"decision {decisions[row]:+.3f}: {model.predict(patient)[0]}; in truth {y_test[row]}")

# %%
# The parts of an average row are the baseline, so that a bar says how this row differs from the
# average.
parts = model.explain(patient)[0] - model.explain(X_train).mean(axis=0)
table = pd.DataFrame({"value": patient.iloc[0], "adds": parts}).sort_values("adds", key=abs)
print(table.tail(8)[::-1].round(3).to_string())

# %%
# Bars to the right speak for the second class in alphabetical order, malignant.
shown = table.tail(8)
figure, axis = plt.subplots(figsize=(7, 3.6), layout="constrained")
axis.barh(
    [f"{name} = {value:.4g}" for name, value in shown["value"].items()],
    shown["adds"],
    color=np.where(shown["adds"] > 0, "tab:red", "tab:blue"),
)
axis.axvline(0, color="k", linewidth=0.8)
axis.set(xlabel="adds to the score for malignant (average row = 0)", title="One decision")
plt.show()
