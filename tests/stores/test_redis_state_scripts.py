"""What the scripts decide is what the circuit and the budget of one process decide: the same endings, one by one, to both."""

from __future__ import annotations

import random
import time
from datetime import timedelta

import pytest

from resilient_bridge.calls import Breaker, RetryBudget
from resilient_bridge.failure import Failure
from resilient_bridge.stores import RedisState
from resilient_bridge.values import Backoff
from tests.internals.calls import BudgetState, CircuitState
from tests.redis_server import redis_server_fixture


pytestmark = pytest.mark.real
server = redis_server_fixture(scope="module")
RESET = Failure.of("CONN_RESET")


@pytest.fixture
def state(server):
    with RedisState(server.url, timeout=5) as one:
        yield one


class Shared:
    """One circuit in Redis, and its twin in this process: both are told the same, and looked at."""

    def __init__(self, state: RedisState, key: str, breaker: Breaker) -> None:
        self.views: list = []
        self.line = state.circuit(key, breaker, self.views.append)
        self.twin = CircuitState(key, breaker, random.Random(0), lambda *_: None)
        self.ask()

    @property
    def view(self):
        return self.views[-1]

    def ask(self) -> int:
        """Ask for a probe, and return its place."""
        question = self.line.ask()
        ends = time.monotonic() + 5
        while not question._future.done():
            assert time.monotonic() < ends
            time.sleep(0.0005)
        return question.take(is_late=False).probe

    def end(self, ending: str, probe: int = 0, permit: int | None = None) -> None:
        """Tell both how a call ended."""
        now = time.monotonic()
        self.line.tell(self.view.era, probe, ending, "CONN_RESET")
        permit = self.twin.era if permit is None else permit
        if ending == "succeeded":
            self.twin.succeeded(permit, now, 0.0)
        elif ending == "released":
            self.twin.released(permit, now, 0.0)
        else:
            seconds = 99.0 if ending == "slow" else 0.0
            self.twin.failed(permit, now, seconds, critical=ending == "critical", because=RESET)

    def look(self) -> tuple:
        """What Redis says, after a question that lets no probe in."""
        self.ask()
        return self.view.state, self.view.why, (self.view.failed, self.view.seen)

    def twins(self) -> tuple:
        return self.twin.state, self.twin.why, self.twin.counts(time.monotonic())


BREAKERS = [
    Breaker.consecutive(3, open_for=60, slow_after=9),
    Breaker(rate=0.5, window=6, open_for=60, slow_after=9),
    Breaker(rate=0.34, window=7, open_for=60, slow_after=9),
    Breaker(rate=0.6, window=timedelta(seconds=60), open_for=60, slow_after=9),
    Breaker(rate=1.0, window=timedelta(seconds=60), open_for=60, slow_after=9),
    Breaker(rate=0.7, window=8, minimum=3, open_for=60, slow_after=9),
    Breaker(rate=0.7, window=8, minimum=8, open_for=60, slow_after=9),
    Breaker(rate=0.7, window=timedelta(seconds=60), minimum=3, open_for=60, slow_after=9),
]


@pytest.mark.parametrize("breaker", BREAKERS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_a_window_in_redis_counts_as_one_in_the_process(state, key, breaker, seed):
    """Any order of successes and failures, slow ones among them: state, reason and counts are the same at each step, and no step comes
    before the margin says so."""
    chance = random.Random(seed)
    both = Shared(state, key, breaker)
    failures, margin = 0, both.view.margin
    for _ in range(40):
        ending = chance.choice(["succeeded", "failed", "failed", "slow"])
        both.end(ending)
        failures += ending != "succeeded"
        assert both.look() == both.twins()
        if both.view.state == "open":
            assert failures >= margin
            assert both.view.because == "CONN_RESET"
            break
        failures, margin = 0, both.view.margin
        assert both.view.is_quiet == (both.twin.tell_after > 0)


@pytest.mark.parametrize("breaker", BREAKERS[:4], ids=repr)
def test_many_outcomes_in_one_message_are_counted_in_order(state, key, breaker):
    """Outcomes sent in one message open the circuit at the same one as when sent singly; later ones are from an old era and ignored."""
    outcomes = [
        "failed",
        "succeeded",
        "failed",
        "failed",
        "slow",
        "failed",
        "failed",
        *["failed"] * 9,
        "succeeded",
    ]
    both = Shared(state, key, breaker)
    for ending in outcomes:
        both.end(ending)
    assert both.look() == both.twins()
    assert both.view.state == "open"


def test_a_critical_failure_opens_at_once(state, key):
    """Whatever the window holds."""
    both = Shared(state, key, BREAKERS[0])
    both.end("critical")
    assert both.look()[:2] == both.twins()[:2] == ("open", "critical")


def test_open_times_grow_and_start_over(state, key):
    """1, 2, 3 … of a schedule without chance; after it has closed, from the start."""
    breaker = Breaker.consecutive(1, open_for=Backoff.steps(0.02, 0.03, 0.04))
    both = Shared(state, key, breaker)
    waits = []
    for ending in ("failed", "failed", "succeeded", "failed"):
        if both.view.state == "closed":
            both.end("failed")
            both.look()
            waits.append((both.view.openings, both.view.wait))
        time.sleep(0.06)
        probe = both.ask()
        assert (both.view.state, probe > 0) == ("half_open", True)
        both.line.tell(both.view.era, probe, ending, "")
        both.ask()
        if ending == "failed":
            waits.append((both.view.openings, both.view.wait))
    assert waits == [(1, 0.02), (2, 0.03), (3, 0.04), (1, 0.02), (2, 0.03)]


def test_as_many_probes_as_the_breaker_says(state, key):
    """Two at a time; one that is released makes room, one whose lease ended has lost its place, and two successes close it."""
    both = Shared(state, key, Breaker.consecutive(1, open_for=0.02, probes=2, lease=0.3))
    both.end("failed")
    both.look()
    time.sleep(0.05)
    first, second = both.ask(), both.ask()
    assert 0 < first < second
    assert both.ask() == 0
    assert 0 < both.view.hint <= 0.3
    both.line.tell(both.view.era, second, "released", "")
    third = both.ask()
    assert third > second
    time.sleep(0.35)
    both.line.tell(both.view.era, first, "failed", "")  # too late to say anything
    fourth, fifth = both.ask(), both.ask()
    assert both.view.state == "half_open"
    both.line.tell(both.view.era, fourth, "succeeded", "")
    both.line.tell(both.view.era, fifth, "succeeded", "")
    both.ask()
    assert (both.view.state, both.view.reason) == ("closed", "request_success")


def test_an_ending_from_another_era_is_dropped(state, key):
    """A call that began before the circuit was reset says nothing about now."""
    both = Shared(state, key, BREAKERS[0])
    era = both.view.era
    both.end("failed")
    both.end("failed")
    both.look()
    both.line.put("closed").when_answered(lambda: None)
    both.ask()
    assert both.view.era > era
    both.line.tell(era, 0, "failed", "")
    assert both.look()[2] == (0, 3)


def test_other_numbers_take_the_window_as_far_as_it_says_the_same(state, key):
    """A shorter window of calls keeps the newest; another kind of window starts empty."""
    both = Shared(state, key, Breaker(rate=1.0, window=timedelta(seconds=60)))
    both.end("failed")
    assert both.look()[2] == (1, 1)
    both.line.configure(Breaker(rate=0.9, window=10))
    assert both.look()[2] == (0, 0)
    for ending in ("failed", "failed", "succeeded", "failed"):
        both.line.tell(both.view.era, 0, ending, "")
    assert both.look()[2] == (3, 4)
    both.line.configure(Breaker(rate=0.9, window=3))
    assert both.look()[2] == (2, 3)


@pytest.mark.parametrize("name", ["a b", "a}b{", "ü\n\x00", "\ud800", "x" * 5_000], ids=ascii)
def test_a_key_may_hold_any_characters(state, key, name):
    """Braces, spaces, line ends, half characters: each name is a circuit of its own."""
    one, other = (
        Shared(state, key + name, BREAKERS[0]),
        Shared(state, key + name + "}", BREAKERS[0]),
    )
    one.end("failed")
    assert one.look()[2] == (1, 3)
    assert other.look()[2] == (0, 3)


# ---- the budget ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_budget_in_redis_allows_what_one_in_the_process_allows(state, key, seed):
    """Calls, repeats and repeats given back, in any order within a few seconds."""
    chance = random.Random(seed)
    numbers = RetryBudget(ratio=chance.choice([0.1, 0.5]), floor=chance.choice([0, 1.5, 3]))
    line, twin = state.budget(key, numbers), BudgetState(key, numbers)
    parts = []
    for _ in range(80):
        now = 1_000.0  # the test is over long before anything is too old
        step = chance.choice(["call", "call", "repeat", "back"])
        if step == "call":
            line.deposit()
            twin.deposit(now)
        elif step == "repeat":
            parts.append((_answer(line.ask()), twin.spend(now)))
        elif parts and parts[-1][0]:
            line.give_back()
            twin.take_back(now)
            parts.append((False, False))
    assert [shared for shared, _ in parts] == [own for _, own in parts]
    assert any(shared for shared, _ in parts)


def _answer(question) -> bool | None:
    ends = time.monotonic() + 5
    while not question._future.done():
        assert time.monotonic() < ends
        time.sleep(0.0005)
    return question.take(is_late=False)


def test_what_is_older_than_ten_seconds_neither_earns_nor_counts(server, state, key):
    """A call earns in its second and nine more, a repeat counts in its second and ten more; older fields are deleted."""
    line = state.budget(key, RetryBudget(ratio=1, floor=0))
    name = f"{{resilient_bridge:budget:{key}}}:1"
    with server.client() as client:
        now = client.time()[0]
        client.hset(
            name, mapping={f"c{now - 30}": 5, f"c{now - 8}": 2, f"s{now - 30}": 9, f"s{now - 9}": 1}
        )
        assert [_answer(line.ask()), _answer(line.ask())] == [True, False]
        assert sorted(client.hgetall(name).values()) == ["1", "1", "2"]
