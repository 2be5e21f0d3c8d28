"""scikit-learn's own tests of SVC, SVR and OneClassSVM pass with our estimators in their place.

Every test that does not pass is listed here with the reason and a part of its error. A listed test
that passes, fails otherwise or no longer exists is an error too, so that the list stays true.
"""

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Difference:
    """A test of scikit-learn that our estimators do not pass.

    Attributes
    ----------
    test : str
        File and function.
    error : str
        Part of the message of the failure.
    reason : str
        Why it is not to pass.
    only : str
        Part of the parameters in brackets, where a test passes for others.
    """

    test: str
    error: str
    reason: str
    only: str = ""

    def covers(self, name):
        function, _, parameters = name.partition("[")
        return function == self.test and self.only in parameters


NO_PROBABILITY = "probability is refused: CalibratedClassifierCV gives calibrated probabilities"
ALSO_PROBABILITY = "the test asks for probability=True beside what it tests; without that it passes"
OWN_WORDS = "the error is the same, but it names the argument and says what to do"
PRIVATE = "the test changes a private attribute that belongs to LIBSVM's interface"
PAIR_SIGN = (
    "with several classes dual_coef_, coef_ and intercept_ are positive for the second class of a "
    "pair, as with two classes; decision_function has scikit-learn's sign"
)
DIFFERENCES = [
    Difference("test_svm.py::test_probability", "probability: True", NO_PROBABILITY),
    Difference("test_svm.py::test_hasattr_predict_proba", "predict_proba", NO_PROBABILITY),
    Difference(
        "test_svm.py::test_probability_raises_futurewarning", "FutureWarning", NO_PROBABILITY,
        only="KernelSVC",
    ),
    Difference(
        "test_svm.py::test_svc_nusvc_probA_probB_deprecated", "FutureWarning", NO_PROBABILITY,
        only="KernelSVC",
    ),
    Difference("test_sparse.py::test_svc", "probability: True", ALSO_PROBABILITY),
    Difference("test_sparse.py::test_unsorted_indices", "probability: True", NO_PROBABILITY),
    Difference(
        "test_sparse.py::test_sparse_svc_clone_with_callable_kernel", "probability: True",
        NO_PROBABILITY,
    ),
    Difference("test_svm.py::test_decision_function", "450 / 450", PAIR_SIGN),
    Difference(
        "test_sparse.py::test_sparse_decision_function", "450 / 450", PAIR_SIGN, only="csr_array"
    ),
    # The message of numpy's comparison itself fails where the arrays that differ are matrices.
    Difference(
        "test_sparse.py::test_sparse_decision_function", "size of axis is 450", PAIR_SIGN,
        only="csr_matrix",
    ),
    Difference("test_svm.py::test_tweak_params", "1 (ACTUAL), 2 (DESIRED)", PRIVATE),
    Difference(
        "test_svm.py::test_svc_raises_error_internal_representation", "_n_support", PRIVATE
    ),
    *(
        Difference(
            "test_svm.py::test_negative_sample_weights_mask_all_samples",
            "sample_weight: all weights are zero or negative", OWN_WORDS, only=f"-{name}]",
        )
        for name in ("SVC", "SVR", "OneClassSVM")
    ),
    Difference(
        "test_svm.py::test_negative_weights_svc_leave_just_one_label",
        "sample_weight: every row of class", OWN_WORDS, only="-SVC]",
    ),
    Difference("test_svm.py::test_svc_nonfinite_params", "X: the values are so large", OWN_WORDS),
    Difference("test_svm.py::test_unfitted", "This KernelSVC instance is not fitted", OWN_WORDS),
    Difference(
        "test_svm.py::test_svr_errors", "kernel: the callable returned an array of shape (1, 1)",
        "a callable that returns the wrong shape is refused by fit already",
    ),
    Difference(
        "test_svm.py::test_bad_input", "DID NOT RAISE",
        "a model of dense data predicts sparse data too",
    ),
    Difference(
        "test_svm.py::test_libsvm_convergence_warnings", "DID NOT WARN",
        "the solver converges within the limit of two updates",
    ),
    Difference(
        "test_sparse.py::test_timeout", "DID NOT WARN",
        "the solver converges within the limit of one update",
    ),
    Difference(
        "test_svm.py::test_svc_ovr_tie_breaking", "assert not np.True_",
        "the ties are decisions of exactly zero, which count for the second class in predict and in "
        "decision_function alike; scikit-learn counts them for the first in decision_function",
        only="KernelSVC",
    ),
    Difference(
        "test_svm.py::test_custom_kernel_not_array_input", "assert 0.8 == 1.0",
        "the test's kernel is right for the whole training set alone; ours is called with some rows",
        only="KernelSVC",
    ),
]  # fmt: skip


def run_suite(folder, *options):
    """Return the outcomes of the tests; skip where the tests are others than those of the list."""
    if importlib.util.find_spec("sklearn.svm.tests") is None:
        pytest.skip("this scikit-learn was installed without its tests")
    if parse_version(sklearn.__version__) < parse_version("1.9"):
        pytest.skip("the list of differences is that of the tests of scikit-learn 1.9 and later")
    out = folder / "outcomes.json"
    run = subprocess.run(
        [sys.executable, "-m", "tests.contract.scikit_learn_suite", str(out), *options],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert out.exists(), run.stdout + run.stderr
    return json.loads(out.read_text("utf-8"))


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return run_suite(tmp_path_factory.mktemp("suite"))


def test_every_failure_is_listed(outcomes):
    failed = {
        name: outcome["error"]
        for name, outcome in outcomes.items()
        if outcome["outcome"] == "failed" and not any(d.covers(name) for d in DIFFERENCES)
    }
    assert not failed


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: d.test + d.only)
def test_listed_tests_fail_as_described(outcomes, difference):
    covered = {name: each for name, each in outcomes.items() if difference.covers(name)}
    assert covered, f"{difference.test} does not exist"
    for name, each in covered.items():
        assert each["outcome"] == "failed", f"{name} passes; strike it off the list"
        assert difference.error in each["error"], name


def test_what_fails_for_probability_alone_passes_without(tmp_path):
    outcomes = run_suite(tmp_path, "--without-probability")
    listed = [each for each in DIFFERENCES if each.reason == ALSO_PROBABILITY]
    found = {
        name: each["outcome"]
        for name, each in outcomes.items()
        if any(difference.covers(name) for difference in listed)
    }
    assert len(found) >= 64
    assert set(found.values()) == {"passed"}


def test_most_kinds_of_tests_use_our_estimators_and_pass(outcomes):
    """Count functions, not parameters; the others concern LinearSVC, LinearSVR, NuSVC and NuSVR."""
    used = {name.partition("[")[0] for name, each in outcomes.items() if each["uses_ours"]}
    listed = {difference.test for difference in DIFFERENCES}
    assert len(used) >= 55
    assert len(used - listed) >= 30
