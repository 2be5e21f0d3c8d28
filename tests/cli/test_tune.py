"""The command ``widemargin tune``."""

import argparse

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import widemargin
from widemargin import KernelSVC, KernelSVCCV
from widemargin.cli.command import main
from widemargin.cli.tune import parse_coef0, parse_degrees, parse_seconds, parse_values


def test_the_model_is_that_of_the_estimator(iris, tmp_path, capsys):
    X, y = iris
    file, out = tmp_path / "iris.svm", tmp_path / "model.wm"
    dump_svmlight_file(X, y, str(file), zero_based=False)
    options = ["--Cs", "1,10", "--gammas", "0.1,0.5", "--cv", "3", "--max-time", "5m"]
    assert main(["tune", str(file), "-o", str(out), *options]) == 0
    direct = KernelSVCCV(Cs=[1.0, 10.0], gammas=[0.1, 0.5], cv=3).fit(X, y)
    loaded = widemargin.load(out)
    assert loaded.C == direct.C_
    assert loaded.gamma == direct.gamma_
    assert_array_equal(loaded.predict(X), direct.predict(X))
    printed = capsys.readouterr().out
    assert f"C = {direct.C_:g}, gamma = {direct.gamma_:g}" in printed
    assert f"score {direct.best_score_:.6g}" in printed


def test_errors_name_the_argument(iris, tmp_path, capsys):
    file = tmp_path / "iris.svm"
    dump_svmlight_file(*iris, str(file), zero_based=False)
    target = ["-o", str(tmp_path / "model.wm"), "-q"]
    assert main(["tune", str(file), *target, "--cv", "60"]) == 2
    assert "cv: class 0" in capsys.readouterr().err
    assert not (tmp_path / "model.wm").exists()
    np.savez(tmp_path / "bare.npz", X=iris[0])
    assert main(["tune", str(tmp_path / "bare.npz"), *target]) == 2
    assert "no labels to learn from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2 min", 120)]
)
def test_times(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10 days", "-3s"])
def test_times_that_are_none(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no time"):
        parse_seconds(text)


def test_degrees_and_coef0(iris, tmp_path):
    assert parse_degrees("2") == 2
    assert parse_degrees("2,4") == [2, 4]
    with pytest.raises(argparse.ArgumentTypeError, match="neither a degree"):
        parse_degrees("2.5")
    assert parse_coef0("-0.5") == -0.5
    assert parse_coef0("0,1.5") == [0.0, 1.5]
    with pytest.raises(argparse.ArgumentTypeError, match="neither a number"):
        parse_coef0("0,x")
    file, out = tmp_path / "iris.svm", tmp_path / "model.wm"
    dump_svmlight_file(*iris, str(file), zero_based=False)
    options = ["--Cs", "0.1,1", "--gammas", "0.1,0.5", "--cv", "3", "-q"]
    poly = ["--kernel", "poly", "--degree", "1,2", "--coef0", "0.5,1"]
    assert main(["tune", str(file), "-o", str(out), *options, *poly]) == 0
    model = widemargin.load(out)
    assert model.degree in (1, 2)
    assert model.coef0 in (0.5, 1.0)


def test_values():
    assert parse_values("7") == 7
    assert parse_values("0.1,1") == [0.1, 1.0]
    with pytest.raises(argparse.ArgumentTypeError, match="neither"):
        parse_values("few")


@pytest.mark.parametrize("scale", ["standard", "minmax", "max"])
def test_the_model_file_contains_the_scaler(scale, iris, tmp_path, capsys):
    X, y = 100.0 * iris[0] + 7.0, iris[1]
    file, out, labels = tmp_path / "iris.csv", tmp_path / "model.wm", tmp_path / "labels.txt"
    np.savetxt(file, np.column_stack([X, y]), delimiter=",", fmt=["%.17g"] * 4 + ["%d"])
    options = ["--Cs", "1,10", "--gammas", "0.1,0.5", "--cv", "3", "-q", "--scale", scale]
    assert main(["tune", str(file), "-o", str(out), *options]) == 0
    scaler = {"standard": StandardScaler, "minmax": MinMaxScaler, "max": MaxAbsScaler}[scale]()
    direct = KernelSVCCV(Cs=[1.0, 10.0], gammas=[0.1, 0.5], cv=3).fit(scaler.fit_transform(X), y)
    loaded = widemargin.load(out)
    assert_array_equal(loaded.predict(X), direct.predict(scaler.transform(X)))
    assert main(["predict", str(out), str(file), "-o", str(labels)]) == 0
    assert_array_equal(np.loadtxt(labels), loaded.predict(X))
    assert main(["info", str(out)]) == 0
    assert f"scaled by {type(scaler).__name__}" in capsys.readouterr().out


def test_train_scales_too(iris, tmp_path, capsys):
    X, y = 100.0 * iris[0], iris[1]
    file, out = tmp_path / "iris.svm", tmp_path / "model.wm"
    dump_svmlight_file(X, y, str(file), zero_based=False)
    assert main(["train", str(file), "-o", str(out), "--C", "3", "-q", "--scale", "max"]) == 0
    expected = KernelSVC(C=3.0).fit(MaxAbsScaler().fit_transform(X), y)
    assert_array_equal(
        widemargin.load(out).predict(X), expected.predict(MaxAbsScaler().fit_transform(X))
    )
    options = ["-o", str(out), "--libsvm", "--scale", "max"]
    assert main(["train", str(file), *options]) == 2
    assert "holds no scaler" in capsys.readouterr().err


@pytest.mark.parametrize("scale", [None, "standard"])
def test_probabilities_on_the_command_line(iris, tmp_path, capsys, scale):
    X, y = iris
    file, out, found = tmp_path / "iris.svm", tmp_path / "model.wm", tmp_path / "found.txt"
    dump_svmlight_file(X, y, str(file), zero_based=False)
    options = ["--Cs", "1,10", "--gammas", "0.1,0.5", "--cv", "3", "--calibration", "sigmoid"]
    options += [] if scale is None else ["--scale", scale]
    assert main(["tune", str(file), "-o", str(out), *options]) == 0
    assert "probabilities: sigmoid" in capsys.readouterr().out
    assert main(["info", str(out)]) == 0
    assert "probabilities: sigmoid" in capsys.readouterr().out
    assert main(["predict", str(out), str(file), "--proba", "-o", str(found)]) == 0
    model = widemargin.load(out)
    np.testing.assert_allclose(np.loadtxt(found), model.predict_proba(X), rtol=1e-8)
    assert main(["predict", str(out), str(file), "--proba", "--decision"]) == 2
    assert "not both" in capsys.readouterr().err


def test_models_without_probabilities_say_how_to_get_them(iris, tmp_path, capsys):
    file, out = tmp_path / "iris.svm", tmp_path / "model.wm"
    dump_svmlight_file(*iris, str(file), zero_based=False)
    widemargin.save(KernelSVC().fit(*iris), out)
    assert main(["predict", str(out), str(file), "--proba"]) == 2
    assert "tune --calibration" in capsys.readouterr().err
