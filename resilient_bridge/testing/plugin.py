"""The pytest plugin: five fixtures, which pytest finds wherever the package is installed.

Rule: it is loaded in every test run of every user of the package, so it imports only pytest. What a
fixture needs is imported by the test that uses it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from pathlib import Path

    from ..telemetry.event import Event
    from .mcp_trap import Trap
    from .proxy import FaultProxy
    from .server import BridgeServer
    from .virtual_clock import VirtualTime


@pytest.fixture
def rb_time() -> Generator[VirtualTime, None, None]:
    """Virtual time for the policies of this test: waits take none, `rb_time.slept` lists them,
    jitter comes from seed 0.

    It belongs to the context of the test; code in threads of its own sees the real time.
    """
    from .worlds import virtual_time

    with virtual_time(seed=0) as time:
        yield time


@pytest.fixture
def rb_events() -> Generator[list[Event], None, None]:
    """The events of this process during the test, in order, as `record()` collects them."""
    from .recording import record

    with record() as seen:
        yield seen


@pytest.fixture
def rb_server() -> BridgeServer:
    """An embedded bridge on a free port of loopback, not started yet: `async with rb_server:` runs
    it.
    """
    from .server import BridgeServer

    return BridgeServer()


@pytest.fixture
def rb_proxy() -> FaultProxy:
    """A proxy that breaks connections on demand, not started yet and without a target.

    `async with rb_proxy:` runs it; `rb_proxy.retarget(host, port)` says where it leads, for the
    server of the test or any other.
    """
    from .proxy import FaultProxy

    return FaultProxy("127.0.0.1", 0)


@pytest.fixture
def rb_mcp_trap(tmp_path: Path) -> Generator[Trap, None, None]:
    """An MCP server that fails at half of the calls (seed 0), with a ledger of its own; the test
    fails at its end if anything was done twice, or if no tool was called.

    `rb_mcp_trap.command` starts it, `with rb_mcp_trap.http() as url:` runs it over HTTP.
    """
    from .mcp_trap import Trap

    trap = Trap(tmp_path / "effects.jsonl")
    yield trap
    trap.assert_no_repeats()
