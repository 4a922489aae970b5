"""Tables that others published, row by row: Retry-After (F), what is repeated (G), delays (D, E, H).

Rule: expected values stand in the JSON files beside this one, each with its source, and nowhere else. A file says what it
leaves out, and why.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.failure import error_for, parse_retry_after
from resilient_bridge.protocol import Now
from tests.calls.forms import Server, at_once, both, http_error
from tests.internals.failure import wait_from_headers
from tests.internals.protocol import Reconnection
from tests.rows import each_row


TABLES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted(Path(__file__).parent.glob("*.json"))
}
# Rows of each part: one that goes missing is missed.
SIZES = {
    "retry_after": {
        "valid": 3,
        "invalid": 3,
        "fractions": 2,
        "swallowed_by_float": 3,
        "dates": 3,
        "milliseconds": 4,
    },
    "repeated_calls": {"faults": 32, "did_not_run": 6, "executed": 12},
    "grpc_delays": {"delays": 30},
    "polly_delays": {"delays": 9, "attempts": 9, "refused": 5},
    "seed_schedules": {"delays": 24},
}


def rows(table: str, *parts: str) -> Callable[[Callable[..., Any]], Any]:
    """Run a test for every row of the parts, as `row`."""
    return each_row(
        "row",
        [
            pytest.param(row, id=f"{table}-{part}-{number}")
            for part in parts
            for number, row in enumerate(TABLES[table]["rows"][part], 1)
        ],
    )


# ---- F: Retry-After -----------------------------------------------------------------------------------------------

F = TABLES["retry_after"]
NOW = datetime.fromisoformat(F["now"])


@pytest.fixture(params=F["zones"])
def zone(request, monkeypatch):
    """The time zone of this process: a rule, not a name, which a machine without a zone database would read as UTC."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    assert time.timezone == F["zones"][request.param]
    yield
    monkeypatch.undo()
    time.tzset()


@rows("retry_after", "valid", "invalid", "fractions", "swallowed_by_float", "dates")
def test_a_value_of_retry_after(row, zone):
    """The seconds of the table in every time zone, or None: by itself, and among the headers of an answer."""
    assert parse_retry_after(row["value"], NOW.timestamp()) == row["wait"]
    assert wait_from_headers({"retry-after": row["value"]}, NOW.timestamp()) == (row["wait"], None)


@rows("retry_after", "milliseconds")
def test_a_value_in_milliseconds(row):
    """Read as seconds, and preferred to Retry-After; what is none leaves the word to Retry-After."""
    assert wait_from_headers({"retry-after-ms": row["value"]}, None) == (row["wait"], None)
    wait = 7 if row["wait"] is None else row["wait"]
    assert wait_from_headers({"retry-after-ms": row["value"], "retry-after": "7"}, None) == (
        wait,
        None,
    )


@both
@rows("retry_after", "valid", "invalid", "fractions", "swallowed_by_float", "dates", "milliseconds")
def test_a_policy_waits_what_the_header_says(row, form, zone):
    """A real answer with this header: the wait is the server's, or the schedule's where the value is none or less."""
    date = format_datetime(NOW).replace("+0000", "GMT").encode()
    headers = [(b"Date", date), (row["header"].encode(), row["value"].encode())]
    request = httpx.Request("GET", "http://127.0.0.1/")
    answer = httpx.Response(429, headers=headers, request=request)
    server = Server(httpx.HTTPStatusError("429", request=request, response=answer))
    with rb.testing.virtual_time() as clock:
        policy = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0.05), max_retry_after=3600))
        assert form.run(policy(form.of(server.get), idempotent=True)) == "ok"
    assert clock.slept == [max(0.05, row["wait"] or 0)]


# ---- G: what is repeated ------------------------------------------------------------------------------------------

OPERATIONS = TABLES["repeated_calls"]["operations"]
DID_NOT_RUN = TABLES["repeated_calls"]["rows"]["did_not_run"]
BROKEN = {"reset": ConnectionResetError, "refused": ConnectionRefusedError}


NOT_APPLIED = {"refused", "429"}


def fault(name: str, *, is_known: bool = False) -> BaseException:
    """What a client raises for the fault of this name: an HTTP status, or a connection that broke.

    `is_known`: the function says of those that were not applied that nothing of it has happened; the error alone does not.
    """
    error = http_error(int(name)) if name.isdecimal() else BROKEN[name](name)
    if not is_known or name not in NOT_APPLIED:
        return error
    stated = rb.NotExecutedError()
    stated.__cause__ = error
    return stated


def name_of(error: BaseException | None) -> str | None:
    """The name of a fault by what was raised, None for none."""
    if isinstance(error, rb.NotExecutedError):
        error = error.__cause__
    if isinstance(error, httpx.HTTPStatusError):
        return str(error.response.status_code)
    return next((name for name, kind in BROKEN.items() if isinstance(error, kind)), None)


def outcome(row: dict[str, Any], script: list[BaseException], form: Any) -> rb.Failure | None:
    """Call the row's operation, hold calls, waits and why it ended against the row, and return the failure that came out."""
    server = Server(*script)
    with rb.testing.virtual_time() as clock:
        policy = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)))
        call = policy(form.of(server.get), idempotent=OPERATIONS[row["operation"]])
        if row["stopped"] is None:
            assert form.run(call) == "ok"
            failure = None
        else:
            with pytest.raises(type(script[row["calls"] - 1])) as raised:
                form.run(call)
            assert raised.value is script[row["calls"] - 1]  # the caller's own, and the last one
            failure = rb.classify(raised.value)
    assert server.calls == row["calls"]
    assert clock.slept == [1] * (row["calls"] - 1)
    assert (failure and failure.stopped) == row["stopped"]
    return failure


@both
@rows("repeated_calls", "faults", "did_not_run")
def test_what_is_repeated_after_which_faults(row, form):
    """Plain functions raise what clients raise: calls made, and the error of the last call, come out as the row says."""
    script = [fault(name, is_known=row in DID_NOT_RUN) for name in row["faults"]]
    failure = outcome(row, script, form)
    assert name_of(failure and failure.cause) == row["raised"]
    if failure:
        assert [name_of(earlier.cause) for earlier in failure.history] == row["faults"][
            : row["calls"] - 1
        ]


@rows("repeated_calls", "faults", "did_not_run")
def test_injected_faults_are_repeated_alike(row):
    """The same rows through `inject`: a test double of the user meets the decisions that the real faults meet."""
    known = row in DID_NOT_RUN
    script = [
        fault(name, is_known=True) if known else int(name) if name.isdecimal() else BROKEN[name]
        for name in row["faults"]
    ]

    @rb.Policy(at_once())(idempotent=OPERATIONS[row["operation"]])
    def ask() -> str:
        return "ok"

    with rb.testing.virtual_time(), rb.testing.inject(ask, *script) as injected:
        came = rb.capture(ask)
    assert injected.calls == row["calls"]
    assert (came.failure and came.failure.stopped) == row["stopped"]


@both
@rows("repeated_calls", "executed")
def test_what_is_repeated_by_executed_and_idempotent(row, form):
    """Retryable is a condition, whatever the kind; then what did not run is repeated, and what may have run only if idempotent."""
    executed = rb.errors.Executed(row["executed"])
    failure = rb.Failure.of(
        "SYS_UNAVAILABLE",
        kind=rb.Kind.TRANSIENT,
        retryable=row["retryable"],
        executed=executed,
        proof="stated",
    )
    error = error_for(failure)
    failure_ = rb.classify(error)
    assert (failure_.retryable, failure_.executed) == (row["retryable"], row["executed"])
    outcome(row, [error], form)


# ---- D, E, H: delays ----------------------------------------------------------------------------------------------


def schedule(table: str, name: str) -> rb.Backoff:
    """The one schedule object that the table calls by this name."""
    row = TABLES[table]["schedules"][name]
    return getattr(rb.Backoff, row["make"])(*row["seconds"], **row.get("options", {}))


def waits_of(table: str, row: dict[str, Any]) -> list[float]:
    """The waits of the row's schedule, up to this row."""
    column = [
        one["wait"] for one in TABLES[table]["rows"]["delays"] if one["schedule"] == row["schedule"]
    ]
    return column[: row["n"]]


def holds_a_delay(table: str, row: dict[str, Any], form: Any) -> None:
    """The schedule says this delay for this place, and a real policy waits it there after the ones before."""
    backoff, waits = schedule(table, row["schedule"]), waits_of(table, row)
    assert waits[-1] == row["wait"]
    assert backoff.next(row["n"], None, random.Random(0)) == pytest.approx(row["wait"], rel=1e-12)
    assert (
        backoff.delays(row["n"])
        == backoff.sample(row["n"], seed=1)
        == pytest.approx(waits, rel=1e-12)
    )
    server = Server(*[ConnectionResetError] * row["n"])
    calls = []

    def ask() -> str:
        calls.append(clock.now)
        return server.get()

    with rb.testing.virtual_time() as clock:
        policy = rb.Policy(rb.Retry(attempts=row["n"] + 1, backoff=backoff))
        assert form.run(policy(form.of(ask), idempotent=True)) == "ok"
    assert [later - earlier for earlier, later in pairwise(calls)] == pytest.approx(
        waits, rel=0, abs=1e-9
    )
    assert clock.slept == pytest.approx(waits, rel=1e-12)


@both
@rows("grpc_delays", "delays")
def test_a_delay_of_grpc(row, form):
    """Initial, multiplied, capped: what the schedule says, and what a policy waits."""
    holds_a_delay("grpc_delays", row, form)


@both
@rows("polly_delays", "delays")
def test_a_delay_of_polly(row, form):
    """Constant, linear, exponential from 1 s: what the schedule says, and what a policy waits."""
    holds_a_delay("polly_delays", row, form)


@each_row("name", TABLES["polly_delays"]["schedules"])
@rows("polly_delays", "attempts")
def test_an_attempt_of_polly_waits_a_positive_time_under_the_cap(row, name):
    """At 2.0 ** 1024 a float overflows; the wait, whatever the draw, and the bound are positive and at most the cap."""
    backoff, cap = schedule("polly_delays", name), TABLES["polly_delays"]["cap"]
    assert backoff.cap in (None, cap)
    for seed in range(5):
        assert 0 < backoff.next(row["n"], 30.0, random.Random(seed)) <= cap
    assert 0 < backoff.delays(row["n"])[-1] <= cap
    assert 0 < backoff.sample(row["n"], seed=1)[-1] <= cap


@rows("polly_delays", "refused")
def test_a_negative_delay_is_refused(row):
    """In the constructor, by the argument's name, with the value."""
    with pytest.raises(rb.ConfigError, match="got -1") as refused:
        getattr(rb.Backoff, row["make"])(*row["seconds"])
    assert row["named"] in str(refused.value)


@both
@rows("seed_schedules", "delays")
def test_a_delay_of_a_specification(row, form):
    """One schedule object for each specification: what it says, and what a policy waits."""
    holds_a_delay("seed_schedules", row, form)


@rows("seed_schedules", "delays")
def test_a_link_waits_the_delay_of_a_specification(row):
    """A link that is refused again and again waits the schedule; a schedule of a preset is the very one that it holds."""
    backoff, policy = schedule("seed_schedules", row["schedule"]), None
    name, _, part = (
        TABLES["seed_schedules"]["schedules"][row["schedule"]].get("preset", "").partition(".")
    )
    if part == "calls":
        (retry,) = (
            layer for layer in getattr(rb.presets, name).calls.layers if isinstance(layer, rb.Retry)
        )
        assert retry.backoff == backoff
    elif part:
        policy = getattr(rb.presets, name).reconnect
        assert policy.backoff == backoff
    link = Reconnection(
        policy or rb.bridge.Reconnect(backoff=backoff),
        random.Random(0),
        superseded=(),
        can_refresh=False,
    )
    now, waited = 1000.0, []
    for _ in range(row["n"]):
        decision = link.lost(rb.Failure.of("CONN_REFUSED"), Now(now, now))
        assert decision.retry
        waited.append(decision.wait)
        now += decision.wait
    assert waited == pytest.approx(waits_of("seed_schedules", row), rel=1e-12)


# ---- the tables themselves ----------------------------------------------------------------------------------------


def test_every_table_names_its_source():
    """Its letter, what it is, where each part of its rows comes from, and what it leaves out; each letter has one file."""
    assert sorted(table["table"] for table in TABLES.values()) == ["D", "E", "F", "G", "H"]
    for table in TABLES.values():
        assert table["title"]
        assert table["left_out"]
        assert table["source"].keys() == table["rows"].keys()
        assert all(len(source.split()) >= 3 for source in table["source"].values())


def test_every_row_runs():
    """Each row of each file is a row of a test that is neither skipped nor expected to fail, and none went missing.

    Tests are read here, not counted, so that it holds for a partial run too.
    """
    run: Counter[int] = Counter()
    for name, test in vars(sys.modules[__name__]).items():
        marks = getattr(test, "pytestmark", []) if name.startswith("test_") else []
        assert {mark.name for mark in marks} <= {"parametrize"}
        run.update(id(values["row"]) for values in getattr(test, "rows", ()) if "row" in values)
    sizes = {
        name: {part: len(of) for part, of in table["rows"].items()}
        for name, table in TABLES.items()
    }
    assert sizes == SIZES
    every = [row for table in TABLES.values() for part in table["rows"].values() for row in part]
    assert [row for row in every if not run[id(row)]] == []
    assert len(run) == len(every) == 145
    texts = [
        json.dumps([name, row])
        for name, table in TABLES.items()
        for part in table["rows"].values()
        for row in part
    ]
    assert len(set(texts)) == len(texts)  # and each is there once


def test_every_schedule_of_a_table_has_its_rows():
    """A schedule's rows are its waits from the first on, without a gap."""
    for name, table in TABLES.items():
        places: dict[str, list[int]] = {}
        for row in table["rows"].get("delays", []):
            places.setdefault(row["schedule"], []).append(row["n"])
        assert all(found == list(range(1, len(found) + 1)) for found in places.values())
        if name != "polly_delays":  # the rest of its schedules are for its attempts
            assert places.keys() == table.get("schedules", {}).keys()
