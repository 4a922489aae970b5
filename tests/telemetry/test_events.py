"""Event records: frozen, comparable, readable, and free of what may not leave."""

from __future__ import annotations

import logging
import pickle
from datetime import UTC, datetime

import attrs
import pytest

from resilient_bridge import events
from resilient_bridge.bridge import BridgeState, Verdict
from resilient_bridge.failure import Failure
from resilient_bridge.telemetry import Debug, emit, listen
from tests.internals.telemetry import Measures
from tests.reference import records
from tests.rows import each_row


AT = datetime(2026, 3, 20, 14, 32, tzinfo=UTC)


@each_row("kind", records())
def test_every_event_is_a_frozen_record_with_its_time(kind):
    """Each event has `at`, takes keywords only, cannot be changed, is listed, and has no room for a payload."""
    fields = list(kind._defaults)
    assert fields[0] == "at"
    assert kind.__name__ in events.__all__
    assert not {"payload", "arguments", "args", "kwargs", "headers", "token"} & set(fields)
    with pytest.raises(TypeError):
        kind(*[None for _ in fields])
    with pytest.raises(TypeError, match=rf"{kind.__name__}: missing or unknown: .*\bpayload\b"):
        kind(at=AT, **dict.fromkeys(fields[1:], "x"), payload="x")
    for name in kind._required:
        with pytest.raises(TypeError, match=f"missing or unknown: {name}$"):
            kind(**{other: "x" for other in fields if other != name})
    event = kind(at=AT, **dict.fromkeys(fields[1:], "x"))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.at = None
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del event.at
    assert list(vars(event)) == fields
    assert pickle.loads(pickle.dumps(event)) == event


def test_events_compare_by_content():
    """Tests of users compare whole records."""
    fields = {"at": AT, "previous": BridgeState.READY, "state": BridgeState.BACKOFF}
    one = events.StateChanged(**fields, reason="user")
    assert one == events.StateChanged(**fields, reason="user", queued=0)
    assert hash(one) == hash(events.StateChanged(**fields, reason="user"))
    assert one != events.StateChanged(**fields, reason="dns")
    assert (
        len(
            {
                events.Resumed(at=AT, session_id="s", verdict=Verdict.GAP, reason="x")
                for _ in range(2)
            }
        )
        == 1
    )


def test_a_default_that_can_change_is_made_for_each_event():
    """The channels of one verdict are not those of another."""
    first, second = (
        events.Resumed(at=AT, session_id="s", verdict=Verdict.GAP, reason="x") for _ in range(2)
    )
    assert first.channels == second.channels
    assert first.channels is not second.channels


def test_an_event_reads_as_one_line():
    """What happened first, the time last, enum members by their name."""
    event = events.Resumed(
        at=AT, session_id="s1", verdict=Verdict.GAP, reason="truncated", since=AT
    )
    assert repr(event) == (
        "Resumed(session_id='s1', verdict=GAP, reason='truncated', replayed=0, since=2026-03-20T14:32:00+00:00, "
        "until=None, proof='', channels={}, at=2026-03-20T14:32:00+00:00)"
    )


def test_states_and_verdicts_are_words():
    """An enum member is its name, as text."""
    for kind in (BridgeState, Verdict):
        assert all(str(member) == member.name for member in kind)
    assert len(BridgeState) == 13


def test_a_failure_rides_along():
    """An event carries the failure as a record."""
    failure = Failure.of("CONN_TIMEOUT")
    event = events.Suspended(at=AT, reason="connect_timeout", failure=failure, attempts=5)
    assert event.failure is failure


class Deployed(events.Event):
    """A program's own event: it says nothing of itself."""

    version: str


class Evicted(events.Event):
    """An event with everything that a class can say of itself."""

    key: str

    __kind__ = "circuit"

    def __level__(self):
        return "warning"

    def __text__(self):
        return f"{self.key} was evicted"

    def __counts__(self, counts):
        counts.add("circuit.transitions", 1, self.key, "open")
        counts.failure(Failure.of("CONN_RESET"))

    def __note__(self):
        return "evicted", {"key": self.key}


def test_an_event_needs_nothing_but_its_class(caplog):
    """The log, metrics, debug mode and spans read the class; one that says nothing reaches listeners alone."""
    caplog.set_level(logging.DEBUG)
    heard = []
    with listen(heard.append), Debug():
        emit(Deployed(version="2"))
        emit(Evicted(key="a"))
    assert [type(event).__name__ for event in heard] == ["Deployed", "Evicted"]
    assert [record.getMessage() for record in caplog.records] == [
        "circuit: evicted key=a",
        "a was evicted",
    ]
    assert [[one.instrument.name for one in Measures().of(event)] for event in heard] == [
        [],
        ["resilient_bridge.circuit.transitions", "resilient_bridge.errors"],
    ]
    assert [event.__note__() for event in heard] == [None, ("evicted", {"key": "a"})]
