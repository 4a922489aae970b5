"""State by key: shared by name, owned without a name, bounded, and not evicted while it is in use or open."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections import OrderedDict

import pytest

from resilient_bridge import events
from resilient_bridge.calls import Breaker, Bulkhead, RateLimit, RetryBudget
from resilient_bridge.failure import Failure
from resilient_bridge.telemetry import listen
from resilient_bridge.values import Backoff
from tests.calls.circuit_driving import in_threads
from tests.internals.calls import BUDGETS, BULKHEADS, RATES, registry
from tests.internals.calls import circuit as circuits


@pytest.fixture(autouse=True)
def empty(monkeypatch):
    """An empty registry for this test."""
    for sort in (circuits.CIRCUITS, BUDGETS, BULKHEADS, RATES):
        monkeypatch.setattr(sort, "_recent", OrderedDict())
        monkeypatch.setattr(sort, "_used", weakref.WeakValueDictionary())
        monkeypatch.setattr(sort, "_assumed", set())


def named(sort):
    """Return the function that finds the state of a name."""

    def find(key, value, *, warn=True):
        return sort.get(key, value, warn=warn)

    find.__name__ = sort.name
    return find


circuit_state = named(circuits.CIRCUITS)
SORTS = [
    (circuit_state, Breaker(key="x"), Breaker(rate=0.5, key="x")),
    (named(BUDGETS), RetryBudget(key="x"), RetryBudget(ratio=1, key="x")),
    (named(BULKHEADS), Bulkhead(1, key="x"), Bulkhead(2, key="x")),
    (named(RATES), RateLimit(1, key="x"), RateLimit(2, key="x")),
]
OWN = [
    (circuits.CIRCUITS.own, Breaker()),
    (BUDGETS.own, RetryBudget()),
    (BULKHEADS.own, Bulkhead(1)),
    (RATES.own, RateLimit(1)),
]
SORTED = pytest.mark.parametrize(
    ("find", "value", "other"), SORTS, ids=lambda value: getattr(value, "__name__", "")
)


@SORTED
def test_one_name_is_one_state(find, value, other):
    """The same name finds the same state, another name another one."""
    assert find("x", value) is find("x", value)
    assert find("x", value) is not find("y", value)


@SORTED
def test_of_two_sets_of_numbers_the_last_wins_and_says_so(find, value, other):
    """A UserWarning names the key and both values, unless the caller disables it."""
    state = find("x", value)
    with pytest.warns(UserWarning, match=r"'x' was .*\(.*\), is .*\(.*\) now: the last one wins"):
        assert find("x", other) is state
    assert state.settings == other
    assert find("x", value, warn=False) is state
    assert state.settings == value


def test_what_is_ignored_is_no_difference():
    """`ignore` is local to each policy: two that differ in it share a circuit without a warning."""
    state = circuit_state("x", Breaker(key="x", ignore=404))
    assert circuit_state("x", Breaker(key="x", ignore=(404, 403))) is state


@pytest.mark.parametrize(("make", "value"), OWN, ids=lambda value: getattr(value, "__name__", ""))
def test_state_without_a_name_belongs_to_its_owner(make, value):
    """Two owners of one name have two states."""
    assert make("app.search", value) is not make("app.search", value)


def test_an_owned_circuit_is_known_as_long_as_its_owner_keeps_it():
    """It is listed, and gone with its owner."""
    mine = circuits.CIRCUITS.own("app.search", Breaker())
    shared = circuit_state("x", Breaker())
    assert circuits.known_circuits() == [shared, mine]
    del mine
    gc.collect()
    assert circuits.known_circuits() == [shared]


def test_an_assumed_circuit_takes_the_first_real_numbers_silently():
    """A circuit found by name alone has the default settings until a policy sets some; a later change warns."""
    state = circuits.circuit_by_name("x")
    assert state.settings == Breaker(key="x")
    assert circuits.circuit_by_name("x") is state
    assert circuit_state("x", Breaker(rate=0.5, key="x")) is state
    assert state.settings.rate == 0.5
    assert circuits.circuit_by_name("x").settings.rate == 0.5
    with pytest.warns(UserWarning, match="the last one wins"):
        circuit_state("x", Breaker(rate=0.6, key="x"))


# ---- bounds --------------------------------------------------------------------------------------------------------


@pytest.fixture
def three(monkeypatch):
    """Room for three names."""
    monkeypatch.setattr(registry, "MOST", 3)


def _stored() -> set[str]:
    gc.collect()
    return {circuit.key for circuit in circuits.known_circuits()}


def _open(key: str, open_for: float = 1e6):
    circuit = circuit_state(key, Breaker.consecutive(1, open_for=open_for))
    circuit.failed(circuit.era, circuits.clock(), 0.0)
    return circuit


def test_a_thousand_hosts_do_not_fill_the_memory():
    """1,024 names are stored; of 5,000 older ones nothing stays in memory."""
    for number in range(6024):
        circuit_state(f"host-{number}", Breaker())
        BUDGETS.get(f"host-{number}", RetryBudget(), warn=True)
    assert _stored() == {f"host-{number}" for number in range(5000, 6024)}
    assert len(BUDGETS.named()) == 1024
    for number in range(2000):
        circuits.circuit_by_name(f"seen-{number}")
    assert len(_stored()) == len(circuits.CIRCUITS._assumed) == 1024


def test_the_least_recently_used_idle_circuit_goes_first(three):
    """Asking for a name counts as using it."""
    for key in "abc":
        circuit_state(key, Breaker())
    circuit_state("a", Breaker())
    circuit_state("d", Breaker())
    assert _stored() == {"a", "c", "d"}


def test_what_has_something_to_say_stays_longer(three):
    """Eviction order: idle circuits, then closed ones with failures, then open ones whose open time is over."""
    _open("over", open_for=0)
    counting = circuit_state("counting", Breaker())
    counting.failed(counting.era, 0.0, 0.0)
    del counting
    circuit_state("idle", Breaker())
    _open("first")
    assert _stored() == {"over", "counting", "first"}
    _open("second")
    assert _stored() == {"over", "first", "second"}
    _open("third")
    assert _stored() == {"first", "second", "third"}


@pytest.mark.parametrize("verb", ["isolate", "disable"])
def test_what_was_set_by_hand_is_in_force(three, verb):
    """It is not evicted while another one can be."""
    getattr(circuit_state("set", Breaker()), verb)(0.0)
    for number in range(10):
        circuit_state(str(number), Breaker())
    assert "set" in _stored()


def test_an_open_circuit_is_never_forgotten_silently(three):
    """If all are open, the least recently used one is evicted, with a warning."""
    for key in "abc":
        _open(key)
    with pytest.warns(
        UserWarning, match="circuit 'a' is forgotten while in force: so are 3 others"
    ):
        circuit_state("d", Breaker())
    assert _stored() == {"b", "c", "d"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        circuits.circuit_by_name("e")
    assert _stored() == {"b", "c", "e"}
    _open("e")
    with pytest.warns(UserWarning, match="circuit 'b' is forgotten"):
        circuits.circuit_by_name("f")


def test_a_forgotten_name_starts_afresh(three):
    """Default settings are forgotten with it: the next settings are set, and a change of those warns."""
    circuits.circuit_by_name("x")
    for number in range(3):
        circuit_state(str(number), Breaker())
    circuit_state("x", Breaker(key="x"))
    with pytest.warns(UserWarning, match="the last one wins"):
        circuit_state("x", Breaker(rate=0.5, key="x"))


def test_a_forgotten_state_in_use_is_found_again(three):
    """As long as a state is referenced, its name finds that one, because two states under one name would not be shared."""
    held = circuit_state("held", Breaker())
    for number in range(10):
        circuit_state(str(number), Breaker())
    assert circuit_state("held", Breaker()) is held
    assert circuits.circuit_by_name("held") is held


def test_a_bulkhead_in_use_stays(three):
    """A bulkhead with permits in use is evicted last."""
    BULKHEADS.get("used", Bulkhead(1), warn=True).try_acquire()
    for number in range(10):
        BULKHEADS.get(str(number), Bulkhead(1), warn=True)
    gc.collect()
    assert "used" in {state.key for state in BULKHEADS.named()}


def test_threads_find_one_state():
    """However many ask for a new name at once."""
    found = []
    in_threads(lambda: found.append([circuit_state(str(n), Breaker()) for n in range(200)]), 8)
    assert len({tuple(map(id, states)) for states in found}) == 1


# ---- what a circuit tells ------------------------------------------------------------------------------------------


def test_transitions_are_events():
    """Each event has the key, reason, open time, failure and its time."""
    parts: list[events.Event] = []
    failure = Failure.of("CONN_REFUSED")
    circuit = circuit_state("github", Breaker.consecutive(1, open_for=2))
    with listen(parts.append):
        circuit.failed(circuit.admit(0.0), 0.0, 0.0, because=failure)
        circuit.succeeded(circuit.admit(2.0), 2.0, 0.0)
        circuit.isolate(3.0)
        circuit.reset(4.0)
    circuit.isolate(5.0)
    at = parts[0].at
    assert at.tzinfo is not None
    assert [type(event)(**{**vars(event), "at": at}) for event in parts] == [
        events.CircuitChanged(
            at=at,
            key="github",
            state="open",
            reason="consecutive_failures_1",
            retry_after=2.0,
            failure=failure,
        ),
        events.CircuitChanged(
            at=at, key="github", state="half_open", reason="reset_timeout_elapsed"
        ),
        events.CircuitChanged(at=at, key="github", state="closed", reason="request_success"),
        events.CircuitChanged(at=at, key="github", state="isolated", reason="isolated"),
        events.CircuitChanged(at=at, key="github", state="closed", reason="manual_reset"),
    ]


def test_open_times_differ_between_processes():
    """The random source is the system's: two circuits do not open for the same time."""
    waits = set()
    for number in range(20):
        circuit = circuit_state(
            str(number), Breaker.consecutive(1, open_for=Backoff.exponential(8, jitter="full"))
        )
        circuit.failed(circuit.era, 0.0, 0.0)
        waits.add(circuit.retry_after(0.0))
    assert len(waits) == 20
