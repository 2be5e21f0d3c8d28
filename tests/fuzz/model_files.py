"""Damaged and hostile model files: refused, or read as a model that answers finitely."""

import copy
import json
import tempfile
import warnings
import zlib
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import widemargin
from tests.fuzz.cases import Refused, Wrong, answers, refusable, require
from widemargin.files.container import _ALIGNMENT, _PREFIX, MAGIC, ModelFileError

#: Values that stand in for any entry of a header.
ODD_VALUES = (
    None, True, False, 0, -1, 1, 2, 2**31, 2**63, 10**400, 0.5, -1e308, 1e-320, "", "nan", "-inf",
    "9" * 5000, "rbf", "early", "\ud800", "\x00", [], [[]], {}, [1, 2], {"float": "inf"},
    {"pairs": []}, {"pairs": [[1, "x"]]}, {"kernel": {"name": "rbf", "params": {"gamma": "inf"}}},
)  # fmt: skip
#: Rows of more features than this are not drawn.
MOST_FEATURES = 10**6
#: Parameters that no constructor takes, whatever the estimator.
BAD_PARAMETERS = {
    "C": (-1.0, 0.0, "x", None), "tol": (0.0, "x"), "memory": ("9" * 5000, "x", -1, None),
    "combine": (1000, "x"), "gamma": ({"float": "inf"}, -1.0, "x"), "kernel": ("x", 7),
    "max_iter": (-2, "x", 1.5), "max_time": (-1.0, "x"), "multi_class": ("x", 0),
    "loss": ("x", 0), "solver": ("x", 0), "verbose": (-1, "x"), "n_clusters": (0, "x"),
    "epsilon": (-0.1, "x"), "nu": (0.0, 2.0, "x"),
    "Cs": (0, "x", {"numbers": [0.0]}), "gammas": (-1, "x"), "cv": (1, "x"), "scoring": ("x", 7),
    "calibration": ("x", 7), "n_bins": (0, "x"), "clip_quantile": (2.0, "x"), "degree": (-1, 1.5),
}  # fmt: skip


@cache
def sound_files():
    """Bytes of small models of all kinds, as `save` writes them."""
    rng = np.random.default_rng(0)
    X = rng.random((40, 4))
    y = (X[:, 0] + X[:, 1] > 1).astype(int)
    three = np.array(["a", "bé", "c"])[y + (X[:, 2] > 0.7)]
    models = [
        (widemargin.KernelSVC(), y),
        (widemargin.KernelSVC(kernel="poly", class_weight={"a": 2.0, "bé": 1.0, "c": 1.0}), three),
        (widemargin.KernelSVC(kernel="chi2", multi_class="ovr"), three),
        (widemargin.KernelSVC(kernel="precomputed"), y),
        (widemargin.KernelSVC(kernel="linear"), y),
        (widemargin.KernelSVR(), X[:, 0]),
        (widemargin.KernelSVR(kernel="chi2"), X[:, :2]),
        (_search(widemargin.KernelSVCCV, calibration="sigmoid"), y),
        (_search(widemargin.KernelSVCCV, calibration="isotonic"), three),
        (_search(widemargin.KernelSVCCV, calibration="temperature", multi_class="ovr"), three),
        (_search(widemargin.KernelSVCCV, n_clusters=2), three),
        (_search(widemargin.KernelSVRCV, epsilons=[0.1]), X[:, :2]),
        (widemargin.KernelOneClassSVM(kernel="poly"), None),
        (widemargin.DCSVR(n_clusters=2, n_levels=1, stop_level=1, sample_size=20), X[:, 0]),
        (make_pipeline(StandardScaler(), widemargin.KernelSVC()), three),
        (make_pipeline(MinMaxScaler(), widemargin.DCSVR(n_clusters=2, n_levels=1)), X[:, 0]),
        (widemargin.DCSVC(n_clusters=2, n_levels=1, stop_level=1, sample_size=20), y),
        (widemargin.DCSVC(n_clusters=2, n_levels=1, stop_level=1, combine="bcm"), three),
        (widemargin.AdditiveSVC(n_bins=8), three),
        (widemargin.AdditiveSVR(n_bins=8), X[:, 0]),
        (widemargin.IntersectionSVC(n_bins=8), y),
        (widemargin.PowerMeanSVC(p=-np.inf), y),
        (widemargin.PowerMeanSVC(lut=True, n_bins=8), three),
        (widemargin.LRSVC(n_anchors=5, random_state=0), three),
        (widemargin.ProjectedSVC(n_basis=3, random_state=0), three),
        (widemargin.ProjectedSVC(n_basis=3, shared_basis=True, random_state=0), three),
    ]
    return tuple(_save(model, X @ X.T if _is_precomputed(model) else X, y) for model, y in models)


def _search(cls, **params):
    return cls(Cs=[1.0, 3.0], gammas=[0.5], cv=2, **params)


def _is_precomputed(model):
    return getattr(model, "kernel", None) == "precomputed"


def _save(model, X, y):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.wm"
        widemargin.save(model.fit(X, y), path)
        return path.read_bytes()


def run(case):
    """Damage a file in some way, read it, and use what was read."""
    sound = case.choose(*sound_files())
    damage = case.choose(*DAMAGES)
    case.note("damage", damage)
    content = DAMAGES[damage](case, sound)
    path = case.folder / "model.wm"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = _read(path)
        is_altered = content != sound
        text = "a file with a wrong byte outside its arrays and header is read"
        require(damage not in ("bytes", "cut") or not is_altered, "checksum", text)
        require(damage != "parameter" or not is_altered, "parameter", case.notes.get("header", ""))
        _use(case, model)
    return "right"


def _read(path):
    """The model, or a refusal that names the file in one line."""
    try:
        return widemargin.load(path)
    except ModelFileError as error:
        text = str(error)
        require(str(path) in text and "\n" not in text, "message", f"unclear: {text[:200]}")
        require(len(text) < 1000, "message", f"a message of {len(text):,} characters")
        raise Refused(text) from error


def _use(case, model):
    """Predict, write and read again."""
    if model.n_features_in_ > MOST_FEATURES:
        # Nothing in the file of a precomputed kernel tells how many training rows there were.
        require(_is_precomputed(model), "width", f"{model.n_features_in_:,} features are read")
        return
    rows = np.random.default_rng(0).random((5, model.n_features_in_))
    decisions = refusable(answers, model, rows)
    require(np.isfinite(decisions).all(), "finite", f"{model!r:.200} decides {decisions!r:.200}")
    if hasattr(model, "predict_proba"):
        values = model.predict_proba(rows)
        fits = (values >= 0).all() and np.allclose(values.sum(axis=1), 1.0)
        require(fits, "probabilities", f"{model!r:.200} gives {values!r:.200}")
    if hasattr(model, "decision_function"):
        labels = refusable(model.predict, rows)
        known = getattr(model, "classes_", [-1, 1])
        require(np.isin(labels, known).all(), "labels", f"unknown labels {labels!r:.200}")
    again = case.folder / "again.wm"
    try:
        widemargin.save(model, again)
    except ModelFileError as error:
        raise Wrong("save", f"what was read cannot be written: {error}") from error
    same = np.array_equal(answers(widemargin.load(again), rows), decisions)
    require(same, "save", "decisions differ after writing and reading again")


def _alter_bytes(case, content):
    content = bytearray(content)
    for _ in range(int(case.power(0, 1.5))):
        content[case.rng.integers(len(content))] = case.rng.integers(256)
    return bytes(content)


def _cut(case, content):
    first, last = np.sort(case.rng.integers(len(content) + 1, size=2))
    return content[:first] if case.happens(0.5) else content[:first] + content[last:]


def _splice(case, content):
    other = case.choose(*sound_files())
    at = case.rng.integers(min(len(content), len(other)))
    return content[:at] + other[at if case.happens(0.5) else case.rng.integers(len(other)) :]


def _unpack(content):
    """Header and data area of a sound file."""
    start = len(MAGIC) + _PREFIX.size
    length, _ = _PREFIX.unpack(content[len(MAGIC) : start])
    return json.loads(content[start : start + length]), bytearray(content[start + length :])


def _pack(header, area):
    """A file with a right checksum of its header."""
    text = json.dumps(header).encode("ascii")
    text += b" " * (-(len(MAGIC) + _PREFIX.size + len(text)) % _ALIGNMENT)
    return MAGIC + _PREFIX.pack(len(text), zlib.crc32(text)) + text + bytes(area)


def _rewrite_header(case, content):
    """Replace some entry of the header, at any depth, by an odd value."""
    header, area = _unpack(content)
    places = list(_list_places(header))
    for _ in range(case.choose(1, 1, 2)):
        parent, key = places[case.rng.integers(len(places))]
        value = copy.deepcopy(case.choose(*ODD_VALUES))
        case.note("header", f"{key} = {value!r:.80}")
        parent[key] = value
    return _pack(header, area)


def _list_places(parent):
    """All containers and keys of nested lists and dictionaries."""
    for key in list(parent) if isinstance(parent, dict) else range(len(parent)):
        yield parent, key
        if isinstance(parent[key], dict | list):
            yield from _list_places(parent[key])


def _spoil_parameter(case, content):
    """Give a parameter a value that the constructor's checks refuse."""
    header, area = _unpack(content)
    meta = header["meta"]
    params = (meta if "params" in meta else meta["model"])["params"]
    name = case.choose(*sorted(set(params) & set(BAD_PARAMETERS)))
    params[name] = case.choose(*BAD_PARAMETERS[name])
    case.note("header", f"{name}={params[name]!r:.80} is read")
    return _pack(header, area)


def _spoil_array(case, content):
    """Change values of an array, and its checksum."""
    header, area = _unpack(content)
    record = case.choose(*header["arrays"])
    dtype = np.dtype(record["dtype"])
    size = int(np.prod(record["shape"])) * dtype.itemsize
    span = slice(record["offset"], record["offset"] + size)
    array = np.frombuffer(bytes(area[span]), dtype).copy()
    if array.size:
        with np.errstate(all="ignore"):
            array[case.rng.integers(array.size)] = _odd_number(case, dtype)
    area[span] = array.tobytes()
    record["crc32"] = zlib.crc32(array.tobytes())
    case.note("header", f"array {record['name']}")
    return _pack(header, area)


def _odd_number(case, dtype):
    if dtype.kind == "f":
        return case.choose(np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 1e-320, 1e30)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return case.choose(limits.min, limits.max, 0, 1, 100)
    return "" if dtype.kind == "U" else case.happens(0.5)


DAMAGES = {
    "bytes": _alter_bytes,
    "cut": _cut,
    "splice": _splice,
    "header": _rewrite_header,
    "parameter": _spoil_parameter,
    "array": _spoil_array,
}
