"""Files that the command reads and writes: what it cannot read, it refuses in one line."""

import bz2
import gzip
import io
import os
import sys
import zipfile

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

import widemargin
from widemargin import KernelSVC
from widemargin.cli.command import main
from widemargin.files.data_files import read_table


@pytest.fixture
def folder(iris, tmp_path):
    X, y = iris
    dump_svmlight_file(X, y, str(tmp_path / "iris.svm"), zero_based=False)
    rows = [",".join(map(str, row)) for row in X]
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    lines = [f"{row},{name}" for row, name in zip(rows, names, strict=True)]
    (tmp_path / "iris.csv").write_text("a,b,c,d,species\n" + "\n".join(lines))
    widemargin.save(KernelSVC(gamma=0.1).fit(X, y), tmp_path / "numbers.wm")
    widemargin.save(KernelSVC(gamma=0.1).fit(X, names), tmp_path / "texts.wm")
    return tmp_path


def refuse(capsys, *args):
    """The single line by which the command refuses."""
    assert main([str(arg) for arg in args]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    assert err.startswith("widemargin: ")
    return err


def give_input(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def spoil(content):
    return content[:40] + bytes(200) + content[240:]


ROWS = b"".join(b"%d 1:%d.5 2:%d\n" % (i % 2, i * 7 % 31, i * 11 % 17) for i in range(500))
#: Name of a file, its content, and what the error says beside the name.
UNREADABLE = {
    "truncated gzip": ("d.svm.gz", gzip.compress(ROWS)[:-40], "damaged or incomplete"),
    "damaged gzip": ("d.svm.gz", spoil(gzip.compress(ROWS)), "damaged or incomplete"),
    "no gzip": ("d.svm.gz", ROWS, "damaged or incomplete"),
    "truncated bzip2": ("d.svm.bz2", bz2.compress(ROWS)[:-40], "damaged or incomplete"),
    "damaged bzip2": ("d.svm.bz2", spoil(bz2.compress(ROWS)), "damaged or incomplete"),
    "truncated CSV": ("d.csv.gz", gzip.compress(b"1,2,0\n" * 999)[:-9], "damaged or incomplete"),
    "huge index": ("d.svm", b"1 1:2\n# why\n0 99999999999999999999:1\n", "line 3"),
    "index zero": ("d.svm", b"1 1:2\n0 0:1\n", "line 2"),
    "word": ("d.svm", b"1 1:2\nx 1:1\n", "line 2"),
    "bad pair": ("d.svm", b"1 1:2\n0 1:\n", "line 2"),
    "value not finite": ("d.svm", b"1 1:2\n\n# note\n0 1:nan\n", "line 4"),
    "label not finite": ("d.svm", b"1 1:2\ninf 1:2\n", "line 2"),
    "CSV without its ending": ("d.txt", b"a,b,y\n1,2,0\n", "--format csv"),
    "only comments": ("d.svm", b"# nothing\n", "no rows"),
    "empty": ("d.svm", b"", "empty"),
    "empty CSV": ("d.csv", b"\n\n", "empty"),
    "header only": ("d.csv", b"a,b,y\n", "no rows"),
    "empty label": ("d.csv", b"a,b,y\n1,2,0\n\n1,2,\n", "line 4: the label is empty"),
    "blank label": ("d.csv", b"1,2,0\n1,2, \n", "line 2: the label is empty"),
    "empty field": ("d.csv", b"a,b,y\n1,2,0\n1,,1\n", "line 3: '' in column 'b' is empty"),
    "not a number": ("d.csv", b"1,2,0\n1,x,1\n", "line 2: 'x' in column 1 is not a number"),
    "nan": ("d.csv", b"a,b,y\n1,2,0\n1,nan,1\n", "line 3: 'nan' in column 'b' is not a finite"),
    "overflow": ("d.csv", b"1,2,0\n1,1e999,1\n", "line 2: '1e999' in column 1 is not a finite"),
    "latin-1": ("d.csv", "a,b,größe\n1,2,0\n".encode("latin-1"), "line 1: the byte 0xf6 is not UTF-8"),
    "latin-1 below": ("d.csv", b"a,b,y\n1,2,u\n1,2,\xfc\n", "line 3: the byte 0xfc is not UTF-8"),
    "UTF-16": ("d.csv", "a,b,y\n1,2,0\n".encode("utf-16"), "UTF-16"),
    "Parquet": ("d.parquet", b"PAR1\x15\x04\x15", "Parquet"),
    "Parquet as CSV": ("d.csv", b"PAR1\x15\x04\x15", "Parquet"),
    "Excel": ("d.xlsx", b"PK\x03\x04\x14\x00\x06\x00", "Excel"),
    "old Excel": ("d.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Excel"),
    "gzip without its ending": ("d.svm", gzip.compress(ROWS), ".gz"),
    "single array": ("d.npy", b"\x93NUMPY\x01\x00v\x00", "savez"),
    "other binary": ("d.svm", b"1 1:2\n\x00\x01\x02", "binary"),
    "field too long": ("d.csv", b'1,2,0\n1,"' + b"9" * 200_000, "line 2: not readable as CSV"),
    "uneven": ("d.csv", b"a,b,y\n1,2,0\n1,2,3,4\n", "line 3: 4 fields instead of 3"),
    "short header": ("d.csv", b"a,y\n1,2,0\n1,2,1\n", "header has 2"),
    "one column": ("d.csv", b"y\n0\n1\n", "line 2: there is only one column"),
    "spaces": ("d.csv", b"a b y\n1 2 0\n1 2 1\n", "line 2: there is only one column"),
    "two ways": ("d.csv", b"1,5;0\n2,5;1\n", "line 1: the fields can be separated in more"),
    "two ways, one row short": ("d.csv", b"1,5;0\n2,5;1\n3,5\n", "say which with --delimiter"),
    "uneven by semicolons": ("d.csv", b"a;b;y\n1;2;0\n1;2;0\n1;1\n", "line 4: 2 fields instead"),
    "uneven by tabs": ("d.tsv", b"1\t2\t0\n1\t2\t0\n1\t1\n", "line 3: 2 fields instead of 3"),
    "commas and points": ("d.csv", b"1,5;2;0\n2.5;3;1\n", "line 2: '2.5' has a point"),
    "wrong separator": ("d.csv", b"1,5;2,5;0\n2,5;1,5\n", "'5;2' in column 1 is not a number; say"),
    "thousands": ("d.csv", b'"1,234",2,0\n"5,678",2,1\n', "line 1: '1,234' in column 0 has a comma"),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, capsys, case):
    name, content, words = UNREADABLE[case]
    (tmp_path / name).write_bytes(content)
    message = refuse(capsys, "train", tmp_path / name, "-o", tmp_path / "m", "-q")
    assert name in message
    assert words in message
    assert not (tmp_path / "m").exists()


def test_damaged_arrays_are_refused_in_one_line(tmp_path, capsys):
    """A header of an array that ends too early, and one whose shape no integer holds."""
    np.savez(tmp_path / "d.npz", X=np.zeros((4, 2)), y=np.arange(4))
    with zipfile.ZipFile(tmp_path / "d.npz") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    for old, new in ((b"(4, 2)", b"(4, 2("), (b"(4, 2), }" + b" " * 20, b"(4, %d), }" % 10**20)):
        damaged = content["X.npy"].replace(old, new)
        assert len(damaged) == len(content["X.npy"])
        assert damaged != content["X.npy"]
        with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
            archive.writestr("X.npy", damaged)
            archive.writestr("y.npy", content["y.npy"])
        message = refuse(capsys, "train", tmp_path / "d.npz", "-o", tmp_path / "m", "-q")
        assert "d.npz: key 'X' cannot be read" in message


#: The same three columns in the ways that people write them.
WRITTEN = {
    "commas": ("d.csv", "a,b,y\n1.5,2,0\n2.5,-3,1\n"),
    "semicolons": ("d.csv", "a;b;y\n1.5;2;0\n2.5;-3;1\n"),
    "decimal commas": ("d.csv", "a;b;y\n1,5;2;0\n2,5;-3;1\n"),
    "decimal commas, no header": ("d.csv", "1,5;2,0;0\n2,5;-3,0;1\n"),
    "quotation marks": ("d.csv", '"a";"b";"y"\n"1,5";"2";"0"\n"2,5";"-3";"1"\n'),
    "tabs": ("d.tsv", "a\tb\ty\n1.5\t2\t0\n2.5\t-3\t1\n"),
    "tabs and decimal commas": ("d.csv", "1,5\t2,0\t0\n2,5\t-3,0\t1\n"),
    "blank lines and a mark": ("d.csv", "\ufeffa,b,y\r\n\r\n1.5,2,0\r\n2.5,-3,1\r\n"),
}


@pytest.mark.parametrize("case", WRITTEN)
@pytest.mark.parametrize("compression", ["", ".gz", ".bz2"])
def test_separators_are_found(tmp_path, case, compression):
    name, text = WRITTEN[case]
    pack = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[compression]
    path = tmp_path / (name + compression)
    path.write_bytes(pack(text.encode()))
    table = read_table(path)
    np.testing.assert_array_equal(table.X, [[1.5, 2.0], [2.5, -3.0]])
    np.testing.assert_array_equal(table.y, [0, 1])
    assert table.feature_names in (None, ["a", "b"])


def test_the_separator_can_be_given(tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_text("1,5;0\n2,5;1\n")
    by_semicolon = read_table(path, delimiter=";")
    np.testing.assert_array_equal(by_semicolon.X, [[1.5], [2.5]])
    np.testing.assert_array_equal(by_semicolon.y, [0, 1])
    assert list(read_table(path, delimiter=",").y) == ["5;0", "5;1"]
    arguments = ["train", str(path), "-o", str(tmp_path / "m"), "-q", "--delimiter", "semicolon"]
    assert main(arguments) == 0
    assert widemargin.load(tmp_path / "m").classes_.tolist() == [0, 1]


def test_text_labels_with_a_separator_are_no_reason_to_split(tmp_path):
    (tmp_path / "d.csv").write_text("1,2,a;b\n3,4,c;d\n")
    table = read_table(tmp_path / "d.csv")
    assert table.X.shape == (2, 2)
    assert list(table.y) == ["a;b", "c;d"]


def test_columns_are_numbered_as_in_the_file(tmp_path, capsys):
    (tmp_path / "d.csv").write_text("0,1,2\n1,2,blue\n")
    arguments = ["train", tmp_path / "d.csv", "-o", tmp_path / "m", "--label", "0"]
    assert "'blue' in column 2" in refuse(capsys, *arguments)


def test_large_labels_stay_apart(tmp_path):
    (tmp_path / "d.svm").write_text("1e300 1:1\n2e300 1:2\n")
    assert read_table(tmp_path / "d.svm").y.tolist() == [1e300, 2e300]
    (tmp_path / "d.csv").write_text("1,99999999999999999999\n2,88888888888888888888\n")
    assert read_table(tmp_path / "d.csv").y.tolist() == ["9" * 20, "8" * 20]


@pytest.mark.parametrize("odd", ["\x1c", "\x1f"])
def test_labels_with_a_control_character_are_texts(tmp_path, odd):
    (tmp_path / "d.csv").write_text(f"1,2,0\n2,3,1{odd}\n")
    assert read_table(tmp_path / "d.csv").y.tolist() == ["0", f"1{odd}"]


def test_labels_of_another_type_are_not_compared(folder, capsys):
    message = refuse(capsys, "predict", folder / "texts.wm", folder / "iris.svm")
    assert "iris.svm" in message
    assert "0, 1, 2" in message
    assert "'setosa', 'versicolor', 'virginica'" in message
    assert "--ignore-labels" in message
    assert "iris.csv" in refuse(capsys, "predict", folder / "numbers.wm", folder / "iris.csv")
    arguments = ["predict", folder / "texts.wm", folder / "iris.svm", "--ignore-labels"]
    assert main(list(map(str, arguments))) == 0
    captured = capsys.readouterr()
    assert len(captured.out.split()) == 150
    assert captured.err == ""


@pytest.mark.parametrize("classes", [[1, 2], [1.0, 2.0], ["1", "2"], ["1.0", "2.0"]])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("d.svm", "1 1:0\n2 1:1\n"),
        ("d.csv", "0,1\n1,2\n"),
        ("d.csv", "0,1.0\n1,2.0\n"),
        ("d.csv", "0,1\n1,two\n"),
    ],
)
def test_the_same_label_in_another_type_is_compared(tmp_path, capsys, classes, name, text):
    widemargin.save(KernelSVC(gamma=1.0).fit([[0.0], [1.0]], classes), tmp_path / "m")
    (tmp_path / name).write_text(text)
    assert main(["predict", str(tmp_path / "m"), str(tmp_path / name), "--label", "1"]) == 0
    expected = "accuracy 50.0000% (1/2)" if "two" in text else "accuracy 100.0000% (2/2)"
    assert capsys.readouterr().err.strip() == expected


def test_labels_that_stand_for_none_are_said_to_be_no_classes(folder, capsys):
    (folder / "new.svm").write_text("9 1:5.1 2:3.5 3:1.4 4:0.2\n")
    assert main(["predict", str(folder / "numbers.wm"), str(folder / "new.svm")]) == 0
    captured = capsys.readouterr()
    assert captured.out == "0\n"
    assert "no accuracy: none of the labels" in captured.err
    assert "(9) is a class of the model (0, 1, 2)" in captured.err


@pytest.mark.parametrize("name", ["iris.svm", "iris.csv"])
def test_standard_input_is_read(folder, capsys, monkeypatch, name):
    model = str(folder / ("numbers.wm" if name.endswith("svm") else "texts.wm"))
    assert main(["predict", model, str(folder / name)]) == 0
    expected = capsys.readouterr()
    give_input(monkeypatch, (folder / name).read_bytes())
    assert main(["predict", model, "-"]) == 0
    assert capsys.readouterr() == expected
    give_input(monkeypatch, (folder / name).read_bytes())
    assert main(["train", "-", "-o", str(folder / "m"), "-q"]) == 0
    assert len(widemargin.load(folder / "m").classes_) == 3


def test_standard_input_that_could_be_either_needs_a_format(tmp_path, capsys, monkeypatch):
    widemargin.save(KernelSVC(gamma=1.0).fit([[0.0], [1.0]], [0, 1]), tmp_path / "m")
    give_input(monkeypatch, b"0\n1\n")
    assert "--format" in refuse(capsys, "predict", tmp_path / "m", "-")
    for form, expected in (("csv", "0\n1\n"), ("svmlight", "0\n0\n")):
        give_input(monkeypatch, b"0\n1\n")
        assert main(["predict", str(tmp_path / "m"), "-", "--format", form]) == 0
        assert capsys.readouterr().out == expected
    give_input(monkeypatch, b"PAR1\x15\x04")
    assert "standard input: a Parquet file" in refuse(capsys, "predict", tmp_path / "m", "-")


def test_help_says_how_files_are_read(capsys):
    for command in ("train", "predict"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        text = " ".join(capsys.readouterr().out.split())
        assert "- for standard input, which is svmlight text if" in text


def forbid_fit(monkeypatch):
    def fit(*_, **__):
        raise AssertionError("the command trains before it knows that it can write")

    monkeypatch.setattr(KernelSVC, "fit", fit)


@pytest.mark.parametrize("output", ["absent/m", ".", "pipe"])
def test_outputs_are_checked_before_training(folder, capsys, monkeypatch, output):
    os.mkfifo(folder / "pipe")
    forbid_fit(monkeypatch)
    before = sorted(folder.iterdir())
    message = refuse(capsys, "train", folder / "iris.svm", "-o", folder / output)
    assert "path: " in message
    assert sorted(folder.iterdir()) == before


def test_what_libsvm_cannot_hold_is_refused_before_training(folder, capsys, monkeypatch):
    forbid_fit(monkeypatch)
    arguments = ["train", folder / "iris.csv", "-o", folder / "m", "--libsvm"]
    assert "integer labels" in refuse(capsys, *arguments)
    arguments[1] = folder / "iris.svm"
    assert "chi2" in refuse(capsys, *arguments, "--kernel", "chi2")
    assert "one-vs-one" in refuse(capsys, *arguments, "--multi-class", "ovr")


@pytest.mark.parametrize(
    ("command", "name"), [("predict", "out.txt"), ("export", "out.c"), ("export", "out.onnx")]
)
def test_other_outputs_are_atomic_too(folder, capsys, monkeypatch, command, name):
    (folder / name).write_text("old")
    before = sorted(folder.iterdir())
    data = [folder / "iris.svm"] if command == "predict" else []
    arguments = [str(part) for part in (command, folder / "numbers.wm", *data, "-o", folder / name)]

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        assert "disk full" in refuse(capsys, *arguments)
    assert (folder / name).read_text() == "old"
    assert sorted(folder.iterdir()) == before
    assert main(arguments) == 0
    assert len((folder / name).read_bytes()) > 100
    capsys.readouterr()
    (folder / name).unlink()
    (folder / name).mkdir()
    assert "not a regular file" in refuse(capsys, *arguments)
