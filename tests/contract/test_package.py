"""What importing does, and which way imports point."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import widemargin
from widemargin import baselines, kernels

SOURCE = Path(widemargin.__file__).parent

#: Each layer may import from itself and from those before it. A module stands for itself where it is
#: named, else for its folder.
LAYERS = [
    [
        "__init__",
        "compilation",
        "parallel",
        "memory",
        "deadline",
        "arguments",
        "budget",
        "callback_support",
        "transaction",
        "callbacks",
        "doc_link",
        "files.atomic_output",
    ],
    ["files.container", "files.libsvm_header", "files.libsvm_text", "progress"],
    ["kernels"],
    ["problem"],
    [
        "kernel_arguments",
        "category_codes",
        "column_errors",
        "validation",
        "parameters",
        "datasets",
        "majority",
    ],
    ["base", "files.libsvm_models"],
    ["exact"],
    ["divide", "additive", "projected"],
    ["baselines", "distributed"],
    [
        "files",
        "export",
        "bands",
        "curve_panels",
        "curve_svg",
        "model_page",
        "page_content",
        "interactions",
        "interaction_picture",
        "pipeline_curves",
        "plotting",
        "search_picture",
        "demo",
        "demo_peer",
        "demo_report",
        "warmup",
    ],
    ["cli"],
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

#: Inside the folder of a family: compiled loops (files that end in ``_fast``), then mathematics, which
#: is all that is not named here, then what predicts, then what users fit.
MODELS = {
    "exact": ["anova_terms", "calibration", "expansion"],
    "divide": ["cluster_models"],
    "additive": ["anchor_model", "curves", "indicator_model", "knot_model", "pair_model"],
    "projected": ["path"],
}
ESTIMATORS = {
    "exact": [
        "classifier_base", "kernel_machine", "kernel_one_class", "kernel_svc",
        "kernel_svr", "kernel_svr_cv", "fold_search", "regressor_base", "search_base",
        "search_scoring", "svc_compatibility",
    ],
    "divide": [
        "clusterer", "dc_svc", "dc_svr", "kernel_svc_cv", "level_parts", "levels_mixin",
        "local_classifiers",
    ],
    "additive": [
        "additive_svc", "additive_svc_cv", "additive_svr", "additive_svr_cv", "classifier_base",
        "cost_path", "descent_mixin", "indicators_mixin", "intersection_svc", "kernel_scale",
        "lr_svc", "mixins", "monotone_mixin", "pairs_mixin", "power_mean_svc", "search_base",
        "spectral_mixin", "tables_mixin",
    ],
    "projected": ["classifier_base", "projected_svc"],
}  # fmt: skip
#: What a model needs of the mathematics: how space is divided, how values become codes and rows of
#: numbers. The rest trains.
REPRESENTATIONS = {
    "divide": ["partition"],
    "additive": [
        "coded_rows",
        "codes",
        "knots",
        "power_mean_table",
        "quantiser",
        "scalar_kernels",
    ],
    "projected": ["selection"],
}
#: What turns data into the numbers that a solver reads, and the solver's coefficients into a model: it
#: stands above the models and below the estimators.
REPRESENTERS = {
    "additive": [
        "anchors", "indicator_columns", "intersection_rows", "pair_cells", "pair_levels",
        "representations",
    ]
}  # fmt: skip
FAMILIES = sorted(MODELS)
ESTIMATOR_CLASSES = [
    found
    for module in (widemargin, baselines)
    for name in module.__all__
    if inspect.isclass(found := getattr(module, name)) and issubclass(found, BaseEstimator)
]
EVERY_ESTIMATOR = pytest.mark.parametrize("cls", ESTIMATOR_CLASSES, ids=lambda cls: cls.__name__)


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_does_no_work():
    names = ["numba", "sklearn", "dask", "distributed"]
    code = f"import sys, widemargin; print(*[name in sys.modules for name in {names}])"
    assert run_python(code).split() == ["False"] * len(names)


def test_estimators_for_dask_need_no_dask_until_they_fit():
    code = (
        "import sys; from widemargin.distributed import DaskDCSVC; DaskDCSVC(); "
        "print('dask' in sys.modules, 'distributed' in sys.modules)"
    )
    assert run_python(code).split() == ["False", "False"]


def test_public_names_resolve():
    for name in widemargin.__all__:
        assert getattr(widemargin, name) is not None
    assert set(widemargin.__all__) <= set(dir(widemargin))
    with pytest.raises(AttributeError, match="nothing"):
        _ = widemargin.nothing


def imported_modules(path):
    """Modules of the package that a file imports, as parts of their names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("widemargin"):
            parts = node.module.split(".")[1:]
            for alias in node.names:
                inside = SOURCE.joinpath(*parts, alias.name)
                is_module = inside.is_dir() or inside.with_suffix(".py").exists()
                yield [*parts, alias.name] if is_module else (parts or ["__init__"])


def rank_of(parts):
    return RANK.get(".".join(parts), RANK.get(parts[0]))


def module_parts(path):
    return list(path.relative_to(SOURCE).with_suffix("").parts)


EVERY_FILE = pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)


@EVERY_FILE
def test_imports_between_folders_point_to_the_left(path):
    parts = module_parts(path)
    if parts == ["__init__"]:
        return
    for target in imported_modules(path):
        assert rank_of(target) <= rank_of(parts), f"{'.'.join(parts)} imports {'.'.join(target)}"


def tier_of(folder, name):
    if name.endswith("_fast"):
        return 0
    if name in MODELS[folder]:
        return 2
    if name in REPRESENTERS.get(folder, []):
        return 3
    return 4 if name in ESTIMATORS[folder] else 1


@EVERY_FILE
def test_imports_inside_a_folder_follow_the_data(path):
    folder, *name = module_parts(path)
    if folder not in FAMILIES or name == ["__init__"]:
        return
    for target in imported_modules(path):
        if target[0] == folder and len(target) > 1:
            assert tier_of(folder, target[1]) <= tier_of(folder, name[0]), (
                f"{name} imports {target}"
            )


def assert_imports_no_solver(folder, name, more=()):
    for target in imported_modules(SOURCE / folder / f"{name}.py"):
        if target[0] in FAMILIES and len(target) > 1:
            known = [*MODELS[target[0]], *REPRESENTATIONS.get(target[0], []), *more]
            allowed = target[1].endswith("_fast") or target[1] in known
            assert allowed, f"{folder}.{name} imports {'.'.join(target)}"


@pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder in FAMILIES for name in MODELS[folder]]
)
def test_a_model_imports_no_solver(folder, name):
    assert_imports_no_solver(folder, name)


@pytest.mark.parametrize(
    ("folder", "name"), [(folder, name) for folder, names in REPRESENTERS.items() for name in names]
)
def test_a_representation_imports_no_solver(folder, name):
    assert_imports_no_solver(folder, name, REPRESENTERS[folder])


@pytest.mark.parametrize("folder", FAMILIES)
def test_an_estimator_does_not_run_compiled_loops(folder):
    for name in ESTIMATORS[folder]:
        for target in imported_modules(SOURCE / folder / f"{name}.py"):
            assert not target[-1].endswith("_fast"), f"{folder}.{name} imports {'.'.join(target)}"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*_fast.py")), ids=lambda p: p.stem)
def test_compiled_functions_call_none_in_another_file(path):
    """The disk cache looks at one file only, and would serve stale code of the other.

    Pair moves compute kernel rows when they first need them, with the loops that make tiles: a copy
    of these would be worse than the need to clear the cache after changing them.
    """
    known = [("pair_moves_fast", "tiles_fast")]
    for target in imported_modules(path):
        is_fine = not target[-1].endswith("_fast") or (path.stem, target[-1]) in known
        assert is_fine, f"{path.stem} imports {'.'.join(target)}"


def own_classes(cls):
    return [above for above in cls.__mro__ if above.__module__.startswith("widemargin")]


@EVERY_ESTIMATOR
def test_an_estimator_stands_on_no_ladder(cls):
    """At most two classes of our own are above an estimator, and none of them is an estimator."""
    above = own_classes(cls)[1:]
    bases = [base.__name__ for base in above if not base.__name__.endswith("Mixin")]
    assert len(bases) <= 2, f"{cls.__name__} stands on {bases}"
    assert not set(above) & set(ESTIMATOR_CLASSES)


@EVERY_ESTIMATOR
def test_a_mixin_is_no_constructor(cls):
    """Parameters are declared by the estimator alone, where scikit-learn looks for them."""
    assert "__init__" in vars(cls)
    assert not [above for above in own_classes(cls)[1:] if "__init__" in vars(above)]


@EVERY_ESTIMATOR
def test_fits_are_repeatable_by_default(cls):
    assert inspect.signature(cls).parameters["random_state"].default == 0


def test_the_same_solver_has_the_same_name():
    """Dual coordinate descent is ``"dual"``, stochastic descent ``"sgd"``, Newton's ``"primal"``."""
    declared = {
        cls.__name__: set(re.findall(r'"(\w+)"', match[1]))
        for cls in ESTIMATOR_CLASSES
        if (match := re.search(r"^    solver : \{(.*)\}", cls.__doc__, re.MULTILINE))
    }
    assert len(declared) >= 3
    assert set.union(*declared.values()) == {"auto", "dual", "sgd", "primal"}


def test_kernels_names_what_users_need():
    names = set(kernels.__all__)
    assert {cls.__name__ for cls in kernels.KERNELS.values()} | {"Kernel"} <= names
    public = [getattr(kernels, name) for name in names]
    assert all(inspect.isclass(found) and issubclass(found, kernels.Kernel) for found in public)
