"""A plain statement about each measured row: reproduced, better, worse, or not comparable and why."""

from math import sqrt

#: Accuracies agree if they differ by no more standard errors of the test set.
STANDARD_ERRORS = 2.0
#: Methods of DC-SVM's tables that solve another problem here than in the paper, and what differs.
OTHER_PROBLEMS = {"LIBSVM": "an intercept here, none in the paper"}
#: Speeds agree if their ratio is no larger.
SPEED_FACTOR = 1.5


def judge_accuracy(here: float, paper: float, n_test: int, decimals: int = 2) -> str:
    """Compare accuracies in percent, of which the paper prints so many decimals."""
    share = min(max(paper / 100.0, 0.0), 1.0)
    error = 100.0 * sqrt(share * (1.0 - share) / n_test)
    rounding = 0.5 * 10.0**-decimals
    if abs(here - paper) <= STANDARD_ERRORS * error + rounding:
        return "reproduced"
    return "better" if here > paper else "worse"


def judge_speed(here: float, paper: float) -> str:
    """Compare how many times faster than a reference a method is."""
    if max(here / paper, paper / here) <= SPEED_FACTOR:
        return "reproduced"
    return "better" if here > paper else "worse"


def find_difference(differs: str, rows: int, paper_rows: int | None) -> str:
    """Why figures cannot be compared, empty if they can."""
    if differs:
        return differs
    if paper_rows is not None and rows < paper_rows:
        return f"{rows:,} of {paper_rows:,} rows"
    return ""
