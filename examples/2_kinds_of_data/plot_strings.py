"""
A kernel of your own: strings
=============================

``kernel`` may be a function. It receives some rows at a time and returns the kernel values between them. The rows need
not be numbers: here they are DNA sequences, and the kernel counts common subsequences of four letters.
"""

# %%
# The sequences are random. Half of them contain the motif ``TATAAA`` at a random place, with one random letter changed in
# a third of the cases.
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict
from sklearn.metrics import accuracy_score

from widemargin import KernelSVC

rng = np.random.default_rng(0)


def draw(has_motif):
    letters = rng.choice(list("ACGT"), 60)
    if has_motif:
        motif = np.array(list("TATAAA"))
        if rng.uniform() < 1 / 3:
            motif[rng.integers(6)] = rng.choice(list("ACGT"))
        start = rng.integers(54)
        letters[start : start + 6] = motif
    return "".join(letters)


y = np.tile([0, 1], 300)
X = [draw(bool(label)) for label in y]
print(X[1])

# %%
# A good kernel is a dot product of counts: then it is positive semidefinite, and the fit has one optimum.


def count_parts(texts, size):
    return [Counter(t[i : i + size] for i in range(len(t) - size + 1)) for t in texts]


def make_spectrum_kernel(size):
    def spectrum(A, B):
        left, right = count_parts(A, size), count_parts(B, size)
        return np.array([[sum(n * b[w] for w, n in a.items()) for b in right] for a in left], float)

    return spectrum


sizes = [1, 2, 3, 4, 5, 6]
accuracy = []
for size in sizes:
    model = KernelSVC(kernel=make_spectrum_kernel(size), C=0.01)
    predicted = cross_val_predict(model, np.array(X), y, cv=3)
    accuracy.append(accuracy_score(y, predicted))
    print(f"parts of {size} letters: accuracy {accuracy[-1]:.3f}")

# %%
# Single letters say nothing about a motif, and parts that are too long are rarely equal.
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(sizes, accuracy, marker="o")
axis.axhline(0.5, color="0.6", linestyle=":", label="guessing")
axis.set(xlabel="letters in a part", ylabel="accuracy over three folds")
axis.legend(frameon=False)
plt.show()
