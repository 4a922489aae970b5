"""One adaptive limit, as numbers: never more at once than it allows, no place lost, nobody overtakes, whatever the order of events."""

from __future__ import annotations

import random
from math import inf

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.internals.calls import Machine, Ticket


def machine(at_once: float = 4, now: float = 0.0, **changed: object) -> Machine:
    return Machine(at_once, now, **{"least": 1, "most": None, "patience": 120.0, **changed})


def came(limit: Machine, now: float, number: int = 1) -> list[Ticket]:
    """Let so many calls come to the door."""
    tickets = [Ticket(now) for _ in range(number)]
    for ticket in tickets:
        limit.join(ticket, now)
    return tickets


def refuse(limit: Machine, ticket: Ticket, now: float, after: float | None = None) -> None:
    limit.refuse(ticket, now, after, random.Random(0))


def test_so_many_run_at_once_and_the_others_wait_in_order():
    limit = machine(2)
    tickets = came(limit, 0.0, 4)
    assert limit.step(0.0) == tickets[:2]
    limit.succeeded(tickets[0], 1.0)
    assert limit.step(1.0)[0] is tickets[2]


def test_the_number_is_halved_once_per_round_trip():
    """Of eight that started together and are refused, the first halves it; those that start later may halve it again."""
    limit = machine(8)
    tickets = came(limit, 1.0, 8)
    assert limit.step(1.0) == tickets
    for ticket in tickets:
        refuse(limit, ticket, 1.1, 1.0)
        limit.join(ticket, 1.1)
    assert limit.at_once == 4
    assert limit.step(2.0) == []
    again = limit.step(2.3)
    assert again == tickets[:4]
    refuse(limit, again[0], 2.4)
    assert limit.at_once == 2


def test_calls_that_began_before_the_limit_take_room_as_well():
    """Of 16 four were taken and are not over: eight at once are four more."""
    limit = machine(8)
    limit.began_with_calls(4)
    tickets = came(limit, 1.0, 12)
    assert limit.step(1.0) == tickets[:4]
    limit.earlier_ended(1.5)
    assert limit.step(1.5) == tickets[4:5]


def refused_beside(limit: Machine, taken: int, refused: int, now: float) -> None:
    """Let calls start of which a server refuses the last ones; the others are in flight."""
    limit.at_once = taken + refused
    tickets = came(limit, now, taken + refused)
    assert limit.step(now) == tickets
    for ticket in tickets[taken:]:
        refuse(limit, ticket, now + 0.1)
    for ticket in tickets[:taken]:
        limit.succeeded(ticket, now + 2)


def grown_by(limit: Machine, at_once: float, now: float) -> float:
    """Return by how much a success lets the number grow, times the number."""
    limit.at_once, limit.refused_at = at_once, now  # so that time alone grows nothing
    tickets = came(limit, now, 50)
    running = limit.step(now)
    limit.succeeded(running[0], now + 0.01)
    grown = limit.at_once - at_once
    for ticket in tickets:
        limit.leave(ticket, now + 0.01)
    return round(grown * at_once, 6)


def test_past_what_the_server_took_twice_the_number_grows_at_half_the_pace():
    """Eight of ten and of nine were taken: with the ninth, it goes on as before."""
    limit = machine(1)
    refused_beside(limit, 8, 2, 10.0)
    assert grown_by(limit, 8.0, 20.0) == 1.0
    refused_beside(limit, 8, 1, 30.0)
    assert grown_by(limit, 8.0, 40.0) == 0.5
    assert grown_by(limit, 8.9, 50.0) == 0.5
    assert grown_by(limit, 9.0, 60.0) == 1.0
    limit.at_once, limit.refused_at = 8.0, 70.0
    running = came(limit, 70.0, 9)
    assert len(limit.step(70.0)) == 8
    assert limit.next_at(70.0) == 74.0  # and without a success after four seconds, not two
    for ticket in running:
        limit.leave(ticket, 70.0)
    refused_beside(limit, 12, 1, 80.0)  # another number: not known to be the limit yet
    assert grown_by(limit, 12.0, 90.0) == 1.0


def test_the_number_returns_at_once_to_what_the_server_took():
    limit = machine(1)
    refused_beside(limit, 6, 3, 10.0)
    assert grown_by(limit, 5.5, 20.0) == round(5.5 * 0.5, 6)


def test_the_number_never_falls_below_least_nor_grows_above_most():
    limit = machine(4, least=3, most=5)
    (ticket,) = came(limit, 1.0)
    limit.step(1.0)
    refuse(limit, ticket, 2.0)
    assert limit.at_once == 3
    now = 100.0
    for _ in range(50):
        tickets = came(limit, now, 8)
        limit.step(now)
        now += 1
        for each in tickets:
            if each.has_permit:
                limit.succeeded(each, now)
            else:
                limit.leave(each, now)
    assert limit.at_once == 5


def test_a_success_below_the_limit_changes_nothing():
    limit = machine(4)
    for now in range(10):
        (ticket,) = came(limit, float(now))
        limit.step(float(now))
        limit.succeeded(ticket, now + 0.5)
    assert limit.at_once == 4


def test_calls_of_minutes_let_it_grow_while_somebody_waits():
    """After two seconds without a refusal by one, and again after another two: no success is needed."""
    limit = machine(1)
    tickets = came(limit, 0.0, 3)
    assert limit.step(0.0) == tickets[:1]
    assert limit.next_at(0.0) == 2.0
    assert limit.step(1.9) == []
    assert limit.step(2.0) == tickets[1:2]
    assert limit.step(3.9) == []
    assert limit.step(4.0) == tickets[2:]


def test_a_refused_call_is_first_again_and_the_door_waits_with_it():
    limit = machine(2, most=2)
    first, second, third = came(limit, 1.0, 3)
    assert limit.step(1.0) == [first, second]
    refuse(limit, first, 1.1, 1.0)
    limit.join(first, 1.1)
    limit.succeeded(second, 1.2)
    assert limit.step(1.2) == []
    assert 2.1 <= limit.next_at(1.2) <= 2.2
    assert limit.step(2.3)[0] is first
    assert third.number > first.number


def test_without_a_time_the_pause_doubles_up_to_ten_seconds():
    """Half to full of 0.5, 1, 2, 4, 8, 10, 10 s while nothing succeeds; a Retry-After of 0, or in the past, is no time."""
    limit, now = machine(1), 1.0
    (ticket,) = came(limit, now)
    limit.step(now)
    for full in (0.5, 1, 2, 4, 8, 10, 10):
        refuse(limit, ticket, now + 0.1, 0.0)
        limit.join(ticket, now + 0.1)
        pause = limit.next_at(now + 0.1) - now - 0.1
        assert full / 2 <= pause <= full
        now += 0.1 + pause
        assert limit.step(now) == [ticket]
    limit.succeeded(ticket, now + 0.1)
    (other,) = came(limit, now + 1)
    limit.step(now + 1)
    refuse(limit, other, now + 2)
    assert limit.remaining_wait(now + 2) <= 0.5


def test_ten_minutes_without_a_refusal_and_it_is_forgotten():
    limit = machine(1)
    tickets = came(limit, 0.0, 5)
    limit.most = 1
    limit.step(0.0)
    refuse(limit, tickets[0], 1.0)
    assert not limit.is_unused(600.0)
    assert set(limit.step(601.0)) == set(tickets[1:])
    assert limit.is_unused(601.0)


def test_patience_runs_only_while_nothing_moves():
    """While a call runs, and after a success, nobody gives up; after 10 s in which nothing was in flight, all do."""
    limit = machine(1, patience=10.0)
    runs, waits = came(limit, 0.0, 2)
    limit.most = 1
    limit.step(0.0)
    assert limit.step(500.0) == []
    refuse(limit, runs, 500.0, 60.0)
    assert limit.step(509.0) == []
    assert limit.step(510.5) == [waits]
    assert waits.ended == "impatient"


def test_exhausted_one_call_tries_and_the_others_fail_at_once():
    limit = machine(4)
    now = 0.0
    limit.succeeded(Ticket(0.0), now)
    tickets = came(limit, now, 4)
    while not limit.is_exhausted:
        now = max(now, limit.next_at(now)) if limit.queue else now
        for ticket in limit.step(now):
            refuse(limit, ticket, now + 0.1)
            limit.join(ticket, now + 0.1)
    assert 30 <= now <= 50
    over = limit.step(now + 0.1)
    assert [ticket.ended for ticket in over] == ["exhausted"] * 3
    assert limit.queue == [tickets[0]]
    now = limit.next_at(now + 0.1)
    assert limit.step(now) == [tickets[0]]
    (late,) = came(limit, now)
    assert [ticket.ended for ticket in limit.step(now)] == ["exhausted"]
    assert late.ended == "exhausted"
    limit.succeeded(tickets[0], now + 0.1)
    assert not limit.is_exhausted


def test_where_the_room_is_shared_it_is_not_exhausted():
    limit = machine(1)
    (ticket,) = came(limit, 0.0)
    now = 0.0
    for _ in range(200):
        limit.step(now)
        limit.refuse(ticket, now + 0.1, None, random.Random(1), is_shared=True)
        limit.join(ticket, now + 0.1)
        now = limit.next_at(now + 0.1)
        assert limit.remaining_wait(now) <= 1.0
    assert not limit.is_exhausted


def test_a_limit_makes_room_for_one_that_is_starved():
    """Half of what runs, and no growth for a while; a dead one does not ask for ever."""
    limit = machine(8)
    tickets = came(limit, 1.0, 20)
    limit.step(1.0)
    limit.make_room(1.5)
    assert limit.at_once == 4
    limit.succeeded(tickets[0], 3.0)
    assert limit.at_once == 4
    starved, (ticket,), now, asked = machine(1), came(machine(1), 0.0), 0.0, 0
    starved.join(ticket, now)
    for _ in range(100):
        now = starved.next_at(now)
        starved.step(now)
        starved.refuse(ticket, now + 0.1, None, random.Random(0), is_shared=True)
        starved.join(ticket, now + 0.1)
        asked += starved.is_starved
        now += 0.1
    assert asked == 3


def test_a_header_shuts_the_door_for_at_most_a_minute():
    limit = machine(2)
    limit.heard(30.0, 1.0)
    assert limit.remaining_wait(1.0) == 30.0
    for wrong in (-5.0, 0.0, 61.0, 1e9):
        limit.heard(wrong, 1.0)
    assert limit.remaining_wait(1.0) == 30.0


def play(server, agents, calls, seconds, *, refused_in=0.1, seed=0):
    """Play agents that each make one call after the other against a server; return its refusals, and the time of the last end."""
    rng, limit, events, now = random.Random(seed), machine(agents / 2), [], 0.0
    to_come, done, refused = agents * calls, 0, 0
    for _ in range(agents):
        came(limit, now)
        to_come -= 1
    while done < agents * calls:
        for ticket in limit.step(now):
            assert ticket.ended == "admitted"
            is_served = server.take(now)
            events.append(
                (now + (seconds if is_served else refused_in), ticket.number, ticket, is_served)
            )
        events.sort(key=lambda event: event[:2])
        at = limit.next_at(now)
        if not events or at < events[0][0]:
            assert at < inf
            now = max(now, at)
            continue
        now, _, ticket, is_served = events.pop(0)
        if is_served:
            server.free()
            limit.succeeded(ticket, now)
            done += 1
            if to_come:
                to_come -= 1
                came(limit, now)
        else:
            refused += 1
            refuse_by(limit, ticket, now, rng)
    return refused, now


def refuse_by(limit, ticket, now, rng):
    limit.refuse(ticket, now, None, rng)
    limit.join(ticket, now)


class AtOnce:
    """A server that takes so many calls at once."""

    def __init__(self, most):
        self.most, self.active = most, 0

    def take(self, now):
        self.active += self.active < self.most
        is_taken, self.was = self.active != getattr(self, "was", 0), self.active
        return is_taken

    def free(self):
        self.active -= 1
        self.was = self.active


class Rate:
    """A server that takes so many calls a second, without any burst."""

    def __init__(self, per_second):
        self.gap, self.next = 1 / per_second, 0.0

    def take(self, now):
        if now + 1e-9 < self.next:
            return False
        self.next = now + self.gap
        return True

    def free(self):
        pass


def test_a_server_that_takes_four_at_once_is_used_and_rarely_asked_in_vain():
    refused, seconds = play(AtOnce(4), 16, 40, 2.0)
    assert seconds <= 320 / 0.95
    assert refused <= 75


def test_a_server_that_takes_one_a_second_gets_nearly_one_a_second():
    """However few run at once, two that start together are one too many: the starts are spaced."""
    for duration in (2.0, 0.1):
        refused, seconds = play(Rate(1), 16, 20, duration)
        assert seconds <= 320 / 0.85
        assert refused <= 90


def test_calls_of_ten_seconds_are_spaced_where_the_number_at_once_cannot_be_the_cause():
    """They are refused beside seven, then beside four: two started together, and ten could run."""
    refused, seconds = play(Rate(1), 64, 10, 10.0)
    assert seconds <= 640 / 0.8
    assert refused <= 160


def test_a_server_that_takes_one_at_once_is_not_slowed_by_a_spacing():
    _, seconds = play(AtOnce(1), 16, 20, 2.0)
    assert seconds <= 640 / 0.85


class _AnyOrder(RuleBasedStateMachine):
    """Any order of events, at any times."""

    @initialize(at_once=st.floats(0.5, 40), least=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
    def begin(self, at_once, least, seed):
        self.now, self.rng = 0.0, random.Random(seed)
        self.limit = machine(at_once, least=least, patience=20.0)
        self.waiting: list[Ticket] = []
        self.running: list[Ticket] = []
        self.ended: list[Ticket] = []

    def step(self):
        before = sorted(self.waiting)
        over = self.limit.step(self.now)
        admitted = [ticket for ticket in over if ticket.ended == "admitted"]
        # nobody overtakes: those that may go are the first of those that waited
        assert admitted == before[: len(admitted)]
        if admitted:
            assert len(self.running) + len(admitted) <= self.limit.at_once + 1e-6
        for ticket in over:
            self.waiting.remove(ticket)
            (self.running if ticket.ended == "admitted" else self.ended).append(ticket)

    @rule(seconds=st.floats(0, 15))
    def time_passes(self, seconds):
        self.now += seconds
        self.step()

    @rule()
    def the_next_moment_comes(self):
        at = self.limit.next_at(self.now)
        if at < inf:
            self.now = max(self.now, at)
            self.step()

    @rule(number=st.integers(1, 5))
    def calls_come(self, number):
        self.waiting += came(self.limit, self.now, number)
        self.step()

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 1000), how=st.sampled_from(["succeeded", "released"]))
    def one_ends(self, index, how):
        getattr(self.limit, how)(self.running.pop(index % len(self.running)), self.now)
        self.step()

    @precondition(lambda self: self.running)
    @rule(
        index=st.integers(0, 1000),
        after=st.sampled_from([None, -1.0, 0.0, 0.5, 7.0]),
        is_back=st.booleans(),
        is_shared=st.booleans(),
    )
    def one_is_refused(self, index, after, is_back, is_shared):
        ticket = self.running.pop(index % len(self.running))
        before = self.limit.at_once
        self.limit.refuse(ticket, self.now, after, self.rng, is_shared=is_shared)
        assert self.limit.at_once >= before / 2
        assert self.limit.remaining_wait(self.now) > 0
        if is_back:
            self.limit.join(ticket, self.now)
            self.waiting.append(ticket)
        self.step()

    @precondition(lambda self: self.waiting)
    @rule(index=st.integers(0, 1000))
    def one_stops_waiting(self, index):
        ticket = self.waiting.pop(index % len(self.waiting))
        self.limit.leave(ticket, self.now)
        self.step()

    @rule(wait=st.floats(-10, 100))
    def a_header_is_heard(self, wait):
        self.limit.heard(wait, self.now)
        self.step()

    @invariant()
    def every_permit_is_counted(self):
        if hasattr(self, "limit"):
            assert self.limit.running == len(self.running)
            assert sorted(self.waiting) == self.limit.queue
            assert self.limit.at_once >= self.limit.least

    @invariant()
    def a_waiting_call_has_a_moment_to_come(self):
        """Nobody waits for ever: there is a time to look again, or a call runs whose end will wake them."""
        if hasattr(self, "limit") and self.waiting:
            assert self.limit.next_at(self.now) < inf

    def teardown(self):
        """When the others end, all that wait are served or told."""
        if not hasattr(self, "limit"):
            return
        for _ in range(10_000):
            if not (self.waiting or self.running):
                return
            if self.running:
                self.limit.succeeded(self.running.pop(), self.now)
            self.now = max(self.now + 0.01, min(self.limit.next_at(self.now), self.now + 5))
            self.step()
        raise AssertionError(f"{len(self.waiting)} wait for ever")


_AnyOrder.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestAnyOrder = _AnyOrder.TestCase


def test_a_limit_is_forgotten_while_calls_of_it_run():
    """The one that succeeds changes nothing; the one that is refused begins it anew."""
    limit = Machine(4, 0.0, least=1, most=None, patience=120)
    first, second = Ticket(0.0), Ticket(0.0)
    for ticket in (first, second):
        limit.join(ticket, 0.0)
    assert limit.step(0.0) == [first, second]
    limit.step(601.0)
    limit.succeeded(first, 601.0)
    assert limit.at_once == inf
    limit.refuse(second, 602.0, 1.0, random.Random(0))
    assert (limit.at_once, limit.running) == (1.0, 0)
