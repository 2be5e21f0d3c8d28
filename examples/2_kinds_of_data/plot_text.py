"""
Text: which library does a description belong to?
=================================================

Tf-idf weights of words are sparse. ``KernelSVC`` uses them as they are. The texts of this example
are the docstrings of functions in NumPy, SciPy and scikit-learn, so that nothing has to be
downloaded.
"""

# %%
# The names of the libraries are removed from the texts.
import inspect
import re

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special
import scipy.stats
import sklearn.cluster
import sklearn.linear_model
import sklearn.metrics
import sklearn.preprocessing
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import ConfusionMatrixDisplay, classification_report
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from widemargin import KernelSVC

modules = {
    "numpy": [np, np.linalg, np.fft, np.random, np.ma],
    "scipy": [scipy.linalg, scipy.ndimage, scipy.signal, scipy.special, scipy.stats],
    "sklearn": [sklearn.cluster, sklearn.linear_model, sklearn.metrics, sklearn.preprocessing],
}
texts, labels = [], []
for library, parts in modules.items():
    found = {
        inspect.getdoc(thing) or ""
        for part in parts
        for name, thing in vars(part).items()
        if callable(thing) and not name.startswith("_")
    }
    kept = sorted(text for text in found if len(text) > 200)
    texts += [re.sub(r"numpy|np|scipy|sp|sklearn|scikit", " ", text.lower()) for text in kept]
    labels += [library] * len(kept)
print(len(texts), "texts")

# %%
# Tf-idf rows have length one, for which ``gamma=1`` is a good start.
train, test, y_train, y_test = train_test_split(texts, labels, test_size=0.4, random_state=0)
model = make_pipeline(TfidfVectorizer(min_df=2), KernelSVC(C=10, gamma=1)).fit(train, y_train)
rows = model[0].transform(train)
print(f"{rows.shape[1]:,} words, {rows.nnz / rows.shape[0]:.0f} in a text")
print(classification_report(y_test, model.predict(test)))

# %%
# The matrix shows which libraries are confused.
figure, axis = plt.subplots(figsize=(5, 4), layout="constrained")
ConfusionMatrixDisplay.from_estimator(model, test, y_test, ax=axis, cmap="Blues", colorbar=False)
plt.show()
