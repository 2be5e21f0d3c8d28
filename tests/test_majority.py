"""Whether a fit is better than the largest class: on all rows, and on a sample of them."""

import numpy as np
import pytest

from widemargin.majority import RunningVote, constant_intercept, judged_rows
from widemargin.problem import Problem


def make_problem(labels, weights=None):
    n, classes = len(labels), np.unique(labels)
    weights = np.ones(n) if weights is None else weights
    return Problem(np.arange(n)[:, None], labels, classes, weights, weights, np.arange(n))


def vote_on(problem, found):
    """The vote for given classes of all rows; ``problem`` may be a sample of these rows."""
    vote = RunningVote(problem)
    of_rows = found[problem.X[:, 0]]
    if len(problem.classes) == 2:
        vote.add(np.where(of_rows == 1, 1.0, -1.0)[None])
    else:
        vote.add((of_rows == np.arange(len(problem.classes))[:, None]).astype(float))
    return vote


@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_sample_seldom_favours_a_model_that_is_worse(n_classes):
    """Its share of right rows is one in a hundred less than that of the largest class."""
    n_plain = n_clear = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        found = np.where(rng.random(30_000) < 0.4, rng.integers(1, n_classes, 30_000), 0)
        labels = np.where(rng.random(30_000) < 0.4875, found, 0)
        problem = make_problem(labels)
        assert not vote_on(problem, found).beats_majority()
        vote = vote_on(judged_rows(problem), found)
        n_plain += vote.beats_majority()
        n_clear += vote.beats_majority(of_sample=True)
    assert n_plain > 3
    assert n_clear == 0


def test_a_sample_favours_models_that_are_better_or_name_the_largest_class():
    rng = np.random.default_rng(0)
    labels = (rng.random(30_000) < 0.05).astype(np.intp)
    found = np.where(rng.random(30_000) < 0.3, labels, 0)
    problem = judged_rows(make_problem(labels))
    assert vote_on(problem, found).beats_majority(of_sample=True)
    assert vote_on(problem, np.zeros_like(found)).beats_majority(of_sample=True)


def test_weights_decide_which_class_is_the_largest():
    labels = np.array([0, 0, 0, 1, 1])
    problem = make_problem(labels, np.array([1.0, 1.0, 1.0, 2.0, 2.0]))
    assert constant_intercept(problem) == [1.0]
    assert vote_on(problem, np.ones(5, int)).beats_majority()
    assert not vote_on(problem, np.zeros(5, int)).beats_majority()
