"""Generator functions: retried until their first item, not retried after it, and closed like any generator."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import resilient_bridge as rb
from tests.calls.forms import Form, Server, at_once, everywhere, settle
from tests.rows import each_row


REFUSED = ConnectionRefusedError


def streamed(form: Form, body):
    """Return the generator function `body`, sync or async by `form`."""
    if not form.is_async:
        return body

    async def items(*args, **kwargs):
        for item in body(*args, **kwargs):
            yield item

    return items


def collected(form: Form, stream, *args, into=None, **kwargs):
    """Return all items; those before an error stay in `into`."""
    items = [] if into is None else into

    async def collect():
        async for item in stream(*args, **kwargs):
            items.append(item)

    if form.is_async:
        form.run(collect)
    else:
        for item in stream(*args, **kwargs):
            items.append(item)
    return items


@everywhere
def test_it_is_repeated_until_its_first_item(form):
    """Its attempts have numbers, a note, events and the same arguments, like those of a call."""
    server, numbers = Server(REFUSED, REFUSED), []

    def items(count, *, start):
        numbers.append(rb.current_attempt().number)
        server.get()
        yield from range(start, start + count)

    with form.world():
        stream = rb.Policy(at_once())(streamed(form, items), idempotent=True)
        assert collected(form, stream, 3, start=5) == [5, 6, 7]
    assert numbers == [1, 2, 3]


@everywhere
def test_after_the_first_item_nothing_is_repeated(form):
    """The error is raised unchanged after the items, with a note that gives the reason; the circuit counts it."""
    error, calls = REFUSED("mine"), []

    def items():
        calls.append(1)
        yield 1
        raise error

    got = []
    with form.world():
        stream = rb.Policy(at_once(), rb.Breaker.consecutive(1))(
            streamed(form, items), idempotent=True
        )
        with pytest.raises(REFUSED) as raised:
            collected(form, stream, into=got)
        assert rb.calls.circuit(stream).state == "open"
    assert raised.value is error
    assert (got, calls) == ([1], [1])
    assert error.__notes__ == ["not repeated: items had been handed out"]
    assert rb.classify(error).stopped == "not_idempotent"


@everywhere
@each_row("slow_after", [None, 5])
def test_a_mistake_in_the_middle_is_no_failure_of_the_other_side(form, slow_after):
    """A ValueError after the first item counts neither way, also for a breaker with `slow_after`."""

    def items():
        yield 1
        raise ValueError

    with form.world():
        stream = rb.Policy(rb.Breaker.consecutive(1, slow_after=slow_after))(streamed(form, items))
        with pytest.raises(ValueError):
            collected(form, stream)
        assert rb.calls.circuit(stream).state == "closed"


@everywhere
def test_a_circuit_that_a_stream_opened_is_open_for_its_time(form):
    """A stream that fails in the middle opens the circuit for its open time from then on, by the policies' clock."""

    def items():
        yield 1
        raise REFUSED

    with form.world() as clock:
        if form.is_virtual:
            clock.advance(100_000)
        stream = rb.Policy(rb.Breaker.consecutive(1, open_for=60))(streamed(form, items))
        with pytest.raises(REFUSED):
            collected(form, stream)
        assert 59 < rb.calls.circuit(stream).retry_after <= 60
        with pytest.raises(rb.CircuitOpenError):
            collected(form, stream)


@everywhere
def test_no_items_is_a_success(form):
    """A stream that ends before its first item has succeeded and is not retried."""
    calls = []

    def items():
        calls.append(1)
        yield from ()

    with form.world():
        assert collected(form, rb.Policy(at_once())(streamed(form, items), idempotent=True)) == []
    assert calls == [1]


def test_a_generator_stays_one():
    """It stays a generator function with its signature; `send`, `throw`, `close` and `return` reach the generator."""
    seen = []

    @rb.Policy(at_once())(idempotent=True)
    def echo(start: int):
        """Yield each value sent to it."""
        sent = yield start
        seen.append(sent)
        try:
            yield sent
        except KeyError:
            yield "caught"
        return "returned"

    assert inspect.isgeneratorfunction(echo)
    assert str(inspect.signature(echo)) == "(start: 'int')"
    items = echo(1)
    assert next(items) == 1
    assert items.send("hello") == "hello"
    assert items.throw(KeyError()) == "caught"
    with pytest.raises(StopIteration) as end:
        next(items)
    assert end.value.value == "returned"
    assert seen == ["hello"]


async def test_an_async_generator_stays_one():
    """It stays an async generator function; `asend`, `athrow` and `aclose` reach the generator."""
    closed = []

    @rb.Policy(at_once())(idempotent=True)
    async def echo(start):
        try:
            sent = yield start
            try:
                yield sent
            except KeyError:
                yield "caught"
            yield "more"
        finally:
            closed.append(True)

    assert inspect.isasyncgenfunction(echo)
    items = echo(1)
    assert await anext(items) == 1
    assert await items.asend("hello") == "hello"
    assert await items.athrow(KeyError()) == "caught"
    await items.aclose()
    assert closed == [True]


async def test_a_stream_holds_its_permit_until_it_ends():
    """In a bulkhead of one a second stream is rejected while the first runs, and admitted when the first is closed."""

    @rb.Policy(rb.Bulkhead(1))
    async def items():
        yield 1
        yield 2

    first = items()
    assert await anext(first) == 1
    with pytest.raises(rb.errors.BulkheadFullError):
        await anext(items())
    await first.aclose()
    assert [item async for item in items()] == [1, 2]


@pytest.mark.parametrize("new", ["without", "with another"])
def test_a_permit_is_returned_to_the_bulkhead_that_granted_it(new):
    """If the policy is replaced while a stream runs, the stream ends under the old one and returns its permit there."""

    @rb.Policy(rb.Bulkhead(1), name="items")(idempotent=False)
    def items():
        yield 1
        yield 2

    old = items.policy
    flowing = items()
    next(flowing)
    items.policy = (
        rb.Policy(at_once()) if new == "without" else rb.Policy(rb.Bulkhead(1, key=f"other {new}"))
    )
    assert list(items()) == [1, 2]
    assert list(flowing) == [2]
    items.policy = old
    assert list(items()) == [1, 2]
    assert list(items()) == [1, 2]


def test_a_new_bulkhead_holds_from_the_first_stream_on():
    """A bulkhead set at run time applies to the next stream."""

    @rb.Policy(at_once())(idempotent=True)
    def items():
        yield 1

    list(items())
    items.policy = rb.Policy(rb.Bulkhead(1))
    first = items()
    next(first)
    with pytest.raises(rb.errors.BulkheadFullError):
        next(items())
    first.close()


async def test_limits_are_for_the_first_item():
    """Timeout and Deadline bound the time to the first item, not the time that the reader takes."""
    with rb.testing.virtual_time() as clock:

        @rb.Policy(rb.Deadline(5), at_once(), rb.Timeout(3))(idempotent=False)
        async def items(*, hangs):
            if hangs:
                await asyncio.get_running_loop().create_future()
            yield 1
            await asyncio.sleep(0)
            yield 2

        got = []
        async for item in items(hangs=False):
            got += [item]
            clock.advance(100)
            await asyncio.sleep(0)
        assert got == [1, 2]

        hung = asyncio.create_task(anext(items(hangs=True)))
        await settle()
        clock.advance(3)
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await hung


async def test_cancelled_between_items():
    """The reader is cancelled while it waits for an item: the generator is closed, the permit returned, nothing counted."""
    closed = []

    @rb.Policy(rb.Bulkhead(1), rb.Breaker.consecutive(1))
    async def items():
        try:
            yield 1
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    async def read():
        async for _ in items():
            pass

    task = asyncio.create_task(read())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]
    assert rb.calls.circuit(items).state == "closed"
    again = items()
    assert await anext(again) == 1
    await again.aclose()


@everywhere
def test_what_is_current_between_items(form):
    """An attempt is current until the first item; between items the reader's own context is restored."""
    seen = []

    def items():
        seen.append(rb.current_attempt() is not None)
        yield rb.current_attempt()
        yield rb.current_attempt()

    with form.world():
        stream = rb.Policy(at_once())(streamed(form, items), idempotent=True)
        got = collected(form, stream)
        assert rb.current_attempt() is None
    assert seen == [True]
    assert got[1] is None


def test_disabled_no_layer_is_taken():
    """With policies disabled a stream takes no permit either."""

    @rb.Policy(rb.Bulkhead(1))
    def items():
        yield 1
        yield 2

    with rb.testing.disabled():
        first, second = items(), items()
        assert (next(first), next(second)) == (1, 1)
        first.close()
        second.close()
