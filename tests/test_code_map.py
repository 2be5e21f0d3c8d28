"""The map of the code in CONTRIBUTING.md names every module, and no other."""

import ast
import re
from pathlib import Path

import widemargin
from tests.contract.test_package import LAYERS

SOURCE = Path(widemargin.__file__).parent
PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text("utf-8")
FOLDERS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def named_modules(heading):
    """Modules in the first column of the table under a heading."""
    section = re.search(rf"^### {re.escape(heading)}.*?(?=^##)", PAGE, re.DOTALL | re.MULTILINE)
    assert section is not None, heading
    cells = re.findall(r"^\| (`[^|]+) \|", section[0], re.MULTILINE)
    return sorted(name for cell in cells for name in re.findall(r"`(\w+\.py)`", cell))


def modules_in(folder):
    """Modules of a folder; its ``__init__`` only if it holds public names."""
    return sorted(
        path.name
        for path in folder.glob("*.py")
        if path.name != "__init__.py" or len(ast.parse(path.read_text("utf-8")).body) > 1
    )


def test_shared_modules_are_named():
    assert named_modules("Shared modules") == modules_in(SOURCE)


def test_modules_of_every_folder_are_named():
    for folder in FOLDERS:
        assert named_modules(f"`{folder}/`") == modules_in(SOURCE / folder), folder


def test_layers_are_those_of_the_contract():
    text = PAGE[PAGE.index("### Layers") : PAGE.index("### Shared modules")]
    lines = re.findall(r"^\d+\. (.*)$", text, re.MULTILINE)
    named = [sorted(re.findall(r"`([\w/]+)`", line)) for line in lines]
    layers = [[name.replace(".", "/") for name in layer if name != "__init__"] for layer in LAYERS]
    assert [[name.rstrip("/") for name in line] for line in named] == [sorted(x) for x in layers]
