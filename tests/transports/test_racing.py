"""Staggered attempts to the addresses of a name, without a network: what is returned, raised and closed."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import socket
import ssl

import pytest

from tests.internals.transports import first_connected, interleaved


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
ROUTELESS = OSError(errno.ENETUNREACH, "no route")
ROUTELESS_ON_WINDOWS = OSError(errno.EINVAL, "no route")
ROUTELESS_ON_WINDOWS.winerror = 1231  # ERROR_NETWORK_UNREACHABLE, for which Python has no errno


class Attempts:
    """Attempts by name: each waits for its seconds, then returns its name or raises."""

    def __init__(self, **outcomes) -> None:
        self.outcomes = outcomes
        self.started = []
        self.discarded = []

    def __iter__(self):
        return iter([lambda name=name: self.run(name) for name in self.outcomes])

    async def run(self, name):
        self.started.append(name)
        seconds, error = self.outcomes[name]
        await asyncio.sleep(seconds)
        if error is not None:
            raise error
        return name

    async def race(self, delay=0.02):
        return await first_connected(self, delay, self.discarded.append)


async def new_tasks(before):
    """Return the new tasks that still exist after two iterations of the loop."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return asyncio.all_tasks() - before


async def test_a_black_hole_delays_the_next_address_only():
    """The second address is tried after the delay and wins; the first attempt is cancelled."""
    before = asyncio.all_tasks()
    attempts = Attempts(hole=(60, None), good=(0, None), spare=(0, None))
    async with asyncio.timeout(1):
        assert await attempts.race() == "good"
    assert attempts.started == ["hole", "good"]
    assert await new_tasks(before) == set()


async def test_a_failure_starts_the_next_address_at_once():
    """After a failure the next attempt does not wait for the delay."""
    attempts = Attempts(bad=(0, REFUSED), good=(0, None))
    async with asyncio.timeout(1):
        assert await attempts.race(delay=60) == "good"


@pytest.mark.parametrize(
    "order", [(ROUTELESS, REFUSED), (REFUSED, ROUTELESS), (ROUTELESS_ON_WINDOWS, REFUSED)]
)
async def test_of_several_failures_the_telling_one_is_raised(order):
    """A missing IPv6 route says nothing about the server: the refusal is raised, as the same object."""
    with pytest.raises(ConnectionRefusedError) as caught:
        await Attempts(a=(0, order[0]), b=(0, order[1])).race()
    assert caught.value is REFUSED
    with pytest.raises(OSError, match="no route"):
        await Attempts(a=(0, ROUTELESS)).race()


@pytest.mark.parametrize("error", [ssl.SSLCertVerificationError(1, "expired"), ZeroDivisionError()])
async def test_what_another_address_cannot_mend_ends_the_race(error):
    """A refused certificate, or a bug, is not tried on the next address."""
    attempts = Attempts(bad=(0, error), good=(0, None))
    with pytest.raises(type(error)):
        await attempts.race(delay=60)
    assert attempts.started == ["bad"]


async def test_who_wins_too_late_is_discarded():
    """Of two that are ready in the same iteration, one is returned and the other is closed."""
    gate, started = asyncio.Event(), []

    async def wait(name):
        started.append(name)
        await gate.wait()
        return name

    discarded = []
    race = asyncio.create_task(
        first_connected([lambda: wait("a"), lambda: wait("b")], 0.001, discarded.append)
    )
    while (
        len(started) < 2
    ):  # x05: the second begins when a timer fires, whenever that is on this machine
        await asyncio.sleep(0.001)
    gate.set()
    won = await race
    await asyncio.sleep(0)
    assert {won, *discarded} == {"a", "b"}


async def test_a_cancelled_race_takes_everything_down():
    """Cancelled in any iteration of the loop, no result is lost: each attempt was cancelled or its result discarded."""
    before = asyncio.all_tasks()
    for iterations in range(8):
        finished = []

        async def attempt(finished=finished):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            finished.append("socket")
            return "socket"

        discarded = []
        race = asyncio.create_task(first_connected([attempt, attempt], 60, discarded.append))
        for _ in range(iterations):
            await asyncio.sleep(0)
        race.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            discarded.append(await race)
        assert await new_tasks(before) == set()
        assert discarded == finished
    gc.collect()


def test_families_alternate_without_duplicates():
    """IPv6 and IPv4 alternate in the resolver's order, each address once."""
    infos = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 80, 0, 0)),
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::2", 80, 0, 0)),
        (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::2", 80, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80)),
    ]
    assert interleaved(infos) == ["::1", "127.0.0.1", "::2"]
    assert interleaved([]) == []
