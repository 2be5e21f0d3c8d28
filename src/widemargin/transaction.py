"""Fits that replace the whole model or nothing of it."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from widemargin.callback_support import has_callbacks, report_fit

P = ParamSpec("P")
T = TypeVar("T")


def all_or_nothing(fit: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Decorate a method that fits an estimator.

    An error, a callback that raises, or Ctrl-C leaves the estimator exactly as it was before the
    call. A refused fit would otherwise leave the old model beside the new ``n_features_in_``, and
    compiled loops would read beyond the rows they are given. Methods that fit must therefore assign
    new arrays to attributes and not write into the old ones.

    The method named ``fit`` also calls the callbacks of scikit-learn, if the estimator has any.
    """
    reported = report_fit(fit) if fit.__name__ == "fit" else fit

    @wraps(fit)
    def guarded(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        before = dict(vars(self))
        try:
            # Without callbacks there is no further frame, so that warnings name the user's line.
            return (reported if has_callbacks(self) else fit)(self, *args, **kwargs)
        except BaseException:
            # One assignment, so that a second Ctrl-C cannot leave half of it.
            self.__dict__ = before
            raise

    return guarded


def call_inside(fit: Callable[..., T], *args: Any) -> T:
    """Call a bound method that `all_or_nothing` decorates from another such method.

    The caller is the transaction, and reports to callbacks.
    """
    method: Any = fit
    result: T = method.__wrapped__(method.__self__, *args)
    return result
