"""Parameters that model files may hold: those that a fit would take."""

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from widemargin.additive.lr_svc import LRSVC
from widemargin.additive.power_mean_svc import PowerMeanSVC
from widemargin.arguments import check_integer
from widemargin.exact.search_base import KernelSearch
from widemargin.exact.search_grid import check_values, list_coef0, list_degrees
from widemargin.exact.search_scoring import resolve_scorer
from widemargin.kernel_arguments import resolve_kernel
from widemargin.memory import parse_bytes
from widemargin.parallel import count_threads
from widemargin.problem import Problem
from widemargin.validation import validate_class_weights

#: Characters of a value that an error repeats: a file may hold texts of any length.
SHOWN = 80
#: Stands for the training data where only parameters are looked at.
_ANY_DATA = Problem(
    X=np.zeros((1, 1)), labels=np.zeros(1, np.intp), classes=np.zeros(1), sample_weights=np.ones(1),
    weights=np.ones(1), kept=np.zeros(1, np.intp),
)  # fmt: skip


def check_params(model: Any, classes: NDArray[Any] | None) -> None:
    """Raise ValueError, naming the parameter, for one that a fit to these classes would refuse.

    ``classes`` is None for an estimator without classes, which has no class weights.
    """
    model._check_params()
    params = model.get_params(deep=False)
    if "memory" in params:
        parse_bytes(params["memory"])
    if "gamma" in params:
        resolve_kernel(model.kernel, model.gamma, model.degree, model.coef0, _ANY_DATA)
    if isinstance(model, KernelSearch):
        _check_search(model)
    if isinstance(params.get("n_basis"), str) and params["n_basis"] != "auto":
        parse_bytes(params["n_basis"], name="n_basis")
    if isinstance(model, PowerMeanSVC):
        model._scalar_kernel()
    if isinstance(model, LRSVC) and not (isinstance(model.anchors, str) or np.ndim(model.anchors)):
        raise ValueError(f"anchors: give 'kmeans', 'random' or an array, got {model.anchors!r:.80}")
    count_threads(params["n_jobs"])
    _name_errors("random_state", check_random_state, params["random_state"])
    if classes is not None:
        _name_errors(
            "class_weight", validate_class_weights, params["class_weight"], classes, classes
        )


def _check_search(model: Any) -> None:
    """Raise ValueError for a parameter of a search that a fit would refuse, or no file can hold."""
    degree, coef0 = list_degrees(model.degree)[0], list_coef0(model.coef0)[0]
    resolve_kernel(model.kernel, 1.0, degree, coef0, _ANY_DATA)
    for name, value in model.get_params(deep=False).items():
        is_word = name == "gammas" and isinstance(value, str) and value in ("scale", "auto")
        if name in ("Cs", "gammas", "epsilons") and not is_word:
            check_values(name, value, zero=name == "epsilons")
    if model.cv is not None and not isinstance(model.cv, Integral):
        raise ValueError(
            f"cv: a model file holds a number of folds, not {model.cv!r:.80}; call "
            "set_params(cv=5) before saving, which changes nothing about the fitted model"
        )
    if model.cv is not None:
        check_integer("cv", model.cv, low=2)
    if callable(model.scoring):
        raise ValueError(
            f"scoring: a model file holds the name of a scorer, not {model.scoring!r:.80}; call "
            "set_params(scoring=None) before saving"
        )
    _name_errors("scoring", resolve_scorer, model, model.scoring)


def _name_errors(name: str, check: Callable[..., object], *args: Any) -> None:
    try:
        check(*args)
    except (TypeError, ValueError) as error:
        # scikit-learn repeats all labels in its errors.
        raise ValueError(f"{name}: {error!s:.400}") from error


def shorten_values(message: str, values: Iterable[Any]) -> str:
    """Return the message with every long value that it repeats cut to `SHOWN` characters."""
    for value in values:
        for text in (repr(value), str(value)):
            if len(text) > SHOWN:
                message = message.replace(text, f"{text[:SHOWN]}...")
    return message
