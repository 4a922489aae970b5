"""Two processes and one store, two stores and one session: who has it, who is told, who may wait."""

from __future__ import annotations

import pytest

from resilient_bridge.testing import BridgeServer
from tests.crashes.lives import Nursery


pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(60)]


@pytest.fixture
async def nursery():
    """A fork server."""
    async with Nursery() as nursery:
        yield nursery


@pytest.fixture
async def server():
    """A bridge."""
    async with BridgeServer() as server:
        yield server


async def _ready(life):
    assert await life.until(lambda: life.is_idle), life
    assert life.failures == []
    return life


def _order(server, store, **order):
    return {"url": server.url, "store": str(store), "last": 3, "dawdles": 0, **order}


async def test_a_second_process_on_the_same_store_is_refused_at_once(nursery, server, tmp_path):
    """It gets SYS_STORE_IN_USE, which names the process that has it; the first one goes on."""
    first = await _ready(nursery.start(**_order(server, tmp_path / "bridge.db")))
    second = nursery.start(**_order(server, tmp_path / "bridge.db"))
    await second.end()
    assert second.over == 1
    assert second.failures[0].startswith("SYS_STORE_IN_USE")
    assert f"process {first.pid}" in second.failures[0]
    assert first.over is None
    first.ask_to_close()
    assert await first.end() == 0


async def test_a_process_that_waits_starts_when_the_first_is_killed(nursery, server, tmp_path):
    """SQLiteStore(path, wait=10) becomes the owner as soon as the lock of the dead one is gone, and goes on from there."""
    first = await _ready(nursery.start(**_order(server, tmp_path / "bridge.db")))
    second = nursery.start(**_order(server, tmp_path / "bridge.db", first=4, last=6, wait=10))
    assert await second.until(lambda: second.pid)
    assert not await second.until(lambda: second.pending is not None, 0.3)
    first.kill()
    await first.end()
    await _ready(second)
    assert [event[0] for event in second.events if event[0] in {"Joined", "Resumed"}] == ["Resumed"]
    assert [message["payload"]["n"] for message in server.received] == [1, 2, 3, 4, 5, 6]


async def test_of_two_machines_in_one_session_the_later_one_has_it(nursery, server, tmp_path):
    """A client with another store that joins the same session makes the first FAILED(superseded), and that does not come back."""
    orders = [_order(server, tmp_path / name, session="s1") for name in ("one.db", "other.db")]
    first = await _ready(nursery.start(**orders[0]))
    second = await _ready(nursery.start(**{**orders[1], "first": 4, "last": 6}))
    assert await first.until(lambda: any(event[0] == "GaveUp" for event in first.events)), first
    assert "superseded" in " ".join(next(event for event in first.events if event[0] == "GaveUp"))
    assert second.failures == []
    assert server.connections == 1
    assert [message["payload"]["n"] for message in server.received] == [1, 2, 3, 4, 5, 6]
