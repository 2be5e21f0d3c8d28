"""Loading of data sets: local folder, bundled sets, OpenML, and what goes wrong with each."""

import dataclasses
import os
import pickle
import subprocess
import sys
import zipfile
from http.client import IncompleteRead
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import sklearn.datasets
from scipy.sparse import csr_matrix, issparse, random_array

from widemargin import datasets
from widemargin.datasets import DatasetNotFoundError, available, load

REAL_FOLDER = os.environ.get("WIDEMARGIN_DATA")
BUNDLED = ["breast_cancer", "digits", "iris", "wine"]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Keep every test away from the network and from the folder of whoever runs it."""

    def refuse(*args, **kwargs):
        raise AssertionError("the test asked for the network")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)
    monkeypatch.delenv("WIDEMARGIN_DATA", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Give an empty local data folder."""
    path = tmp_path / "data"
    path.mkdir()
    monkeypatch.setenv("WIDEMARGIN_DATA", str(path))
    return path


def make_sparse(n_rows, n_columns, seed=0):
    rng = np.random.default_rng(seed)
    return csr_matrix(random_array((n_rows, n_columns), density=0.4, rng=rng))


def store_sparse(key, matrix, index_type=np.uint16):
    return {
        f"{key}_data": matrix.data,
        f"{key}_indices": matrix.indices.astype(index_type),
        f"{key}_indptr": matrix.indptr,
        f"{key}_shape": np.array(matrix.shape),
    }


def make_split(**changes):
    """Give the arrays of a small dense set with a published split."""
    rng = np.random.default_rng(1)
    arrays = {
        "X_train": rng.integers(0, 200, (6, 3)).astype(np.uint8),
        "y_train": np.array([1, -1, 1, -1, 1, -1], dtype=np.int8),
        "X_test": rng.integers(0, 200, (4, 3)).astype(np.uint8),
        "y_test": np.array([1, -1, 7, 7], dtype=np.int8),
    }
    arrays.update(changes)
    return {key: array for key, array in arrays.items() if array is not None}


def make_numbered(y):
    """Give X whose single column is the row number, so that rows can be followed."""
    return np.arange(len(y), dtype=np.int32)[:, None]


def save_numbered(folder, y, name="numbered"):
    np.savez(folder / f"{name}.npz", X=make_numbered(y), y=y)


# ---------------------------------------------------------------- local folder


def test_dense_split_comes_back_unchanged(folder):
    arrays = make_split()
    np.savez_compressed(folder / "small.npz", **arrays, cat1=np.array(["ignored"]))
    loaded = load("small")
    for key, stored in arrays.items():
        part = getattr(loaded, key)
        np.testing.assert_array_equal(part, stored)
        assert part.dtype == stored.dtype
    assert loaded.canonical_split
    assert loaded.name == "small"
    assert loaded.feature_names is None


def test_labels_seen_only_in_test_are_kept(folder):
    np.savez(folder / "small.npz", **make_split())
    loaded = load("small")
    assert set(loaded.y_test) - set(loaded.y_train) == {7}


@pytest.mark.parametrize("index_type", [np.uint16, np.int32, np.int64])
def test_sparse_split_comes_back_as_csr(folder, index_type):
    train, test = make_sparse(6, 9), make_sparse(4, 9, seed=1)
    parts = store_sparse("X_train", train, index_type) | store_sparse("X_test", test, index_type)
    np.savez(folder / "small.npz", **make_split(X_train=None, X_test=None), **parts)
    loaded = load("small")
    for part, stored in ((loaded.X_train, train), (loaded.X_test, test)):
        assert isinstance(part, csr_matrix)
        assert part.dtype == stored.dtype
        np.testing.assert_array_equal(part.toarray(), stored.toarray())


@pytest.mark.parametrize(("train_width", "test_width"), [(5, 9), (9, 5)])
def test_narrower_csr_part_is_widened(folder, train_width, test_width):
    train, test = make_sparse(6, train_width), make_sparse(4, test_width, seed=1)
    parts = store_sparse("X_train", train) | store_sparse("X_test", test)
    np.savez(folder / "small.npz", **make_split(X_train=None, X_test=None), **parts)
    loaded = load("small")
    assert loaded.X_train.shape == (6, 9)
    assert loaded.X_test.shape == (4, 9)
    np.testing.assert_array_equal(loaded.X_train.toarray()[:, :train_width], train.toarray())
    np.testing.assert_array_equal(loaded.X_test.toarray()[:, :test_width], test.toarray())
    assert loaded.X_train.nnz == train.nnz
    assert loaded.X_test.nnz == test.nnz


def test_differing_dense_widths_are_refused(folder):
    np.savez(folder / "small.npz", **make_split(X_test=np.ones((4, 2))))
    with pytest.raises(ValueError, match=r"small\.npz: 'X_train' has 3 columns but 'X_test' has 2"):
        load("small")


def test_local_file_hides_bundled_set(folder):
    save_numbered(folder, np.arange(20) % 2, name="breast_cancer")
    loaded = load("breast_cancer")
    assert loaded.X_train.shape == (16, 1)
    assert loaded.source == f"WIDEMARGIN_DATA ({folder / 'breast_cancer.npz'})"


def test_folder_may_start_with_tilde(folder, monkeypatch):
    save_numbered(folder, np.arange(20) % 2)
    monkeypatch.setenv("HOME", str(folder.parent))
    monkeypatch.setenv("USERPROFILE", str(folder.parent))
    monkeypatch.setenv("WIDEMARGIN_DATA", os.path.join("~", folder.name))
    assert load("numbered").X_test.shape == (4, 1)


# ---------------------------------------------------------------- the 80/20 split


def test_split_parts_are_disjoint_and_complete(folder):
    y = np.repeat([0, 1, 2], [50, 30, 21])
    save_numbered(folder, y)
    loaded = load("numbered")
    train, test = loaded.X_train.ravel(), loaded.X_test.ravel()
    np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(101))
    np.testing.assert_array_equal(loaded.y_train, y[train])
    np.testing.assert_array_equal(loaded.y_test, y[test])
    assert len(test) == 21
    assert not loaded.canonical_split


def test_split_is_stratified(folder):
    counts = np.array([500, 3, 41, 2, 57])
    save_numbered(folder, np.repeat(np.arange(5), counts))
    loaded = load("numbered")
    in_test = np.bincount(loaded.y_test, minlength=5)
    assert np.all(np.abs(in_test - counts / 5) < 1)
    assert np.all(np.bincount(loaded.y_train, minlength=5) >= 1)


def test_split_ignores_classes_when_one_has_a_single_row(folder):
    save_numbered(folder, np.r_[np.zeros(98, dtype=int), 1, 2], name="lonely")
    save_numbered(folder, np.zeros(100, dtype=int), name="one_class")
    lonely, one_class = load("lonely"), load("one_class")
    assert lonely.X_test.shape[0] == 20
    # With one class only, grouping by class changes nothing: the same rows are chosen.
    np.testing.assert_array_equal(lonely.X_test, one_class.X_test)
    np.testing.assert_array_equal(lonely.X_train, one_class.X_train)


def test_split_mixes_rows_sorted_by_class(folder):
    save_numbered(folder, np.repeat([0, 1], 100))
    loaded = load("numbered")
    assert 0 < loaded.y_train[:40].sum() < 40
    assert 0 < loaded.y_test[:20].sum() < 20


def test_split_is_the_same_every_time(folder):
    save_numbered(folder, np.repeat([0, 1], [6, 4]))
    np.random.seed(5)  # noqa: NPY002 - the global state must have no influence
    first = load("numbered")
    np.random.seed(6)  # noqa: NPY002
    second = load("numbered")
    np.testing.assert_array_equal(first.X_train, second.X_train)
    np.testing.assert_array_equal(first.X_test, second.X_test)
    # Written down, so that a change of the split between versions is noticed.
    assert first.X_train.ravel().tolist() == [8, 4, 9, 1, 6, 7, 3, 0]
    assert first.X_test.ravel().tolist() == [2, 5]


def test_sparse_set_without_split(folder):
    X = make_sparse(25, 7)
    y = np.arange(25) % 5
    np.savez(folder / "small.npz", **store_sparse("X", X), y=y)
    save_numbered(folder, y)
    loaded, numbered = load("small"), load("numbered")
    assert isinstance(loaded.X_train, csr_matrix)
    assert loaded.X_train.shape == (20, 7)
    np.testing.assert_array_equal(loaded.X_test.toarray(), X.toarray()[numbered.X_test.ravel()])


def test_text_labels_are_kept(folder):
    save_numbered(folder, np.array(["good", "bad"] * 10))
    assert sorted(set(load("numbered").y_train)) == ["bad", "good"]


def test_single_row_cannot_be_split(folder):
    save_numbered(folder, np.array([1]))
    with pytest.raises(ValueError, match=r"numbered\.npz: a single row cannot be split"):
        load("numbered")


# ---------------------------------------------------------------- damaged files


@pytest.mark.parametrize("key", ["X_train", "y_train", "X_test", "y_test"])
def test_missing_key_is_named(folder, key):
    np.savez(folder / "small.npz", **make_split(**{key: None}))
    with pytest.raises(ValueError, match=rf"small\.npz: key '{key}' is missing"):
        load("small")


@pytest.mark.parametrize("key", ["X", "y"])
def test_missing_key_is_named_without_split(folder, key):
    arrays = {"X": np.ones((4, 2)), "y": np.ones(4)}
    del arrays[key]
    np.savez(folder / "small.npz", **arrays)
    with pytest.raises(ValueError, match=rf"small\.npz: key '{key}' is missing"):
        load("small")


@pytest.mark.parametrize("part", ["data", "indices", "indptr", "shape"])
def test_missing_sparse_key_is_named(folder, part):
    arrays = store_sparse("X", make_sparse(6, 5)) | {"y": np.arange(6)}
    del arrays[f"X_{part}"]
    np.savez(folder / "small.npz", **arrays)
    with pytest.raises(ValueError, match=rf"small\.npz: key 'X_{part}' is missing"):
        load("small")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("X_indices", np.array([0, 5, 1])),
        ("X_indices", np.array([0, -1, 1])),
        ("X_indices", np.array([0, 1])),
        ("X_indptr", np.array([0, 2, 1, 3])),
        ("X_indptr", np.array([0, 1, 3])),
        ("X_indptr", np.array([0, 1, 2, 9])),
        ("X_shape", np.array([3])),
        ("X_shape", np.array([3, 5, 2])),
        ("X_shape", np.array([3, -5])),
        ("X_shape", np.array(3)),
    ],
)
def test_damaged_sparse_matrix_is_named(folder, key, value):
    arrays = {
        "X_data": np.ones(3),
        "X_indices": np.array([0, 4, 1]),
        "X_indptr": np.array([0, 1, 2, 3]),
        "X_shape": np.array([3, 5]),
        "y": np.array([0, 1, 0]),
    }
    np.savez(folder / "sound.npz", **arrays)
    assert load("sound").X_train.shape == (2, 5)
    np.savez(folder / "small.npz", **(arrays | {key: value}))
    with pytest.raises(ValueError, match=r"small\.npz: sparse matrix 'X' is damaged"):
        load("small")


@pytest.mark.parametrize("part", ["indices", "indptr", "shape"])
def test_fractional_sparse_index_is_refused(folder, part):
    arrays = store_sparse("X", make_sparse(6, 5)) | {"y": np.arange(6)}
    arrays[f"X_{part}"] = arrays[f"X_{part}"] + 0.5
    np.savez(folder / "small.npz", **arrays)
    with pytest.raises(ValueError, match=rf"small\.npz: key 'X_{part}' is float64"):
        load("small")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X_train": np.ones(6)}, "'X_train' must have 2 dimensions, has 1"),
        ({"y_test": np.ones((4, 1))}, "'y_test' must have 1 dimension, has 2"),
        ({"y_train": np.ones(5)}, "'X_train' has 6 rows but 'y_train' has 5 labels"),
        ({"X_test": np.ones((0, 3)), "y_test": np.ones(0)}, "'X_test' has no rows"),
    ],
)
def test_inconsistent_part_is_refused(folder, changes, message):
    np.savez(folder / "small.npz", **make_split(**changes))
    with pytest.raises(ValueError, match=rf"small\.npz: {message}"):
        load("small")


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_foreign_file_is_refused(folder, content):
    (folder / "small.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"small\.npz is not a readable \.npz archive"):
        load("small")


def test_single_array_file_is_refused(folder):
    with (folder / "small.npz").open("wb") as stream:
        np.save(stream, np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"small\.npz is a single array"):
        load("small")


def test_altered_bytes_are_noticed(folder):
    path = folder / "small.npz"
    X = np.arange(4000.0).reshape(1000, 4)
    np.savez(path, X=X, y=np.arange(1000) % 2)
    content = bytearray(path.read_bytes())
    middle = content.find(X[500].tobytes())
    content[middle] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"small\.npz: key 'X' cannot be read"):
        load("small")


def test_altered_compressed_bytes_are_noticed(folder):
    path = folder / "small.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).random((500, 4)), y=np.arange(500) % 2)
    content = bytearray(path.read_bytes())
    # Past the member's header of 30 bytes, its name and its extra field, the first bits give the
    # kind of the first compressed block; all ones is no kind at all.
    start = 30 + int.from_bytes(content[26:28], "little") + int.from_bytes(content[28:30], "little")
    content[start] = 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"small\.npz: key 'X' cannot be read"):
        load("small")


def test_encrypted_archive_is_refused(folder):
    path = folder / "small.npz"
    np.savez(path, X=np.ones((4, 2)), y=np.arange(4))
    content = bytearray(path.read_bytes())
    # Bit 0 of the flags marks encryption, in the member's header and in the directory.
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"small\.npz: key 'X' cannot be read.*encrypted"):
        load("small")


def test_bad_offset_in_archive_is_noticed(folder):
    path = folder / "small.npz"
    np.savez(path, **make_split())
    content = bytearray(path.read_bytes())
    # Bytes 16 to 19 of the end record hold the place of the directory.
    content[-6:-2] = b"\xff\xff\xff\x7f"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"small\.npz"):
        load("small")


def test_pickled_objects_are_refused(folder):
    y = np.array([{"a": 1}, None, 3, 4], dtype=object)
    np.savez(folder / "small.npz", X=np.ones((4, 2)), y=y)
    with pytest.raises(ValueError, match=r"small\.npz: key 'y' cannot be read"):
        load("small")


def test_plain_pickle_is_refused(folder):
    (folder / "small.npz").write_bytes(pickle.dumps({"X": [1], "y": [1]}))
    with pytest.raises(ValueError, match=r"small\.npz is not a readable \.npz archive"):
        load("small")


def test_member_that_is_no_array_is_refused(folder):
    with zipfile.ZipFile(folder / "small.npz", "w") as archive:
        archive.writestr("X.npy", b"plain text")
        archive.writestr("y.npy", b"plain text")
    with pytest.raises(ValueError, match=r"small\.npz: key 'X' is not an array"):
        load("small")


def test_damaged_file_is_not_passed_over(folder):
    (folder / "iris.npz").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"iris\.npz"):
        load("iris")


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "..",
        ".",
        "",
        "/outside",
        "sub/outside",
        "..\\outside",
        "C:outside",
        "outside\0",
        "outside\n",
        "~",
        ".hidden",
    ],
)
def test_name_cannot_leave_the_folder(folder, name):
    for place in (folder.parent, folder / "sub"):
        place.mkdir(exist_ok=True)
        save_numbered(place, np.arange(20) % 2, name="outside")
    with pytest.raises(ValueError, match="invalid data set name"):
        load(name)


@pytest.mark.parametrize("name", ["a9a", "kr-vs-kp", "BNG(tic-tac-toe)", "20_newsgroups.drift"])
def test_usual_names_are_accepted(folder, name):
    save_numbered(folder, np.arange(20) % 2, name=name)
    assert load(name).name == name


# ---------------------------------------------------------------- bundled sets


@pytest.mark.parametrize(
    ("name", "n_rows", "n_columns"),
    [("breast_cancer", 569, 30), ("digits", 1797, 64), ("iris", 150, 4), ("wine", 178, 13)],
)
def test_bundled_set(name, n_rows, n_columns):
    loaded = load(name)
    assert loaded.X_test.shape == (-(-n_rows // 5), n_columns)
    assert loaded.X_train.shape == (n_rows - len(loaded.y_test), n_columns)
    assert loaded.source == f"scikit-learn (load_{name})"
    assert len(loaded.feature_names) == n_columns
    assert all(type(column) is str for column in loaded.feature_names)
    original = getattr(sklearn.datasets, f"load_{name}")().data
    together = np.vstack([loaded.X_train, loaded.X_test])
    np.testing.assert_array_equal(
        together[np.lexsort(together.T)], original[np.lexsort(original.T)]
    )


def test_bundled_set_is_found_beside_other_local_files(folder):
    save_numbered(folder, np.arange(20) % 2)
    assert load("iris").source == "scikit-learn (load_iris)"


# ---------------------------------------------------------------- OpenML


def answer_openml(monkeypatch, data, target):
    """Make OpenML answer with these arrays; return the list of calls it gets."""
    calls = []

    def fetch(*args, **kwargs):
        calls.append((args, kwargs))
        return SimpleNamespace(
            data=data,
            target=target,
            feature_names=[f"f{column}" for column in range(data.shape[1])],
            url="https://www.openml.org/d/1",
        )

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return calls


def fail_openml(monkeypatch, error):
    def fetch(*args, **kwargs):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)


def test_openml_set(monkeypatch):
    y = np.array(["yes", "no"] * 10, dtype=object)
    calls = answer_openml(monkeypatch, make_numbered(y), y)
    loaded = load("some-set")
    assert calls == [(("some-set",), {"as_frame": False, "parser": "auto"})]
    np.testing.assert_array_equal(loaded.y_train, y[loaded.X_train.ravel()])
    assert np.unique(loaded.y_test.astype(str), return_counts=True)[1].tolist() == [2, 2]
    assert loaded.feature_names == ("f0",)
    assert loaded.source == "OpenML (https://www.openml.org/d/1)"
    assert not loaded.canonical_split


def test_openml_sparse_set_is_csr(monkeypatch):
    X = make_sparse(20, 6)
    answer_openml(monkeypatch, X.tocsc(), np.arange(20) % 2)
    loaded = load("some-set")
    assert isinstance(loaded.X_train, csr_matrix)
    assert isinstance(loaded.X_test, csr_matrix)
    assert loaded.X_train.sum() + loaded.X_test.sum() == pytest.approx(X.sum())


def test_openml_missing_labels_do_not_stop_the_split(monkeypatch):
    y = np.array(["yes", "no", None, float("nan")] * 5, dtype=object)
    answer_openml(monkeypatch, make_numbered(y), y)
    assert load("some-set").X_train.shape == (16, 1)


@pytest.mark.parametrize("target", [None, np.ones((20, 2))])
def test_openml_set_without_single_target_is_refused(monkeypatch, target):
    answer_openml(monkeypatch, np.ones((20, 2)), target)
    with pytest.raises(ValueError, match=r"OpenML \(https.*\): 'target' must have 1 dimension"):
        load("some-set")


@pytest.mark.parametrize(
    "error",
    [
        URLError("no route"),
        HTTPError("https://example.org", 503, "no service", None, None),
        ConnectionResetError("reset"),
        TimeoutError("too slow"),
        IncompleteRead(b""),
        ValueError("no such set"),
        ImportError("needs pandas"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_openml_failure_says_all_three_ways(folder, monkeypatch, error):
    fail_openml(monkeypatch, error)
    with pytest.raises(DatasetNotFoundError) as caught:
        load("nowhere")
    message = str(caught.value)
    assert "WIDEMARGIN_DATA" in message
    assert "nowhere.npz" in message
    assert f"{folder}, which has no such file" in message
    assert "breast_cancer, digits, iris, wine" in message
    assert "OpenML" in message
    assert f"{type(error).__name__}: {error}" in message
    assert caught.value.__cause__ is error


def test_message_when_variable_is_not_set(monkeypatch):
    fail_openml(monkeypatch, URLError("no route"))
    with pytest.raises(LookupError, match="the variable is not set"):
        load("nowhere")


def test_message_when_folder_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path / "gone"))
    fail_openml(monkeypatch, URLError("no route"))
    with pytest.raises(DatasetNotFoundError, match="gone, which is not a folder"):
        load("nowhere")


def test_error_of_another_kind_passes(monkeypatch):
    fail_openml(monkeypatch, ZeroDivisionError("a fault of the program"))
    with pytest.raises(ZeroDivisionError):
        load("nowhere")


# ---------------------------------------------------------------- the rest


def test_available_without_folder():
    assert available() == BUNDLED


def test_available_with_folder(folder):
    for name in ("small", "iris"):
        save_numbered(folder, np.arange(20) % 2, name=name)
    (folder / "notes.txt").write_text("no set")
    (folder / "directory.npz").mkdir()
    (folder / ".hidden.npz").write_bytes(b"")
    assert available() == ["breast_cancer", "digits", "iris", "small", "wine"]


def test_available_with_missing_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIDEMARGIN_DATA", str(tmp_path / "gone"))
    assert available() == BUNDLED


def test_dataset_is_frozen_and_prints_briefly():
    loaded = load("digits")
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.name = "other"
    assert len(repr(loaded)) < 200
    assert loaded != load("digits")


def test_import_is_light():
    script = (
        "import sys, widemargin.datasets\n"
        "print(sorted({'sklearn', 'scipy', 'pandas'} & set(sys.modules)))"
    )
    path = os.pathsep.join([str(Path(datasets.__file__).parents[1]), *filter(None, sys.path)])
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "[]"


# ---------------------------------------------------------------- the real folder


@pytest.fixture
def load_real(monkeypatch):
    """Give a loader that reads from the folder of whoever runs the tests."""
    if not REAL_FOLDER:
        pytest.skip("set WIDEMARGIN_DATA to a folder with the real data sets")
    monkeypatch.setenv("WIDEMARGIN_DATA", REAL_FOLDER)

    def load_or_skip(name):
        if not (Path(REAL_FOLDER).expanduser() / f"{name}.npz").is_file():
            pytest.skip(f"the folder in WIDEMARGIN_DATA has no {name}.npz")
        return load(name)

    return load_or_skip


@pytest.mark.parametrize(
    ("name", "n_train", "n_test", "n_columns", "sparse", "canonical"),
    [
        ("ijcnn1", 49_990, 91_701, 22, False, True),
        ("a9a", 32_561, 16_281, 123, True, True),
        ("w8a_train", 39_799, 9_950, 300, True, False),
        ("ionosphere", 280, 71, 34, False, False),
        ("news20_bydate_counts", 11_314, 7_532, 130_107, True, True),
    ],
)
def test_real_shapes(load_real, name, n_train, n_test, n_columns, sparse, canonical):
    loaded = load_real(name)
    assert loaded.X_train.shape == (n_train, n_columns)
    assert loaded.X_test.shape == (n_test, n_columns)
    assert loaded.y_train.shape == (n_train,)
    assert loaded.y_test.shape == (n_test,)
    assert issparse(loaded.X_train) == sparse
    assert loaded.canonical_split == canonical


def test_real_class_counts(load_real):
    loaded = load_real("ijcnn1")
    assert np.sum(loaded.y_train == 1) == 4853
    assert np.sum(loaded.y_test == 1) == 8712


def test_real_breast_cancer_is_the_local_one(load_real):
    loaded = load_real("breast_cancer")
    assert loaded.X_train.shape[1] == 9
    assert loaded.source.startswith("WIDEMARGIN_DATA")


def test_real_test_labels_absent_from_training_are_kept(load_real):
    loaded = load_real("kddcup99_10pct")
    assert len(np.unique(loaded.y_train)) == 23
    assert len(np.unique(loaded.y_test)) == 38
    assert len(np.setdiff1d(loaded.y_test, loaded.y_train)) == 17
