"""The code in the documentation runs as it stands."""

import re
from pathlib import Path

import joblib
import pytest

from widemargin import DCSVC

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra 'plot'")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if "```python" in page.read_text("utf-8")
)


def test_pages_with_code_are_found():
    assert {"README.md", "docs/additive.md", "docs/sparse.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_code_runs(page, cancer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page == "docs/progress.md":
        pytest.importorskip("sklearn.callback", reason="callbacks need scikit-learn 1.9")
    X, y = cancer
    # What pages take for granted; the second example of a backend has a cluster to run on elsewhere.
    names = {"X": X[::2], "y": y[::2], "X_test": X[1::2], "y_test": y[1::2]}
    names |= {"joblib": joblib, "model": DCSVC(n_levels=1)}
    text = (ROOT / page).read_text("utf-8").replace('backend="dask"', 'backend="threading"')
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, page, "exec"), names)
    plt.close("all")
