"""Errors as data: what `capture` returns for any function."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import OrderedDict
from enum import IntEnum
from pathlib import Path

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, settle
from tests.internals.calls import LIMIT
from tests.rows import each_row


REFUSED = ConnectionRefusedError


@everywhere
def test_a_success(form):
    """It has the value, one call and no failure; also for a function without a policy."""
    with form.world():
        for get in (
            form.of(lambda x: x * 2),
            rb.Policy(at_once())(form.of(lambda x: x * 2), idempotent=True),
        ):
            outcome = form.run(rb.capture, get, 4)
            assert (outcome.value, outcome.failure, outcome.attempts) == (8, None, 1)
            assert outcome.seconds >= 0
            assert json.loads(outcome.to_llm()) == {"ok": True, "result": 8}


@everywhere
def test_a_failure(form):
    """It has the Failure, with the reason it stopped and the history; `.value` raises the original error."""
    error = REFUSED("mine")
    with form.world():
        get = rb.Policy(at_once(attempts=3))(form.of(Server(always=error).get), idempotent=True)
        outcome = form.run(rb.capture, get)
    assert outcome.attempts == 3
    assert (outcome.failure.code, outcome.failure.stopped) == ("CONN_REFUSED", "attempts")
    assert len(outcome.failure.history) == 2
    with pytest.raises(REFUSED) as raised:
        _ = outcome.value
    assert raised.value is error
    assert json.loads(outcome.to_llm())["recoverable"] is True
    assert "connection refused" in repr(outcome)
    assert "3 calls" in repr(outcome)


@everywhere
def test_a_late_success_says_how_many_calls_it_took(form):
    """Two failures and a success are three calls."""
    with form.world():
        outcome = form.run(
            rb.capture, rb.Policy(at_once())(form.of(Server(REFUSED, REFUSED).get), idempotent=True)
        )
    assert (outcome.value, outcome.attempts) == ("ok", 3)


@everywhere
def test_what_was_never_called_took_no_call(form):
    """Rejected by an open circuit: no attempt was made."""
    with form.world():
        get = rb.Policy(at_once(), rb.Breaker())(form.of(Server().get), idempotent=True)
        rb.calls.circuit(get).isolate()
        outcome = form.run(rb.capture, get)
    assert outcome.failure.code == "SYS_CIRCUIT_OPEN"
    assert outcome.attempts == 0


@both
def test_a_returned_failure_is_both(form):
    """A 503 that is returned: the value is there, and the failure it stands for."""
    answer = httpx.Response(503)
    outcome = form.run(rb.capture, rb.Policy(at_once())(form.of(lambda: answer), idempotent=True))
    assert outcome.value is answer
    assert outcome.failure.code == "SYS_UNAVAILABLE"


@both
def test_seconds_are_those_of_the_policies(form):
    """Waits in virtual time count."""
    with rb.testing.virtual_time():
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(7)))(
            form.of(Server(REFUSED).get), idempotent=True
        )
        outcome = form.run(rb.capture, get)
    assert outcome.seconds == pytest.approx(7)


@both
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(2), asyncio.CancelledError()], ids=repr
)
def test_what_is_no_failure_passes_through(form, error):
    """SystemExit, KeyboardInterrupt and cancellation are raised."""
    with pytest.raises(type(error)):
        form.run(
            rb.capture, rb.Policy(at_once())(form.of(Server(always=error).get), idempotent=True)
        )


async def test_cancellation_passes_through():
    """A task that is cancelled inside of `capture` is cancelled."""

    async def hang():
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(rb.capture(rb.Policy(at_once())(hang, idempotent=True)))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@everywhere
def test_capture_is_invisible_to_what_it_calls(form):
    """Inside a protected call it changes neither the deadline nor the counting of retries."""
    server, seen = Server(always=REFUSED), []

    with form.world():
        inner = rb.Policy(at_once(attempts=3))(server.get, idempotent=True)

        def body():
            outcome = rb.capture(inner)
            seen.append((outcome.attempts, rb.current_attempt().remaining <= 60))
            return outcome.value

        with pytest.raises(REFUSED):
            form.run(
                rb.Policy(rb.Deadline(60), at_once(attempts=2))(form.of(body), idempotent=True)
            )
    assert seen == [(3, True)]
    assert server.calls == 3


async def test_outcomes_of_calls_side_by_side_do_not_mix():
    """Ten captures at once, each with the number of its own calls."""

    @rb.Policy(at_once(attempts=20))(idempotent=True)
    async def get(fails):
        await asyncio.sleep(0)
        if rb.current_attempt().number <= fails:
            raise REFUSED
        return fails

    outcomes = await asyncio.gather(*(rb.capture(get, fails) for fails in range(10)))
    assert [outcome.attempts for outcome in outcomes] == list(range(1, 11))


# ---- what there is to read ------------------------------------------------------------------------------------------
def failing(error, **options):
    """The outcome of a call that raises."""

    def fail() -> None:
        raise error

    return rb.capture(fail, **options)


def test_the_parts_of_a_success():
    """`ok` is true, and the fields of a failure, a command and a tool are empty."""
    outcome = rb.capture(lambda: 5)
    assert (outcome.ok, outcome.error, outcome.type, outcome.message, outcome.suggestion) == (
        True,
        None,
        None,
        "",
        "",
    )
    assert (outcome.recoverable, outcome.exit_code, outcome.stdout, outcome.stderr) == (
        False,
        None,
        "",
        "",
    )
    assert (outcome.tool, outcome.required, outcome.is_skipped) == ("", True, False)
    with pytest.raises(rb.ConfigError, match="to_tool_error"):
        outcome.to_tool_error("t")


@pytest.mark.requirement("V6")
def test_the_parts_of_a_failure():
    """Type, message, recoverable and suggestion are those of `to_llm()`."""
    error = TimeoutError("slow")
    outcome = failing(error)
    report = json.loads(outcome.to_llm())
    assert (outcome.ok, outcome.error) == (False, error)
    assert outcome.type == report["type"] == "timeout"
    assert outcome.message == report["message"] == outcome.failure.message
    assert outcome.recoverable is report["recoverable"] is True
    assert outcome.suggestion == report["suggestion"] == "; ".join(outcome.failure.suggestions)


@pytest.mark.requirement("R11")
def test_a_failed_command():
    """It has exit code and output, with line breaks and masked secrets, in the form of R11; outside a toolbox without a tool."""
    outcome = failing(
        subprocess.CalledProcessError(3, ["x"], "one\ntoken=abcdef123\n", b"\xffoops\n")
    )
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (
        3,
        "one\ntoken=[redacted]",
        "\ufffdoops",
    )
    payload = outcome.to_tool_error("t1")["payload"]
    assert (payload["tool_call_id"], payload["tool"], payload["code"]) == (
        "t1",
        "",
        "TOOL_EXECUTION_FAILED",
    )
    assert {name: payload["details"][name] for name in ("exit_code", "stdout")} == {
        "exit_code": 3,
        "stdout": outcome.stdout,
    }
    assert json.loads(json.dumps(outcome.to_tool_error("t1"))) == outcome.to_tool_error("t1")
    report = json.loads(outcome.to_llm())
    assert (report["exit_code"], report["stderr"]) == (3, "\ufffdoops")


def test_the_output_of_a_failed_command_is_bounded():
    """Of 50 MB the end is kept, because the reason is there."""
    outcome = failing(
        subprocess.CalledProcessError(1, ["x"], "a word\n" * 7_000_000 + "the end", None)
    )
    assert outcome.stdout.endswith("the end")
    assert len(outcome.stdout) <= LIMIT
    assert len(outcome.to_llm()) < 2 * LIMIT


# ---- what a model is shown ------------------------------------------------------------------------------------------
class Hostile:
    """An object whose methods all raise."""

    def __str__(self) -> str:
        raise RuntimeError

    def __getattr__(self, name: str) -> None:
        raise ZeroDivisionError

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None


class HostileMapping(dict):
    def items(self):
        raise RuntimeError


class Level(IntEnum):
    HIGH = 3


@each_row(
    ("value", "shown"),
    [
        (None, None),
        ("text", "text"),
        (1.5, 1.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ({"a": [1, (True, None)]}, {"a": [1, [True, None]]}),
        ({1: Path("/x")}, {"1": "/x"}),
        (OrderedDict(b=2), {"b": 2}),
        (Level.HIGH, "3"),
        (b"bytes", "bytes"),
        (b"\x00\x01\xff" * 9, "<27 bytes that are no text>"),
        ("half \ud800", "half ?"),
        (Hostile(), "<Hostile without text>"),
        ([Hostile()], ["<Hostile without text>"]),
        (HostileMapping(a=1), "<HostileMapping without text>"),
        (10**5000, "<int without text>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_value_is_shown(value, shown):
    """Any value becomes one line of JSON, without an error."""
    line = rb.capture(lambda: value).to_llm()
    assert json.loads(line) == {"ok": True, "result": shown}
    assert "\n" not in line
    line.encode()


def recursive():
    """A list and a mapping that each contain themselves twice."""
    some, named = [], {}
    some += [some, some, named]
    named["self"] = named
    return some


LARGE = {
    "text": lambda: "x" * 50_000_000,
    "letters": lambda: "é" * 1_000_000,
    "controls": lambda: "\x00" * 1_000_000,
    "bytes": lambda: b"x" * 50_000_000,
    "list": lambda: ["x" * 100] * 1_000_000,
    "mapping": lambda: dict.fromkeys(range(1_000_000), "x"),
    "key": lambda: {"x" * 1_000_000: 1},
    "lists": lambda: [[]] * 10_000_000,
    "recursion": recursive,
    "numbers": lambda: [10**4000] * 1000,
}


@each_row("kind", LARGE)
def test_a_large_value_is_cut_and_says_so(kind):
    """The line of JSON is bounded, has the beginning of the value, and says that the rest is cut."""
    line = rb.capture(LARGE[kind]).to_llm()
    assert len(line) < 2 * LIMIT
    assert json.loads(line)["cut"] == "longer than 100,000 characters: the rest is left out"


def test_a_value_of_just_the_size_is_whole():
    """Up to the limit nothing is cut, and `cut` is not set."""
    report = json.loads(rb.capture(lambda: "x" * (LIMIT - 4)).to_llm())
    assert report == {"ok": True, "result": "x" * (LIMIT - 4)}
    assert "cut" in json.loads(rb.capture(lambda: "x" * LIMIT).to_llm())


def test_deep_values_are_cut():
    """A value nested ten thousand levels deep is cut, without an error."""
    value: list[object] = []
    for _ in range(sys.getrecursionlimit() * 10):
        value = [value]
    assert "cut" in json.loads(rb.capture(lambda: value).to_llm())
