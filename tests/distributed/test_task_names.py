"""The names of tasks, which Dask's pages show, are those that the documentation explains."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CALL = re.compile(r'\b(?:submit|map|send|name|_map|_run)\(\s*"([a-z]+(?:-[a-z]+)+)"')


def test_the_documentation_explains_all_names():
    sources = (ROOT / "src" / "widemargin" / "distributed").glob("*.py")
    used = {name for path in sources for name in CALL.findall(path.read_text("utf-8"))}
    page = (ROOT / "docs" / "distributed.md").read_text("utf-8")
    table = page[page.index("| tasks | what they do |") : page.index("## Measurements")]
    explained = {name for row in table.splitlines() for name in re.findall(r"`([a-z-]+)`", row)}
    assert len(used) > 30
    assert used == explained
