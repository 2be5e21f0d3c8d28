"""
From a DataFrame to a microcontroller
=====================================

``ProjectedSVC`` has as many vectors as a device has room for. ``to_c`` writes the model, with its
scaler, as C that allocates no memory.
"""

# %%
# One fit gives the models of all sizes up to 30 vectors. The picture shows from which size on
# more vectors do not pay.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import KernelSVC, ProjectedSVC
from widemargin.export import to_c
from widemargin.plotting import plot_basis_path

data = load_breast_cancer(as_frame=True)
labels = data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(data.data, labels, random_state=0)

path = make_pipeline(StandardScaler(), ProjectedSVC(n_basis=30)).fit(X_train, y_train)
plot_basis_path(path, X_test, y_test)
plt.show()

# %%
# The exact model has more vectors. With ``move=True`` the vectors are optimised and need not be
# training rows.
for name, model in {
    "KernelSVC": KernelSVC(),
    "30 rows": ProjectedSVC(n_basis=30),
    "4 moved vectors": ProjectedSVC(n_basis=4, move=True),
}.items():
    fitted = make_pipeline(StandardScaler(), model).fit(X_train, y_train)
    vectors = fitted[-1].support_vectors_ if name == "KernelSVC" else fitted[-1].basis_vectors_
    print(f"{name:16} {len(vectors):3} vectors, accuracy {fitted.score(X_test, y_test):.3f}")

# %%
# The smallest model becomes C with 16-bit numbers. ``to_c`` prints what it takes and how exact it
# is.
folder = tempfile.TemporaryDirectory()
files = to_c(fitted, Path(folder.name) / "tumour.c", dtype="int16")

# %%
# The header names the columns and the functions:
header = (Path(folder.name) / "tumour.h").read_text()
print(header[header.index("#define") :])
folder.cleanup()
