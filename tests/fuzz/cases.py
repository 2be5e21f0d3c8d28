"""What a case is, and when an error counts as a clear refusal."""

import inspect
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.exceptions import NotFittedError

import widemargin
from widemargin.files.container import ModelFileError

#: Classifiers that take C and random_state.
CLASSIFIERS = (
    "KernelSVC", "DCSVC", "ProjectedSVC", "LRSVC", "AdditiveSVC", "IntersectionSVC", "PowerMeanSVC",
)  # fmt: skip
REGRESSORS = ("KernelSVR", "DCSVR", "KernelSVRCV")
ESTIMATORS = (*CLASSIFIERS, *REGRESSORS, "KernelOneClassSVM", "KernelSVCCV")
#: Exact types: UnicodeError and LinAlgError are ValueErrors too, and no refusals.
DOCUMENTED = (ValueError, TypeError, NotFittedError, ModelFileError)
NAMES = sorted(
    {"X", "y", "sample_weight", "classes", "path", "dtype", "input_range", "model", "columns?"}
    | {
        name
        for estimator in ESTIMATORS
        for name in inspect.signature(getattr(widemargin, estimator)).parameters
    }
)
#: The name of an argument at the beginning of a message, and a colon at the end of its clause.
NAMED = re.compile(rf"^[^:\n]*?\b({'|'.join(NAMES)})\b[^:\n]*:")
#: How scikit-learn's own checks of data begin.
SCIKIT_LEARN = re.compile(
    r"Input (X|y|sample_weight) contains|Found (array|input variables) with|Expected 2D array"
    r"|Unknown label type|X has \d+ features, but|The feature names should match"
    r"|This \w+ (estimator requires y|instance is not fitted)|Complex data not supported"
    r"|y should be a 1d array|The number of classes"
)


def processor_seconds(pid):
    """Processor time of a process and its threads, or None where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # Those of children that have ended are included: compilers and exported programs.
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class Wrong(Exception):  # noqa: N818
    """An answer that an oracle contradicts; ``place`` names the oracle."""

    def __init__(self, place, message):
        super().__init__(message)
        self.place = place


class Refused(Exception):  # noqa: N818
    """A clear refusal of the library, as documented."""


@dataclass
class Case:
    """Random numbers and a folder of one case, and notes that describe it in a finding."""

    rng: np.random.Generator
    folder: Path
    tell: Callable[[str, str], object] = print
    notes: dict = field(default_factory=dict)

    def note(self, name, text):
        """Describe the case, also to who watches it: a crash leaves no report."""
        self.notes[name] = text
        self.tell(name, text)

    def choose(self, *options, p=None):
        """One of the options, unchanged: NumPy would convert them to one type."""
        return options[self.rng.choice(len(options), p=p)]

    def power(self, low, high):
        """A number between ten to the power ``low`` and ten to the power ``high``."""
        return float(10.0 ** self.rng.uniform(low, high))

    def happens(self, chance):
        """Whether an event of the given probability happens."""
        return bool(self.rng.random() < chance)


def is_refusal(error):
    """Whether an error is of a documented type and says which argument it is about."""
    text = str(error)
    return type(error) in DOCUMENTED and bool(NAMED.match(text) or SCIKIT_LEARN.match(text))


def refusable(action, *args, **kwargs):
    """The value of a call; raises `Refused` if the library refuses it as documented."""
    try:
        return action(*args, **kwargs)
    except DOCUMENTED as error:
        if is_refusal(error):
            raise Refused(str(error)) from error
        raise


def is_regressor(model):
    """Whether an estimator predicts numbers."""
    return type(model).__name__ in REGRESSORS


def answers(model, X):
    """Decision values, or the predictions of a regression."""
    return getattr(model, "decision_function", model.predict)(X)


def require(holds, place, message):
    """Raise `Wrong` unless an oracle is satisfied."""
    if not holds:
        raise Wrong(place, message)
