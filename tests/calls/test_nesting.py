"""Nested policies: one of them retries, deadlines are inherited, and a task that outlives the call is outside it."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, settle
from tests.rows import each_row


REFUSED = ConnectionRefusedError


@everywhere
def test_the_outermost_repeats(form):
    """Three nested policies of 3 attempts make 3 calls; the inner ones retry again when called alone."""
    server = Server(always=REFUSED)
    with form.world():
        policy = rb.Policy(at_once(attempts=3))
        inner = policy(server.get, idempotent=True)
        outer = policy(form.of(policy(inner, idempotent=True)), idempotent=True)
        with pytest.raises(REFUSED):
            form.run(outer)
        assert server.calls == 3
        with pytest.raises(REFUSED):
            inner()
        assert server.calls == 6


@everywhere
@each_row(
    ("outer", "idempotent"),
    [
        (rb.Policy(at_once(attempts=2)), False),
        (rb.Policy(at_once(attempts=2)), True),
        (rb.Policy(at_once(attempts=2, on="SYS_RATE_LIMITED")), True),  # it retries other failures
        (rb.Policy(rb.Breaker()), False),  # it retries nothing
    ],
    ids=["not allowed", "allowed", "another failure", "no retry"],
)
def test_the_innermost_repeats_whatever_the_outer_would_do(form, outer, idempotent):
    """Attempts used up by the innermost policy are used up for the outer one, too."""
    server = Server(always=ConnectionResetError)
    with form.world():
        inner = rb.Policy(at_once(attempts=3))(server.get, idempotent=True)
        with pytest.raises(ConnectionResetError):
            form.run(outer(form.of(inner), idempotent=idempotent))
    assert server.calls == 3


async def test_tasks_inside_of_a_call_are_inside():
    """A gather of protected calls within a protected call counts the retries of all."""
    servers = [Server(always=REFUSED) for _ in range(3)]
    policy = rb.Policy(at_once(attempts=2))

    @policy(idempotent=True)
    async def outer():
        await asyncio.gather(
            *(policy(settled(server), idempotent=True)() for server in servers),
            return_exceptions=False,
        )

    with pytest.raises(REFUSED):
        await outer()
    assert [server.calls for server in servers] == [2, 2, 2]


def settled(server):
    """An async function that asks a server."""

    async def get():
        await asyncio.sleep(0)
        return server.get()

    return get


@both
def test_a_deadline_is_inherited(form):
    """The inner policy has the earlier of both deadlines; called alone it has its own."""
    seen = []
    with rb.testing.virtual_time() as clock:
        look = rb.Policy(rb.Deadline(30))(lambda: seen.append(rb.current_attempt().remaining))

        @rb.Policy(rb.Deadline(10))
        def outer():
            look()
            clock.advance(4)
            look()

        form.run(form.of(outer))
        look()
    assert seen == [10, 6, 30]


@both
def test_a_call_after_the_deadline_is_not_started(form):
    """With no time remaining it raises DeadlineExceededError with `executed=NO`."""
    server = Server()
    with rb.testing.virtual_time() as clock:
        inner = rb.Policy(rb.Deadline(60), at_once())(server.get, idempotent=True)

        def body():
            clock.advance(10)
            inner()

        with pytest.raises(rb.DeadlineExceededError) as raised:
            form.run(rb.Policy(rb.Deadline(10))(body))
    assert server.calls == 0
    assert raised.value.failure.executed is rb.errors.Executed.NO


async def test_an_inner_call_is_cut_off_by_the_outer_deadline():
    """The shorter limit ends the call, inside a long inner Timeout as well as in an inner backoff."""
    for inner in (rb.Policy(rb.Timeout(3600)), rb.Policy(rb.Deadline(3600), rb.Retry())):

        async def hang():
            await asyncio.get_running_loop().create_future()

        with rb.testing.virtual_time() as clock:
            task = asyncio.create_task(rb.Policy(rb.Deadline(5))(inner(hang, idempotent=True))())
            await settle()
            clock.advance(5)
            with pytest.raises(rb.DeadlineExceededError, match="5 s"):
                await task


class Background:
    """A task that outlives the call that starts it; it reads its context when `go` is set."""

    def __init__(self):
        self.go = asyncio.Event()
        self.server = Server(always=REFUSED)
        self.seen = []

    def start(self):
        self.task = asyncio.create_task(self._run())

    async def _run(self):
        await self.go.wait()
        self.seen.append(rb.current_attempt())
        await rb.Policy(rb.Deadline(30), at_once(attempts=1))(idempotent=True).call(self._look)
        with pytest.raises(REFUSED):
            await rb.Policy(at_once(attempts=3))(settled(self.server), idempotent=True)()

    async def _look(self):
        self.seen.append(rb.current_attempt().remaining)


@pytest.mark.parametrize("started_in", ["call", "before", "capture"])
async def test_a_task_that_outlives_the_call_is_outside_again(started_in):
    """It has no attempt and no deadline, and its own policies retry independently."""
    background, calls = Background(), 0
    rules = {REFUSED: rb.Rule(attempts=2, before=background.start)}

    @rb.Policy(rb.Deadline(10), at_once(rules=rules))(idempotent=True)
    async def outer():
        nonlocal calls
        calls += 1
        if started_in == "call":
            background.start()
        elif started_in == "capture":
            rb.capture(background.start)
        elif calls == 1:
            raise REFUSED

    with rb.testing.virtual_time() as clock:
        await outer()
        clock.advance(100)
        background.go.set()
        await background.task
    assert background.seen == [None, 30]
    assert background.server.calls == 3


async def test_a_task_inside_of_a_running_call_has_its_deadline():
    """While the call runs, a task that it started is part of it."""
    with rb.testing.virtual_time() as clock:

        @rb.Policy(rb.Deadline(10))
        async def outer():
            clock.advance(3)
            return await asyncio.create_task(look())

        async def look():
            return rb.current_attempt().remaining

        assert await outer() == 7


@everywhere
def test_the_key_is_that_of_the_innermost_call(form):
    """Each operation has its own: an inner call does not send the outer one's key."""
    keys = []
    with form.world():
        inner = rb.Policy(at_once())(
            lambda: keys.append(rb.current_attempt().idempotency_key), idempotent=True
        )

        def body():
            keys.append(rb.current_attempt().idempotency_key)
            inner()
            keys.append(rb.current_attempt().idempotency_key)

        form.run(rb.Policy(at_once())(form.of(body), idempotent=True))
    assert keys[0] == keys[2] != keys[1]


@everywhere
def test_an_inner_rejection_is_repeated_by_the_outer_only_if_it_is_named(form):
    """The outer Retry does not retry the rejection of an inner circuit, unless `on` names CircuitOpenError."""
    for on, attempts in [(rb.Kind.TRANSIENT, 1), (Exception, 1), (rb.CircuitOpenError, 3)]:
        with form.world():
            inner = rb.Policy(rb.Breaker())(Server().get)
            rb.calls.circuit(inner).isolate()
            numbers = []

            def body(inner=inner, numbers=numbers):
                numbers.append(rb.current_attempt().number)
                inner()

            policy = rb.Policy(at_once(attempts=3, on=on))
            with pytest.raises(rb.CircuitOpenError):
                form.run(policy(form.of(body), idempotent=True))
            assert len(numbers) == attempts
