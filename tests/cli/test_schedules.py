"""Schedules as somebody types them: what is read, and that nothing of it is ever run."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge import Backoff, presets
from tests.internals.cli import read_schedule
from tests.rows import each_row


@each_row(
    ("text", "wanted"),
    [
        ("decorrelated(1)", Backoff.decorrelated(1)),
        ("Backoff.constant(2.5)", Backoff.constant(2.5)),
        ("rb.Backoff.linear(1)", Backoff.linear(1)),
        ("  exponential(0.5, cap=20, jitter='full') ", Backoff.exponential(0.5, cap=20)),
        ('exponential(1, factor=3, jitter="none")', Backoff.exponential(1, factor=3, jitter="none")),
        ("steps(1, 2, 5, then=exponential(10, cap=60))", Backoff.steps(1, 2, 5, then=Backoff.exponential(10, cap=60))),
        ("steps(1, then=steps(2, then=Backoff.constant(3)))", Backoff.steps(1, then=Backoff.steps(2, then=Backoff.constant(3)))),
        ("steps(1, then=None)", Backoff.steps(1)),
        ("steps(1,\n  2)", Backoff.steps(1, 2)),
        ("2s", Backoff.constant(2)),
        (" 1h 30m ", Backoff.constant(5400)),
        ("2", Backoff.constant(2)),
        ("exponential(1s, cap=30s)", Backoff.exponential(1)),
        ("decorrelated(500ms, cap=1m30s)", Backoff.decorrelated(0.5, cap=90)),
        ("steps(1, 2.5S, then=linear(250us,cap=1h))", Backoff.steps(1, 2.5, then=Backoff.linear(0.00025, cap=3600))),
    ],
)  # fmt: skip
def test_a_schedule_is_written_as_in_code(text, wanted):
    """With or without the prefix, all five constructors, one within the other."""
    assert read_schedule(text)[0] == Backoff.parse(text) == wanted
    assert read_schedule(text) == (wanted, {})


@pytest.mark.parametrize(
    "schedule",
    [
        getattr(presets, name).reconnect.backoff
        for name in presets.__all__
        if name != "BridgePolicy"
    ],
)
def test_what_a_schedule_prints_can_be_typed(schedule):
    """The repr, which is what error texts and logs show, is read back."""
    assert read_schedule(repr(schedule))[0] == schedule


def test_a_name_is_the_schedule_of_its_specification():
    """A preset is its waits after a loss, with what it does after some failures; one without a link of its own, those of its calls."""
    assert read_schedule("default") == (rb.bridge.Reconnect().backoff, {})
    assert read_schedule("openviber")[0].delays(5) == [1, 2, 4, 8, 16]
    schedule, others = read_schedule("recursor")
    assert schedule == Backoff.steps(1, 2, 5, 10, 30)
    assert others["CONN_TIMEOUT"].delays(5) == [1, 2, 5, 10, 20]
    assert read_schedule("gasoline")[0].delays(8) == [0, 1, 2, 4, 8, 30, 30, 30]
    assert read_schedule("ccsetup") == (Backoff.steps(2, 4, 8), {})
    assert read_schedule("stdiobus") == (rb.Retry().backoff, {})


@each_row(
    ("text", "word"),
    [
        ("", "a Backoff as in code expected"),
        ("fast", "one of ccsetup, default, gasoline, openviber, recursor, stdiobus expected, got 'fast'"),
        ("BridgePolicy", "one of ccsetup"),
        ("constant", "a call of"),
        ("expnential(1)", "got 'expnential(1)', did you mean exponential?"),
        ("Backoff.Linear(1)", "did you mean linear?"),
        ("steps(1, then=step(2))", "did you mean steps?"),
        ("Backoff(1)", "a call of"),
        ("other.steps(1)", "a call of"),
        ("Backoff.next(1)", "a call of"),
        ("Backoff.__init__(1)", "a call of"),
        ("print(1)", "a call of"),
        ("__import__('os').system('true')", "a call of"),
        ("[steps(1)][0]", "a call of"),
        ("steps(1) or 2", "a call of"),
        ("(lambda: steps(1))()", "a call of"),
        ("steps(1)(2)", "a call of"),
        ("steps(1", "never closed"),
        ("steps(1); steps(2)", "as in code expected"),
        ("x = steps(1)", "as in code expected"),
        ("steps(a=1, a=2)", "repeated"),
        ("steps(print(1))", "a call of"),
        ("steps(open)", "a number, a word in quotes or a Backoff expected, got 'open'"),
        ("steps(1 + 1)", "a number, a word"),
        ("steps(2 ** 9999)", "a number, a word"),
        ("steps([1, 2])", "a number, a word"),
        ("steps(*[1, 2])", "a number, a word"),
        ("steps(f'{1}')", "a number, a word"),
        ("steps(True)", "a number, a word"),
        ("steps(1j)", "a number, a word"),
        ("steps(b'1')", "a number, a word"),
        ("steps(...)", "a number, a word"),
        ("steps(-'1')", "a number, a word"),
        ("steps(**{'then': 1})", "arguments by name expected"),
        ("steps()", "at least one delay"),
        ("steps('1')", "seconds from 0"),
        ("constant(-1)", "seconds from 0 to 1000000000, got -1"),
        ("constant(1e999)", "got inf"),
        ("constant(" + "9" * 1_900 + ")", "seconds from 0"),
        ("exponential(1, cap=0)", "cap: wanted seconds above 0 to 1000000000, got 0"),
        ("constant(-3s)", "seconds from 0 to 1000000000, got -3"),
        ("constant(30m1h)", "a duration such as 30, \"30s\", \"500ms\", \"5m\" or \"1h30m\" expected, got '30m1h'"),
        ("constant('30')", "got '30'"),
        ("constant(30x)", "as in code expected"),
        ("30x", "as in code expected"),
        ("9999999999s", "seconds from 0 to 1000000000"),
        ("exponential()", "exponential: wanted base, got no base"),
        ("exponential(1, 2)", "exponential(1, cap=2)"),
        ("exponential(1, capp=3)", "capp=3"),
        ("exponential(1, jitter='some')", "none, full"),
        ("steps(1, then=5)", "a Backoff to go on with"),
        ("(" * 1_900, "nested"),
        ("steps(1, then=" * 120 + "steps(-1)" + ")" * 120, "seconds from 0"),
        ("steps(" + "1," * 1_000 + ")", "at most 2000 characters expected"),
        ("steps('\\d')", "seconds from 0"),
        ("steps(1,\udcff)", "surrogate"),
        ("steps(1\x00)", "null"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(text, word):
    """Names, operators, attributes, calls of anything else, wrong arguments: told in words, and never run."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        read_schedule(text)
    assert word in str(caught.value)
    assert len(str(caught.value)) < 300
