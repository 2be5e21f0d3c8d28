"""Parameters as the classes of estimators declare them."""

import ast
import inspect
import re

import pytest

from tests.contract.test_package import EVERY_ESTIMATOR
from widemargin import DCSVC, AdditiveSVC, KernelSVC, ProjectedSVC
from widemargin.parameters import check_choices, find_choices, find_types


def test_a_class_has_the_choices_of_the_classes_above_it():
    choices = find_choices(DCSVC)
    assert choices["combine"] == ("early", "naive", "bcm")
    assert choices["multi_class"] == find_choices(KernelSVC)["multi_class"] == ("ovo", "ovr")
    assert find_choices(AdditiveSVC)["multi_class"] == ("ovr",)
    assert set(find_choices(AdditiveSVC)) == {
        "binning", "fit_intercept", "loss", "missing", "multi_class", "scaling", "solver"
    }  # fmt: skip


def test_other_words_are_refused():
    check_choices(AdditiveSVC(scaling="max"))
    with pytest.raises(ValueError, match=r"^solver: must be one of 'dual', 'sgd', got 'primal'"):
        check_choices(AdditiveSVC(solver="primal"))


def test_types_are_those_of_the_signature():
    types = find_types(ProjectedSVC)
    assert types["n_basis"] == {int, float, str}
    assert types["max_time"] == {float}
    assert types["move"] == {bool}
    assert types["kernel"] == {str}
    assert types["callback"] == types["random_state"] == set()


@EVERY_ESTIMATOR
def test_the_documentation_names_the_choices_and_defaults(cls):
    parameters, choices = inspect.signature(cls).parameters, find_choices(cls)
    assert set(choices) <= set(parameters)
    documented = dict(re.findall(r"^    (\w+) : (.+)$", cls.__doc__, re.MULTILINE))
    for name in set(choices) & set(documented):
        words = re.search(r"\{(.*?)\}", documented[name])[1]
        assert set(ast.literal_eval(f"[{words}]")) == set(choices[name]) - {None}, name
    for name in set(parameters) & set(documented):
        given = re.search(r"default=(.+)$", documented[name])[1]
        assert ast.literal_eval(given) == parameters[name].default, name
