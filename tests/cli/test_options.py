"""What the options of the command line accept, and what they say to what they do not."""

from __future__ import annotations

import argparse

import pytest

from resilient_bridge import presets
from tests.internals.cli import options


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "x", "", "1e999"])
def test_a_duration_is_a_finite_number_above_zero(text):
    """What is no number above 0 is refused, and the text says what was wanted."""
    with pytest.raises(argparse.ArgumentTypeError, match="a number above 0 expected, got"):
        options.seconds(text)
    assert options.seconds("0.5") == 0.5


def test_a_duration_has_an_end():
    """A day is the longest."""
    with pytest.raises(argparse.ArgumentTypeError, match="at most 86400 seconds expected"):
        options.seconds("86401")


def test_a_plan_is_a_number_or_names():
    """`--faults 3` and `--faults cut,fin` are plans; other words, and nothing, are refused with the list of names."""
    assert options.fault_plan("3") == 3
    assert options.fault_plan("0") == 0
    assert options.fault_plan("cut, fin,cut") == ("cut", "fin", "cut")
    for text in ("", ",", "cut,flood", "1001", "-1"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected, got"):
            options.fault_plan(text)


def test_the_names_of_presets_exist():
    """The words that the options accept without importing anything are those that the package has."""
    assert set(options.PRESETS) == set(presets.__all__) - {"BridgePolicy"}


def test_a_token_is_read_from_the_environment_and_never_shown(monkeypatch):
    """A variable that is not set, or empty, is an error that names the variable; without a name there is no token."""
    monkeypatch.setenv("RB_TOKEN", "s3cret")
    monkeypatch.setenv("RB_EMPTY", "")
    assert options.token_from("RB_TOKEN") == "s3cret"
    assert options.token_from(None) is None
    for name in ("RB_EMPTY", "RB_NONE"):
        with pytest.raises(LookupError, match=name):
            options.token_from(name)


def test_a_whole_number_has_two_ends():
    """From the least to the most, in plain digits; anything else is refused, whatever its length, with both ends named."""
    read = options.whole(-2, 10)
    assert [read(text) for text in ("-2", "0", " 7 ", "10")] == [-2, 0, 7, 10]
    for text in ("-3", "11", "1.0", "1e1", "", "x", "--1", "0x1", "9" * 5_000):
        with pytest.raises(
            argparse.ArgumentTypeError, match="a whole number from -2 to 10 expected, got"
        ) as caught:
            read(text)
        assert len(str(caught.value)) < 100


def test_a_picture_is_known_by_its_ending():
    """`.svg` and `.txt`, in any case."""
    assert options.picture_path("a/b.SVG") == "a/b.SVG"
    assert options.picture_path("c.txt") == "c.txt"
    for text in ("a.png", "svg", ""):
        with pytest.raises(argparse.ArgumentTypeError, match=r"ends in \.svg or \.txt expected"):
            options.picture_path(text)
