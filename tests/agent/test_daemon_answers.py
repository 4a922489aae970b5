"""What a daemon answers while it is away, how it is ended, and that none of its processes becomes a zombie. Real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Daemon, DaemonHealth
from resilient_bridge.testing import virtual_time
from tests.peers.processes import is_alive

from .daemon_bed import command_line, until


pytestmark = pytest.mark.real

READY, UNREACHABLE = DaemonHealth.READY, DaemonHealth.UNREACHABLE


async def always_ready() -> DaemonHealth:
    return READY


class Tools:
    """A call that answers with a new list each time, or fails as it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None

    async def list(self) -> list[int]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return [self.calls]


# ---- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G3")
async def test_it_is_answered_from_the_cache_when_it_cannot_be_started(bed):
    """The daemon is gone and does not come back: the last answer, with its age and the reason, and no second attempt for the next."""
    script = f'[ -e "{bed.flag}" ] && exit 5; exec "$@"'
    command = ["/bin/sh", "-c", script, "sh", *bed.command()]
    daemon, tools = Daemon(*command, health=bed.url, startup_timeout=30), Tools()
    with virtual_time() as time:
        live = await daemon.answer("tools/list", tools.list)
        assert (live.value, live.is_cached, live.age, live.failure) == ([1], False, 0, None)
        assert (await daemon.answer("tools/list", tools.list)).value == [2]

        bed.flag.touch()
        await daemon.stop()
        daemon._patience = 0.3
        time.advance(60)
        old = await daemon.answer("tools/list", tools.list)
        assert (old.value, old.is_cached) == ([2], True)
        assert 60 <= old.age <= 60.5  # the patience of the second start included
        assert old.failure == daemon.failure
        assert "exit code 5" in old.failure.message
        assert daemon.failed

        daemon._patience = 30  # a start would be noticed: it would take this long
        async with asyncio.timeout(10):
            assert (await daemon.answer("tools/list", tools.list)).is_cached
        assert tools.calls == 2

        bed.flag.unlink()
        with pytest.raises(ZeroDivisionError):  # what was never answered starts it again
            await daemon.answer("initialize", _fail)
        assert (await daemon.answer("tools/list", tools.list)).value == [3]
        assert not daemon.failed
    await daemon.stop()


async def _fail() -> None:
    raise ZeroDivisionError


@pytest.mark.requirement("G3")
async def test_without_an_old_answer_the_error_is_raised(bed):
    """Nothing is made up: the first question to a daemon that cannot be had fails."""
    daemon = bed.shell("exit 5", startup_timeout=0.2)
    with pytest.raises(rb.errors.NotConnectedError):
        await daemon.answer("tools/list", Tools().list)


@pytest.mark.requirement("G3")
async def test_h10_a_supplied_cache_answers_when_the_first_start_fails(bed):
    """A new process whose daemon cannot be started: what an earlier one has kept, its age since it was given, and the reason."""
    with virtual_time() as time:
        daemon = bed.shell("exit 5", startup_timeout=0.2, cache={"tools/list": ["click"]})
        time.advance(10)
        old = await daemon.answer("tools/list", Tools().list)
    assert (old.value, old.is_cached) == (["click"], True)
    assert 10 <= old.age <= 10.3  # the patience of the start included
    assert "exit code 5" in old.failure.message
    assert daemon.failed
    with pytest.raises(rb.errors.NotConnectedError):
        await daemon.answer("resources/list", Tools().list)


@pytest.mark.requirement("G3")
async def test_h10_what_was_answered_can_be_saved_for_the_next_process():
    """`cached` goes into a file, and from there into the next Daemon; a newer answer takes its place."""
    first = Daemon(
        "never-started", health=always_ready, cache={"initialize": {"name": "x"}, "tools/list": [0]}
    )
    await first.answer("tools/list", Tools().list)
    saved = json.loads(json.dumps(first.cached))
    assert saved == {"initialize": {"name": "x"}, "tools/list": [1]}
    assert Daemon("never-started", health=always_ready, cache=saved).cached == saved
    with pytest.raises(rb.ConfigError, match=r"Daemon\.cache"):
        Daemon("never-started", health=always_ready, cache=["tools/list"])


async def test_what_the_link_does_leads_to_the_old_answer():
    """A daemon that goes between the look and the call, or an open circuit; any other error is the caller's."""
    daemon, tools = Daemon("never-started", health=always_ready), Tools()
    await daemon.answer("list", tools.list)
    for tools.error in (
        ConnectionRefusedError(),
        ConnectionResetError(),
        rb.CircuitOpenError(rb.Failure.of("SYS_CIRCUIT_OPEN")),
    ):
        old = await daemon.answer("list", tools.list)
        assert (old.value, old.is_cached) == ([1], True)
        assert old.failure == rb.classify(tools.error)
        with pytest.raises(type(tools.error)) as raised:
            await daemon.answer("another", tools.list)
        assert raised.value is tools.error
    for tools.error in (
        ValueError("its own"),
        rb.BridgeError(rb.Failure.of("TOOL_EXECUTION_FAILED")),
    ):
        with pytest.raises(type(tools.error)) as raised:
            await daemon.answer("list", tools.list)
        assert raised.value is tools.error


async def test_a_hundred_answers_are_remembered():
    """The oldest is forgotten; one that is answered again is new."""
    daemon, tools = Daemon("never-started", health=always_ready), Tools()
    for key in [*range(100), 0, 100]:
        await daemon.answer(key, tools.list)
    tools.error = ConnectionRefusedError()
    assert (await daemon.answer(0, tools.list)).value == [101]
    assert (await daemon.answer(2, tools.list)).value == [3]
    with pytest.raises(ConnectionRefusedError):
        await daemon.answer(1, tools.list)


async def test_a_call_can_be_cancelled():
    """A cancellation is no failure of the link, and leads to no old answer."""

    async def hang():
        await asyncio.get_running_loop().create_future()

    daemon = Daemon("never-started", health=always_ready)
    await daemon.answer("list", Tools().list)
    call = asyncio.create_task(daemon.answer("list", hang))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G5")
async def test_one_that_crashes_is_reaped_and_started_again(bed):
    """No zombie, although nobody asked; the next `ensure()` has a new one."""
    daemon = bed.daemon()
    await daemon.ensure()
    old = daemon.pid
    os.kill(old, signal.SIGKILL)
    await until(lambda: daemon.pid is None)
    assert (is_alive(old), await daemon.health()) == (False, UNREACHABLE)
    assert await daemon.ensure() is READY
    assert bed.alive == [daemon.pid]
    await daemon.stop()


@pytest.mark.requirement("G5")
def test_it_is_reaped_without_a_loop(bed):
    """The loop that started it is gone: it is reaped all the same."""
    daemon = bed.daemon()
    asyncio.run(daemon.ensure())
    os.kill(daemon.pid, signal.SIGKILL)
    asyncio.run(until(lambda: daemon.pid is None))
    assert bed.alive == []


@pytest.mark.requirement("G5")
async def test_stopping_it_ends_its_whole_session(bed):
    """Its children are told too, and it is reaped when `stop()` returns; a second `stop()` does nothing."""
    command = [
        "/bin/sh",
        "-c",
        f'sleep 300 & echo $! > "{bed.flag}"; exec "$@"',
        "sh",
        *bed.command(),
    ]
    daemon = Daemon(*command, health=bed.url, startup_timeout=30)
    await daemon.ensure()
    child = int(bed.flag.read_text())
    assert b"sleep" in command_line(child)
    await daemon.stop(grace=20)
    assert (daemon.pid, bed.alive) == (None, [])
    await until(lambda: not command_line(child))
    await daemon.stop()


@pytest.mark.requirement("G5")
async def test_one_that_does_not_listen_is_killed(bed):
    """SIGTERM is ignored, so it is killed after the grace, and reaped."""
    daemon = bed.daemon("stubborn")
    await daemon.ensure()
    async with asyncio.timeout(10):
        await daemon.stop(grace=0.1)
    assert (daemon.pid, bed.alive) == (None, [])


async def test_a_cancelled_stop_kills(bed):
    """Nobody waits for the grace any more: what was to end does."""
    daemon = bed.daemon("stubborn")
    await daemon.ensure()
    stop = asyncio.create_task(daemon.stop(grace=300))
    await asyncio.sleep(0.01)
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stop
    await until(lambda: not bed.alive)


async def test_stopping_what_was_never_started_does_nothing():
    """There is nothing of ours to end; a bad grace is named."""
    daemon = Daemon("never-started", health=always_ready)
    await daemon.stop()
    with pytest.raises(rb.ConfigError, match=r"Daemon\.stop\.grace"):
        await daemon.stop(grace=0)


async def test_no_file_and_no_thread_stays(bed):
    """Started and ended again and again: as many open files as before, and no thread that waits."""
    daemon = bed.daemon()
    await daemon.ensure()
    await daemon.stop()
    await until(lambda: not _reapers())
    before = _files()
    for _ in range(3):
        await daemon.ensure()
        await daemon.stop()
    await until(lambda: not _reapers())
    assert _files() == before


def _files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _reapers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("daemon ")]
