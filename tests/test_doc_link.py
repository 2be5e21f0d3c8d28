"""The HTML representation of an estimator links to a page of the API reference."""

import re
from pathlib import Path

import pytest
from sklearn.utils import estimator_html_repr

from tests.contract.test_package import ESTIMATOR_CLASSES
from widemargin.divide import KernelKMeans
from widemargin.doc_link import SITE

REFERENCE = Path(__file__).parents[1] / "docs" / "api" / "index.rst"


def read_reference():
    """Full names of all entries of the API reference."""
    names, module = set(), ""
    for line in REFERENCE.read_text("utf-8").splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   ([A-Za-z]\w*)$", line):
            names.add(f"{module}.{found[1]}")
    return names


@pytest.mark.parametrize("cls", [*ESTIMATOR_CLASSES, KernelKMeans], ids=lambda cls: cls.__name__)
def test_link_leads_to_an_entry(cls):
    shown = estimator_html_repr(cls())
    page = re.search(rf'href="{re.escape(SITE)}/api/generated/(.+?)\.html"', shown)
    assert page is not None
    assert page[1] in read_reference()
