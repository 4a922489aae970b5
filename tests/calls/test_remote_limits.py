"""Adaptive limits that processes of many machines share: several stores of one server, as several processes have, in virtual time."""

from __future__ import annotations

import asyncio
import random
from math import inf, nan

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import resilient_bridge as rb
from tests.calls import remote_store
from tests.calls.test_adaptive_limit import REFUSED, Server, run
from tests.calls.test_shared_limits import agents, start_in_turn
from tests.internals.calls import (
    Machine,
    RemoteLimits,
    Ticket,
)


def stores(number, **how):
    server = remote_store.Server()
    return [remote_store.Store(server, **how) for _ in range(number)]


def policies(found, **how):
    limit = rb.AdaptiveLimit(key="quota", **how)
    return [rb.Policy(rb.Retry(), limit, state=store) for store in found]


def functions(found, server, **how):
    return [policy(server.answer, idempotent=True) for policy in policies(found, **how)]


def limit_of(function):
    (limit,) = function.__binding__.operation.limits.by_key.values()
    return limit


def rows_of(store):
    """What the processes have at the server, of all limits."""
    return [row for limit in store.server.limits.values() for row in limit["rows"].values()]


@pytest.mark.requirement("X14")
@pytest.mark.parametrize(("most", "latency"), [(2, 0.02), (4, 0.0005), (4, 0.02), (8, 0.0005)])
def test_four_processes_together_are_refused_hardly_more_than_one(most, latency):
    """16 agents of five calls each: in one process, and four in each of four, which find the number 5 s later."""
    alone, together = Server(most), Server(most)
    (single,) = functions(stores(1), alone)
    results, seconds = run(lambda: agents(single, 16, 5))
    assert set(results) == {"answer"}
    shared = functions(stores(4, latency=latency), together)

    async def main():
        return await asyncio.gather(*(agents(each, 4, 5) for each in shared))

    found, whole = run(main)
    assert {each for results in found for each in results} == {"answer"}
    assert together.refused <= 1.3 * alone.refused
    assert whole <= 1.2 * seconds + 5


def test_the_earliest_call_of_all_processes_starts_first():
    start_in_turn(policies(stores(2), start=1, most=1))


def test_a_pause_holds_for_all_processes():
    """One is refused for a minute; a call of another, which was never refused, starts after it."""
    server = Server(1)
    server.refusal = httpx.Response(429, headers={"Retry-After": "60"})
    first, second = functions(stores(2), server)

    async def main():
        clock = asyncio.get_running_loop().time
        running = asyncio.create_task(server.answer())
        refused = asyncio.create_task(first())
        await asyncio.sleep(3)
        began = clock()
        assert await second() == "answer"
        assert await refused == "answer"
        await running
        return clock() - began

    took, _ = run(main)
    assert took > 55


def test_the_clients_of_an_origin_share_the_limit_of_each_route():
    server, found = Server(1), stores(2)

    async def answer(request):
        return httpx.Response(429 if await server.answer() is REFUSED else 200)

    def client(store):
        policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(), state=store)
        transport = rb.HTTPTransport(policy, inner=httpx.MockTransport(answer))
        return httpx.AsyncClient(transport=transport, base_url="http://api.example.com")

    async def main():
        async with client(found[0]) as one, client(found[1]) as other:
            answers = await asyncio.gather(*(each.get("/a") for each in (one, one, other, other)))
            await asyncio.sleep(0.5)
            return {each.status_code for each in answers}

    statuses, _ = run(main)
    assert statuses == {200}
    assert len(found[0].server.limits) == 1


def test_the_clock_of_the_server_is_that_of_all():
    """What was learnt is the same in two processes, although nobody's clock is the server's."""
    limit = Machine(8, 100.0, least=1, most=None, patience=120)
    limit.refuse(Ticket(99.0), 101.0, 30.0, random.Random(1))
    numbers = limit.numbers(5_000.0)
    other = Machine(1, 9.0, least=1, most=None, patience=120)
    other.take(numbers, 5_090.0)
    assert other.remaining_wait(11.0) == pytest.approx(limit.remaining_wait(101.0))
    assert other.refused_at == pytest.approx(11.0)
    assert other.numbers(5_090.0) == pytest.approx(numbers, nan_ok=True)
    for wrong in (numbers[:9], (nan, *numbers[1:])):
        with pytest.raises(ValueError, match="number"):
            other.take(wrong)
    assert other.refused_at == pytest.approx(11.0)


# ---- away and back ---------------------------------------------------------------------------------


def test_without_the_server_a_process_goes_on_alone_and_then_with_what_the_server_has():
    server = Server(2)
    found = stores(2)
    asks = functions(found, server)

    async def main():
        both = asyncio.gather(*(agents(each, 6, 8) for each in asks))
        await asyncio.sleep(5)
        found[0].lose()
        await asyncio.sleep(0.1)
        alone = limit_of(asks[0])
        assert alone.other_running == 0
        await asyncio.sleep(20)
        found[0].find()
        await asyncio.sleep(0.1)
        assert alone.numbers(found[0].ahead)[0] == limit_of(asks[1]).numbers(found[1].ahead)[0]
        return await both

    results, _ = run(main)
    assert {each for some in results for each in some} == {"answer"}


def test_a_server_that_does_not_answer_holds_up_a_call_for_its_patience_alone():
    server = Server(9)
    (store,) = stores(1)
    (ask,) = functions([store], server, start=2)

    async def main():
        await ask()
        store.is_slow = True
        return await ask()

    _, seconds = run(main)
    assert seconds == pytest.approx(2 * 2 + remote_store.Line.patience, abs=0.01)
    assert not store.is_up


def test_a_server_that_lost_everything_gets_it_again():
    server = Server(2)
    found = stores(2)
    asks = functions(found, server)

    async def main():
        both = asyncio.gather(*(agents(each, 4, 8) for each in asks))
        for _ in range(5):
            await asyncio.sleep(3)
            assert found[0].server.limits
            found[0].server.limits.clear()
        await asyncio.sleep(3)
        assert found[0].server.limits
        return await both

    results, _ = run(main)
    assert {each for some in results for each in some} == {"answer"}
    assert server.peak <= 2


def test_a_listed_limit_that_does_not_exist_limits_nothing():
    server = Server(9)
    (store,) = stores(1)
    (ask,) = functions([store], server)
    store.is_limited = store.has = lambda *_: True
    results, seconds = run(lambda: agents(ask, 9, 1))
    assert set(results) == {"answer"}
    assert seconds < 2.1


def test_a_store_that_goes_away_at_the_first_look_limits_nothing():
    """It was there when this process heard of the limit, and not when it asked what it is."""
    server = Server(9)
    (store,) = stores(1)
    (ask,) = functions([store], server)
    store.is_limited = store.has = lambda *_: True
    make = store.line

    def line(*how):
        made = make(*how)
        store.is_up = False  # before the line could be informed
        return made

    store.line = line
    results, seconds = run(lambda: agents(ask, 4, 1))
    assert set(results) == {"answer"}
    assert seconds < 2.2


def test_a_call_that_outlives_its_limit_gives_its_permit_back():
    """Else this process would have something for ever, and ask for its lease for ever."""
    (store,) = stores(1)
    seconds = [None, 1, 700]

    async def answer():
        took = seconds.pop(0)
        if took is None:
            return REFUSED
        await asyncio.sleep(took)
        return "answer"

    (ask,) = [policy(answer, idempotent=True) for policy in policies([store])]

    async def main():
        await ask()
        last = asyncio.create_task(ask())
        await asyncio.sleep(5)
        assert [row.running for row in rows_of(store)] == [1]
        await last
        await asyncio.sleep(1)

    run(main)
    (line,) = store.lines
    assert line.proposal.share[:3] == (0, 0, inf)


def test_what_a_store_needs_is_asked_for_before_the_first_call():
    (store,) = stores(1)

    def limits():
        raise rb.ConfigError(rb.errors.Failure.of("SYS_CONFIG_INVALID", "not there"))

    store.limits = limits
    with pytest.raises(rb.ConfigError, match="not there"):
        functions([store], Server(1))


def test_numbers_that_are_none_are_written_over():
    server = Server(2)
    (store,) = stores(1)
    (ask,) = functions([store], server)

    async def main():
        everybody = asyncio.create_task(agents(ask, 6, 4))
        await asyncio.sleep(3)
        (limit,) = store.server.limits.values()
        limit["numbers"], limit["version"] = (inf,), 1_000
        await asyncio.sleep(3)
        assert len(limit_of(ask).numbers()) <= len(
            next(iter(store.server.limits.values()))["numbers"]
        )
        return await everybody

    results, _ = run(main)
    assert set(results) == {"answer"}


@pytest.mark.parametrize("when", [0.0002, 0.0008, 0.0015, 0.5])
def test_a_waiting_call_that_is_cancelled_leaves_nothing(when):
    """Also in the moments in which its place is on the way to the server and back."""
    server = Server(9)
    (store,) = stores(1)
    (ask,) = functions([store], server, start=1, most=1)

    async def main():
        await ask()
        running = [asyncio.create_task(ask()) for _ in range(3)]
        await asyncio.sleep(when)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert rows_of(store) == []
        assert (limit_of(ask).running, limit_of(ask).queue) == (0, [])
        assert await ask() == "answer"

    run(main)


# ---- any order -------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "succeed", "refuse", "leave", "look", "wait", "carry", "carry"]),
        st.integers(0, 2),
        st.integers(0, 5),
    ),
    max_size=80,
)
LOSSES = st.sampled_from(["lose", "find", "flush"])


class Interleaving:
    """Three processes, what runs in each, the messages under way, and the time."""

    def __init__(self):
        self.now, self.rng, self.messages = 1.0, random.Random(0), []
        self.is_reliable = True
        self.server = remote_store.Server(clock=lambda: self.now)
        self.owners = [Owner(self) for _ in range(3)]

    def later(self, _seconds, message):
        self.messages.append(message)

    def play(self, steps):
        for what, who, number in steps:
            getattr(self, what)(self.owners[who], number)
            self.check()
        self.drain()

    def check(self):
        for limit in self.server.limits.values():
            running = sum(row.running for row in limit["rows"].values())
            grew = running > limit.get("before", 0)
            assert not (grew and self.is_reliable) or running <= limit["numbers"][0] + 1e-6
            limit["before"] = running
        for owner in self.owners:
            owner.settle()

    def carry(self, _, number):
        if self.messages:
            self.messages.pop(number % len(self.messages))()

    def enter(self, owner, _):
        limit, ticket = owner.limits.find((), self.now), Ticket(self.now)
        assert not owner.limits.enter(limit, ticket, self.now)
        owner.limits.join(limit, ticket, self.now)
        owner.waiting.append((limit, ticket))
        owner.limits.advance(limit, self.now)

    def succeed(self, owner, number):
        if owner.running:
            limit, ticket = owner.running.pop(number % len(owner.running))
            owner.limits.succeeded(limit, ticket, self.now)

    def refuse(self, owner, number):
        if owner.running:
            limit, ticket = owner.running.pop(number % len(owner.running))
            owner.limits.refused(limit, ticket, self.now, None, 0.1, self.rng)
            owner.limits.join(limit, ticket, self.now)
            owner.waiting.append((limit, ticket))

    def leave(self, owner, number):
        if owner.waiting:
            limit, ticket = owner.waiting.pop(number % len(owner.waiting))
            owner.limits.leave(limit, ticket, self.now)

    def look(self, owner, _):
        for limit in owner.limits.by_key.values():
            owner.limits.advance(limit, self.now)

    def wait(self, _, number):
        self.now += number / 100

    def lose(self, owner, _):
        self.is_reliable = False
        owner.store.lose()

    def find(self, owner, _):
        if not owner.store.is_up:
            owner.store.find()

    def flush(self, *_):
        self.is_reliable = False
        self.server.limits.clear()

    def drain(self):
        """Let everything go on; all calls come through, and nothing of them is at the server."""
        for owner in self.owners:
            self.find(owner, 0)
        for _ in range(3_000):
            if not any(each.running or each.waiting for each in self.owners) and not self.messages:
                break
            for owner in self.owners:
                self.succeed(owner, 0)
                self.look(owner, 0)
            while self.messages:
                self.carry(None, 0)
                self.check()
            self.now += 0.05
        assert [owner.waiting for owner in self.owners] == [[], [], []]
        assert [
            row for limit in self.server.limits.values() for row in limit["rows"].values()
        ] == []
        for owner in self.owners:
            for limit in owner.limits.by_key.values():
                assert (limit.running - limit.other_running, limit._changes) == (0, [])


class Owner:
    """The limits of one process, as its calls use them."""

    def __init__(self, world):
        self.store = remote_store.Store(world.server, later=world.later)
        limit = rb.AdaptiveLimit(start=2)
        self.limits = RemoteLimits("quota", limit, self.store)
        self.limits.clock = lambda: world.now
        self.running, self.waiting = [], []

    def settle(self):
        for pair in list(self.waiting):
            if pair[1].ended:
                assert pair[1].ended == "admitted"
                self.waiting.remove(pair)
                self.running.append(pair)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_whatever_the_order_no_more_run_than_may_and_all_come_through(steps):
    """Messages arrive late and in any order between processes; the server's rule holds at each step."""
    Interleaving().play(steps)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            STEPS.map(lambda each: each[:6]),
            st.lists(st.tuples(LOSSES, st.integers(0, 2), st.just(0)), max_size=1),
        ),
        max_size=15,
    )
)
def test_whatever_is_lost_all_come_through(steps):
    """The server is away from one of them, or loses everything, at any moment."""
    Interleaving().play([step for some in steps for step in some])


# ---- one exchange ----------------------------------------------------------------------------------


def test_what_others_wrote_first_is_taken_and_what_happened_here_is_done_again():
    found = stores(2)
    now = [0.0]
    for store in found:
        store.server.clock = lambda: now[0]
        store.later = lambda _, message: messages.append(message)
    messages = []
    first, second = (RemoteLimits("quota", rb.AdaptiveLimit(start=8), store) for store in found)
    limits = []
    for each in (first, second):
        each.clock = lambda: now[0]
        limits.append(each.find((), 0.0))
        each.advance(limits[-1], 0.0)

    def refuse(each, limit, seconds):
        ticket = Ticket(now[0])
        ticket.began = now[0]
        each.refused(limit, ticket, now[0], None, seconds, random.Random(0))

    def carry():
        while messages:
            messages.pop(0)()

    now[0] = 1.0
    refuse(first, limits[0], 10.0)
    carry()
    now[0] = 1.1
    refuse(second, limits[1], 5.0)  # knows nothing of the other's
    assert limits[1].refused == 1
    carry()
    assert limits[1].refused == 2  # both, and the longer of the two pauses
    assert limits[1].at_once == 2.0
    assert limits[1].remaining_wait(1.1) > 9
    first.advance(limits[0], 1.2)
    limits[0].has_changed = True
    first.advance(limits[0], 1.2)
    carry()
    assert limits[0].numbers() == pytest.approx(limits[1].numbers(), nan_ok=True)
