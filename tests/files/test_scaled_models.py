"""Model files of pipelines with scalers."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

import widemargin
from widemargin import KernelSVC
from widemargin.files.container import read_model_file, write_model_file

SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(feature_range=(-1, 1), clip=True),
    MaxAbsScaler(),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_a_pipeline_predicts_as_before(scaler, dtype, iris, tmp_path):
    X, y = (10.0 * iris[0] + 3.0).astype(dtype), iris[1]
    model = make_pipeline(scaler, KernelSVC(C=3.0)).fit(X[::2], y[::2])
    widemargin.save(model, tmp_path / "model.wm")
    loaded = widemargin.load(tmp_path / "model.wm")
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert [name for name, _ in loaded.steps] == [name for name, _ in model.steps]
    assert loaded[0].get_params() == model[0].get_params()


def test_other_steps_are_refused(iris, tmp_path):
    model = make_pipeline(PCA(2), KernelSVC()).fit(*iris)
    with pytest.raises(TypeError, match="the step 'pca' is a PCA, which cannot be saved"):
        widemargin.save(model, tmp_path / "model.wm")


@pytest.mark.parametrize(
    "damage",
    [
        lambda meta, arrays: meta.update(steps=3),
        lambda meta, arrays: meta.update(steps=[]),
        lambda meta, arrays: meta.update(kind="Pipeline"),
        lambda meta, arrays: meta.update(model=None),
        lambda meta, arrays: meta.update(name=meta["steps"][0]["name"]),
        lambda meta, arrays: meta.update(feature_names=["a"]),
        lambda meta, arrays: meta["steps"][0].update(scaler="Eval"),
        lambda meta, arrays: meta["steps"][0].update(scaler={"pairs": []}),
        lambda meta, arrays: meta["steps"][0].update(params={}),
        lambda meta, arrays: meta["steps"][0]["params"].update(with_mean=2),
        lambda meta, arrays: arrays.update(scaler0_scale=np.ones(3)),
        lambda meta, arrays: arrays.update(scaler0_scale=np.zeros(4)),
        lambda meta, arrays: arrays.pop("scaler0_scale"),
        lambda meta, arrays: arrays.pop("scaler0_mean"),
    ],
)
def test_damaged_files_are_refused(damage, iris, tmp_path):
    path = tmp_path / "model.wm"
    widemargin.save(make_pipeline(StandardScaler(), KernelSVC()).fit(*iris), path)
    file = read_model_file(path)
    meta, arrays = dict(file.meta), dict(file.arrays)
    damage(meta, arrays)
    write_model_file(path, file.kind, meta, arrays)
    with pytest.raises(ValueError, match="cannot read"):
        widemargin.load(path)


@pytest.mark.parametrize("value", [[{}, 1], [1, 1], [0, 1, 2], ["a", "b"], [0, 10**400], 3])
def test_a_damaged_range_is_refused(value, iris, tmp_path):
    path = tmp_path / "model.wm"
    widemargin.save(make_pipeline(MinMaxScaler(), KernelSVC()).fit(*iris), path)
    file = read_model_file(path)
    file.meta["steps"][0]["params"]["feature_range"] = value
    write_model_file(path, file.kind, file.meta, dict(file.arrays))
    with pytest.raises(ValueError, match="cannot read"):
        widemargin.load(path)
