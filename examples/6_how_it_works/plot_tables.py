"""
Additive kernels: a table instead of a kernel
=============================================

An additive kernel is a sum over features of a kernel of two numbers. ``AdditiveSVC`` writes that
kernel as a product of a few numbers for each of its two arguments, and looks these numbers up in a
table. This example draws the kernel and the products for tables of one to four numbers.
"""

# %%
# The feature is uniform between 0 and 1. ``tables_`` has ``rank`` numbers for each of 256 bins, which
# are narrow near zero, where the kernel changes fast: the middle of bin i is near (i / 255) squared.
import matplotlib.pyplot as plt
import numpy as np

from widemargin import AdditiveSVC

rng = np.random.default_rng(0)
X = rng.uniform(size=(2000, 1))
y = X[:, 0] > 0.5
tables = {rank: AdditiveSVC(rank=rank).fit(X, y).tables_ for rank in (1, 2, 4)}
x = X.max() * np.linspace(0, 1, 256) ** 2
z = x[140]

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for rank, table in tables.items():
    left.plot(x, table @ table[140], label=f"{rank} number{'s' if rank > 1 else ''}", lw=1.6)
left.plot(x, 2 * x * z / (x + z), "k--", lw=1.2, label="chi-square kernel")
left.axvline(z, color="grey", lw=0.8, ls=":")
left.set_title(f"k(x, {z:.2f}) and its approximations", loc="left", fontsize=10)
left.set_xlabel("x")
left.legend(frameon=False)
for number, column in enumerate(tables[4].T, 1):
    right.plot(x, column, label=f"number {number}", lw=1.6)
right.set_title("The table of four numbers", loc="left", fontsize=10)
right.set_xlabel("x")
right.legend(frameon=False)
plt.show()

# %%
# The largest error of each table, where kernel values go up to one:
exact = 2 * np.outer(x, x) / np.maximum(np.add.outer(x, x), 1e-12)
for rank, table in tables.items():
    print(f"rank {rank}: largest error {np.abs(table @ table.T - exact).max():.4f}")
