"""`resilient-bridge doctor` and servers that do not go along: it says why, ends in time, and nothing of it is open afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random

import pytest
from aiohttp import web

import resilient_bridge as rb
from resilient_bridge import cli
from tests.bridges.aiohttp_server import serving
from tests.bridges.doubles.harness import serving_aiohttp
from tests.bridges.doubles.homemade import Homemade
from tests.cli.running_doctor import doctor
from tests.internals.cli import Journal, Limits, examine


pytestmark = pytest.mark.real


async def test_an_echo_server_gets_no_promise():
    """In the default dialect it does not accept us, and the frames say what would fit; in `plain` nothing is sent to it, and all is UNKNOWN."""
    heard = []

    async def echo(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for frame in socket:
            heard.append(frame.data)
            await socket.send_str(frame.data)
        return socket

    async with serving(echo) as url:
        refused = await doctor(url, seconds=4)
        assert [json.loads(frame)["type"] for frame in heard] == ["auth"]
        heard.clear()
        done = await doctor(url, "--dialect", "plain", "--json", seconds=4)
        assert heard == []
    assert refused.code == 1
    assert "what would fit: rb.dialects.plain" in refused.err
    assert "promise" not in refused.out
    assert done.code == 0
    assert done.data["promise"].startswith("Across a cut: UNKNOWN, always")
    assert done.data["findings"]["ping"]["by"] == "websocket"


async def test_a_server_that_refuses_says_why():
    """An HTTP status, with a dialect and without; and a connection that the server ends by itself."""

    async def forbidden(request):
        return web.Response(status=403)

    async def leaving(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.close(code=4500, message=b"go away")
        return socket

    async with serving(forbidden) as url:
        done = await doctor(f"{url}?key=q-123456", "--dialect", "plain", "--json", seconds=4)
        without = await doctor(f"{url}?key=q-123456", seconds=4)
    assert (done.code, without.code) == (1, 1)
    assert done.data["findings"]["losses"][0]["http_status"] == 403
    assert "403" in without.err
    assert "q-123456" not in done.out + done.err + without.out + without.err
    async with serving(leaving) as url:
        done = await doctor(url, seconds=4)
    assert done.code == 1
    assert "4500" in done.err


async def test_a_url_that_works_once_is_found_out():
    """After the cut the server does not take us again: 1, with the status."""
    connections = []

    async def once(request):
        if connections:
            return web.Response(status=410)
        connections.append(request)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket

    async with serving(once) as url:
        done = await doctor(url, "--dialect", "plain", "--json", seconds=5)
    assert done.code == 1
    assert done.rows["accepted again"] == "no"
    assert {loss["http_status"] for loss in done.data["findings"]["losses"]} == {410}


async def flood(request):
    """Send without end to whoever connects."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    with contextlib.suppress(ConnectionError):
        for number in range(1_000_000):
            await socket.send_str(json.dumps({"n": number}))
            await asyncio.sleep(0)  # the client may run in this loop
    return socket


async def test_it_ends_in_time_whatever_the_server_does():
    """A server that accepts TCP and is silent, one that floods, and nobody at all."""
    writers = []

    async def silent(reader, writer):
        writers.append(writer)

    listener = await asyncio.start_server(silent, "127.0.0.1", 0)
    try:
        url = f"ws://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        hole = await doctor(url, seconds=2)
        named = await doctor(url, "--dialect", "plain", seconds=2)
    finally:
        for writer in writers:
            writer.close()
        listener.close()
    async with serving(flood) as url:
        flooded = await doctor(url, "--dialect", "plain", seconds=3)
    alone = await doctor("ws://127.0.0.1:1/", seconds=3)
    assert [hole.code, named.code, alone.code] == [1, 1, 1]
    assert flooded.code in {0, 1}  # whether it was accepted again in this time
    assert (
        max(hole.seconds, named.seconds, flooded.seconds, alone.seconds) < 15
    )  # of which most is the machine's
    assert "connection refused" in alone.err


async def test_x05_a_note_names_that_more_came(monkeypatch):
    """With a bound of 20 frames, which a flood reaches on the slowest machine."""
    monkeypatch.setattr("resilient_bridge.cli.doctor_taps._MOST_FRAMES", 20)
    async with serving(flood) as url:
        limits = Limits.of(5, asyncio.get_running_loop().time())
        found = await examine(
            url, rb.dialects.plain, limits, token=None, session_id=None, probe_type=None
        )
    assert "More came than this command looks at." in found.notes


@pytest.mark.parametrize(("frame", "most"), [("", 20_000), ("x" * 2**20, 16)])
async def test_what_is_noted_of_a_connection_is_bounded(frame, most):
    """In frames and in bytes; what this command does and sends itself is noted still."""
    journal = Journal(rb.dialects.plain)
    for _ in range(most):
        journal.add("came", frame)
    assert not journal.is_full
    journal.add("came", frame)
    journal.add("dialled")
    journal.add("went", "the probe")
    assert journal.is_full
    assert [entry.kind for entry in journal.entries[most:]] == ["dialled", "went"]
    for _ in range(most):
        journal.add("went", frame)
    assert len(journal.entries) <= 2 * most + 1


async def test_nothing_is_open_when_it_is_over():
    """No task, and no connection on the other side; the time is over in the middle of it."""
    double = Homemade(random.Random(1))
    async with serving_aiohttp(double) as url:
        before = asyncio.all_tasks()
        limits = Limits.of(1.0, asyncio.get_running_loop().time())
        dialect = rb.dialects.sequence(field="seq", ask="last_seq")
        await examine(url, dialect, limits, token=None, session_id=None, probe_type=None)
        async with asyncio.timeout(5):
            while double.connections:
                await asyncio.sleep(0.01)
        assert {
            task for task in asyncio.all_tasks() - before if "resilient_bridge" in task.get_name()
        } == set()


# ---- arguments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bridge", "http://127.0.0.1:1/"], "a URL that begins with ws:// or wss://"),
        (["--bridge", "ws://127.0.0.1:1/", "--probe-type", "x"], "may have its effect twice"),
        (
            ["--bridge", "ws://127.0.0.1:1/", "--probe-runs-twice"],
            "--probe-type TYPE and --probe-runs-twice",
        ),
        (["--bridge", "ws://127.0.0.1:1/", "--token-env", "RB_NOT_SET"], "RB_NOT_SET is not set"),
        (
            [
                "--bridge",
                "ws://127.0.0.1:1/",
                "--dialect",
                "plain",
                "--probe-type",
                "x",
                "--probe-runs-twice",
            ],
            "--probe-type: a dialect with types expected, got rb.dialects.plain",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_connected(capsys, arguments, words):
    """Two, and one line that names the option."""
    assert cli.main(["doctor", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_probe_is_explained_in_the_help(capsys):
    """The help says that the message may have its effect twice, and what the exit codes mean."""
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "the message may have its effect twice" in printed
    assert "Exit codes: 0 found out" in printed


async def test_a_secret_is_masked_wherever_the_server_repeats_it():
    """In its first frames, across the end of what is shown of them, and in the reason of a refusal that goes over two lines."""
    secret = "s-" + "abcdefgh" * 8

    async def telling(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(
            "you came with " + request.query["word"] + " and " + "x" * 40 + request.query["word"]
        )
        with contextlib.suppress(TimeoutError):
            await socket.receive(timeout=0.5)
        await socket.close(code=4001, message=f"not {request.query['word']}".encode())
        return socket

    async with serving(telling) as url:
        for more in ([], ["--json"]):
            done = await doctor(f"{url}?word={secret}", *more, seconds=4)
            assert "you came with [redacted]" in " ".join(done.out.split())
            assert secret[:10] not in done.out + done.err
