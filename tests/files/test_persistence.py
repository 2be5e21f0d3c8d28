"""Models survive a file, and files that are not models are refused."""

import json
import struct
import zlib

import numpy as np
import pandas as pd
import pytest
from libsvm.svmutil import svm_load_model, svm_predict, svm_save_model, svm_train
from scipy import sparse

import widemargin
from widemargin import KernelSVC
from widemargin.files.container import MAGIC, read_model_file, write_model_file
from widemargin.kernels import PowerMean


def same(a, b, X):
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


CASES = {
    "binary": {"gamma": 0.1},
    "ovo": {"gamma": 0.1, "C": 3.0},
    "ovr": {"multi_class": "ovr", "gamma": "auto", "class_weight": {0: 2.0, 1: 1.0, 2: 1.0}},
    "poly": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "mean": {"kernel": PowerMean(-np.inf)},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", ["dense", "csr", "float32"])
def test_round_trip(iris, tmp_path, case, form):
    X, y = iris
    if case == "binary":
        y = y == 1
    X = {"dense": X, "csr": sparse.csr_matrix(X), "float32": X.astype(np.float32)}[form]
    model = KernelSVC(**CASES[case]).fit(X, y)
    widemargin.save(model, tmp_path / "m.wm")
    loaded = widemargin.load(tmp_path / "m.wm")
    same(model, loaded, X)
    assert loaded.get_params() == model.get_params()
    for name in ("objective_", "duality_gap_", "n_iter_", "stop_reason_", "support_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    same(loaded.fit(X, y), model, X)


def test_strings_names_and_precomputed(iris, tmp_path):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = np.array(["setosa", "versicolor", "virginica"], dtype=object)[y]
    model = KernelSVC().fit(frame, named)
    widemargin.save(model, tmp_path / "m")
    loaded = widemargin.load(tmp_path / "m")
    assert list(loaded.feature_names_in_) == list("abcd")
    assert set(loaded.predict(frame)) == set(named)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[list("bacd")])
    K = X @ X.T
    given = KernelSVC(kernel="precomputed").fit(K, y)
    widemargin.save(given, tmp_path / "k")
    same(given, widemargin.load(tmp_path / "k"), K)


def test_what_cannot_be_saved(iris, tmp_path):
    X, y = iris
    with pytest.raises(ValueError, match="callable"):
        widemargin.save(KernelSVC(kernel=lambda a, b: a @ b.T).fit(X, y), tmp_path / "m")
    with pytest.raises(TypeError, match="KernelSVC"):
        widemargin.save({"a": 1}, tmp_path / "m")
    seeded = KernelSVC(random_state=np.random.RandomState(0)).fit(X, y)
    with pytest.raises(ValueError, match="random_state"):
        widemargin.save(seeded, tmp_path / "m")
    assert not (tmp_path / "m").exists()


def rewrite(path, change):
    """Write a model file again with altered content and valid checksums."""
    file = read_model_file(path)
    meta, arrays = json.loads(json.dumps(file.meta)), dict(file.arrays)
    change(meta, arrays)
    write_model_file(path, file.kind, meta, arrays)


def set_meta(key, value):
    return lambda meta, arrays: meta.__setitem__(key, value)


def set_array(name, value):
    return lambda meta, arrays: arrays.__setitem__(name, value)


HOSTILE = {
    "no kernel": lambda m, a: m.pop("kernel"),
    "unknown kernel": set_meta("kernel", {"name": "os.system", "params": {}}),
    "kernel of lists": set_meta("kernel", {"name": ["rbf"], "params": []}),
    "gamma missing": set_meta("kernel", {"name": "rbf", "params": {}}),
    "gamma text": set_meta("kernel", {"name": "rbf", "params": {"gamma": "x"}}),
    "gamma nan": set_meta("kernel", {"name": "rbf", "params": {"gamma": "nan"}}),
    "degree huge": set_meta(
        "kernel", {"name": "poly", "params": {"gamma": 1.0, "degree": 10**9, "coef0": 0.0}}
    ),
    "params wrong": set_meta("params", {"C": 1.0}),
    "params list": set_meta("params", [1]),
    "n_features": set_meta("n_features", 5),
    "n_features text": set_meta("n_features", "4"),
    "stop": set_meta("stop_reason", "whim"),
    "one_vs_one": set_meta("one_vs_one", 1),
    "no coef": lambda m, a: a.pop("dual_coef"),
    "coef shape": set_array("dual_coef", np.zeros((3, 2))),
    "coef nan": lambda m, a: a["dual_coef"].__setitem__(0, np.nan),
    "coef dtype": lambda m, a: a.__setitem__("dual_coef", a["dual_coef"].astype(np.float32)),
    "support negative": lambda m, a: a["support"].__setitem__(0, -1),
    "n_support": lambda m, a: a["n_support"].__setitem__(0, 10**6),
    "classes twice": set_array("classes", np.array([0, 0, 1])),
    "classes gone": lambda m, a: a.pop("classes"),
    "vectors nan": lambda m, a: a["vectors"].__setitem__((0, 0), np.inf),
    "vectors gone": lambda m, a: a.pop("vectors"),
    "vectors wide": set_array("vectors", np.zeros((3, 99))),
    "names": set_array("feature_names", np.array(["a"])),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(iris, tmp_path, case):
    path = tmp_path / "m.wm"
    widemargin.save(KernelSVC().fit(*iris), path)
    rewrite(path, HOSTILE[case])
    with pytest.raises(ValueError, match=r"m\.wm"):
        widemargin.load(path)


def test_newer_version_and_other_kind(iris, tmp_path):
    path = tmp_path / "m.wm"
    write_model_file(path, "Forest", {}, {})
    with pytest.raises(ValueError, match=r"Forest.*upgrade"):
        widemargin.load(path)
    header = json.dumps({"format": 99}).encode()
    path.write_bytes(MAGIC + struct.pack("<QI", len(header), zlib.crc32(header)) + header)
    with pytest.raises(ValueError, match="newer"):
        widemargin.load(path)
    with pytest.raises(FileNotFoundError):
        widemargin.load(tmp_path / "absent")


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_libsvm_reads_our_file(iris, tmp_path, kernel, n_classes):
    X, y = iris
    X, y = X[y < n_classes], y[y < n_classes] * 5 - 7
    model = KernelSVC(kernel=kernel, gamma=0.05, coef0=0.5).fit(X, y)
    path = str(tmp_path / "model.txt")
    model.to_libsvm(path)
    official = svm_load_model(path)
    labels, _, values = svm_predict(y.tolist(), X.tolist(), official, "-q")
    np.testing.assert_array_equal(labels, model.predict(X))
    if n_classes == 2:
        np.testing.assert_allclose(-np.ravel(values), model.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_we_read_their_file(iris, tmp_path, order, n_classes):
    X, y = iris
    rows = np.concatenate([np.flatnonzero(y == c) for c in order if c < n_classes])
    X, y = X[rows], y[rows]
    official = svm_train(y.tolist(), X.tolist(), "-q -c 2 -g 0.3")
    path = str(tmp_path / "model.txt")
    svm_save_model(path, official)
    model = KernelSVC.from_libsvm(path, n_features=4)
    reread = svm_load_model(path)
    labels, _, values = svm_predict(y.tolist(), X.tolist(), reread, "-q")
    np.testing.assert_array_equal(labels, model.predict(X))
    if n_classes == 2:
        # LIBSVM is positive for its first label, we for the larger one.
        expected = np.ravel(values) * (-1.0 if reread.get_labels()[0] == 0 else 1.0)
        np.testing.assert_allclose(expected, model.decision_function(X), atol=1e-8)
    widemargin.save(model, tmp_path / "m.wm")
    same(model, widemargin.load(tmp_path / "m.wm"), X)


def test_libsvm_format_has_limits(iris, tmp_path):
    X, y = iris
    with pytest.raises(ValueError, match="one-vs-one"):
        KernelSVC(multi_class="ovr").fit(X, y).to_libsvm(tmp_path / "m")
    with pytest.raises(ValueError, match="chi2"):
        KernelSVC(kernel="chi2").fit(X, y).to_libsvm(tmp_path / "m")
    with pytest.raises(ValueError, match="integer labels"):
        KernelSVC().fit(X, y.astype(str)).to_libsvm(tmp_path / "m")
    model = KernelSVC().fit(X, y)
    model.to_libsvm(tmp_path / "m")
    with pytest.raises(ValueError, match="n_features"):
        KernelSVC.from_libsvm(tmp_path / "m", n_features=2)
