"""`resilient-bridge pipe` as a real child process against a real bridge: what it sends, prints, survives and returns."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from resilient_bridge import cli
from resilient_bridge.testing import BridgeServer
from tests.cli.running_pipe import applied, message, running


pytestmark = pytest.mark.real


async def test_lines_go_out_in_order_and_messages_come_in():
    """Each line is a message on the bridge, what the bridge pushes is a line on stdout, and the end of input ends it with 0."""
    async with BridgeServer() as server, running(server.url, "--session", "s1") as child:
        child.say(*(message(n) for n in range(100)))
        await child.reported("state: READY")
        pushed = await server.push("tool_call", {"text": "line\nbreak"})
        assert await child.hear() == pushed
        assert await child.end() == 0
        assert applied(server) == list(range(100))
        assert server.session == "s1"
        assert await child.process.stdout.read() == b""


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("notaurl", "'notaurl'"),
        ("htp://host:80/ws", "'htp://host:80'"),
        ("http://me:hunter2@host/ws?token=hunter2#hunter2", "'http://host'"),
        ("me:hunter?2@host/ws", "without ://"),
        ("http://host/hunter2?mail=hunter2@host", "'http://host'"),
        ("http://no\turl", r"'http://no\\turl'"),
        ("http://" + "x" * 500, "…'"),
    ],
)
def test_an_address_that_is_none_is_shown(url, shown, capsys):
    """Its scheme and host are shown, so that a slip is seen; the rest may be a secret. No thread is left."""
    before = set(threading.enumerate())
    assert cli.main(["pipe", url]) == 2
    assert set(threading.enumerate()) == before
    printed = capsys.readouterr().err
    assert "a URL that begins with ws:// or wss://, got '" in printed
    assert shown in printed
    assert "hunter" not in printed
    assert len(printed.splitlines()) == 1
    assert len(printed) < 250


async def test_a_key_and_a_ttl_may_be_set():
    """The caller's key is the one on the wire."""
    async with BridgeServer() as server, running(server.url) as child:
        child.say(message(1, idempotency_key="mine", ttl=30))
        assert await child.end() == 0
        assert server.received[0]["payload"]["idempotency_key"] == "mine"


async def test_a_bad_line_is_named_and_the_rest_goes_on():
    """Line number and field stand on stderr, the lines around it are sent, and the exit code is 4."""
    async with BridgeServer() as server, running(server.url) as child:
        child.say(
            message(1),
            "nonsense",
            {"type": "a", "payload": []},
            "",
            {"type": "Not-A-Name", "payload": {}},
            message(2),
        )
        assert await child.end() == 4
        refused = [line for line in child.errors if line.startswith("refused: ")]
        assert [line.split(":")[1].strip() for line in refused] == ["line 2", "line 3", "line 5"]
        assert "one JSON object expected, got text that is not JSON at character 1" in refused[0]
        assert "payload: an object expected, got a list" in refused[1]
        assert "type (^[a-z_]+$)" in refused[2]
        assert applied(server) == [1, 2]


async def test_it_survives_a_cut_and_says_so():
    """Lines typed while the link is down arrive after it, once; the loss, the retry and the verdict are told."""
    async with BridgeServer() as server, running(server.url) as child:
        await child.reported("state: READY")
        await server.push("tool_call", {})
        await child.hear()
        await server.cut("abort", seconds=0.2)
        child.say(*(message(n) for n in range(20)))
        await child.reported("retry: attempt 1 in ")
        assert (await child.reported("verdict: ")).startswith("verdict: RECOVERED")
        assert await child.end() == 0
        assert applied(server) == list(range(20))


async def test_a_fast_producer_waits_instead_of_losing():
    """More lines than the outbox holds, typed while the link is down: none is refused, all arrive in order."""
    async with BridgeServer() as server, running(server.url) as child:
        await child.reported("state: READY")
        await server.cut("abort", seconds=0.2)
        await child.reported("lost: ")
        child.say(*(message(n) for n in range(2_500)))
        assert await child.end() == 0
        assert applied(server) == list(range(2_500))


async def test_a_gap_is_reported():
    """A session that ended meanwhile is a gap on stderr, with its verdict and reason."""
    async with BridgeServer() as server, running(server.url) as child:
        await child.reported("state: READY")
        await server.push("tool_call", {})
        await child.hear()
        server.expire_sessions()
        assert "GAP (new_session)" in await child.reported("gap: ")
        assert await child.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_drains(number):
    """Ctrl-C and SIGTERM end the input: what was read is still confirmed, and the exit code is that of the end of input."""
    async with BridgeServer(slow=0.3) as server, running(server.url) as child:
        await child.reported("state: READY")
        child.say(message(1), message(2))
        async with asyncio.timeout(20):
            while len(server.received) < 2:
                await asyncio.sleep(0.01)
        child.process.send_signal(number)
        assert await child.end(close=False) == 0
        assert applied(server) == [1, 2]


async def test_a_second_signal_ends_at_once():
    """Who cannot wait for the drain says so twice: the lines that were not confirmed are named, the exit code is 3."""
    async with (
        BridgeServer(acks="none", never_pong=True) as server,
        running(server.url, "--drain", "60") as child,
    ):
        await child.reported("state: CONNECTING")
        child.say(message(1))
        async with asyncio.timeout(20):
            while not server.received:  # a connection alone says nothing of the line
                await asyncio.sleep(0.01)
        child.process.send_signal(signal.SIGINT)
        await child.reported("drain: ")
        child.process.send_signal(signal.SIGINT)
        assert await child.end(close=False) == 3
        assert (await child.reported("not confirmed: ")).startswith("not confirmed: line 1: ")


async def test_the_drain_is_bounded():
    """A bridge that is not there costs `--drain` seconds; each line is reported as not delivered, the exit code is 3."""
    async with BridgeServer() as server:
        url = server.url
    async with running(url, "--drain", "0.5") as child:
        child.say(message(1), message(2))
        assert await child.end() == 3
        lost = [line for line in child.errors if line.startswith("not confirmed: ")]
        assert [line.split(":")[1].strip() for line in lost] == ["line 1", "line 2"]
        assert await child.process.stdout.read() == b""


async def test_a_reader_that_leaves_ends_it_in_order():
    """`pipe | head -1`: no traceback, the lines read so far are confirmed, the exit code is that of the end of input."""
    async with BridgeServer() as server, running(server.url) as child:
        await child.reported("state: READY")
        child.say(message(1))
        async with asyncio.timeout(20):
            while applied(server) != [
                1
            ]:  # it was read: a write that fails first would end the child before
                await asyncio.sleep(0.01)
        child.process._transport.get_pipe_transport(1).close()
        async with asyncio.timeout(20):
            while child.process.returncode is None:
                await server.push("tool_call", {})
                await asyncio.sleep(0.05)
        assert await child.end(close=False) == 0
        assert applied(server) == [1]
        assert not any("Traceback" in line or "Error" in line for line in child.errors)


async def test_keep_open_goes_on_printing():
    """With `--keep-open` the end of input ends nothing; a signal does."""
    async with BridgeServer() as server, running(server.url, "--keep-open") as child:
        child.say(message(1))
        child.process.stdin.close()
        await child.reported("state: READY")
        for n in range(3):
            await server.push("tool_call", {"n": n})
            assert (await child.hear())["payload"] == {"n": n}
        child.process.send_signal(signal.SIGTERM)
        assert await child.end(close=False) == 0
        assert applied(server) == [1]


async def test_a_token_comes_from_the_environment_and_is_never_shown():
    """The right token joins; a wrong one is a fatal error, exit code 1; neither is ever printed."""
    async with BridgeServer(token="s3cret-token") as server:
        async with running(server.url, "--token-env", "RB_T", RB_T="s3cret-token") as child:
            child.say(message(1))
            assert await child.end() == 0
            assert not any("s3cret" in line for line in child.errors)
        async with running(server.url, "--token-env", "RB_T", RB_T="wr0ng-token") as child:
            child.say(message(1))
            assert await child.end() == 1
            assert (await child.reported("failed: ")).startswith("failed: ")
            assert not any("wr0ng" in line for line in child.errors)


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["http://127.0.0.1:1/"], "ws://"),
        (["ws://127.0.0.1:1/", "--token-env", "RB_NOT_SET"], "RB_NOT_SET"),
        (["wss://127.0.0.1:1/", "--pin", "md5:00"], "sha256"),
    ],
)
async def test_wrong_settings_end_with_two(argv, word):
    """What cannot work is told in one line before anything is connected."""
    async with running(*argv) as child:
        assert await child.end() == 2
        assert len(child.errors) == 1
        assert word in child.errors[0]


async def test_a_preset_decides_how_it_tries():
    """`--preset recursor` waits exactly 1 second before the first attempt."""
    async with BridgeServer() as server, running(server.url, "--preset", "recursor") as child:
        await child.reported("state: READY")
        await server.cut("abort")
        assert "attempt 1 in 1.0 s" in await child.reported("retry: ")


async def test_a_reader_that_sleeps_stops_neither_heartbeat_nor_lines():
    """Nobody reads stdout for a while: the link stays up, lines still go out, and all messages come when reading goes on."""
    async with BridgeServer() as server, running(server.url) as child:
        await child.reported("state: READY")
        text = "x" * 1_000
        for n in range(3_000):
            await server.push("tool_call", {"n": n, "text": text})
            if n % 100 == 0:
                await asyncio.sleep(0)
        child.say(message(1))
        async with asyncio.timeout(20):
            while not server.received:
                await asyncio.sleep(0.01)
        assert [(await child.hear())["payload"]["n"] for _ in range(3_000)] == list(range(3_000))
        assert await child.end() == 0
        assert not any(line.startswith("lost: ") for line in child.errors)
