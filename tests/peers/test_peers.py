"""The MCP servers that tests kill, with the plain MCP client: what runs, what is counted, which error the caller gets."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

from tests.peers.everything import everything, everything_command, needs_everything
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault
from tests.peers.running import Ledger, mcp_server, stdio_command, until
from tests.peers.zygote import PYTHON


pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def connected(make):
    """A client whose context is entered in a task of its own, and a list of the error at its exit.

    A dead HTTP transport cancels the task that entered the client: callers in another task get an MCPError instead.
    """
    leave, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    errors = []

    async def own():
        try:
            async with make() as client:
                ready.set_result(client)
                await leave.wait()
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            errors.append(error)
            if not ready.done():
                ready.set_exception(error)

    task = asyncio.create_task(own())
    try:
        async with asyncio.timeout(30):
            client = await ready
        yield client, errors
    finally:
        leave.set()
        await task


def over_http(url, mode="auto"):
    return lambda: Client(url, mode=mode)


def over_sse(url):
    return lambda: Client(sse_client(url))


@asynccontextmanager
async def over_stdio(command):
    """A bare client of a command; what the child says on stderr is dropped."""
    with Path(os.devnull).open("w") as nothing:
        parameters = StdioServerParameters(command=command[0], args=list(command[1:]))
        async with Client(stdio_client(parameters, errlog=nothing)) as client:
            yield client


async def result_of(call):
    """Return the answer of a tool, or the code and the message of the MCP error."""
    async with asyncio.timeout(20):
        try:
            answer = await call
        except MCPError as error:
            return error.code, error.message
    return answer.content[0].text


@pytest.mark.parametrize("options", [(), ("--json", "--stateless")], ids=["sessions", "plain"])
async def test_it_answers_over_http(tmp_path, options):
    """Its tools say what they are, `create_ticket` counts, and a tool that raises gives a result with is_error."""
    async with (
        mcp_server(ledger=tmp_path / "ledger", options=options) as server,
        Client(server.url()) as client,
    ):
        hints = {
            tool.name: (tool.annotations.read_only_hint, tool.annotations.idempotent_hint)
            for tool in (await client.list_tools()).tools
        }
        once = dict.fromkeys(("create_ticket", "slow", "die", "fail"), (False, False))
        assert hints == {**dict.fromkeys(("add", "life", "noise"), (True, True)), **once}
        assert await result_of(client.call_tool("add", {"a": 1, "b": 2})) == "3"
        assert await result_of(client.call_tool("life", {})) == str(server.pid)
        for _ in range(2):
            assert await result_of(client.call_tool("create_ticket", {"key": "k"})) == "created k"
        assert (server.ledger.keys, server.ledger.repeated) == (["k", "k"], ["k"])
        assert (await client.call_tool("fail", {})).is_error


async def test_a_kill_amid_a_call_leaves_its_effect_and_no_session(tmp_path):
    """With sessions the call is lost, what ran is counted, and a server restarted on the same port has no sessions."""
    async with (
        mcp_server(ledger=tmp_path / "ledger") as server,
        connected(over_http(server.url(), "legacy")) as (client, errors),
    ):
        call = asyncio.create_task(result_of(client.call_tool("slow", {"seconds": 60, "key": "k"})))
        await server.ledger.wait_for("k")
        url, pid = server.url(), server.pid
        await server.kill()
        assert await call == (-32000, "SSE stream ended without a response")
        assert (server.is_alive, server.ledger.count("k")) == (False, 1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", server.port)
        await server.start()
        assert (server.url(), server.starts, server.ledger.lives) == (url, 2, [pid, server.pid])
        assert await result_of(client.call_tool("add", {"a": 1, "b": 2})) == (
            -32600,
            "Session not found",
        )
    assert errors == []


async def test_without_sessions_a_restart_between_calls_goes_unseen_and_a_death_does_not(tmp_path):
    """With 2026-07-28 the next call works; a server that dies in a call fails every call under way and every later one."""
    async with (
        mcp_server(ledger=tmp_path / "ledger") as server,
        connected(over_http(server.url())) as (client, errors),
    ):
        await server.restart()
        assert await result_of(client.call_tool("create_ticket", {"key": "k"})) == "created k"
        beside = asyncio.create_task(
            result_of(client.call_tool("slow", {"seconds": 60, "key": "beside"}))
        )
        await server.ledger.wait_for("beside")
        closed = (-32000, "Connection closed")
        assert await result_of(client.call_tool("die", {"code": 3, "key": "d"})) == closed
        assert (await server.gone(), await beside, server.ledger.count("d")) == (3, closed, 1)
        await server.start()
        assert await result_of(client.call_tool("add", {"a": 1, "b": 2})) == closed
    assert len(errors) == 1


async def test_a_reset_looks_the_same_whatever_ran(tmp_path):
    """Over HTTP through the failing server: only the ledger tells a call that ran from one that did not."""
    async with (
        mcp_server(ledger=tmp_path / "ledger") as server,
        HttpFault(("127.0.0.1", server.port)) as front,
    ):
        for fault, ran in ((Fault.reset_before(), 0), (Fault.reset_after(), 1)):
            async with connected(over_http(front.url("/mcp"))) as (client, errors):
                front.strike(fault, rpc="tools/call")
                outcome = await result_of(client.call_tool("create_ticket", {"key": "k"}))
                assert (outcome, server.ledger.count("k")) == ((-32000, "Connection closed"), ran)
            assert [type(error).__name__ for error in errors[0].exceptions] == ["ReadError"]


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 500, 503])
async def test_a_status_is_hidden_by_the_bare_client(status):
    """Over HTTP the caller learns of a refusal and not its status; the client goes on. Without a session 404 is a method."""
    async with HttpFault(decide=lambda n, method, path: Fault.answer(status)) as front:
        with pytest.raises(ExceptionGroup) as caught:
            async with Client(front.url("/mcp")):
                raise AssertionError("connected")
    ((error,),) = [group.exceptions for group in caught.value.exceptions]
    assert error.code == (-32601 if status == 404 else -32603)


async def test_it_answers_over_sse_and_its_end_is_reported(tmp_path):
    """A refused message is never answered. The end of the server, by SIGTERM too, fails calls under way and later ones."""
    async with (
        mcp_server("sse", ledger=tmp_path / "ledger") as server,
        HttpFault(("127.0.0.1", server.port)) as front,
    ):
        async with connected(over_sse(front.url("/sse"))) as (client, errors):
            front.strike(Fault.answer(503), rpc="tools/call")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await client.call_tool("create_ticket", {"key": "never"})
        async with connected(over_sse(server.url())) as (client, more):
            assert await result_of(client.call_tool("add", {"a": 1, "b": 2})) == "3"
            call = asyncio.create_task(
                result_of(client.call_tool("slow", {"seconds": 60, "key": "k"}))
            )
            await server.ledger.wait_for("k")
            await server.stop()
            assert await call == (-32000, "Connection closed")
            await server.start()
            assert await result_of(client.call_tool("add", {"a": 1, "b": 2})) == (
                -32000,
                "Connection closed",
            )
        assert (errors, more, server.ledger.keys) == ([], [], ["k"])


async def test_it_answers_over_stdio_through_noise_until_it_dies(tmp_path):
    """Garbage on stdout is skipped; a death in a call fails this call and every later one."""
    ledger = Ledger(tmp_path / "ledger")
    async with over_stdio(stdio_command(ledger.file)) as client:
        assert await result_of(client.call_tool("noise", {"lines": 3})) == "printed"
        assert await result_of(client.call_tool("create_ticket", {"key": "k"})) == "created k"
        closed = (-32000, "Connection closed")
        assert await result_of(client.call_tool("die", {"code": 0, "key": "d"})) == closed
        assert await result_of(client.call_tool("add", {"a": 1, "b": 2})) == closed
        assert (ledger.keys, len(ledger.lives)) == (["k", "d"], 1)


async def test_a_kill_over_stdio_is_reported_at_once(tmp_path):
    """SIGKILL amid a call: the call fails, and its effect is counted."""
    ledger = Ledger(tmp_path / "ledger")
    async with over_stdio(stdio_command(ledger.file)) as client:
        call = asyncio.create_task(result_of(client.call_tool("slow", {"seconds": 60, "key": "k"})))
        await ledger.wait_for("k")
        os.kill(ledger.lives[0], signal.SIGKILL)
        assert (await call, ledger.keys) == ((-32000, "Connection closed"), ["k"])


def test_the_noise_is_really_on_stdout(tmp_path):
    """As a module too: what `noise` prints stands between the answers, on the pipe that carries them."""
    begin = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        b'"clientInfo":{"name":"c","version":"1"}}}\n'
    )
    ask = (
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"noise","arguments":{}}}\n'
    )
    command = [
        *PYTHON,
        "-m",
        "tests.peers.mcp_server",
        "--transport",
        "stdio",
        "--ledger",
        tmp_path / "l",
    ]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        lines = []
        for frames, answers in (
            (begin, 1),
            (ask, 2),
        ):  # one after the other: the server works on several at once
            process.stdin.write(frames)
            process.stdin.flush()
            lines += [process.stdout.readline() for _ in range(answers)]
        process.stdin.close()
        assert process.wait(20) == 0
    assert [line.startswith(b"{") for line in lines] == [True, False, True]


async def test_a_server_ends_with_its_parent(tmp_path):
    """When its parent is killed, its stdin ends and it exits: no process remains."""
    starter = (
        "import asyncio, os, pathlib\n"
        "from tests.peers.running import mcp_server\n"
        "async def main():\n"
        f"    async with mcp_server(ledger=pathlib.Path({str(tmp_path / 'ledger')!r})):\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", starter, cwd=ROOT)
    assert await process.wait() == -signal.SIGKILL
    (pid,) = Ledger(tmp_path / "ledger").lives

    def is_gone():
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            return b"Z" in _state(pid)  # a container's first process may leave it unreaped
        return True

    await until(is_gone, "the end of the server")


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return b""


async def test_a_server_that_cannot_start_says_why(tmp_path):
    """The error has what it printed, and no process remains."""
    with pytest.raises(AssertionError, match="unrecognized arguments: --nonsense"):
        async with mcp_server(ledger=tmp_path / "ledger", options=["--nonsense"]):
            raise AssertionError("started")


@needs_everything
async def test_everything_answers_over_http_and_forgets_its_sessions(tmp_path):
    """The server on Node: its tools answer; after a kill it is back on its port, and refuses the old session as no session (400)."""
    async with (
        everything(tmp_path / "log") as server,
        connected(over_http(server.url())) as (client, errors),
    ):
        assert await result_of(client.call_tool("echo", {"message": "hi"})) == "Echo: hi"
        await server.restart()
        refused = (-32603, "Server returned an error response")
        assert await result_of(client.call_tool("echo", {"message": "hi"})) == refused
        async with Client(server.url()) as fresh:
            assert await result_of(fresh.call_tool("echo", {"message": "hi"})) == "Echo: hi"
        port = server.port
    assert errors == []
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


@needs_everything
async def test_everything_answers_over_stdio():
    """The same tools over pipes."""
    async with over_stdio(everything_command()) as client:
        assert await result_of(client.call_tool("echo", {"message": "hi"})) == "Echo: hi"
