"""What an MCP server says of its tools, whom a link believes, and what is repeated for it; effects are counted at the servers."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import resilient_bridge as rb
from tests.adapters.link_peers import World, quick, virtual
from tests.adapters.test_link_calls import client_of
from tests.peers.ports import Port
from tests.peers.running import Ledger, McpProcess, until
from tests.peers.zygote import PYTHON
from tests.rows import each_row


pytestmark = pytest.mark.timeout(60)

SERVER = """
import os, sys, time
from pathlib import Path
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

ledger, lives, transport, port = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
server = MCPServer("hints", log_level="CRITICAL")
with lives.open("a") as file:
    file.write(f"{os.getpid()}\\n")

def work(name, key):
    with ledger.open("a") as file:
        file.write(f"{name} {key}\\n")
    if key.startswith("die") and ledger.read_text().count(f"{name} {key}\\n") == 1:
        time.sleep(0.3)          # others may be sent meanwhile
        os._exit(3)
    return key

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def read(key: str) -> str:
    return work("read", key)

@server.tool(annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
def put(key: str) -> str:
    return work("put", key)

@server.tool(annotations=ToolAnnotations(read_only_hint=False))
def add(key: str) -> str:
    return work("add", key)

@server.tool()
def plain(key: str) -> str:
    return work("plain", key)

if transport == "stdio":
    server.run("stdio")
else:
    import uvicorn
    uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_config=None)
"""


class Served:
    """The server over stdio or HTTP, with what it did."""

    def __init__(self, folder: Path, transport: str, port: int) -> None:
        """Write the program."""
        self.program = folder / "server.py"
        self.program.write_text(SERVER)
        self.ledger, self.lives = Ledger(folder / "ledger"), Ledger(folder / "lives")
        self.command = [
            str(self.program),
            str(self.ledger.file),
            str(self.lives.file),
            transport,
            str(port),
        ]
        self.process = McpProcess(self.command, port, folder / "log")
        self.is_stdio = transport == "stdio"

    def factory(self):
        """A client of it."""
        if not self.is_stdio:
            return Client(self.process.url())
        parameters = StdioServerParameters(command=PYTHON[0], args=[*PYTHON[1:], *self.command])
        return Client(stdio_client(parameters, errlog=self.errlog))


@asynccontextmanager
async def linked(folder: Path, transport: str, **options):
    """A link to the server, which is started again whenever it ends."""
    with Port() as port, Path(os.devnull).open("w") as nothing:
        served = Served(folder, transport, port.number)
        served.errlog = nothing

        async def keep() -> None:
            while True:
                await served.process.start()
                await served.process.gone()

        keeper = None if served.is_stdio else asyncio.create_task(keep())
        try:
            if keeper is not None:
                await until(lambda: served.lives.keys and served.process.is_alive, seconds=30)
                await asyncio.sleep(0)
            async with rb.reconnecting(served.factory, quick(), patience=30, **options) as client:
                yield served, client
        finally:
            if keeper is not None:
                keeper.cancel()
                with suppress(asyncio.CancelledError):
                    await keeper
                await served.process.kill()


async def call(client, tool: str, key: str = "die") -> str:
    """Call a tool; what it answered, or the error."""
    try:
        return (await client.call_tool(tool, {"key": key})).content[0].text
    except rb.OutcomeUnknownError:
        return "unknown"


@pytest.mark.real
@pytest.mark.parametrize(
    ("options", "repeated"),
    [
        ({}, {"read"}),
        ({"trust_hints": True}, {"read", "put"}),
        ({"idempotent": False, "trust_hints": True}, set()),
    ],
    ids=["left out", "trusted", "no"],
)
async def test_a_command_that_the_user_starts_is_believed_when_it_says_read_only(
    options, repeated, tmp_path
):
    """A tool that reads is repeated on the next child; one that is called idempotent with `trust_hints` only; the others never."""
    async with linked(tmp_path, "stdio", **options) as (served, client):
        for tool in ("read", "put", "add", "plain"):
            assert await call(client, tool) == ("die" if tool in repeated else "unknown")
            assert served.ledger.count(f"{tool} die") == 1 + (tool in repeated)


@pytest.mark.real
@pytest.mark.parametrize(
    ("options", "repeated"),
    [({}, set()), ({"trust_hints": True}, {"read", "put"})],
    ids=["left out", "trusted"],
)
async def test_a_server_at_a_url_is_believed_with_trust_hints_only(options, repeated, tmp_path):
    """Whoever answers there could say anything."""
    async with linked(tmp_path, "http", **options) as (served, client):
        for tool in ("read", "put", "add"):
            assert await call(client, tool) == ("die" if tool in repeated else "unknown")
            assert served.ledger.count(f"{tool} die") == 1 + (tool in repeated)


@pytest.mark.real
async def test_an_idempotent_write_is_not_repeated_over_a_later_one(tmp_path):
    """put(A), put(B), and the server dies: A again would undo B, so its outcome stays unknown. A read in between does no harm."""
    async with linked(tmp_path, "stdio", trust_hints=True) as (served, client):
        first = asyncio.create_task(call(client, "put", "die A"))
        await served.ledger.wait_for("put die A")
        second = asyncio.create_task(call(client, "put", "B"))
        assert await first == "unknown"
        await second
        assert served.ledger.count("put die A") == 1
        third = asyncio.create_task(call(client, "put", "die C"))
        await served.ledger.wait_for("put die C")
        await client.list_tools()
        assert await third == "die C"
        assert served.ledger.count("put die C") == 2


@pytest.mark.real
async def test_a_server_that_lists_no_tools_gives_no_hints(tmp_path):
    """Its list hangs or fails: the call is made all the same, and not repeated."""
    program = tmp_path / "server.py"
    program.write_text(
        SERVER.replace(
            'if transport == "stdio":',
            'server._tool_manager.list_tools = None\nif transport == "stdio":',
        )
    )
    command = [str(program), str(tmp_path / "ledger"), str(tmp_path / "lives"), "stdio", "0"]
    with Path(os.devnull).open("w") as nothing:
        parameters = StdioServerParameters(command=PYTHON[0], args=[*PYTHON[1:], *command])
        async with rb.reconnecting(
            lambda: Client(stdio_client(parameters, errlog=nothing)), quick()
        ) as client:
            assert await call(client, "read") == "unknown"
    assert Ledger(tmp_path / "ledger").keys == ["read die"]


# -- the bridge of stdio Bus ------------------------------------------------------------------------------------------
MARKED = {
    "code": -32001,
    "message": "Worker w1 timed out",
    "data": {"type": "TIMEOUT", "retryable": True},
}
UNMARKED = {"code": -32000, "message": "Worker w1 is gone", "data": {"type": "TRANSPORT"}}
ALWAYS = ["bridge_health", "agents_discover", "sessions_status", "sessions_close"]
IF_MARKED = ["sessions_create", "sessions_prompt", "sessions_cancel", "tasks_delegate"]


@virtual
@each_row("error", [MARKED, UNMARKED], ids=["marked", "unmarked"])
@each_row("name", [*ALWAYS, *IF_MARKED, "another"])
@each_row("preset", [rb.presets.stdiobus, rb.presets.default], ids=["stdiobus", "default"])
async def test_h05_stdiobus_says_which_calls_may_be_repeated(preset, name, error):
    """Its reads always; those that do something only after an error that the bridge marks; under no other policy."""
    from mcp.shared.exceptions import MCPError

    world, ran = World(), []

    async def call_tool(self, tool, arguments=None):
        ran.append(tool)
        await asyncio.sleep(0)
        if len(ran) == 1:
            raise MCPError(error["code"], error["message"], error["data"])
        return "done"

    world.kind = client_of("mcp", call_tool=call_tool)
    policy = preset.evolve(calls=rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0.1))))
    is_repeated = preset is rb.presets.stdiobus and (
        name in ALWAYS or (name in IF_MARKED and error is MARKED)
    )
    async with rb.reconnecting(world.factory, policy) as client:
        try:
            assert await client.call_tool(name) == "done"
        except MCPError:
            assert not is_repeated
    assert len(ran) == 1 + is_repeated
