"""Headers and arrays of model files are checked as a fit checks its parameters and data."""

import json

import numpy as np
import pytest

import widemargin
from widemargin import (
    DCSVC,
    LRSVC,
    AdditiveSVC,
    IntersectionSVC,
    KernelOneClassSVM,
    KernelSVC,
    KernelSVR,
    PowerMeanSVC,
    ProjectedSVC,
)
from widemargin.files.container import read_model_file, write_model_file

MODELS = {
    "KernelSVC": KernelSVC(),
    "KernelSVR": KernelSVR(epsilon=0.01),
    "KernelOneClassSVM": KernelOneClassSVM(),
    "DCSVC": DCSVC(n_levels=1, n_clusters=2, stop_level=1, combine="bcm"),
    "AdditiveSVC": AdditiveSVC(),
    "IntersectionSVC": IntersectionSVC(),
    "PowerMeanSVC": PowerMeanSVC(),
    "LRSVC": LRSVC(kernel="chi2", n_anchors=10),
    "ProjectedSVC": ProjectedSVC(n_basis=5),
}
INFINITE = {"float": "inf"}
#: Of every parameter, values that a fit refuses.
BAD = {
    "C": [0, -1.0, "1", None, {"float": "-inf"}, True, 10**400],
    "epsilon": [-0.1, "wide", None, INFINITE, 10**400],
    "nu": [0, -0.5, 1.5, "half", None, INFINITE],
    "tol": [0, "small", INFINITE, 10**400],
    "max_iter": [-2, 1.5, "9"],
    "max_time": [0, -1, "1 s", INFINITE],
    "memory": ["9" * 5000, "lots", 0, -5, 1.5, None],
    "n_jobs": [0, "2", 1.5, True],
    "random_state": [-1, 2**40, "seed", 0.5],
    "class_weight": ["heavy", 3, {"pairs": [[0, -1.0]]}, {"pairs": [[0, "x"]]},
                     {"pairs": [[17, 1.0]]}],
    "verbose": [-1, "loud", 0.5],
    "kernel": ["os.system", 1, "precomputed "],
    "gamma": ["inf", "1", -1.0, INFINITE, 10**400],
    "degree": [-1, 2.5, "3"],
    "coef0": [INFINITE, "0", 10**400],
    "combine": [1000, "all"],
    "n_clusters": [0, 2.5],
    "n_levels": [0, "1"],
    "stop_level": [-1, 9],
    "sample_size": [0],
    "multi_class": ["all", 1],
    "n_bins": [0, "many"],
    "rank": [0, "most"],
    "p": [INFINITE, "0"],
    "loss": ["log"],
    "solver": ["newton"],
    "clip_quantile": [0, 2],
    "n_anchors": [0, 2.5],
    "anchors": ["best", 5, None, 10**400, {"pairs": [[1, "x"]]}],
    "explanatory": ["os.system"],
    "n_basis": ["9" * 5000, "few", 0, -1],
    "candidates": ["some", 0],
    "move": ["no", 1],
}  # fmt: skip
CASES = [
    (name, parameter, value)
    for name, model in MODELS.items()
    for parameter in sorted(set(BAD) & set(model.get_params()))
    for value in BAD[parameter]
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A file of every estimator; features are not negative, for the kernels of histograms."""
    X = np.random.default_rng(0).random((60, 3))
    y = (X[:, 0] + X[:, 1] > 1).astype(int)
    folder = tmp_path_factory.mktemp("stored")
    for name, model in MODELS.items():
        widemargin.save(model.fit(X, y), folder / name)
    return folder


def change(source, target, edit):
    """Write a model file again with altered content and valid checksums."""
    file = read_model_file(source)
    meta, arrays = json.loads(json.dumps(file.meta)), dict(file.arrays)
    edit(meta, arrays)
    write_model_file(target, file.kind, meta, arrays)


@pytest.mark.parametrize(("name", "parameter", "value"), CASES)
def test_parameters_that_a_fit_refuses_are_refused(stored, tmp_path, name, parameter, value):
    path = tmp_path / "m.wm"
    change(stored / name, path, lambda meta, _: meta["params"].update({parameter: value}))
    with pytest.raises(ValueError, match=rf"cannot read .*m\.wm.*\b{parameter}\b") as caught:
        widemargin.load(path)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("KernelSVC", "kernel", "9" * 5000),
        ("KernelSVC", "gamma", "a b " * 1000),
        ("KernelSVC", "C", -(10**4000)),
        ("KernelSVC", "class_weight", {"pairs": [["x" * 5000, -1.0]]}),
        ("DCSVC", "combine", "9" * 5000),
        ("AdditiveSVC", "kernel", "9" * 5000),
        ("LRSVC", "anchors", "9" * 5000),
        ("ProjectedSVC", "candidates", "9" * 5000),
    ],
    ids=lambda value: str(value)[:20],
)
def test_errors_shorten_the_values_of_a_file(stored, tmp_path, name, parameter, value):
    path = tmp_path / "m.wm"
    change(stored / name, path, lambda meta, _: meta["params"].update({parameter: value}))
    with pytest.raises(ValueError, match=rf"m\.wm.*\b{parameter}\b") as caught:
        widemargin.load(path)
    assert len(str(caught.value)) - len(str(path)) < 500


@pytest.mark.parametrize("name", ["KernelSVC", "DCSVC", "LRSVC", "ProjectedSVC"])
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e999", -1.0, 10**400, True, None])
def test_gamma_of_the_kernel_must_be_finite(stored, tmp_path, name, value):
    path = tmp_path / "m.wm"
    kernel = {"name": "rbf", "params": {"gamma": value}}
    change(stored / name, path, lambda meta, _: meta.update(kernel=kernel))
    with pytest.raises(ValueError, match=r"cannot read .*m\.wm.*kernel's gamma"):
        widemargin.load(path)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_arrays_must_be_finite(stored, tmp_path, name, value):
    """Every array of floats but the figures of merit, which a model of LIBSVM does not have."""
    path = tmp_path / "m.wm"
    content = read_model_file(stored / name).arrays
    floats = [key for key, array in content.items() if array.dtype.kind == "f"]
    if name in ("KernelSVC", "KernelSVR", "KernelOneClassSVM", "DCSVC", "DCSVR"):
        figures = ("objective", "duality_gap", "violation", "violation_error")
        floats = [key for key in floats if key not in figures]
    assert len(floats) >= 2

    def spoil(_, arrays, key):
        arrays[key] = arrays[key].copy()
        arrays[key].flat[-1] = value

    for key in floats:
        change(stored / name, path, lambda meta, arrays, key=key: spoil(meta, arrays, key))
        with pytest.raises(ValueError, match=rf"m\.wm.*array '{key}' holds NaN or infinity"):
            widemargin.load(path)


def test_labels_must_be_finite(stored, tmp_path):
    path = tmp_path / "m.wm"
    classes = np.array([0.0, np.nan])
    change(stored / "KernelSVC", path, lambda _, arrays: arrays.update(classes=classes))
    with pytest.raises(ValueError, match="array 'classes' holds NaN or infinity"):
        widemargin.load(path)


def test_anchors_are_in_the_domain_of_the_kernel(stored, tmp_path):
    path = tmp_path / "m.wm"
    change(stored / "LRSVC", path, lambda _, arrays: arrays.update(anchors=-arrays["anchors"]))
    with pytest.raises(ValueError, match="array 'anchors' holds negative values"):
        widemargin.load(path)


def test_what_loading_would_refuse_is_not_saved(stored, tmp_path):
    model = widemargin.load(stored / "KernelSVC").set_params(memory="lots")
    with pytest.raises(ValueError, match="memory"):
        widemargin.save(model, tmp_path / "m.wm")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("parameter", ["C", "gamma", "coef0"])
def test_integers_beyond_float64_are_refused_by_name(iris, parameter):
    with pytest.raises(ValueError, match=rf"^{parameter}: "):
        KernelSVC(**{parameter: 10**400}).fit(*iris)


def test_weights_of_every_kind_survive_a_file(iris, tmp_path):
    X, y = iris
    names = np.array(["a", "b", "c"])[y]
    for labels, weights in (
        (y, {0: 2.0, 1: 1.0, 2: 3}), (names, {"a": 2.0}), (names, "balanced"), (y * 0.5, None),
    ):  # fmt: skip
        labels = labels * 2 if labels.dtype.kind == "f" else labels
        model = KernelSVC(class_weight=weights).fit(X, labels)
        widemargin.save(model, tmp_path / "m.wm")
        assert widemargin.load(tmp_path / "m.wm").class_weight == weights
