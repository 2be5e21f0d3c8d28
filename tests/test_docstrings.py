"""The examples in docstrings run, and every public class and function is in the API reference."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import widemargin
from tests.test_doc_link import read_reference

MODULES = [found.name for found in pkgutil.walk_packages(widemargin.__path__, "widemargin.")]
PUBLIC = (
    "widemargin", "widemargin.bands", "widemargin.baselines", "widemargin.callbacks",
    "widemargin.datasets", "widemargin.distributed", "widemargin.divide", "widemargin.export",
    "widemargin.interactions", "widemargin.kernels", "widemargin.pipeline_curves",
)  # fmt: skip
THINGS = {
    f"{module}.{name}": found
    for module in PUBLIC
    for name in importlib.import_module(module).__all__
    if inspect.isclass(found := getattr(importlib.import_module(module), name))
    or inspect.isfunction(found)
}
#: Classes that users receive or subclass and do not construct.
WITHOUT_EXAMPLE = {
    "widemargin.bands.CurveBands",
    "widemargin.callbacks.LevelProgress",
    "widemargin.callbacks.Progress",
    "widemargin.callbacks.Stage",
    "widemargin.datasets.Dataset",
    "widemargin.datasets.DatasetNotFoundError",
    "widemargin.interactions.Decomposition",
    "widemargin.interactions.Explanation",
    "widemargin.interactions.Surface",
    "widemargin.interactions.Term",
    "widemargin.kernels.Kernel",
}


def test_reference_is_complete():
    pictures = importlib.import_module("widemargin.plotting")
    drawn = {
        f"widemargin.plotting.{name}"
        for name, found in vars(pictures).items()
        if inspect.isfunction(found) and name.startswith(("plot_", "show_"))
    }
    assert read_reference() == set(THINGS) | drawn


@pytest.mark.parametrize("name", sorted(set(THINGS) - WITHOUT_EXAMPLE))
def test_docstring_has_an_example(name):
    assert ">>>" in inspect.getdoc(THINGS[name])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(module)).failed == 0
