"""Files of additive and regression models."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import widemargin
from widemargin import LRSVC, AdditiveSVC, IntersectionSVC, PowerMeanSVC
from widemargin.files.container import read_model_file, write_model_file

MODELS = [
    AdditiveSVC(),
    AdditiveSVC(kernel="power_mean", p=-np.inf, rank=5),
    AdditiveSVC(kernel="intersection", scaling="max", class_weight={0: 2.0}),
    AdditiveSVC(binning="quantile"),
    PowerMeanSVC(),
    PowerMeanSVC(lut=True, p=-np.inf),
    PowerMeanSVC(solver="sgd", max_iter=5),
    IntersectionSVC(),
    IntersectionSVC(scaling="max"),
    IntersectionSVC(multi_class="crammer_singer"),
    LRSVC(kernel="chi2"),
]


@pytest.fixture
def data(digits):
    X, y = digits
    # Not whole numbers.
    return X[:300] * 0.999, y[:300]


@pytest.mark.filterwarnings("ignore:.*stopped before convergence")
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("n_classes", [2, 10])
def test_a_file_gives_the_same_decisions(data, tmp_path, model, n_classes):
    X, y = data
    y = y if n_classes == 10 else np.where(y > 4, "high", "low")
    model = type(model)(**model.get_params())
    if n_classes == 2:
        model.set_params(**({"class_weight": None}))
    model.set_params(random_state=0).fit(X, y)
    path = tmp_path / "model.wm"
    widemargin.save(model, path)
    loaded = widemargin.load(path)
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert_array_equal(loaded.predict(sparse.csr_matrix(X)), model.predict(sparse.csr_matrix(X)))
    assert repr(loaded) == repr(model)
    assert getattr(loaded, "scaling_", None) == getattr(model, "scaling_", None)
    assert_array_equal(loaded.n_iter_, model.n_iter_)
    if not isinstance(model, LRSVC):
        assert_array_equal(loaded.explain(X), model.explain(X))
        assert_array_equal(loaded.shape_functions()[5][1], model.shape_functions()[5][1])


def test_a_loaded_model_learns_on(data, tmp_path):
    X, y = data
    for model in (AdditiveSVC(random_state=0), PowerMeanSVC(random_state=0)):
        model.partial_fit(X, y, classes=np.arange(10))
        widemargin.save(model, tmp_path / "model.wm")
        loaded = widemargin.load(tmp_path / "model.wm")
        model.partial_fit(X, y)
        loaded.partial_fit(X, y)
        assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def test_code_cannot_be_saved(data, tmp_path):
    X, y = data
    model = AdditiveSVC(kernel=np.minimum).fit(X, y)
    with pytest.raises(ValueError, match="cannot be saved"):
        widemargin.save(model, tmp_path / "model.wm")
    model = LRSVC(explanatory=lambda A: A[:, :5] + 1.0, max_iter=3, tol=100.0).fit(X, y)
    with pytest.raises(ValueError, match="explanatory function cannot be saved"):
        widemargin.save(model, tmp_path / "model.wm")


CHANGES = {
    "no classes": lambda m, a: a.pop("classes"),
    "a class twice": lambda m, a: a.update(classes=np.zeros(10)),
    "short coef": lambda m, a: a.update(coef=a["coef"][:, :-1]),
    "coef not finite": lambda m, a: a.update(coef=a["coef"] * np.nan),
    "short table": lambda m, a: a.update(table=a["table"][:-1]),
    "falling grid": lambda m, a: a.update(grid=a["grid"][::-1].copy()),
    "no span": lambda m, a: a.update(span=0 * a["span"]),
    "unknown spacing": lambda m, a: m["model"].update(spacing="none"),
    "unknown kind": lambda m, a: m["model"].update(kind="none"),
    "logarithms": lambda m, a: m["model"].update(kind="log"),
    "number": lambda m, a: m["numbers"].update(rank_="four"),
    "foreign number": lambda m, a: m["numbers"].update(coef_=4),
    "features": lambda m, a: m.update(n_features=3),
    "reason": lambda m, a: m.update(stop_reason="tired"),
    "parameters": lambda m, a: m["params"].update(verbosity=1),
    "infinity": lambda m, a: m["params"].update(p={"float": "nan"}),
    "ranges": lambda m, a: a.pop("feature_ranges"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_files_that_do_not_fit_together_are_refused(data, tmp_path, change):
    path = tmp_path / "model.wm"
    widemargin.save(AdditiveSVC(random_state=0).fit(*data), path)
    file = read_model_file(path)
    meta, arrays = json.loads(json.dumps(file.meta)), dict(file.arrays)
    change(meta, arrays)
    write_model_file(path, file.kind, meta, arrays)
    with pytest.raises(ValueError, match="cannot read"):
        widemargin.load(path)


@pytest.mark.parametrize("model", [AdditiveSVC(), IntersectionSVC(), PowerMeanSVC(), LRSVC()])
@pytest.mark.parametrize("n_features", [10**12, 10**400])
def test_a_number_of_features_that_no_array_has_is_refused(data, tmp_path, model, n_features):
    """No array of that size may be made in order to find out."""
    path = tmp_path / "model.wm"
    widemargin.save(model.fit(*data), path)
    file = read_model_file(path)
    write_model_file(path, file.kind, dict(file.meta) | {"n_features": n_features}, file.arrays)
    with pytest.raises(ValueError, match=r"cannot read .*n_features"):
        widemargin.load(path)


def test_curves_must_fit_their_offsets(data, tmp_path):
    path = tmp_path / "model.wm"
    widemargin.save(IntersectionSVC(random_state=0).fit(*data), path)
    file = read_model_file(path)
    for broken in ({"offsets": file.arrays["offsets"][::-1].copy()},
                   {"curves": file.arrays["curves"][:, 1:].copy()}):  # fmt: skip
        write_model_file(path, file.kind, file.meta, dict(file.arrays) | broken)
        with pytest.raises(ValueError, match="cannot read"):
            widemargin.load(path)
