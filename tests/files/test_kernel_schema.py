"""Files of the estimators without classes: `KernelSVR` and `KernelOneClassSVM`."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import widemargin
from tests.files.test_persistence import rewrite, set_array, set_meta
from widemargin import KernelOneClassSVM, KernelSVR

FORMS = {
    "dense": np.asarray,
    "csr": sparse.csr_matrix,
    "float32": lambda X: X.astype(np.float32),
    "frame": lambda X: pd.DataFrame(X, columns=list("abcd")),
}
MODELS = {
    "regression": KernelSVR(C=3.0, epsilon=0.2, gamma=0.3),
    "poly": KernelSVR(kernel="poly", degree=2, coef0=1.0),
    "one class": KernelOneClassSVM(nu=0.2, gamma=0.3),
    "chi2": KernelOneClassSVM(kernel="chi2"),
}
ATTRIBUTES = (
    "support_", "n_support_", "dual_coef_", "intercept_", "objective_", "duality_gap_", "n_iter_",
    "stop_reason_", "n_features_in_",
)  # fmt: skip


def save_and_load(model, folder):
    widemargin.save(model, folder / "m.wm")
    return widemargin.load(folder / "m.wm")


def make_targets(X, n_targets):
    """A vector of targets for None, else a matrix."""
    targets = np.column_stack([X[:, 0] * X[:, 1], X[:, 2] - X[:, 3]])
    return targets[:, 0] if n_targets is None else targets[:, :n_targets]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_a_file_gives_the_same_predictions(iris, tmp_path, name, form):
    X = FORMS[form](iris[0])
    model = MODELS[name].fit(X, make_targets(iris[0], None))
    loaded = save_and_load(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.get_params() == model.get_params()
    for attribute in ATTRIBUTES:
        found, expected = getattr(loaded, attribute), getattr(model, attribute)
        if sparse.issparse(expected):
            found, expected = found.toarray(), expected.toarray()
        assert_array_equal(found, expected)
    assert sparse.issparse(loaded.dual_coef_) == (form == "csr")
    if form == "frame":
        assert list(loaded.feature_names_in_) == list("abcd")
    if isinstance(model, KernelOneClassSVM):
        assert loaded.offset_ == model.offset_
        assert_array_equal(loaded.decision_function(X), model.decision_function(X))
        assert_array_equal(loaded.score_samples(X), model.score_samples(X))


@pytest.mark.parametrize("n_targets", [None, 1, 2])
def test_predictions_keep_the_shape_of_the_targets(iris, tmp_path, n_targets):
    X, y = iris[0], make_targets(iris[0], n_targets)
    model = KernelSVR().fit(X, y)
    predicted = save_and_load(model, tmp_path).predict(X)
    assert predicted.shape == y.shape
    assert_array_equal(predicted, model.predict(X))


@pytest.mark.parametrize("model", [KernelSVR, KernelOneClassSVM])
def test_precomputed_kernels(iris, tmp_path, model):
    K = iris[0] @ iris[0].T
    fitted = model(kernel="precomputed").fit(K, iris[0][:, 0])
    assert_array_equal(save_and_load(fitted, tmp_path).predict(K), fitted.predict(K))
    rewrite(tmp_path / "m.wm", lambda _, arrays: arrays["support"].__setitem__(0, len(K)))
    with pytest.raises(ValueError, match="beyond the kernel matrix"):
        widemargin.load(tmp_path / "m.wm")


def test_a_constant_target_has_no_support_vectors(iris, tmp_path):
    model = KernelSVR().fit(iris[0], np.full(len(iris[0]), 7.0))
    assert len(model.support_) == 0
    assert_array_equal(save_and_load(model, tmp_path).predict(iris[0]), model.predict(iris[0]))


def test_callable_kernels_are_not_saved(iris, tmp_path):
    model = KernelOneClassSVM(kernel=lambda a, b: a @ b.T).fit(iris[0])
    with pytest.raises(ValueError, match="callable"):
        widemargin.save(model, tmp_path / "m.wm")
    assert not list(tmp_path.iterdir())


HOSTILE = {
    "unknown kernel": set_meta("kernel", {"name": "os.system", "params": {}}),
    "no kernel": lambda m, a: m.pop("kernel"),
    "params of a classifier": lambda m, a: m["params"].update(class_weight=None),
    "n_features": set_meta("n_features", 5),
    "stop": set_meta("stop_reason", "whim"),
    "no coef": lambda m, a: a.pop("dual_coef"),
    "coef shape": set_array("dual_coef", np.zeros((3, 2))),
    "coef nan": lambda m, a: a["dual_coef"].__setitem__((0, 0), np.nan),
    "coef dtype": lambda m, a: a.__setitem__("dual_coef", a["dual_coef"].astype(np.float32)),
    "no targets": lambda m, a: a.update(dual_coef=a["dual_coef"][:0], intercept=a["intercept"][:0]),
    "intercept inf": lambda m, a: a["intercept"].__setitem__(0, np.inf),
    "intercepts": set_array("intercept", np.zeros(7)),
    "support negative": lambda m, a: a["support"].__setitem__(0, -1),
    "n_support": lambda m, a: a["n_support"].__setitem__(0, 10**6),
    "n_support of two": set_array("n_support", np.ones(2, np.int32)),
    "vectors nan": lambda m, a: a["vectors"].__setitem__((0, 0), np.nan),
    "vectors gone": lambda m, a: a.pop("vectors"),
    "vectors wide": set_array("vectors", np.zeros((3, 99))),
    "iterations": set_array("n_iter", np.zeros(3, np.int64)),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("name", ["one target", "two targets", "one class"])
def test_hostile_files_are_refused(iris, tmp_path, name, case):
    path, X = tmp_path / "m.wm", iris[0]
    model = KernelOneClassSVM() if name == "one class" else KernelSVR()
    widemargin.save(model.fit(X, make_targets(X, 2 if name == "two targets" else None)), path)
    rewrite(path, HOSTILE[case])
    with pytest.raises(ValueError, match=r"m\.wm"):
        widemargin.load(path)


@pytest.mark.parametrize("value", [True, 1, "yes", None])
def test_the_shape_of_predictions_is_checked(iris, tmp_path, value):
    """Two targets cannot be a vector, and the entry is a flag."""
    path = tmp_path / "m.wm"
    widemargin.save(KernelSVR().fit(iris[0], make_targets(iris[0], 2)), path)
    rewrite(path, set_meta("is_single", value))
    with pytest.raises(ValueError, match=r"m\.wm.*(is_single|shape)"):
        widemargin.load(path)
    rewrite(path, lambda meta, _: meta.pop("is_single"))
    with pytest.raises(ValueError, match=r"m\.wm.*is_single"):
        widemargin.load(path)


@pytest.mark.parametrize(
    ("model", "parameter", "value"),
    [
        (KernelSVR(), "epsilon", -0.1),
        (KernelSVR(), "epsilon", "wide"),
        (KernelSVR(), "C", 0),
        (KernelOneClassSVM(), "nu", 0),
        (KernelOneClassSVM(), "nu", 1.5),
    ],
)
def test_parameters_that_a_fit_refuses_are_refused(iris, tmp_path, model, parameter, value):
    path = tmp_path / "m.wm"
    widemargin.save(model.fit(iris[0], iris[0][:, 0]), path)
    rewrite(path, lambda meta, _: meta["params"].update({parameter: value}))
    with pytest.raises(ValueError, match=rf"m\.wm.*\b{parameter}\b"):
        widemargin.load(path)
