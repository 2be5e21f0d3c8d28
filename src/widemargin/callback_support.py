"""Callbacks of scikit-learn, such as progress bars; they exist from scikit-learn 1.9 on.

`sklearn.callback` calls the whole fit a task, and each round of a solver a subtask. Older versions of
scikit-learn do not have `set_callbacks`, and then nothing here has an effect.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An empty class where scikit-learn has no callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method itself where scikit-learn has no callbacks."""
        return method


__all__ = ["CallbackSupportMixin", "has_callbacks", "report_fit", "report_rounds"]


def has_callbacks(estimator: Any) -> bool:
    """Return whether the user or a meta-estimator has called `set_callbacks`."""
    return hasattr(estimator, "_skl_callbacks")


def report_fit(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that fits, and calls callbacks before and after it."""
    call = signature(fit)

    @with_callbacks
    def reported(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = call.bind(self, *args, **kwargs).arguments
        weights = given.get("sample_weight")
        task = {
            "estimator": self,
            "X": given["X"],
            "y": given.get("y"),
            "metadata": None if weights is None else {"sample_weight": weights},
        }
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(**task)
        fitted = fit(self, *args, **kwargs)
        # The estimator has all its fitted attributes by now, so that no others are needed.
        context.call_on_fit_task_end(**task, reconstruction_attributes={})
        return fitted

    return reported


def report_rounds(estimator: Any) -> Callable[..., None] | None:
    """Return a function that calls callbacks after a round of a solver; None if there are none."""
    context = getattr(estimator, "_callback_fit_ctx", None)
    if context is None:
        return None

    def report(*_state: Any) -> None:
        task = context.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=estimator)
        task.call_on_fit_task_end(estimator=estimator)

    return report
