"""Run scikit-learn's own tests of its kernel machines with the estimators of this library instead.

``python -m tests.contract.scikit_learn_suite OUT.json`` writes, for every test, whether it passed,
whether it fitted an estimator of this library, and the message of its failure. With
``--without-probability`` every ``probability=True`` counts as False, which shows whether a test fails
for nothing else. It is a process of its own because it replaces names in `sklearn.svm`.
"""

import functools
import json
import os
import sys
from pathlib import Path

import pytest
import sklearn
import sklearn.svm

from widemargin import KernelOneClassSVM, KernelSVC, KernelSVR

MODULES = ("sklearn.svm.tests.test_svm", "sklearn.svm.tests.test_sparse")
REPLACED = {"SVC": KernelSVC, "SVR": KernelSVR, "OneClassSVM": KernelOneClassSVM}


class Recorder:
    """Plugin of pytest that notes the outcome of every test, and whether it used our estimators."""

    def __init__(self):
        self.outcomes = {}
        self.has_fitted = False

    def count_fits(self, estimator):
        """Replace ``fit`` of an estimator by one that notes the call."""
        fit = estimator.fit

        @functools.wraps(fit)
        def noted(*args, **kwargs):
            self.has_fitted = True
            return fit(*args, **kwargs)

        estimator.fit = noted

    def pytest_runtest_setup(self):
        self.has_fitted = False

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            crash = getattr(report.longrepr, "reprcrash", None)
            name = f"{Path(report.location[0]).name}::{report.nodeid.rpartition('::')[2]}"
            self.outcomes[name] = {
                "outcome": report.outcome,
                "uses_ours": self.has_fitted,
                "error": crash.message if crash else "",
            }


def take_no_probability():
    """Have `KernelSVC` fit as if ``probability`` were False, whatever it is."""
    check = KernelSVC._check_params

    @functools.wraps(check)
    def check_others(self):
        asked, self.probability = self.probability, False
        try:
            check(self)
        finally:
            self.probability = asked

    KernelSVC._check_params = check_others


def main(path, *options):
    recorder = Recorder()
    if "--without-probability" in options:
        take_no_probability()
    for name, estimator in REPLACED.items():
        recorder.count_fits(estimator)
        setattr(sklearn.svm, name, estimator)
    # Neither the configuration of this project nor plugins that run tests elsewhere.
    quiet = ["-q", "--tb=line", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:xdist"]
    folder = Path(sklearn.__file__).parent
    pytest.main([*quiet, f"--rootdir={folder}", "--pyargs", *MODULES], plugins=[recorder])
    Path(path).write_text(json.dumps(recorder.outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
