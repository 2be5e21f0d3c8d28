"""
A kernel of your own: strings
=============================

``kernel`` may be a function. It receives some rows at a time and returns the kernel values
between them. The rows need not be numbers: here they are DNA sequences, and the kernel counts
common parts of a few letters.
"""

# %%
# The sequences are random. Half of them contain the motif ``TATAAA`` at a random place, with one
# random letter changed in a third of the cases.
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

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
# A good kernel is a dot product of counts: then it is positive semidefinite, and the fit has one
# optimum.


def count_parts(texts, size):
    """Count every part of the given number of letters in every text."""
    parts = ["".join(letters) for letters in product("ACGT", repeat=size)]
    place = {part: j for j, part in enumerate(parts)}
    counts = np.zeros((len(texts), len(parts)))
    for i, text in enumerate(texts):
        for start in range(len(text) - size + 1):
            counts[i, place[text[start : start + size]]] += 1
    return counts


def make_spectrum_kernel(size):
    return lambda A, B: count_parts(A, size) @ count_parts(B, size).T


sizes = [1, 2, 3, 4, 5]
accuracy = []
for size in sizes:
    model = KernelSVC(kernel=make_spectrum_kernel(size), C=0.01)
    accuracy.append(cross_val_score(model, np.array(X), y, cv=3).mean())
    print(f"parts of {size} letters: accuracy {accuracy[-1]:.3f}")

# %%
# The motif is rich in A, so that single letters already help. Longer parts find the motif itself.
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
axis.plot(sizes, accuracy, marker="o")
axis.axhline(0.5, color="0.6", linestyle=":", label="guessing")
axis.set(xticks=sizes, xlabel="letters in a part", ylabel="accuracy over three folds")
axis.legend(frameon=False)
plt.show()
