"""Files of `KernelSVCCV` whose clusters have parameters of their own."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import widemargin
from tests.divide.test_local_search import make_halves
from tests.files.test_persistence import rewrite, set_meta
from widemargin import KernelSVCCV


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """The bytes of a model with two clusters, some rows, and decision values of these."""
    X, y, is_board = make_halves(400, 0)
    y = np.array(["a", "b", "c"])[y + is_board]
    model = KernelSVCCV(n_clusters=2, Cs=[1.0, 50.0], gammas=[0.1, 1.0, 100.0], cv=3).fit(X, y)
    assert any(choice.is_own for choice in model.clusters_)
    path = tmp_path_factory.mktemp("local") / "m.wm"
    widemargin.save(model, path)
    return path.read_bytes(), X, model


def test_a_file_holds_all_clusters(file, tmp_path):
    content, X, model = file
    (tmp_path / "m.wm").write_bytes(content)
    loaded = widemargin.load(tmp_path / "m.wm")
    assert len(loaded.clusters_) == 2
    assert loaded.clusters_ == model.clusters_
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    widemargin.save(loaded, tmp_path / "again.wm")
    assert (tmp_path / "again.wm").read_bytes() == content


def change_choice(**values):
    return lambda meta, _: meta["clusters"][1].update(values)


HOSTILE = {
    "no clusters": lambda m, a: m.pop("clusters"),
    "one choice": lambda m, a: m["clusters"].pop(),
    "choice is a list": set_meta("clusters", [[], []]),
    "C of another": change_choice(C=7.0),
    "gamma of another": change_choice(gamma=7.0),
    "score is text": change_choice(score="high"),
    "rows": change_choice(n_rows=-1),
    "rows unknown": change_choice(n_rows=None),
    "no own choice": lambda m, a: [each.update(score=None) for each in m["clusters"]],
    "n_clusters is zero": lambda m, a: m["params"].update(n_clusters=0),
    "no classifiers": lambda m, a: m["model"].pop("models"),
    "one classifier": lambda m, a: m["model"]["models"].pop(),
    "classifier is a number": lambda m, a: m["model"]["models"].__setitem__(0, 1),
    "other problems": lambda m, a: m["model"]["models"][1]["params"].update(multi_class="ovr"),
    "other classes": lambda m, a: a.update(model_cluster1_classes=np.array(["a", "b", "d"])),
    "no kernel": lambda m, a: m["model"].pop("kernel"),
    "precomputed": lambda m, a: m["model"].update(kernel={"name": "precomputed", "params": {}}),
    "no samples": lambda m, a: a.pop("model_samples"),
    "no partition": lambda m, a: a.pop("model_partition_sizes"),
    "no vectors": lambda m, a: a.pop("model_cluster1_vectors"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(file, tmp_path, case):
    path = tmp_path / "m.wm"
    path.write_bytes(file[0])
    rewrite(path, HOSTILE[case])
    with pytest.raises(ValueError, match=r"m\.wm"):
        widemargin.load(path)


def test_files_of_earlier_versions_have_one_choice(iris, tmp_path):
    path = tmp_path / "m.wm"
    model = KernelSVCCV(Cs=[1.0], gammas=[0.5], cv=3).fit(*iris)
    widemargin.save(model, path)
    rewrite(path, lambda m, a: (m["params"].pop("n_clusters"), m.pop("clusters")))
    loaded = widemargin.load(path)
    assert loaded.n_clusters is None
    assert_array_equal(loaded.predict(iris[0]), model.predict(iris[0]))
