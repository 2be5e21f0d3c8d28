"""What has to be measured for the tables and figures, and what fits a budget."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import ModuleType

from benchmarks import additive, divide, projected
from benchmarks.harness import Record
from benchmarks.papers.cells import Task
from benchmarks.papers.methods import GROUPS, Options
from benchmarks.papers.sets import SETS


@dataclass(frozen=True)
class Budget:
    """How much time there is.

    Attributes
    ----------
    seconds : float
        After which no fit is begun.
    limit_seconds : float
        After which a fit is stopped.
    rows : int
        Training rows of a data set at most.
    """

    seconds: float
    limit_seconds: float
    rows: int


BUDGETS = {
    "10m": Budget(600.0, 10.0, 5_000),
    "1h": Budget(3_600.0, 60.0, 50_000),
    "full": Budget(float("inf"), 8 * 3_600.0, 10_000_000),
}
#: Sets that are too wide for as many rows as the others in an hour.
FEWER_ROWS = {"1h": {"mnist": 20_000}}


#: Family of experiments -> modules of the estimators that it measures.
FAMILY_MODULES = {
    divide.__name__: ("divide.dc_svc",),
    additive.__name__: (
        "additive.additive_svc", "additive.intersection_svc", "additive.power_mean_svc",
    ),
    projected.__name__: ("projected.projected_svc", "baselines.spsvm"),
}  # fmt: skip


@dataclass(frozen=True)
class Study:
    """An experiment of a family that shows a table or figure, and what it took here."""

    family: ModuleType
    name: str
    seconds: float

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules of the estimators of ours that the family measures."""
        return FAMILY_MODULES[self.family.__name__]

    def is_done(self, measurements: list[Record]) -> bool:
        return any(m["experiment"] == self.name for m in measurements)


#: Large sets of the tables of DC-SVM and of the figures of error against time, in order.
LARGE_SETS = ("ijcnn1", "covtype", "census", "mnist", "kddcup99", "cifar")
#: Settings of the tables of DC-SVM, by the names there. The algorithm is the paper's: it solves 256
#: clusters and then 64 before early prediction.
DCSVM_SETTINGS: dict[str, tuple[str, Options]] = {
    "DC-SVM (early)": ("DC-SVM", {"stop_level": 3}),
    "DC-SVM": ("DC-SVM", {"stop_level": 0}),
    "LIBSVM": ("LIBSVM", {}),
    "LaSVM": ("LaSVM", {"n_epochs": 1}),
    "CascadeSVM": ("CascadeSVM", {"max_rounds": 1}),
    "LLSVM": ("LLSVM", {"n_landmarks": 3000}),
    "FastFood": ("FastFood", {"n_features": 3000}),
    "SpSVM": ("SpSVM", {"n_basis": 200}),
    "LTPU": ("LTPU", {"n_units": 3000}),
}
#: What the defaults of the library reach in the place of a method of the paper.
DEFAULT_SETTINGS: dict[str, tuple[str, Options]] = {
    "DC-SVM (early)": ("DCSVC", {"stop_level": 3}),
    "DC-SVM": ("DCSVC", {"stop_level": 0}),
}
#: Table -> data that are not to be had -> further data in their place, and methods that end on these.
SUBSTITUTES = {"dcsvm-table-4": {"mnist8m": ("mnist-deformed", ("DC-SVM (early)",))}}
#: Powers of two of C and gamma in Tables 5 and 7 to 10 of DC-SVM.
GRID_POWERS = (-10, -6, 1, 6, 10)
#: Data and methods of these tables, but for webspam, whose data are not to be had.
GRID_DATA = {"dcsvm-table-7": "ijcnn1", "dcsvm-table-9": "covtype", "dcsvm-table-10": "census"}
GRID_METHODS = {
    "ijcnn1": ("DC-SVM (early)", "DC-SVM", "LIBSVM", "LaSVM"),
    "covtype": ("DC-SVM (early)", "DC-SVM", "LIBSVM"),
    "census": ("DC-SVM (early)", "DC-SVM", "LIBSVM"),
}
#: Rows of a grid in an hour at most: most of its pairs are far from the best.
GRID_ROWS = {"1h": {"covtype": 10_000, "census": 10_000}}
PMSVM_METHODS = (
    "PmSVM-LUT-chi2", "PmSVM-chi2", "fm-chi2", "PmSVM-LUT-HI", "PmSVM-HI", "fm-HI", "LIBLINEAR",
    "LIBLINEAR (C=0.01)",
)  # fmt: skip
#: Methods that see bins in the tables of ICD, and methods that see the features as they are.
BIN_METHODS = ("ICD", "LIBSVM+HIK")
VALUE_METHODS = ("LIBLINEAR", "LIBSVM+LIN", "LIBSVM+RBF")
ICD_METHODS = (*BIN_METHODS, *VALUE_METHODS)


def divided(name: str, seconds: float) -> Study:
    return Study(divide, name, seconds)


#: Experiments behind the tables of PSVM.
SPARSE_STUDIES = tuple(
    Study(projected, name, seconds)
    for name, seconds in (
        ("sets", 10.0),
        ("published", 60.0),
        ("divisions", 120.0),
        ("variants", 60.0),
    )
)
#: Experiments behind the tables and figures that are not a method on a data set.
STUDIES: dict[str, tuple[Study, ...]] = {
    "dcsvm-table-1": (divided("combine-published", 900.0),),
    "dcsvm-figure-1": (divided("bound", 60.0),),
    "dcsvm-figure-2": (divided("support", 120.0),),
    "dcsvm-figure-3": (divided("levels", 60.0),),
    "dcsvm-figure-4": (divided("poly", 60.0),),
    "pmsvm-table-5": (Study(additive, "traffic", 60.0),),
    "pmsvm-figure-1": (Study(additive, "approximation", 20.0),),
    "pmsvm-figure-2": (Study(additive, "approximation", 20.0),),
    "pmsvm-figure-3": (Study(additive, "power", 120.0),),
    "pmsvm-figure-4": (Study(additive, "approximation", 20.0),),
    "pmsvm-statement-1": (Study(additive, "lut", 60.0),),
    "pmsvm-statement-2": (Study(additive, "sgd", 60.0),),
    "icd-figure-1": (Study(additive, "cost", 300.0),),
    "icd-statement-1": (Study(additive, "bins", 120.0),),
    "psvm-table-2": SPARSE_STUDIES,
    "psvm-table-3": SPARSE_STUDIES,
    "psvm-table-4": SPARSE_STUDIES,
}


def make_tasks(exhibit: str, budget: str) -> list[Task]:
    """Fits that a table or figure needs."""
    if exhibit in ("dcsvm-table-3", "dcsvm-table-4"):
        wanted = ("ijcnn1", "cifar", "census", "covtype", "kddcup99", "mnist")
        names = wanted[:4] if exhibit.endswith("3") else wanted[4:]
        return [
            make_task(budget, data, "kernel", method, (options,))
            for data in names
            for method, options in (*DCSVM_SETTINGS.values(), *DEFAULT_SETTINGS.values())
        ] + [
            make_task(budget, data, "kernel", settings[method][0], settings[method][1:])
            for data, methods in SUBSTITUTES.get(exhibit, {}).values()
            for method in methods
            for settings in (DCSVM_SETTINGS, DEFAULT_SETTINGS)
        ]
    if exhibit == "dcsvm-table-6":
        method, options = DCSVM_SETTINGS["DC-SVM"]
        return [make_task(budget, "covtype", "kernel", method, (options,))]
    if exhibit == "dcsvm-table-5":
        return [task for grid in GRID_DATA for task in make_tasks(grid, budget)]
    if exhibit in GRID_DATA:
        return make_grid(GRID_DATA[exhibit], budget)
    if exhibit == "error-time":
        return [
            make_task(budget, data, "kernel", name, tuple(method.settings()))
            for data in LARGE_SETS
            for name, method in GROUPS["kernel"].items()
        ]
    return [
        make_task(budget, data, "additive", method, ({},))
        for data, methods in ADDITIVE_TABLES.get(exhibit, {}).items()
        for method in methods
    ]


def make_grid(data: str, budget: str) -> list[Task]:
    """Fits of all methods of a table at all pairs of C and gamma."""
    rows = GRID_ROWS.get(budget, {}).get(data, SETS[data].rows)
    return [
        make_task(budget, data, "kernel", method, (at_powers(options, C, gamma),), rows)
        for settings in (DCSVM_SETTINGS, DEFAULT_SETTINGS)
        for method, options in (settings[name] for name in GRID_METHODS[data] if name in settings)
        for C in GRID_POWERS
        for gamma in GRID_POWERS
    ]


def at_powers(options: Options, C: int, gamma: int) -> Options:
    """A setting with powers of two as C and gamma."""
    return options | {"C": 2.0**C, "gamma": 2.0**gamma}


#: Data and methods of the tables of PmSVM and ICD, as far as the data can be had.
ADDITIVE_TABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "pmsvm-table-3": {"scene15": PMSVM_METHODS, "caltech101": PMSVM_METHODS},
    "pmsvm-table-4": {"scene15": PMSVM_METHODS, "caltech101": PMSVM_METHODS},
    "icd-table-1": {"caltech101": ("ICD", "PWLSGD", "LIBLINEAR", "SIKMA")},
    "icd-table-3": {"scene15": ICD_METHODS, "caltech101": ICD_METHODS},
    "icd-table-5": {
        "ijcnn1-scaled": BIN_METHODS,
        "ijcnn1-original": VALUE_METHODS,
        "shuttle": ICD_METHODS,
    },
}
EXHIBITS = (
    "dcsvm-table-3", "dcsvm-table-4", "dcsvm-table-5", "dcsvm-table-6", *GRID_DATA, *ADDITIVE_TABLES,
    "error-time", *STUDIES,
)  # fmt: skip


def make_task(
    budget: str, data: str, group: str, method: str, settings: tuple[Options, ...],
    rows: int | None = None,
) -> Task:  # fmt: skip
    """A task with as many rows as the budget allows, and no more than are asked for."""
    most = FEWER_ROWS.get(budget, {}).get(data, BUDGETS[budget].rows)
    return Task(data, min(most, rows or SETS[data].rows), group, method, settings)


def merge_tasks(tasks: Iterable[Task]) -> list[Task]:
    """One task for each method and data set, with all settings asked for, the fastest first.

    A setting with a C and gamma of its own stays apart: that it is slow tells nothing about others.
    """
    merged: dict[str, Task] = {}
    for task in tasks:
        order = GROUPS[task.group][task.method].settings()
        if any(options not in order for options in task.settings):
            merged[task.key(task.settings[0])] = task
            continue
        known = merged.get(task.key({}), replace(task, settings=()))
        asked = [*known.settings, *task.settings]
        merged[task.key({})] = replace(task, settings=tuple(o for o in order if o in asked))
    return list(merged.values())


def leave_out_done(task: Task, measured: list[Record], limit_seconds: float) -> Task:
    """Leave out the settings on file, but for those that had less time than there is now."""
    done = {m["key"] for m in measured if "fit_s" in m or m["limit_s"] >= limit_seconds}
    return replace(task, settings=tuple(o for o in task.settings if task.key(o) not in done))


def select_exhibits(paper: str | None, table: str | None) -> list[str]:
    """Names of the tables and figures of a paper, or of one: ``"3"`` or ``"figure-1"``."""
    label = f"table-{table}" if table and table.isdigit() else table
    found = [
        name
        for name in EXHIBITS
        if (paper is None or name.startswith(f"{paper}-"))
        and (label is None or name.endswith(f"-{label}") or name == label)
    ]
    if not found:
        raise ValueError(f"no table or figure {table!r} of {paper or 'any paper'} is measured here")
    return found
