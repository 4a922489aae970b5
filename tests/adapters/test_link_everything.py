"""A link over Node's own example server as a child: another implementation of MCP, killed between calls and in the middle of one."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import resilient_bridge as rb
from tests.adapters.link_servers import Peer, linked, text
from tests.peers.everything import everything_command, needs_everything
from tests.peers.processes import is_running
from tests.peers.running import Ledger, until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60), needs_everything]
_NOTED = 'echo $$ >> "$0"; exec "$@"'  # the process id of each child, which nobody else tells


class Children(Peer):
    """Its children, one after the other."""

    def __init__(self, folder: Path) -> None:
        """Note their process ids in this folder."""
        self.pids = folder / "pids"
        command = ["-c", _NOTED, str(self.pids), *everything_command()]
        parameters = StdioServerParameters(command="sh", args=command)
        self.errlog = (folder / "log").open("w")
        super().__init__(
            lambda: Client(stdio_client(parameters, errlog=self.errlog)), Ledger(folder / "ledger")
        )

    @property
    def lives(self) -> list[int]:
        """The process ids of all that ever were."""
        return [int(line) for line in self.pids.read_text().split()]

    async def kill(self) -> None:
        """Kill the last one."""
        pid = self.lives[-1]
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not is_running(pid), "the child is dead")


@pytest.fixture
def children(tmp_path):
    """Its children; none is left."""
    made = Children(tmp_path)
    yield made
    made.errlog.close()
    assert not any(is_running(pid) for pid in made.lives)


async def long_call(client, *, duration=60, steps=600):
    """A call that goes on for so many seconds, and is in the middle of it."""
    started = asyncio.Event()

    async def progress(*_):
        started.set()

    fields = {"duration": duration, "steps": steps}
    call = asyncio.create_task(
        client.call_tool("trigger-long-running-operation", fields, progress_callback=progress)
    )
    async with asyncio.timeout(20):
        await started.wait()
    return call


@pytest.mark.requirement("V8", "G5", "V13")
async def test_killed_in_mid_call_the_outcome_is_unknown(children):
    """Within seconds an OutcomeUnknownError, if nothing may be repeated; it was not called again, and the next call is done by the next child."""
    async with linked(children, idempotent=False) as (client, link):
        assert text(await client.call_tool("echo", {"message": "a"})) == "Echo: a"
        call = await long_call(client)
        await children.kill()
        async with asyncio.timeout(15):
            with pytest.raises(
                rb.OutcomeUnknownError, match="outcome of call_tool unknown"
            ) as caught:
                await call
        assert caught.value.failure.executed is rb.errors.Executed.MAYBE
        assert text(await client.call_tool("echo", {"message": "b"})) == "Echo: b"
        assert link.health().reconnects == 1
        assert len(children.lives) == 2


@pytest.mark.requirement("V13")
async def test_killed_in_mid_call_what_may_run_twice_is_repeated(children):
    """A command that we start is believed: Node says of its long operation that it is read-only, and its second run answers."""
    async with linked(children) as (client, link):
        call = await long_call(client, duration=0.6, steps=6)
        await children.kill()
        async with asyncio.timeout(20):
            assert "completed" in text(await call)
        assert (link.health().reconnects, len(children.lives)) == (1, 2)


async def test_killed_between_calls_the_next_one_has_a_new_child(children):
    """It was idle: the link has noticed by itself, or does with the next read."""
    async with linked(children) as (client, link):
        assert text(await client.call_tool("echo", {"message": "a"})) == "Echo: a"
        await children.kill()
        assert "echo" in {tool.name for tool in (await client.list_tools()).tools}
        assert text(await client.call_tool("echo", {"message": "b"})) == "Echo: b"
        assert link.health().reconnects == 1
