"""Configuration of the documentation: ``sphinx-build -W docs docs/_build/html``."""

import os
import re
import zlib
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import widemargin

# The pictures of examples are the same on every machine and need no screen.
os.environ["MPLBACKEND"] = "Agg"

project = "widemargin"
author = "The widemargin developers"
copyright = "The widemargin developers"
version = release = widemargin.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates", "auto_examples/**/*.ipynb", "auto_examples/**/*.py"]
templates_path = ["_templates"]
default_role = "code"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

#: Pages of scikit-learn that docstrings refer to, so that a build needs no network.
SKLEARN_NAMES = {
    "std:label": {
        name: f"modules/model_evaluation.html#{name.replace('_', '-')}"
        for name in ("accuracy_score", "r2_score")
    },
    "py:class": {
        name: f"modules/generated/{name}.html#{name}"
        for name in (
            "sklearn.calibration.CalibratedClassifierCV",
            "sklearn.model_selection.GridSearchCV",
            "sklearn.svm.OneClassSVM",
            "sklearn.svm.SVC",
            "sklearn.svm.SVR",
        )
    },
    "py:function": {
        "sklearn.datasets.fetch_openml": "modules/generated/sklearn.datasets.fetch_openml.html"
    },
}


def write_inventory(path):
    """Write the names above as an inventory of Sphinx and return its path."""
    lines = [
        f"{name} {role} -1 {place} {name if role == 'std:label' else '-'}"
        for role, places in SKLEARN_NAMES.items()
        for name, place in places.items()
    ]
    head = "# Sphinx inventory version 2\n# Project: scikit-learn\n# Version: 1\n"
    head += "# The remainder of this file is compressed using zlib.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.encode() + zlib.compress("\n".join(lines).encode() + b"\n"))
    return str(path)


INVENTORY = write_inventory(Path(__file__).parent / "_build" / "inventories" / "sklearn.inv")
intersphinx_mapping = {"sklearn": ("https://scikit-learn.org/stable/", INVENTORY)}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("widemargin",),
    "reference_url": {"widemargin": None},
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "matplotlib_animations": False,
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "widemargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "widemargin"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_depth": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

#: A link from a page to a script of the gallery, which is alive in the repository too.
EXAMPLE_LINK = re.compile(r"\]\(\.\./examples/(.+?)\.(?:py|rst)\)")


def link_examples(app, name, source):
    """Lead the links of a page to scripts of the gallery to the pages of these scripts."""

    def replace(match):
        page = "index" if match[1] == "README" else match[1]
        return f"](auto_examples/{page}.rst)"

    source[0] = EXAMPLE_LINK.sub(replace, source[0])


def write_mathml(writer, node):
    """Write a formula as MathML, which browsers show without a script from the network."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def setup(app):
    """Register the above with Sphinx."""
    app.connect("source-read", link_examples)
    app.add_html_math_renderer("mathml", (write_mathml, None), (write_mathml, None))
