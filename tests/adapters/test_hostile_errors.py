"""Threat 45 over links and children: errors without a text, chains that bite their tail, groups two thousand deep.

Rule: the user's own exception comes out as it was raised, the object itself; and whatever a client dies of, its link goes on.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.adapters import stdio
from tests.adapters.link_peers import World, quick, virtual


CHILD = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child.py")))


class MuteError(Exception):
    """Neither `str()` nor `repr()` of it works."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class MuteTimeoutError(MuteError, TimeoutError):
    """The same, of a class that is read by its text elsewhere."""


class MuteResetError(MuteError, ConnectionResetError):
    """The same, as a loss."""


class MCPError(MuteError):
    """The same, under a name that is read by its text elsewhere."""


class OddError(Exception):
    """Of no class that anybody knows: it may pass."""


def _cyclic() -> Exception:
    one, two = OddError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one
    one.__context__, two.__context__ = two, one
    return one


def _deep() -> Exception:
    error: Exception = OddError("the innermost")
    for depth in range(2_000):
        error = ExceptionGroup(f"at {depth}", [error])
    return error


HOSTILE = {
    "mute": MuteError,
    "mute timeout": MuteTimeoutError,
    "mute loss": MuteResetError,
    "mute mcp": MCPError,
    "cyclic": _cyclic,
    "deep": _deep,
}
each = pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
own = pytest.mark.parametrize("make", [v for k, v in HOSTILE.items() if k != "mute loss"])


async def caught_from(awaitable) -> BaseException:
    """What it raises; looked at without pytest, which would print it."""
    try:
        await awaitable
    except BaseException as error:  # noqa: BLE001 -- whatever comes out is looked at
        return error
    pytest.fail("nothing was raised")


def harmless(error: BaseException) -> None:
    """Cut what pytest could not print, should an assertion fail."""
    error.__cause__ = error.__context__ = None


@own
@virtual
async def test_the_error_of_a_call_on_a_link_comes_out_as_it_was(make):
    """The very object, whatever its text, its chain or its depth; and the link works on."""
    world = World()
    async with rb.reconnecting(world.factory, quick()) as client:
        fault = world.client.fault = make()
        caught = await caught_from(client.work("a"))
        harmless(caught)
        assert caught is fault
        world.client.fault = None
        assert await client.work("b") == "b by 1"


@virtual
async def test_a_loss_without_a_text_is_a_loss():
    """A call whose connection error cannot be printed has an unknown outcome, from that error."""
    world = World()
    async with rb.reconnecting(world.factory, quick()) as client:
        fault = world.client.fault = MuteResetError()
        caught = await caught_from(client.work("a"))
        assert type(caught) is rb.OutcomeUnknownError
        assert caught.__cause__ is fault
        assert await client.work("b") == "b by 2"


@each
@virtual
async def test_a_client_that_dies_of_it_is_replaced(make):
    """Between two calls, or while one waits, which is told that its outcome is unknown."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        await world.lose(link, make())
        assert await client.work("a") == "a by 2"
        assert link.health().failure is not None


@each
@virtual
async def test_an_attempt_that_fails_with_it_is_followed_by_another(make):
    """It is read as what it is, told to listeners and kept in `health()`; nobody has to print it."""
    world = World()
    world.refuses = make()
    link = rb.reconnecting(world.factory, quick(), patience=5)
    async with link as client:
        assert link.health().failure is not None
        assert repr(link.health())
        world.refuses = None
        assert await client.work("a") == "a by 2"


@pytest.mark.real
@each
async def test_the_block_around_a_child_raises_what_was_raised_in_it(make):
    """`async with rb.links.stdio(…)()`, alone and under a link: the child is ended, and the error is the one that was raised."""

    async def use(opened):
        async with opened as peer:
            assert await peer.request("echo") == {}
            raise fault

    for opened in (stdio(*CHILD)(), rb.reconnecting(stdio(*CHILD), quick())):
        fault = make()
        caught = await caught_from(use(opened))
        harmless(caught)
        assert caught is fault


@pytest.mark.real
@each
async def test_a_child_that_cannot_be_started_for_it_is_started_again(make):
    """A factory that fails with it before its child runs: another attempt follows."""
    faults = [make()]

    @asynccontextmanager
    async def factory():
        if faults:
            raise faults.pop()
        async with stdio(*CHILD)() as peer:
            yield peer

    async with rb.reconnecting(factory, quick(), patience=10) as peer:
        assert await peer.request("echo", {"n": 1}) == {"n": 1}
