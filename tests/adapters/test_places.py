"""Threat 32: what holds connections is used where it was made. Another loop, thread or process is told so at once, and so is a pickle.

Rule: the refusal is a ConfigError that names the place, nothing hangs, and whoever was right goes on. Links: test_link_states.
"""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import httpx2
import pytest
from websockets.asyncio.server import serve

import resilient_bridge as rb
from resilient_bridge.adapters import stdio
from resilient_bridge.stores import MemoryStore
from tests.adapters.event_servers import Server, numbered, stream
from tests.adapters.link_peers import World, quick


CHILD = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child.py")))
pytestmark = [pytest.mark.real, pytest.mark.timeout(30)]


async def elsewhere(*uses) -> list[str]:
    """What each of these raises in another thread, with a loop of its own."""
    parts = []

    async def main():
        for use in uses:
            with pytest.raises(rb.ConfigError) as caught:
                async with asyncio.timeout(5):
                    await use()
            parts.append(str(caught.value))

    await asyncio.to_thread(lambda: asyncio.run(main()))
    return parts


def forked(use) -> int:
    """How a forked child fares that tries: 0 if it was told of its process, by a ConfigError."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            use().send(None)
        except rb.ConfigError as error:
            status = 0 if "the process that made it" in str(error) else 2
        except BaseException:  # noqa: BLE001 -- it is told by its status
            status = 3
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# -- a child that is asked --------------------------------------------------------------------------------------------
async def test_a_peer_is_asked_on_its_own_loop():
    """Request, notify, notifications and wait_closed, each refused on another loop; the peer sent nothing and works on."""
    async with stdio(*CHILD)() as peer:
        reported = await elsewhere(
            lambda: peer.request("echo"),
            lambda: peer.notify("note"),
            lambda: anext(peer.notifications()),
            peer.wait_closed,
        )
        assert len(reported) == 4
        assert all(
            "Peer: wanted the event loop that entered it, got 'another one'" in text
            for text in reported
        )
        assert await peer.request("unasked") == []
        assert repr(peer).endswith("open waiting=0>")


async def test_a_request_that_waits_is_not_disturbed_by_another_loop():
    """While one is under way here, one from elsewhere is refused, and the answer comes to whom it belongs."""
    async with stdio(*CHILD)() as peer:
        asking = asyncio.create_task(peer.request("silence"))
        await asyncio.sleep(0)
        assert len(await elsewhere(lambda: peer.request("echo"))) == 1
        await peer.notify("say", {"message": {"id": 1, "result": "here"}})
        assert await asking == "here"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
async def test_a_forked_process_starts_a_child_of_its_own():
    """The pipes of the parent's child are not written to by a fork."""
    async with stdio(*CHILD)() as peer:
        assert forked(lambda: peer.request("echo")) == 0
        assert await peer.request("unasked") == []


# -- a stream that is read ----------------------------------------------------------------------------------------------
@asynccontextmanager
async def reading(library):
    """A source that has read one event of two, over a connection that is open."""
    async with (
        Server(stream(numbered(1), numbered(2))).running() as server,
        library.AsyncClient(trust_env=False) as client,
        rb.links.EventSource(client, server.url) as source,
    ):
        assert (await anext(source)).data == "n1"
        yield source


@pytest.mark.parametrize("library", [httpx, httpx2])
async def test_an_event_source_is_read_on_its_own_loop(library):
    """Reading, entering and closing it are refused on another loop; the next event comes to whom it belongs."""
    async with reading(library) as source:
        reported = await elsewhere(
            lambda: anext(source), source.aclose, lambda: source.__aexit__(None, None, None)
        )
        assert len(reported) == 3
        assert all(
            "EventSource: wanted the event loop that entered it" in text for text in reported
        )
        assert (await anext(source)).data == "n2"
        waiting = asyncio.ensure_future(anext(source))
        await asyncio.sleep(0)
        assert (
            "event loop" in (await elsewhere(lambda: anext(source)))[0]
        )  # and not "one reader at a time"
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
async def test_a_forked_process_opens_a_stream_of_its_own():
    """The parent's response is not read by a fork."""
    async with reading(httpx) as source:
        assert forked(source.__anext__) == 0
        assert (await anext(source)).data == "n2"


async def test_a_link_is_closed_on_its_own_loop():
    """Closed from another loop it would wait for a task that nobody wakes: refused, and the link works on."""
    world = World()
    link = rb.reconnecting(world.factory, quick())
    async with link as client:
        reported = await elsewhere(link.aclose)
        assert "Reconnecting: wanted the event loop that entered it" in reported[0]
        assert await client.work("a") == "a by 1"


# -- a pickle -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "how", [pickle.dumps, copy.deepcopy, copy.copy], ids=["pickle", "deepcopy", "copy"]
)
async def test_none_of_them_can_be_pickled_or_copied(how):
    """A link, what stands for its client, a Peer, an EventSource, an HTTPTransport and a BridgeClient say what they are and why not."""
    link = rb.reconnecting(stdio(*CHILD), quick())
    async with link as client, stdio(*CHILD)() as peer, httpx.AsyncClient() as http:
        things = {
            "Reconnecting": (link, client),
            "Peer": (peer,),
            "EventSource": (rb.links.EventSource(http, "http://127.0.0.1:9/"),),
            "BridgeClient": (rb.BridgeClient("ws://127.0.0.1:9/"),),
            "HTTPTransport": (rb.HTTPTransport(), rb.HTTPTransport(inner=httpx2.HTTPTransport())),
        }
        for name, value in things.items():
            for thing in value:
                with pytest.raises(
                    rb.ConfigError, match=f"^{name}: wanted one made where it is used"
                ) as caught:
                    how(thing)
                assert caught.value.failure.code == "SYS_CONFIG_INVALID"
        assert await client.request("echo") == {}
        assert await peer.request("echo") == {}


# -- a bridge client --------------------------------------------------------------------------------------------------
async def _silent(connection):
    async for _ in connection:
        pass


@asynccontextmanager
async def bridging():
    """A client that tries to authenticate with a server of websockets that only reads, and one receipt of it."""
    async with serve(_silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with rb.BridgeClient(f"ws://127.0.0.1:{port}") as client:
            yield client, await client.send("note", {})
            await client.aclose(drain=0)


def _uses(client, receipt, events, messages):
    async def sync(call):
        call()

    return {
        "send": lambda: client.send("note", {}),
        "request": lambda: client.request("note", {}),
        "receipt": lambda: sync(lambda: client.receipt(receipt.idempotency_key)),
        "pending": lambda: sync(client.pending),
        "iteration": lambda: sync(client.__aiter__),
        "next message": lambda: anext(messages),
        "events": lambda: sync(client.events),
        "next event": lambda: anext(events),
        "wait_ready": lambda: client.wait_ready(1),
        "reconnect_now": lambda: sync(client.reconnect_now),
        "enter": client.__aenter__,
        "leave": lambda: client.__aexit__(None, None, None),
        "aclose": lambda: client.aclose(drain=0),
        "confirmed": lambda: receipt.confirmed(1),
        "withdraw": lambda: sync(receipt.withdraw),
    }


async def test_d03_a_bridge_client_is_used_on_its_own_loop():
    """Each public method of the client, its receipts and its iterators is refused on another loop; reading its state is not."""
    async with bridging() as (client, receipt):
        uses = _uses(client, receipt, client.events(), client.__aiter__())
        reported = await elsewhere(*uses.values())
        assert len(reported) == len(uses)
        assert all(
            "BridgeClient: wanted the event loop that entered it" in text for text in reported
        )
        assert (await asyncio.to_thread(client.health)).queued == 1  # and nothing else was accepted
        assert receipt.withdraw() is True
    assert client.state == "CLOSED"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process")
async def test_d03_a_forked_process_makes_a_client_of_its_own():
    """In a fork everything is refused at once, `aclose` and `health` too; the parent's client works on."""

    async def health(client):
        client.health()

    async with bridging() as (client, receipt):
        uses = _uses(client, receipt, client.events(), client.__aiter__())
        uses["health"] = lambda: health(client)
        assert {name: forked(use) for name, use in uses.items()} == dict.fromkeys(uses, 0)
        assert client.health().queued == 1


async def test_d03_events_and_records_are_read_on_their_own_loop():
    """The events of a link and the operations of Sessions are refused on another loop."""
    link = rb.reconnecting(World().factory, quick())
    async with link, rb.stores.Sessions(MemoryStore()) as sessions:
        stream = link.events()

        async def subscribe():
            link.events()

        reported = await elsewhere(
            subscribe,
            lambda: anext(stream),
            sessions.list,
            sessions.__aenter__,
            lambda: sessions.__aexit__(None, None, None),
        )
        assert [text.partition(":")[0] for text in reported] == ["Reconnecting"] * 2 + [
            "Sessions"
        ] * 3
        assert await sessions.list() == []


async def test_d03_aclose_is_bounded_whatever_the_users_callable_does(monkeypatch):
    """A token callable that ignores its cancellation is left behind; the client is CLOSED."""
    monkeypatch.setattr("resilient_bridge.client.ending._PATIENCE", 0.2)
    deaf, over = asyncio.Event(), asyncio.Event()

    async def token():
        deaf.set()
        while not over.is_set():
            with suppress(asyncio.CancelledError):
                await over.wait()
        return "t"

    client = rb.BridgeClient("ws://127.0.0.1:9/", token=token)
    await client.__aenter__()
    await deaf.wait()
    async with asyncio.timeout(5):
        await client.aclose()
    assert client.state == "CLOSED"
    over.set()
    async with asyncio.timeout(5):
        await asyncio.wait(
            [task for task in asyncio.all_tasks() if "supervisor" in task.get_name()]
        )
