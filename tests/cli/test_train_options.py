"""The options of ``widemargin train`` and the parameters of the estimators."""

import argparse

import pytest

import widemargin
from widemargin.cli.options import ESTIMATORS
from widemargin.cli.train_options import add_parameters, take_parameters


@pytest.fixture(scope="module")
def parser():
    parser = argparse.ArgumentParser()
    add_parameters(parser)
    return parser


def test_every_simple_parameter_has_an_option(parser):
    known = set(vars(parser.parse_args([])))
    for name in ESTIMATORS:
        params = getattr(widemargin, name)().get_params()
        simple = {
            key for key, value in params.items() if isinstance(value, bool | int | float | str)
        }
        left_out = {"verbose", "warm_start", "anchors", "shrinking", "cache_size", "probability"}
        assert simple - known <= left_out, name


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("--C 2", "C", 2.0),
        ("--max-iter 7", "max_iter", 7),
        ("--max_time 1.5", "max_time", 1.5),
        ("--gamma scale", "gamma", "scale"),
        ("--gamma 1", "gamma", 1.0),
        ("--rank auto", "rank", "auto"),
        ("--rank 3", "rank", 3),
        ("--n-basis 0.1", "n_basis", 0.1),
        ("--n-basis 10", "n_basis", 10),
        ("--no-adaptive", "adaptive", False),
        ("--random-state 4", "random_state", 4),
        ("--class-weight balanced", "class_weight", "balanced"),
    ],
)
def test_values_have_the_types_of_the_parameters(parser, text, name, value):
    found = getattr(parser.parse_args(text.split()), name)
    assert found == value
    assert type(found) is type(value)


def test_what_is_no_number_is_refused(parser, capsys):
    with pytest.raises(SystemExit):
        parser.parse_args(["--max-iter", "1.5"])
    assert "argument --max-iter/--max_iter: invalid int value: '1.5'" in capsys.readouterr().err


def test_parameters_of_another_estimator_are_refused(parser):
    args = parser.parse_args(["--C", "3", "--lut"])
    assert take_parameters(args, "PowerMeanSVC") == {"C": 3.0, "lut": True}
    with pytest.raises(ValueError, match=r"^--lut: KernelSVC has no .* --estimator PowerMeanSVC"):
        take_parameters(args, "KernelSVC")


def test_help_names_words_and_estimators(parser):
    text = " ".join(parser.format_help().split())
    assert "early, naive, bcm; of DCSVC" in text
