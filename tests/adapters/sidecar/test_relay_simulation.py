"""Thousands of seeded runs of the relay, and the proof that they would notice if it were wrong."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from resilient_bridge.errors import Executed
from tests.adapters.sidecar.relay_runs import run
from tests.adapters.sidecar.relay_world import BrokenError
from tests.internals.adapters import Calls, Limits, Lists, Restarts, State, outcomes
from tests.samples import IS_ALL


FIRST = int(os.environ.get("SIMULATION_FIRST_SEED", "1"))
QUICK = 40
RUNS = 5_000 if IS_ALL else 300
POWER = 300  # runs in which each break is to be seen


def _runs(count: int) -> Counter[str]:
    broken: list[str] = []
    seen: Counter[str] = Counter()
    for seed in range(FIRST, FIRST + count):
        try:
            done = run(seed)
        except BrokenError as error:
            broken.append(str(error))
        else:
            seen += done.outcomes + Counter(sessions=done.sessions)
    assert not broken, "\n".join([f"{len(broken)} of {count} runs are broken", *broken[:5]])
    return seen


@pytest.mark.requirement("X6")
def test_no_run_of_a_few_is_broken():
    """No run of a few is broken."""
    seen = _runs(QUICK)
    assert min(seen[name] for name in ("answered", "unknown", "not_executed")) > QUICK, (
        "all of it happens"
    )
    assert seen["sessions"] > 3 * QUICK


@pytest.mark.simulation
@pytest.mark.requirement("X6")
def test_no_run_is_broken():
    """No run is broken."""
    _runs(RUNS)


def test_a_run_is_the_same_each_time():
    """A run is the same each time."""
    assert [run(seed).outcomes for seed in range(5)] == [run(seed).outcomes for seed in range(5)]


# ---- relays that are wrong ----------------------------------------------------------------------------------------------


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_facts, **_named: value


def _answer_twice(state: State, client: Any, message: Any, request: Any = None) -> None:
    SENDS(state, client, message, request)
    if message.is_answer:
        SENDS(state, client, message, request)


def _forget_some(state: State, client: Any, message: Any, request: Any = None) -> None:
    if not message.is_answer or state.number() % 7:
        SENDS(state, client, message, request)


def _to_the_first(state: State, client: Any, message: Any, request: Any = None) -> None:
    first = next(iter(state.clients.values()))
    SENDS(state, first if message.is_answer and message.id != "init" else client, message, request)


def _number_of_the_text(call: Calls, one: Any, answer: Any, now: float) -> None:
    key = one.request.id
    one.request = one.request.with_id(int(key) if isinstance(key, str) and key.isdigit() else key)
    ANSWERS(call, one, answer, now)


def _say_it_did_not_run(name: str, loss: Any, _check: Any) -> Any:
    return outcomes.unreachable(name, loss, 1, 1.0)


def _take_all_for_proof(calls: Calls, call: Any, loss: Any, now: float) -> None:
    LOSES(calls, call, attrs.evolve(loss, executed=Executed.NO), now)


def _send_after_cancel(calls: Calls, call: Any, note: Any, now: float, reason: str) -> None:
    CANCELS(calls, call, note, now, reason)
    if call.sends == 0:
        calls.wait(call, now)


SENDS, ANSWERS, LOSES, CANCELS = State.to_client, Calls.answered, Calls.lost, Calls._cancel

BREAKS: dict[str, tuple[Any, str, Any]] = {
    "what may have run is repeated": (
        sys.modules[Calls.__module__],
        "permission_of",
        _always("read"),
    ),
    "every loss is taken for proof": (Calls, "lost", _take_all_for_proof),
    "unknown is told as not executed": (outcomes, "unknown", _say_it_did_not_run),
    "a late repeat of a write": (Calls, "_is_overtaken", _always(False)),
    "an answer is forgotten": (State, "to_client", _forget_some),
    "an answer comes twice": (State, "to_client", _answer_twice),
    "an answer goes to another client": (State, "to_client", _to_the_first),
    "a text is taken for a number": (Calls, "answered", _number_of_the_text),
    "every list has changed": (Lists, "differs", _always(True)),
    "no list has changed": (Lists, "differs", _always(False)),
    "patience does not end": (Calls, "give_up", _always(None)),
    "a place is not given back": (Limits, "free", _always(None)),
    "what was cancelled is sent": (Calls, "_cancel", _send_after_cancel),
    "a server is left alone for ever": (Restarts, "open_for", _always(5.0)),
}


@pytest.mark.simulation
@pytest.mark.parametrize("name", BREAKS)
def test_a_relay_that_is_wrong_is_caught(name, monkeypatch):
    """A relay that is wrong is caught."""
    where, what, wrong = BREAKS[name]
    monkeypatch.setattr(where, what, wrong)
    caught = 0
    for seed in range(FIRST, FIRST + POWER):
        try:
            run(seed)
        except (BrokenError, KeyError):
            caught += 1
            if caught == 2:
                return
    raise AssertionError(f"{caught} of {POWER} runs see that {name}")
