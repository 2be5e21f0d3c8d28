"""scikit-learn's ``SVC`` in a process of its own, which can be stopped."""

from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from sklearn.svm import SVC

from widemargin.demo_report import Row
from widemargin.progress import Bar

NAME = "scikit-learn SVC"
#: Megabytes of kernel values that ``SVC`` may keep; its own default is 200.
CACHE_MEGABYTES = 1000
REFRESH_SECONDS = 0.1


def fit_svc(
    params: dict[str, Any], X: Any, y: Any, X_test: Any, y_test: Any, max_seconds: float
) -> Row:
    """Fit ``SVC``, and stop it after ``max_seconds``.

    A fit of ``SVC`` has no time limit and cannot be interrupted from its own process.
    """
    # A forked process would inherit the threads of the compiled loops in an unknown state.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    arguments = (theirs, params, X, y, X_test, y_test)
    process = context.Process(target=_fit_and_send, args=arguments, daemon=True)
    process.start()
    theirs.close()
    try:
        ours.recv()  # The process has loaded scikit-learn and the data.
        row = _await(ours, max_seconds)
    except EOFError:
        raise OSError("the process that runs SVC ended without a result") from None
    finally:
        process.kill()
        process.join()
    return row


def _fit_and_send(sender: Connection, params: dict[str, Any], *data: Any) -> None:
    X, y, X_test, y_test = data
    model = SVC(**params, cache_size=CACHE_MEGABYTES)
    sender.send("ready")
    began = perf_counter()
    model.fit(X, y)
    fitted = perf_counter()
    sender.send(None)
    accuracy = float(model.score(X_test, y_test))
    seconds = perf_counter() - fitted
    sender.send(Row(NAME, fitted - began, seconds, accuracy, len(model.support_)))


def _await(receiver: Connection, max_seconds: float) -> Row:
    bar = Bar(NAME)
    while not receiver.poll(REFRESH_SECONDS):
        bar.show(bar.seconds() / max_seconds, f"stops at {max_seconds:g} s")
        if bar.seconds() > max_seconds:
            bar.close("stopped")
            return Row(NAME, max_seconds, is_stopped=True)
    receiver.recv()  # The fit has ended.
    bar.close()
    row: Row = receiver.recv()
    return row
