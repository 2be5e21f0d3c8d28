"""
Activity recognition from an accelerometer
==========================================

A wearable device tells sitting, walking, running and climbing stairs from windows of its
accelerometer. The model has to be small. PSVM was made for such devices.
"""

# %%
# The stream is **synthetic**: three axes at 50 Hz, made of gravity, steps of a frequency that
# depends on the activity and the person, and noise. Each of twelve persons does each activity for
# a minute.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import KernelSVC, ProjectedSVC

RATE, SECONDS, WINDOW = 50, 60, 128
#: Steps a second, their size in g, and the lean of the body in radians.
ACTIVITIES = {
    "sit": (0, 0, 0.4),
    "walk": (1.9, 0.3, 0.1),
    "run": (2.8, 0.9, 0.2),
    "climb": (1.6, 0.35, 0.35),
}
rng = np.random.default_rng(0)


def record(activity, person):
    frequency, size, lean = ACTIVITIES[activity]
    pace, strength, tilt = person
    t = np.arange(RATE * SECONDS) / RATE
    phase = 2 * np.pi * frequency * pace * t + np.cumsum(rng.normal(scale=0.03, size=t.size))
    steps = size * strength * (np.sin(phase) + 0.4 * np.sin(2 * phase))
    gravity = np.array([np.sin(lean + tilt), 0, np.cos(lean + tilt)])
    swing = np.outer(steps, [0.3, 0.2, 1.0]) + 0.3 * np.outer(np.roll(steps, 6), [1, 0, 0])
    return gravity + swing + rng.normal(scale=0.08, size=(t.size, 3))


def describe(stream):
    """Windows of 2.56 seconds that overlap by half, as numbers a device can compute."""
    starts = range(0, len(stream) - WINDOW + 1, WINDOW // 2)
    windows = np.stack([stream[s : s + WINDOW] for s in starts])
    spectrum = np.abs(np.fft.rfft(windows - windows.mean(1, keepdims=True), axis=1))[:, 1:13]
    parts = [windows.mean(1), windows.std(1), np.log(spectrum.sum(2) + 1)]
    return np.concatenate(parts, axis=1)


people = np.c_[rng.normal(1, 0.12, 12), rng.normal(1, 0.2, 12), rng.normal(0, 0.12, 12)]
X, y, person = [], [], []
for number, traits in enumerate(people):
    for activity in ACTIVITIES:
        rows = describe(record(activity, traits))
        X.append(rows)
        y += [activity] * len(rows)
        person += [number] * len(rows)
X, y, person = np.concatenate(X), np.array(y), np.array(person)
print(f"{len(X)} windows of {X.shape[1]} features")

# %%
# The model is tested on persons that it has not seen.
train = person < 8
models = {
    "KernelSVC": make_pipeline(StandardScaler(), KernelSVC(C=10)),
    "ProjectedSVC": make_pipeline(StandardScaler(), ProjectedSVC(n_basis=4, move=True)),
}
for name, model in models.items():
    model.fit(X[train], y[train])
    last = model[-1]
    vectors = len(last.support_vectors_ if name == "KernelSVC" else last.basis_vectors_)
    print(f"{name:13} {vectors:4} vectors, accuracy {model.score(X[~train], y[~train]):.3f}")

# %%
# The matrix is that of the small model.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
for k, activity in enumerate(ACTIVITIES):
    left.plot(np.arange(200) / RATE, record(activity, people[0])[:200, 2] + 3 * k, label=activity)
left.set(xlabel="seconds", yticks=[], title="Vertical acceleration, one person")
left.legend(frameon=False, ncols=4, fontsize=8)
ConfusionMatrixDisplay.from_estimator(
    models["ProjectedSVC"], X[~train], y[~train], ax=right, cmap="Blues", colorbar=False
)
plt.show()
