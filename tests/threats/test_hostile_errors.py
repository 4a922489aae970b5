"""Row 45: exceptions whose methods fail, from every point where a user's code runs inside the client.

Rule: the client classifies, logs and reports them, and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect

import resilient_bridge as rb
from resilient_bridge.failure import error_for
from tests.rows import each_row
from tests.threats.watching import Watch, simulated


class MuteError(Exception):
    """Fails when it is printed."""

    def __str__(self):
        raise RuntimeError("no text for you")

    def __repr__(self):
        raise RuntimeError("no repr either")


class RecursiveError(Exception):
    """Recurses in its `__str__`."""

    def __str__(self):
        return str(self)

    __repr__ = __str__


class BareError(Exception):
    """Raises for every attribute."""

    def __getattr__(self, name):
        raise RuntimeError(name)


class GreedyError(Exception):
    """Has a text of a hundred megabytes."""

    def __str__(self):
        return "x" * 10_000_000


class EndlessError(Exception):
    """Returns a new cause each time."""

    @property
    def __cause__(self):
        return EndlessError()

    @__cause__.setter
    def __cause__(self, value):
        pass


class OddError(Exception):
    """Has an unknown class, so it may be transient."""


def cyclic():
    """Two errors that cause each other."""
    one, two = OddError("one"), OSError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def own_cause():
    """An error that causes itself."""
    error = OddError("me")
    error.__cause__ = error
    error.__context__ = error
    return error


def long_chain(length=5_000):
    """A chain of causes with a refused connection at its end."""
    error: Exception = ConnectionRefusedError(111, "refused")
    for number in range(length):
        outer = RuntimeError(number)
        outer.__cause__ = error
        error = outer
    return error


def deep_group(depth=2_000):
    """An ExceptionGroup in an ExceptionGroup in ..."""
    error: Exception = ConnectionResetError(104, "reset")
    for _ in range(depth):
        error = ExceptionGroup("deeper", [error])
    return error


def wide_group():
    """A group of 20,000."""
    return ExceptionGroup("wide", [ValueError(n) for n in range(20_000)])


def strange_arguments():
    """Arguments that cannot be shown."""
    return OddError(MuteError(), b"\xff\x00", "\ud800", object())


HOSTILE = {
    "mute": MuteError,
    "recursive": RecursiveError,
    "bare": BareError,
    "greedy": GreedyError,
    "endless": EndlessError,
    "cyclic": cyclic,
    "own_cause": own_cause,
    "long_chain": long_chain,
    "deep_group": deep_group,
    "wide_group": wide_group,
    "arguments": strange_arguments,
}


def read_all(watch):
    """Read every text of every event: nothing raises or is endless."""
    for event in watch.events:
        assert len(repr(event)) < 50_000
        failure = getattr(event, "failure", None)
        if failure is not None:
            for text in (
                str(failure),
                failure.explain(),
                failure.to_llm(),
                repr(failure),
                repr(failure.to_dict()),
            ):
                assert len(text) < 50_000
            error_for(failure)  # what a user would get raised


@each_row("kind", HOSTILE)
@simulated
async def test_row_45_from_a_factory(server, kind):
    """Raised three times by a user's factory: each attempt has a typed, readable failure, and the fourth connects."""
    remaining = [3]

    @contextlib.asynccontextmanager
    async def factory():
        if remaining[0]:
            remaining[0] -= 1
            error = HOSTILE[kind]()
            raise error
        async with connect(server.url, ping_interval=None) as websocket:
            yield websocket

    class Over(Watch):
        def make(self, url, **options):
            return rb.BridgeClient.over(url, **options)

    async with Over(factory) as watch:
        await watch.until(lambda: watch.client.state in {"READY", "FAILED"}, 120)
        assert watch.client.state == "READY", watch.client.health()
        assert remaining == [0]
        assert len(watch.failures) == 3
        if kind == "long_chain":
            assert set(watch.failures) <= {"CONN_REFUSED", "SYS_INTERNAL_ERROR"}
        read_all(watch)


@simulated
async def test_row_45_e11_a_programming_error_of_a_factory_ends_the_bridge(server):
    """A retry would run the same code: the bridge is FAILED after the first attempt, and the failure has the error."""

    @contextlib.asynccontextmanager
    async def factory():
        raise ValueError("no server configured")
        yield

    client = rb.BridgeClient.over(factory)
    async with client:
        with pytest.raises(rb.BridgeError, match="no server configured") as caught:
            await client.wait_ready(60)
        assert (client.state, caught.value.failure.code) == ("FAILED", "SYS_INTERNAL_ERROR")


@each_row("kind", HOSTILE)
@each_row("option", ["url", "token", "headers"])
@simulated
async def test_row_45_from_a_credential_helper(server, kind, option):
    """Raised by the function for the URL, the token or the headers: AUTH_REFRESH_FAILED, a retry, and then READY."""
    remaining = [2]

    def helper():
        if remaining[0]:
            remaining[0] -= 1
            error = HOSTILE[kind]()
            raise error
        return {"url": server.url, "token": "t", "headers": {}}[option]

    async with Watch(
        helper if option == "url" else server.url, **({} if option == "url" else {option: helper})
    ) as watch:
        await watch.until(lambda: watch.client.state in {"READY", "FAILED"}, 120)
        assert watch.client.state == "READY", watch.client.health()
        assert set(watch.failures) == {"AUTH_REFRESH_FAILED"}
        read_all(watch)


@pytest.mark.parametrize("kind", HOSTILE)
@simulated
async def test_row_45_from_a_listener(server, kind, caplog):
    """Raised by a listener at every event: counted, logged once, and without effect on the bridge."""

    def listener(event):
        error = HOSTILE[kind]()
        raise error

    with rb.listen(listener):
        async with Watch(server.url) as watch:
            await watch.ready()
            await server.push("tool_call", {"n": 1})
            await watch.until(lambda: watch.ids == [1])
            await server.cut("abort")
            await watch.recovered(2)
    ours = [record.getMessage() for record in caplog.records if "listener" in record.getMessage()]
    assert len(ours) == 1
    assert len(ours[0]) < 500


@each_row("kind", HOSTILE)
@simulated
async def test_row_45_from_on_gap(server, kind):
    """Raised by `on_gap`: the reader gets the same error, the gap is reported again, and the stream goes on after it."""
    calls = []

    def on_gap(gap):
        calls.append(gap)
        if len(calls) == 1:
            error = HOSTILE[kind]()
            raise error

    async with rb.BridgeClient(server.url, on_gap=on_gap) as client:
        await client.wait_ready(10)
        await server.restart(lose_sessions=True)
        await asyncio.sleep(1)
        await client.wait_ready(60)
        await server.push("tool_call", {"n": 1})
        try:
            await anext(aiter(client))
        except Exception as error:  # noqa: BLE001 -- it may be anything, that is the point
            assert type(error) is type(HOSTILE[kind]())
        else:
            pytest.fail("on_gap raised, and the reader did not see it")
        message = await anext(aiter(client))
        assert message.payload == {"n": 1}
        assert len(calls) == 2


@each_row("kind", HOSTILE)
def test_row_45_in_classify(kind):
    """`classify` and every form of its verdict accept each of them, in bounded size."""
    failure = rb.classify(HOSTILE[kind]())
    for text in (
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        repr(failure.to_dict()),
    ):
        assert 0 < len(text) < 50_000
    error = error_for(failure)
    assert str(error)
    if kind == "deep_group":
        assert failure.category in {rb.Category.TRANSPORT, rb.Category.INTERNAL}
