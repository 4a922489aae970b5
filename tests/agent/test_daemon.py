"""A local daemon, found or started: one of them, whoever starts it, and nothing of ours left behind. Real processes, real ports."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.agent import Daemon, DaemonHealth
from resilient_bridge.testing import virtual_time

from .daemon_bed import command_line, until


pytestmark = pytest.mark.real

READY, STARTING, STOPPING, UNREACHABLE = DaemonHealth


# ---- found or started ------------------------------------------------------------------------------------------------


@pytest.mark.requirement("G3")
async def test_it_is_started_if_none_runs(bed):
    """The first call starts it and returns when it is ready; the second only looks."""
    daemon = bed.daemon()
    assert await daemon.health() is UNREACHABLE
    assert await daemon.ensure() is READY
    assert (await daemon.ensure(), await daemon.health()) == (READY, READY)
    assert bed.pids == [daemon.pid]
    assert repr(daemon) == f"<Daemon {Path(sys.executable).name} ready pid={daemon.pid}>"
    assert not daemon.failed
    await daemon.stop()


@pytest.mark.requirement("G3")
async def test_one_that_runs_is_used_and_never_ended(bed):
    """Whoever answers the health check is the daemon; `stop()` ends only what this object started."""
    first, second = bed.daemon(), bed.daemon()
    await first.ensure()
    assert await second.ensure() is READY
    assert (second.pid, bed.pids) == (None, [first.pid])
    await second.stop()
    assert await second.health() is READY
    await first.stop()
    assert await second.health() is UNREACHABLE


@pytest.mark.requirement("G3")
@pytest.mark.requirement("G9")
async def test_one_that_boots_is_waited_for(bed):
    """503 means that somebody is on the way: nothing is started."""
    first = subprocess.Popen(bed.command(f"until={bed.flag}"))
    daemon = bed.daemon()
    assert await bed.first_other_than(UNREACHABLE, daemon) is STARTING
    start = asyncio.create_task(daemon.ensure())
    await bed.looks(daemon)
    assert not start.done()
    bed.flag.touch()
    assert await start is READY
    assert (bed.pids, daemon.pid) == ([first.pid], None)
    first.kill()
    first.wait()


@pytest.mark.requirement("G3")
@pytest.mark.requirement("G9")
async def test_one_that_shuts_down_is_waited_for_and_replaced(bed):
    """503 after it was ready means that it goes: the next is started when it has gone, and gets the port."""
    daemon = bed.daemon(f"linger={bed.flag}")
    await daemon.ensure()
    old = daemon.pid
    os.kill(old, signal.SIGTERM)
    assert await bed.first_other_than(READY, daemon) is STOPPING
    start = asyncio.create_task(daemon.ensure())
    await bed.looks(daemon)
    assert (start.done(), bed.pids) == (False, [old])
    bed.flag.touch()
    assert await start is READY
    assert bed.pids == [old, daemon.pid]
    await daemon.stop(grace=20)


@pytest.mark.requirement("G3")
async def test_two_that_start_it_at_once_end_with_one(bed):
    """Both saw nobody and started one; the port is taken for the second, which ends, and its owner waits for the first."""
    one, two = bed.daemon("deaf=0.5"), bed.daemon("deaf=0.5")
    assert await asyncio.gather(one.ensure(), two.ensure()) == [READY, READY]
    assert len(bed.pids) == 2
    await until(lambda: len(bed.alive) == 1)  # and the other is reaped
    await until(lambda: None in (one.pid, two.pid))
    assert bed.alive == [one.pid or two.pid]
    await one.stop()
    await two.stop()
    assert bed.alive == []


@pytest.mark.requirement("G3")
async def test_a_port_that_is_bound_is_waited_for(bed):
    """`net.Listen()` fails with "address already in use" for the second: it ends, and the first is waited for until it answers."""
    first = subprocess.Popen(bed.command("deaf=0.5"))
    await until(lambda: bed.pids)
    second = bed.shell(
        "echo 'listen tcp: bind: address already in use' >&2; exit 1", startup_timeout=30
    )
    assert await second.ensure() is READY
    assert (second.pid, bed.alive) == (None, [first.pid])
    first.kill()
    first.wait()


@pytest.mark.requirement("G3")
def test_processes_that_start_it_at_once_end_with_one(bed):
    """The race between programs: all of them are served, by the same daemon, which outlives them."""
    ask = f"""
import asyncio
from resilient_bridge.agent import Daemon
daemon = Daemon(*{bed.command("deaf=0.3")!r}, health={bed.url!r}, startup_timeout=60)
print(asyncio.run(daemon.ensure(), debug=False))
"""
    # -X dev: a file or a process that is left open would be told on stderr
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", ask]
    programs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [program.communicate(timeout=90) for program in programs] == [("ready\n", "")] * 3
    ends = time.monotonic() + 20  # until those that could not have the port have ended
    while (
        len(survivors := [pid for pid in bed.pids if command_line(pid)]) > 1
        and time.monotonic() < ends
    ):
        time.sleep(0.01)
    (survivor,) = survivors
    assert (
        os.getsid(survivor) == survivor
    )  # a session of its own: our terminal's signals are not for it


@pytest.mark.requirement("G3")
async def test_tasks_share_one_start(bed):
    """Five at once cost one process."""
    daemon = bed.daemon()
    assert await asyncio.gather(*[daemon.ensure() for _ in range(5)]) == [READY] * 5
    assert bed.pids == [daemon.pid]
    await daemon.stop()


async def test_tasks_share_a_start_that_fails(bed):
    """Five at once learn of one failure at one time; who asks later has a start of his own."""
    daemon = bed.shell("exit 3", startup_timeout=0.3)
    failures = await asyncio.gather(*[daemon.ensure() for _ in range(5)], return_exceptions=True)
    assert [type(failure) for failure in failures] == [rb.errors.NotConnectedError] * 5
    assert len({str(failure) for failure in failures}) == 1
    assert len(bed.pids) == 1
    with pytest.raises(rb.errors.NotConnectedError):
        await daemon.ensure()
    assert len(bed.pids) == 2


async def test_a_cancelled_start_goes_on_and_is_found(bed):
    """Who stops waiting leaves a daemon that boots, and the next one waits for that."""
    daemon = bed.daemon("deaf=0.3")
    start = asyncio.create_task(daemon.ensure())
    await until(lambda: daemon.pid is not None)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not daemon.failed
    assert await daemon.ensure() is READY
    assert bed.pids == [daemon.pid]
    await daemon.stop()


def test_one_object_serves_one_loop_after_another(bed):
    """It may be made at import, outlive a loop, and meet its daemon again in the next one."""
    daemon = bed.daemon()

    async def five():
        return await asyncio.gather(*[daemon.ensure() for _ in range(5)])

    assert asyncio.run(five()) == asyncio.run(five()) == [READY] * 5
    asyncio.run(daemon.stop())
    assert bed.alive == []


# ---- what is said when it cannot be had ------------------------------------------------------------------------------


@pytest.mark.requirement("G3")
@pytest.mark.requirement("G8")
async def test_one_that_ends_at_once(bed):
    """The exit code and the end of its stderr are told, without secrets, and what to do about that."""
    text = "api_key=sk-verysecret0123\nOSError: [Errno 98] Address already in use\n"
    daemon = bed.shell('printf "$SAID" >&2; exit 3', startup_timeout=0.5, env={"SAID": text})
    with pytest.raises(rb.errors.NotConnectedError) as raised:
        await daemon.ensure()
    failure = raised.value.failure
    assert (failure.code, failure.executed, failure.retryable) == (
        "CONN_NOT_CONNECTED",
        rb.errors.Executed.NO,
        True,
    )
    assert "ended, and nobody else is ready after 0.5 s: " in failure.message
    assert failure.message.endswith("exit code 3: OSError: [Errno 98] Address already in use")
    assert "api_key=" in failure.details["stderr"]
    assert "verysecret" not in failure.explain()
    assert failure.details["exit_code"] == 3
    assert failure.details["seen"] == "connection refused"
    assert failure.suggestions[0] == "wait for the server on that port, or use another port"
    assert (daemon.failed, daemon.failure, daemon.pid) == (True, failure, None)


@pytest.mark.requirement("G3")
async def test_one_that_is_slow(bed):
    """Started but not responding: it is left to go on, found when it is ready, and never started twice."""
    daemon = bed.daemon("deaf=0.8", startup_timeout=0.2)
    with pytest.raises(
        rb.errors.NotConnectedError, match=r"started but not responding after 0\.2 s"
    ) as raised:
        await daemon.ensure()
    assert "go on as if it had started" in raised.value.failure.suggestions[0]
    assert daemon.failed
    async with asyncio.timeout(20):
        while await daemon.health() is not READY:
            await asyncio.sleep(0.02)
    assert not daemon.failed
    assert await daemon.ensure() is READY
    assert bed.pids == [daemon.pid]
    await daemon.stop()


async def test_a_foreign_server_on_its_port(bed):
    """Something that is no daemon has the port: ours cannot start, and what was seen there is told."""

    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(refuse, "127.0.0.1", bed.port):
        daemon = bed.shell("exit 1", startup_timeout=0.3)
        with pytest.raises(rb.errors.NotConnectedError) as raised:
            await daemon.ensure()
    assert raised.value.failure.details["seen"] == "http status 404"
    assert daemon.failed


async def test_sec6_a_function_tells_a_foreign_server_from_the_daemon(bed):
    """SEC6: of a URL only the status is read, as the page says; a function that asks for the name refuses what has another."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nsomebody else")
        writer.close()
        await writer.wait_closed()

    async def is_ours():
        reader, writer = await asyncio.open_connection("127.0.0.1", bed.port)
        writer.write(b"GET /name HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = await reader.read()
        writer.close()
        await writer.wait_closed()
        return READY if b"the daemon" in text else "unreachable"

    async with await asyncio.start_server(answer, "127.0.0.1", bed.port):
        assert await Daemon("/bin/false", health=bed.url).ensure() is READY
        asking = Daemon("/bin/sh", "-c", "exit 1", health=is_ours, startup_timeout=0.3)
        with pytest.raises(rb.errors.NotConnectedError):
            await asking.ensure()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/no/such/daemon", "--token=hunter2hunter2"], "daemon daemon not started: "),
        (["/bin/sh", "-c", "no-such-daemon"], "daemon sh could not be run: exit code 127: "),
        (["/bin/sh", "-c", "exec /dev/null"], "daemon sh could not be run: exit code 126: "),
        (["/bin/true", "null\0byte"], "daemon true not started: embedded null byte"),
    ],
)
async def test_a_command_that_cannot_be_run(bed, command, message):
    """Waiting does not help: a ConfigError at once, with the program and without its arguments."""
    daemon = Daemon(*command, health=bed.url, startup_timeout=60)
    began = time.monotonic()
    with pytest.raises(rb.ConfigError) as raised:
        await daemon.ensure()
    assert time.monotonic() - began < 30
    assert raised.value.failure.message.startswith(message)
    assert not raised.value.failure.retryable
    assert "hunter2" not in raised.value.failure.explain()
    assert daemon.failed


async def test_a_log_takes_its_output(bed, tmp_path):
    """Both streams are appended to the file, and of what was in it before nothing is told."""
    log = tmp_path / "daemon.log"
    log.write_text("from last year\n")
    daemon = bed.shell("echo no configuration; exit 3", startup_timeout=0.3, log=log)
    with pytest.raises(rb.errors.NotConnectedError) as raised:
        await daemon.ensure()
    assert log.read_text() == "from last year\nno configuration\n"
    assert raised.value.failure.details["stderr"] == "no configuration"


async def test_environment_and_folder(bed, tmp_path):
    """`env` is added to ours, `cwd` is where it runs."""
    daemon = bed.shell(
        'echo "$PATH|$MARK|$PWD" > seen', env={"MARK": "x"}, cwd=tmp_path, startup_timeout=0.3
    )
    with pytest.raises(rb.errors.NotConnectedError):
        await daemon.ensure()
    assert (tmp_path / "seen").read_text() == f"{os.environ['PATH']}|x|{tmp_path}\n"


@pytest.mark.parametrize(
    ("command", "options", "named"),
    [
        ([], {}, r"Daemon\.command"),
        (["x", 7890], {}, r"Daemon\.command"),
        (["x"], {"startup_timeout": 0}, r"Daemon\.startup_timeout: wanted seconds above 0"),
        (["x"], {"probe_timeout": float("nan")}, r"Daemon\.probe_timeout"),
        (["x"], {"poll_interval": 500_000}, r"Daemon\.poll_interval"),
        (["x"], {"env": {"PORT": 7890}}, r"Daemon\.env\.PORT: wanted a string"),
    ],
)
def test_a_bad_argument_is_named(command, options, named):
    """ConfigError, when the object is made."""
    with pytest.raises(rb.ConfigError, match=named):
        Daemon(*command, health="http://127.0.0.1/health", **options)


# ---- virtual time ----------------------------------------------------------------------------------------------------


async def test_x03_a_start_that_no_process_is_waited_for_takes_no_real_time():
    """The patience of four seconds passes on the clock of the test: of a function, and of a URL where the process has ended."""

    async def down() -> DaemonHealth:
        return UNREACHABLE

    with socket.create_server(
        ("127.0.0.1", 0)
    ) as taken:  # bound and closed again: nobody listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    for health in (down, url):
        with virtual_time() as clock:
            with pytest.raises(rb.errors.NotConnectedError, match="after 4 s"):
                await Daemon(sys.executable, "-c", "", health=health).ensure()
            assert clock.elapsed == pytest.approx(sum(clock.slept))
        if health is down:
            assert clock.elapsed == pytest.approx(4)


async def test_an_error_of_a_start_keeps_nothing_alive():
    """No cycle through the frames of the checks: it goes with its last reader."""

    async def down() -> DaemonHealth:
        return UNREACHABLE

    gc.disable()
    try:
        gone = []
        for command in (["/no/such/program"], [sys.executable, "-c", ""]):
            with virtual_time():
                try:
                    await Daemon(*command, health=down).ensure()
                except rb.BridgeError as error:
                    gone.append(weakref.ref(error))
                await asyncio.sleep(0)
        assert [ref() for ref in gone] == [None] * 2
    finally:
        gc.enable()


async def test_x03_the_clock_of_a_test_does_not_run_ahead_of_a_daemon_that_comes_up(bed):
    """A real process that is asked at its URL is waited for in real time, under virtual time too."""
    daemon = bed.daemon()
    with virtual_time() as clock:
        assert await daemon.ensure() is READY
        assert clock.slept == []
    await daemon.stop()
