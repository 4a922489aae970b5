"""Four dimensions of one connection: which combinations cannot be, and what is told and kept when one is seen."""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
from datetime import UTC, datetime
from itertools import pairwise, product

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import ConnectionStates, ConnectionTracker
from tests.adapters.link_peers import World, quick


SERVERS = ("down", "booting", "up")
EXTENSIONS = ("disconnected", "connected", "active")
CIRCUITS = ("closed", "open", "half-open")
POLLINGS = ("stopped", "running")
RUNNING = ConnectionStates(server="up", extension="active", circuit="closed", polling="running")


# ---- the value -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G7")
def test_the_three_invariants():
    """Each of the 54 combinations, against the specification's three sentences."""
    for server, extension, circuit, polling in product(SERVERS, EXTENSIONS, CIRCUITS, POLLINGS):
        value = ConnectionStates(
            server=server, extension=extension, circuit=circuit, polling=polling
        )
        connected = extension in ("connected", "active")
        wrong = [
            name
            for name, is_wrong in [
                (
                    "extension",
                    connected and server == "down",
                ),  # cannot be connected if the server is down
                (
                    "circuit",
                    circuit == "closed" and server == "booting",
                ),  # cannot be closed during booting
                (
                    "polling",
                    connected and polling != "running",
                ),  # must be running if it is connected
            ]
            if is_wrong
        ]
        assert [line.partition(":")[0] for line in value.violations()] == wrong, value


def test_a_violation_says_wanted_and_got():
    """In words that a log can show."""
    value = ConnectionStates(server="booting", extension="connected")
    assert value.violations() == (
        "circuit: wanted open or half-open while the server is booting, got closed",
        "polling: wanted running while the extension is connected, got stopped",
    )


def test_it_is_a_value():
    """It begins with nothing running; `evolve` makes another; equal, hashable, picklable, and its repr makes it again."""
    started = ConnectionStates()
    assert started == ConnectionStates(
        server="down", extension="disconnected", circuit="closed", polling="stopped"
    )
    later = started.evolve(server="booting", circuit="open")
    assert (started.server, later.server, later.polling) == ("down", "booting", "stopped")
    assert later == eval(repr(later)) == pickle.loads(pickle.dumps(later))
    assert len({later, later.evolve(), started}) == 2
    assert repr(started) == "ConnectionStates()"


def test_a_circuit_is_taken_as_the_handle_says_it():
    """`rb.calls.circuit(…).state` says half_open."""
    assert ConnectionStates(circuit="half_open") == ConnectionStates(circuit="half-open")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"server": "sideways"},
            r"ConnectionStates\.server: wanted one of down, booting, up, got 'sideways'",
        ),
        ({"polling": True}, r"ConnectionStates\.polling"),
        (
            {"weather": "fine"},
            r"ConnectionStates: wanted one of server, extension, circuit, polling",
        ),
    ],
)
def test_a_word_that_does_not_exist_is_refused(change, named):
    """ConfigError names the dimension."""
    with pytest.raises(rb.ConfigError, match=named):
        ConnectionStates().evolve(**change)


# ---- the tracker -----------------------------------------------------------------------------------------------------


def warnings_of(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "resilient_bridge"]


@pytest.mark.requirement("G7")
def test_a_start_without_violations_is_silent(caplog):
    """The way from nothing to a working connection, and back."""
    tracker = ConnectionTracker()
    tracker.change("spawned", server="booting", circuit="open")
    tracker.change("health 200", server="up")
    tracker.change("probe", circuit="half_open")
    tracker.change("answered", circuit="closed", polling="running")
    tracker.change("hello", extension="connected")
    assert tracker.change("first command", extension="active") == tracker.states == RUNNING
    tracker.change("gone", server="down", extension="disconnected", polling="stopped")
    assert (warnings_of(caplog), tracker.diagnostics) == ([], ())


@pytest.mark.requirement("G7")
def test_a_violation_is_logged_once_and_diagnosed(caplog):
    """One warning with the reason, and the changes that led to it; the tracker goes on with what was reported."""
    began = datetime.now(UTC)
    tracker = ConnectionTracker(RUNNING)
    tracker.change("poll answered", polling="running")
    states = tracker.change("health check failed", server="down")
    assert states.server == tracker.states.server == "down"
    (line,) = warnings_of(caplog)
    assert (
        line == f"impossible connection state after health check failed: {states.violations()[0]}"
    )
    assert caplog.records[0].levelno == logging.WARNING
    (report,) = tracker.diagnostics
    assert report.violations == states.violations()
    assert report.states == states
    assert [change.reason for change in report.changes] == ["poll answered", "health check failed"]
    assert [change.states for change in report.changes] == [RUNNING, states]
    assert began <= report.changes[0].at <= report.at <= datetime.now(UTC)
    assert "violations=1" in repr(tracker)


@pytest.mark.requirement("G7")
def test_what_lasts_is_reported_once(caplog):
    """Only a violation that is new is told; one that ended and comes back is."""
    tracker = ConnectionTracker(RUNNING)
    tracker.change("down", server="down")
    tracker.change("tick")
    tracker.change("paused", polling="stopped")  # a second one on top
    tracker.change("left", extension="disconnected")
    tracker.change("back", extension="active", polling="running")
    parts = [line.partition(" after ")[2].partition(":")[0] for line in warnings_of(caplog)]
    assert parts == ["down", "paused", "back"]
    assert [len(report.violations) for report in tracker.diagnostics] == [1, 1, 1]


def test_the_memory_is_bounded():
    """The last 32 changes with a report, the last 8 reports."""
    tracker = ConnectionTracker(RUNNING)
    for number in range(100):
        tracker.change(f"up {number}", server="up")
        tracker.change(f"down {number}", server="down")
    assert len(tracker.diagnostics) == 8
    assert [change.reason for change in tracker.diagnostics[-1].changes[-2:]] == [
        "up 99",
        "down 99",
    ]
    assert {len(report.changes) for report in tracker.diagnostics} == {32}


def test_what_does_not_exist_is_a_violation_and_changes_nothing(caplog):
    """A wrong word is told, once in a row; the caller never has an exception, and the states stay."""
    tracker = ConnectionTracker(RUNNING)
    for _ in range(3):
        assert tracker.change("typo", server="sideways") == RUNNING
        assert tracker.change("typo", server="sideways") == RUNNING
    assert len(warnings_of(caplog)) == 1
    assert "ConnectionStates.server" in tracker.diagnostics[0].violations[0]
    tracker.change("typo", weather="fine")
    assert len(tracker.diagnostics) == 2


def test_a_reason_holds_no_secret_and_may_be_an_error(caplog):
    """What is logged and kept is redacted; an exception says what it is."""
    tracker = ConnectionTracker(RUNNING)
    tracker.change("refused token=hunter2hunter2\nforged", server="down")
    tracker.change(ConnectionResetError("password=hunter2"))
    tracker.change(7)
    parts = [change.reason for change in tracker._changes]
    assert parts == [
        "refused token=[redacted]\\nforged",
        "ConnectionResetError: password=[redacted]",
        "int",
    ]
    assert "hunter2" not in caplog.text
    assert len(caplog.text.splitlines()) == 1


def test_a_broken_log_does_not_reach_the_caller():
    """A handler that raises is the log's affair."""

    class Broken(logging.Filter):
        def filter(self, record):
            raise RuntimeError

    logger, broken = logging.getLogger("resilient_bridge"), Broken()
    logger.addFilter(broken)
    try:
        assert ConnectionTracker(RUNNING).change("down", server="down").server == "down"
    finally:
        logger.removeFilter(broken)


class Slow(ConnectionStates):
    """States that take their time to change, so that threads meet."""

    def evolve(self, **changes):
        time.sleep(0.0002)
        return super().evolve(**changes)


def test_threads_lose_no_change():
    """Each dimension is changed by a thread of its own; every change leaves the other dimensions as they were."""
    tracker = ConnectionTracker(Slow(server="up", extension="active", polling="running"))
    words = {
        "server": ("down", "up"),
        "extension": ("connected", "active"),
        "polling": ("stopped", "running"),
    }

    def change(name):
        for number in range(10):
            tracker.change(name, **{name: words[name][number % 2]})

    threads = [threading.Thread(target=change, args=(name,)) for name in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = list(tracker._changes)
    assert len(seen) == 30
    for before, after in pairwise(seen):
        change = {after.reason: getattr(after.states, after.reason)}
        assert after.states == before.states.evolve(**change)


# ---- fed by a link ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G7")
def test_l13_a_link_feeds_the_states_itself():
    """Up and connected, away, back, and over: each change with its reason, the circuit of its calls too, no violation."""

    async def main(_bridge):
        world = World()
        calls = rb.Policy(rb.Breaker.consecutive(1, open_for=30))
        link, tracker, seen = (
            rb.reconnecting(world.factory, quick(calls=calls)),
            ConnectionTracker(),
            [],
        )
        async with link as client:
            watching = asyncio.create_task(tracker.watch(link))
            await asyncio.sleep(0.001)
            seen.append(tracker.states)
            world.made[0].fault = TimeoutError("slow")
            with pytest.raises(TimeoutError):
                await client.work("a")
            seen.append(tracker.states)
            world.refuses = ConnectionRefusedError(111, "refused")
            await world.lose(link)
            await asyncio.sleep(0.5)
            seen.append(tracker.states)
            world.refuses = None
            await link.wait_ready(5)
            await asyncio.sleep(0.001)
            seen.append(tracker.states)
        await watching
        seen.append(tracker.states)
        return seen, tracker.diagnostics

    up = ConnectionStates(server="up", extension="connected", polling="running")
    away = ConnectionStates(server="down", circuit="open", polling="running")
    seen, violations = rb.testing.simulate(main)
    assert seen == [
        up,
        up.evolve(circuit="open"),
        away,
        up,
        up.evolve(extension="disconnected", polling="stopped"),
    ]
    assert violations == ()


def test_l13_a_bridge_client_feeds_them_as_well():
    """From before it is READY to its end; it has no circuit."""

    async def main(bridge):
        tracker = ConnectionTracker()
        async with rb.BridgeClient(bridge.url) as client:
            watching = asyncio.create_task(tracker.watch(client))
            await client.wait_ready(5)
            await asyncio.sleep(0.001)
            ready = tracker.states
        await watching
        return ready, tracker.states, tracker.diagnostics

    ready, end, violations = rb.testing.simulate(main)
    assert ready == ConnectionStates(server="up", extension="connected", polling="running")
    assert (end.extension, end.polling, violations) == ("disconnected", "stopped", ())
