"""The command, end to end, as a person runs it."""

import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import SVC

from widemargin.cli.command import main


def run(*args):
    return subprocess.run(
        [sys.executable, "-m", "widemargin.cli.command", *map(str, args)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def files(iris, tmp_path):
    X, y = iris
    dump_svmlight_file(X, y, str(tmp_path / "iris.svm"), zero_based=False)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    lines = ["a,b,c,d,species"] + [
        ",".join([*map(str, x), n]) for x, n in zip(X, names, strict=True)
    ]
    (tmp_path / "iris.csv").write_text("\n".join(lines))
    bare = ["a,b,c,d"] + [",".join(map(str, x)) for x in X]
    (tmp_path / "bare.csv").write_text("\n".join(bare))
    np.savez(tmp_path / "iris.npz", X=X, y=y)
    return tmp_path


@pytest.mark.parametrize("name", ["iris.svm", "iris.csv", "iris.npz"])
def test_train_predict_info(files, iris, name, capsys):
    model = files / "model.wm"
    assert main(["train", str(files / name), "-o", str(model), "--C", "2", "--gamma", "0.5"]) == 0
    assert "support vectors" in capsys.readouterr().out
    out = files / "labels.txt"
    assert main(["predict", str(model), str(files / name), "-o", str(out)]) == 0
    X, y = iris
    expected = SVC(C=2, gamma=0.5).fit(X, y).score(X, y)
    accuracy = float(re.search(r"accuracy ([\d.]+)%", capsys.readouterr().err)[1]) / 100
    assert accuracy == pytest.approx(expected, abs=0.01)
    assert len(out.read_text().split()) == len(y)
    assert main(["info", str(model)]) == 0
    shown = capsys.readouterr().out
    assert "rbf (gamma=0.5)" in shown
    assert "converged" in shown


def test_options_are_the_parameters(files, capsys):
    model = files / "m"
    args = "--kernel poly --degree 2 --coef0 1 --multi_class ovr --tol 1e-4 --max-iter 100000"
    args += (
        " --no-fit-intercept --class-weight balanced --memory 1GB --n-jobs 1 --random-state 3 -q"
    )
    assert main(["train", str(files / "iris.svm"), "-o", str(model), *args.split()]) == 0
    import widemargin

    params = widemargin.load(model).get_params()
    assert params["kernel"] == "poly"
    assert params["multi_class"] == "ovr"
    assert params["fit_intercept"] is False
    assert params["class_weight"] == "balanced"
    assert params["random_state"] == 3
    assert capsys.readouterr().out == ""


def test_predict_without_labels_and_decision_values(files, capsys):
    model = files / "m"
    main(["train", str(files / "iris.csv"), "-o", str(model), "-q"])
    assert main(["predict", str(model), str(files / "bare.csv")]) == 0
    captured = capsys.readouterr()
    assert set(captured.out.split()) == {"setosa", "versicolor", "virginica"}
    assert captured.err == ""
    assert main(["predict", str(model), str(files / "bare.csv"), "--decision"]) == 0
    assert len(capsys.readouterr().out.splitlines()[0].split()) == 3


def test_libsvm_models(files, capsys):
    model = files / "model.txt"
    assert main(["train", str(files / "iris.svm"), "-o", str(model), "--libsvm", "-q"]) == 0
    assert model.read_text().startswith("svm_type c_svc")
    assert main(["predict", str(model), str(files / "iris.svm")]) == 0
    assert "accuracy" in capsys.readouterr().err
    assert main(["info", str(model)]) == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "absent.svm", "-o", "m"], "no such file"),
        (["train", "{}/iris.svm", "-o", "m", "--C", "-1"], "C"),
        (["train", "{}/iris.csv", "-o", "m", "--label", "colour"], "colour"),
        (["train", "{}/bad.csv", "-o", "m"], "line 3"),
        (["train", "{}/words.csv", "-o", "m"], "not a number"),
        (["train", "{}/iris.svm", "-o", "{}/no/such/folder/m", "-q"], "folder"),
        (["info", "{}/iris.svm"], "magic"),
        (["info", "{}/absent"], "absent"),
    ],
)
def test_errors_are_sentences(files, args, words, capsys):
    (files / "bad.csv").write_text("a,b,y\n1,2,0\n1,2,3,4\n")
    (files / "words.csv").write_text("a,b,y\n1,2,0\n1,blue,1\n")
    assert main([a.format(files) for a in args]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


def test_wrong_width_is_refused(files, capsys):
    model = files / "m"
    main(["train", str(files / "iris.svm"), "-o", str(model), "-q"])
    (files / "wide.svm").write_text("1 1:1 9:2\n")
    assert main(["predict", str(model), str(files / "wide.svm")]) == 2
    assert "wide.svm" in capsys.readouterr().err


@pytest.mark.parametrize("stop_level", [0, 1])
def test_divide_and_conquer(files, capsys, stop_level):
    model = files / "m"
    options = ["--estimator", "DCSVC", "--n-levels", "1", "--n-clusters", "2"]
    options += ["--stop-level", str(stop_level), "--gamma", "0.1", "--C", "10"]
    assert main(["train", str(files / "iris.svm"), "-o", str(model), *options]) == 0
    text = capsys.readouterr().out
    assert "DCSVC" in text
    assert "clusters" in text
    assert main(["predict", str(model), str(files / "iris.svm"), "-o", str(files / "out")]) == 0
    accuracy = float(re.search(r"accuracy ([\d.]+)%", capsys.readouterr().err)[1])
    assert accuracy > 94
    assert main(["info", str(model)]) == 0
    assert ("the whole problem" if stop_level == 0 else "early") in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--estimator", "AdditiveSVC", "--C", "10", "--scaling", "max"], "rank of the table"),
        (["--estimator", "IntersectionSVC", "--multi-class", "crammer_singer"], "intersection"),
        (["--estimator", "PowerMeanSVC", "--lut", "--p", "-8", "--C", "10"], "power_mean"),
        (["--estimator", "LRSVC", "--n-anchors", "20", "--C", "10"], "anchors"),
    ],
)
def test_additive_estimators(files, capsys, options, shown):
    model = files / "m"
    assert main(["train", str(files / "iris.csv"), "-o", str(model), *options]) == 0
    assert shown in capsys.readouterr().out
    assert main(["predict", str(model), str(files / "iris.csv"), "-o", str(files / "out")]) == 0
    assert float(re.search(r"accuracy ([\d.]+)%", capsys.readouterr().err)[1]) > 85
    assert main(["info", str(model)]) == 0
    assert options[1] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stop-level", "1"], "--stop-level: KernelSVC has no such parameter"),
        (["--combine", "bcm"], "--estimator DCSVC"),
        (["--estimator", "DCSVC", "--libsvm"], "--libsvm"),
        (["--estimator", "DCSVC", "--stop-level", "9"], "stop_level"),
    ],
)
def test_options_that_do_not_fit(files, capsys, options, message):
    arguments = ["train", str(files / "iris.svm"), "-o", str(files / "m"), *options]
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_sparse_model_to_c_and_onnx(files, capsys):
    model = str(files / "m")
    options = ["--estimator", "ProjectedSVC", "--n-basis", "1 kB", "--shared-basis"]
    assert main(["train", str(files / "iris.csv"), "-o", model, *options]) == 0
    assert "basis vectors" in capsys.readouterr().out
    assert main(["export", model, "-o", str(files / "iris.c"), "--dtype", "int16"]) == 0
    assert "bytes of flash" in capsys.readouterr().out
    assert '"setosa"' in (files / "iris.c").read_text()
    assert main(["export", model, "-o", str(files / "iris.onnx")]) == 0
    assert (files / "iris.onnx").stat().st_size > 1000
    assert main(["export", model, "-o", str(files / "iris.py")]) == 2
    assert "must end in .c or .onnx" in capsys.readouterr().err


def test_demo():
    done = run("demo", "--rows", "2000")
    assert done.returncode == 0, done.stderr
    assert "2,000 training rows" in done.stdout
    accuracies = [float(x) for x in re.findall(r"(\d+\.\d+)%", done.stdout)]
    assert len(accuracies) == 3
    assert accuracies[0] == accuracies[2]
    assert accuracies[2] > 90
    assert re.search(
        r"^KernelSVC, exact: [\d.]+ times as fast as scikit-learn SVC\.$", done.stdout, re.M
    )
    assert "KernelSVC, exact:  done after" in done.stderr


def test_demo_refuses_too_few_rows(capsys):
    assert main(["demo", "--rows", "3"]) == 2
    assert "rows" in capsys.readouterr().err


def test_help_and_version():
    assert "demo" in run("--help").stdout
    assert run("--version").stdout.startswith("widemargin ")
    assert run().returncode == 2
