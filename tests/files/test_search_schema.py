"""Files of `KernelSVCCV` and `KernelSVRCV`."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import widemargin
from tests.files.test_persistence import rewrite, set_array, set_meta
from widemargin import KernelSVC, KernelSVCCV, KernelSVRCV

GRID = {"Cs": [1.0, 10.0], "gammas": np.array([0.1, 0.5]), "cv": 3}
METHODS = ("sigmoid", "isotonic", "temperature")


def save_and_load(model, folder):
    widemargin.save(model, folder / "m.wm")
    return widemargin.load(folder / "m.wm")


def classes_of(iris, n_classes):
    """Rows of iris, with two or three classes that are texts."""
    X, y = iris
    return X, np.array(["a", "b", "ç"])[np.minimum(y.astype(int), n_classes - 1)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_file_gives_the_same_probabilities(iris, tmp_path, n_classes, multi_class, method):
    X, y = classes_of(iris, n_classes)
    model = KernelSVCCV(**GRID, calibration=method, multi_class=multi_class).fit(X, y)
    loaded = save_and_load(model, tmp_path)
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.score(X, y) == model.score(X, y)
    for name in (
        "scores_",
        "Cs_",
        "gammas_",
        "classes_",
        "C_",
        "gamma_",
        "best_score_",
        "n_splits_",
        "search_",
    ):
        assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert loaded.best_params_ == model.best_params_
    assert loaded.get_params()["calibration"] == method
    assert_array_equal(loaded.get_params()["gammas"], GRID["gammas"])
    assert type(loaded.best_estimator_) is KernelSVC
    loaded.fit(X, y)
    assert loaded.best_params_ == model.best_params_


def test_without_probabilities(iris, tmp_path):
    model = KernelSVCCV(**GRID).fit(*iris)
    loaded = save_and_load(model, tmp_path)
    assert_array_equal(loaded.predict(iris[0]), model.predict(iris[0]))
    assert not hasattr(loaded, "predict_proba")


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_regression(iris, tmp_path, n_targets):
    X = iris[0]
    y = X[:, 0] if n_targets == 1 else X[:, :2]
    model = KernelSVRCV(**GRID, epsilons=[0.01, 0.1]).fit(X, y)
    loaded = save_and_load(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.scores_, model.scores_)
    assert (loaded.epsilon_, loaded.best_score_) == (model.epsilon_, model.best_score_)


def test_a_pipeline_with_names_of_features(iris, tmp_path):
    X, y = pd.DataFrame(iris[0], columns=list("abcd")), iris[1]
    model = make_pipeline(StandardScaler(), KernelSVCCV(**GRID, calibration="sigmoid")).fit(X, y)
    loaded = save_and_load(model, tmp_path)
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    search = KernelSVCCV(**GRID).fit(X, y)
    assert list(save_and_load(search, tmp_path).feature_names_in_) == list("abcd")


@pytest.mark.parametrize("kernel", ["linear", "precomputed"])
def test_kernels_without_gamma(iris, tmp_path, kernel):
    X = iris[0] @ iris[0].T if kernel == "precomputed" else iris[0]
    model = KernelSVCCV(Cs=[1.0], kernel=kernel, cv=3, calibration="sigmoid").fit(X, iris[1])
    loaded = save_and_load(model, tmp_path)
    assert loaded.gamma_ is None
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"cv": KFold(3, shuffle=True, random_state=0)}, "cv: .*set_params"),
        ({"scoring": lambda m, X, y: m.score(X, y)}, "scoring: .*set_params"),
        ({"refit": False}, "refit=False"),
    ],
)
def test_what_a_file_cannot_hold(iris, tmp_path, params, match):
    model = KernelSVCCV(**(GRID | params)).fit(*iris)
    with pytest.raises(ValueError, match=match):
        widemargin.save(model, tmp_path / "m.wm")
    assert not list(tmp_path.iterdir())


def test_a_splitter_can_be_replaced_before_saving(iris, tmp_path):
    model = KernelSVCCV(**(GRID | {"cv": KFold(3, shuffle=True, random_state=0)})).fit(*iris)
    loaded = save_and_load(model.set_params(cv=5), tmp_path)
    assert loaded.n_splits_ == 3
    assert_array_equal(loaded.predict(iris[0]), model.predict(iris[0]))


HOSTILE = {
    "no model": lambda m, a: m.pop("model"),
    "model of another kind": set_meta("kind", "KernelSVR"),
    "kind is a list": set_meta("kind", ["KernelSVC"]),
    "no params": lambda m, a: m.pop("params"),
    "unknown calibration": lambda m, a: m["params"].update(calibration="guess"),
    "no calibration": lambda m, a: a.pop("curve_slopes"),
    "another calibration": lambda m, a: m["params"].update(calibration="isotonic"),
    "Cs": lambda m, a: m["params"].update(Cs={"numbers": [1.0, "x"]}),
    "Cs negative": lambda m, a: m["params"].update(Cs={"numbers": [-1.0]}),
    "Cs empty": lambda m, a: m["params"].update(Cs={"numbers": []}),
    "cv": lambda m, a: m["params"].update(cv=1),
    "cv text": lambda m, a: m["params"].update(cv="5"),
    "scoring": lambda m, a: m["params"].update(scoring="os.system"),
    "refit": lambda m, a: m["params"].update(refit=False),
    "multi_class": lambda m, a: m["params"].update(multi_class="ovr"),
    "no choice": lambda m, a: m.pop("best_params"),
    "choice without C": set_meta("best_params", {"gamma": 1.0}),
    "choice is zero": set_meta("best_params", {"C": 0.0, "gamma": 1.0}),
    "choice of epsilon": set_meta("best_params", {"C": 1.0, "epsilon": 1.0}),
    "choice is text": set_meta("best_params", {"C": "1"}),
    "score": set_meta("best_score", "high"),
    "no score": lambda m, a: m.pop("best_score"),
    "folds": set_meta("n_splits", 4),
    "folds negative": set_meta("n_splits", -3),
    "scores": set_array("scores", np.zeros((2, 2, 2))),
    "gammas": set_array("gammas", np.zeros(3)),
    "no grid": lambda m, a: a.pop("Cs"),
    "slopes nan": lambda m, a: a["curve_slopes"].__setitem__(0, np.nan),
    "slopes short": set_array("curve_slopes", np.zeros(2)),
    "offsets short": set_array("curve_offsets", np.zeros(1)),
    "inner vectors": lambda m, a: a.pop("model_vectors"),
    "inner coef": set_array("model_dual_coef", np.zeros((1, 3))),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(iris, tmp_path, case):
    path = tmp_path / "m.wm"
    widemargin.save(KernelSVCCV(**GRID, calibration="sigmoid").fit(*iris), path)
    rewrite(path, HOSTILE[case])
    with pytest.raises(ValueError, match=r"m\.wm"):
        widemargin.load(path)


CURVES = {
    "sizes": lambda m, a: a["curve_sizes"].__setitem__(0, a["curve_sizes"][0] + 1),
    "sizes that overflow": lambda m, a: a["curve_sizes"].__setitem__(slice(None), 2**62),
    "no thresholds": lambda m, a: a["curve_sizes"].__setitem__(0, 0),
    "probabilities above one": lambda m, a: a["curve_probabilities"].__setitem__(-1, 1.5),
    "probabilities nan": lambda m, a: a["curve_probabilities"].__setitem__(0, np.nan),
    "falling": lambda m, a: a.update(curve_probabilities=1.0 - a["curve_probabilities"]),
    "thresholds fall": lambda m, a: a.update(curve_decisions=-a["curve_decisions"]),
    "thresholds infinite": lambda m, a: a["curve_decisions"].__setitem__(0, -np.inf),
}


@pytest.mark.parametrize("case", CURVES)
def test_damaged_curves_are_refused(iris, tmp_path, case):
    path = tmp_path / "m.wm"
    widemargin.save(KernelSVCCV(**GRID, calibration="isotonic").fit(*iris), path)
    rewrite(path, CURVES[case])
    with pytest.raises(ValueError, match=r"m\.wm"):
        widemargin.load(path)


def test_degrees_and_coef0(iris, tmp_path):
    model = KernelSVCCV(**GRID, kernel="poly", degree=[2, 3], coef0=[-1.0, 0.5]).fit(*iris)
    loaded = save_and_load(model, tmp_path)
    assert loaded.best_params_ == model.best_params_
    assert (loaded.degree_, loaded.coef0_) == (model.degree_, model.coef0_)
    for name in ("degree", "coef0"):
        widemargin.save(model, tmp_path / "m.wm")
        rewrite(tmp_path / "m.wm", lambda meta, _, n=name: meta["best_params"].update({n: 7}))
        with pytest.raises(ValueError, match=rf"m\.wm.*{name}"):
            widemargin.load(tmp_path / "m.wm")
