"""Regression and novelty detection from the command line."""

import re

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.svm import SVR, OneClassSVM

import widemargin
from tests.cli.test_files import refuse
from widemargin.cli.command import main

SVR_OPTIONS = ["--estimator", "KernelSVR", "--C", "3", "--epsilon", "0.05", "--gamma", "0.5"]
ONE_CLASS = ["--estimator", "KernelOneClassSVM", "--nu", "0.2", "--gamma", "0.5"]


@pytest.fixture
def folder(iris, tmp_path):
    """Rows with a target, in every format; and rows alone."""
    X = iris[0]
    y = X[:, 0] * X[:, 1] / 10.0
    np.savez(tmp_path / "d.npz", X=X, y=y)
    np.savez(tmp_path / "rows.npz", X=X)
    dump_svmlight_file(X, y, str(tmp_path / "d.svm"), zero_based=False)
    table = np.column_stack([X, y])
    lines = [",".join(repr(v) for v in row) for row in table.tolist()]
    (tmp_path / "d.csv").write_text("\n".join(["a,b,c,d,target", *lines]))
    bare = "\n".join(["a,b,c,d", *(line.rpartition(",")[0] for line in lines)])
    (tmp_path / "bare.csv").write_text(bare)
    points = "\n".join(";".join(str(v).replace(".", ",") for v in row) for row in table.tolist())
    (tmp_path / "comma.csv").write_text(points)
    return tmp_path


def train(folder, name, *options):
    arguments = ["train", folder / name, "-o", folder / "m.wm", *options]
    return main([str(part) for part in arguments])


@pytest.mark.parametrize("name", ["d.svm", "d.csv", "d.npz", "comma.csv"])
def test_regression(folder, iris, name, capsys):
    assert train(folder, name, *SVR_OPTIONS) == 0
    shown = capsys.readouterr().out
    for words in (r"model +KernelSVR", r"epsilon +0\.05", r"targets +1", r"C +3"):
        assert re.search(words, shown)
    assert "classes" not in shown
    out = folder / "predicted.txt"
    assert main(["predict", str(folder / "m.wm"), str(folder / name), "-o", str(out)]) == 0
    X = iris[0]
    y = X[:, 0] * X[:, 1] / 10.0
    expected = SVR(C=3, epsilon=0.05, gamma=0.5).fit(X, y).predict(X)
    np.testing.assert_allclose(np.loadtxt(out), expected, atol=0.01)
    score, error = re.search(
        r"R2 ([-\d.]+), mean absolute error ([\d.e-]+) \(150 rows\)", capsys.readouterr().err
    ).groups()
    assert float(score) == pytest.approx(r2_score(y, expected), abs=0.005)
    assert float(error) == pytest.approx(mean_absolute_error(y, expected), abs=0.005)


def test_regression_without_targets_to_compare_with(folder, capsys):
    train(folder, "d.csv", *SVR_OPTIONS, "-q")
    assert main(["predict", str(folder / "m.wm"), str(folder / "bare.csv")]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert len(captured.out.split()) == 150
    arguments = ["predict", str(folder / "m.wm"), str(folder / "d.csv"), "--ignore-labels"]
    assert main(arguments) == 0
    assert capsys.readouterr().err == ""
    (folder / "flat.csv").write_text("1,2,3,4,5\n2,3,4,5,5\n")
    assert main(["predict", str(folder / "m.wm"), str(folder / "flat.csv")]) == 0
    assert "R2 needs targets that vary" in capsys.readouterr().err


def test_several_targets(folder, capsys):
    """A data file has one column of targets, but a model of Python may have more."""
    X = np.load(folder / "d.npz")["X"]
    widemargin.save(widemargin.KernelSVR().fit(X, X[:, :2]), folder / "m.wm")
    assert main(["info", str(folder / "m.wm")]) == 0
    assert re.search(r"targets +2", capsys.readouterr().out)
    assert main(["predict", str(folder / "m.wm"), str(folder / "rows.npz")]) == 0
    captured = capsys.readouterr()
    assert [len(line.split()) for line in captured.out.splitlines()] == [2] * 150
    assert captured.err == ""
    message = refuse(capsys, "predict", folder / "m.wm", folder / "d.npz", "-o", folder / "out")
    assert "d.npz: the targets have shape (150,), but the model predicts (150, 2)" in message
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["d.svm", "bare.csv", "rows.npz", "d.npz"])
def test_one_class(folder, iris, name, capsys):
    assert train(folder, name, *ONE_CLASS) == 0
    shown = capsys.readouterr().out
    assert re.search(r"nu +0\.2", shown)
    assert re.search(r"features +4", shown)
    assert not re.search(r"classes|targets|\bC\b", shown)
    assert main(["predict", str(folder / "m.wm"), str(folder / name)]) == 0
    captured = capsys.readouterr()
    answers = np.array(captured.out.split(), int)
    scores = OneClassSVM(nu=0.2, gamma=0.5).fit(iris[0]).decision_function(iris[0])
    # Free support vectors lie on the boundary.
    clear = np.abs(scores) > 1e-2
    assert clear.mean() > 0.8
    np.testing.assert_array_equal(answers[clear], np.sign(scores[clear]))
    share = float(re.search(r"inliers ([\d.]+)%", captured.err)[1])
    assert share == pytest.approx(100 * (answers == 1).mean(), abs=1e-3)
    assert "accuracy" not in captured.err


def test_one_class_by_columns(folder, capsys):
    """All columns are features, unless one is named."""
    assert train(folder, "d.csv", *ONE_CLASS, "-q") == 0
    assert widemargin.load(folder / "m.wm").n_features_in_ == 5
    assert train(folder, "d.csv", *ONE_CLASS, "--label", "target", "-q") == 0
    assert widemargin.load(folder / "m.wm").n_features_in_ == 4
    (folder / "one.csv").write_text("\n".join(map(str, range(20))))
    assert train(folder, "one.csv", *ONE_CLASS, "-q") == 0
    assert widemargin.load(folder / "m.wm").n_features_in_ == 1
    assert capsys.readouterr().err == ""


def test_labels_of_novelties_are_compared(folder, iris, capsys):
    train(folder, "bare.csv", *ONE_CLASS, "-q")
    known = np.where(np.arange(150) % 10, 1, -1)
    dump_svmlight_file(iris[0], known, str(folder / "known.svm"), zero_based=False)
    assert main(["predict", str(folder / "m.wm"), str(folder / "known.svm")]) == 0
    captured = capsys.readouterr()
    right = (np.array(captured.out.split(), int) == known).sum()
    assert f"accuracy {right / 150:.4%} ({right}/150)" in captured.err
    assert main(["predict", str(folder / "m.wm"), str(folder / "bare.csv"), "--decision"]) == 0
    captured = capsys.readouterr()
    model = widemargin.load(folder / "m.wm")
    np.testing.assert_allclose(
        np.array(captured.out.split(), float),
        model.decision_function(iris[0]),
        rtol=1e-7,
        atol=1e-7,
    )


@pytest.mark.parametrize(
    ("options", "svm_type"), [(SVR_OPTIONS, "epsilon_svr"), (ONE_CLASS, "one_class")]
)
def test_libsvm_models(folder, capsys, options, svm_type):
    assert train(folder, "d.svm", *options, "--libsvm", "-q") == 0
    assert (folder / "m.wm").read_text().startswith(f"svm_type {svm_type}\n")
    assert main(["predict", str(folder / "m.wm"), str(folder / "d.svm")]) == 0
    assert re.search("R2 0.9|inliers", capsys.readouterr().err)
    assert main(["info", str(folder / "m.wm")]) == 0
    assert options[1] in capsys.readouterr().out


@pytest.mark.parametrize("output", ["m.c", "m.onnx"])
@pytest.mark.parametrize("options", [SVR_OPTIONS, ONE_CLASS])
def test_export(folder, capsys, options, output):
    train(folder, "d.svm", *options, "-q")
    assert main(["export", str(folder / "m.wm"), "-o", str(folder / output)]) == 0
    assert (folder / output).stat().st_size > 500
    assert output in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("d.csv", ["--estimator", "KernelSVR", "--nu", "0.2"], "--nu: KernelSVR has no such"),
        ("d.csv", ["--epsilon", "0.2"], "add --estimator KernelSVR"),
        ("d.csv", [*SVR_OPTIONS, "--class-weight", "balanced"], "--class-weight"),
        ("rows.npz", SVR_OPTIONS, "rows.npz: the file has no labels"),
        ("words.csv", SVR_OPTIONS, "words.csv, line 3: the target 'red' is not a finite number"),
        ("words.npz", SVR_OPTIONS, "words.npz: the labels are of type"),
        ("d.csv", [*SVR_OPTIONS, "--epsilon", "-1"], "epsilon: must not be negative"),
        ("d.csv", [*ONE_CLASS, "--nu", "2"], "nu: must be in"),
        ("d.csv", [*ONE_CLASS, "--libsvm", "--kernel", "chi2"], "LIBSVM does not know 'chi2'"),
        ("d.csv", ["--estimator", "DCSVC", "--libsvm"], "--libsvm: only KernelSVC, KernelSVR"),
    ],
)
def test_what_does_not_fit_is_refused(folder, capsys, name, options, message):
    (folder / "words.csv").write_text("1,2,0.5\n2,1,0.5\n1,1,red\n")
    np.savez(folder / "words.npz", X=np.eye(3), y=np.array(["a", "b", "c"]))
    assert message in refuse(capsys, "train", folder / name, "-o", folder / "m.wm", *options)
    assert not (folder / "m.wm").exists()


def test_decision_values_of_a_regression_are_refused(folder, capsys):
    train(folder, "d.csv", *SVR_OPTIONS, "-q")
    arguments = ["predict", folder / "m.wm", folder / "d.csv", "--decision"]
    assert "--decision: a KernelSVR has no decision values" in refuse(capsys, *arguments)
