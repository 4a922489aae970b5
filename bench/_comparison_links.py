"""The rows of `comparison.py` that need sockets: answers that are cut, connections that are cut, and servers that ask to be left alone.

Rule: what was lost or ran twice is counted by the server and by the consumer, never taken from what a library says of itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections import Counter
from datetime import UTC, datetime
from http import HTTPStatus
from uuid import uuid4

import httpx
import hyx.retry
import nopanic
import stamina
import stamina.instrumentation
import tenacity
from httpx_retries import RetryTransport
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response

import resilient_bridge as rb
from resilient_bridge.bridge import BridgePolicy, Reconnect


stamina.instrumentation.set_on_retry_hooks([])  # by default it logs each retry
OURS = "resilient_bridge"
DECORATORS = {
    "tenacity": tenacity.retry,
    "stamina": stamina.retry(on=httpx.HTTPError),
    "nopanic": nopanic.retry(),
    "hyx": hyx.retry.retry(),
}
TRANSPORTS = {OURS: rb.HTTPTransport, "httpx-retries": RetryTransport}
NAMES = (*TRANSPORTS, *DECORATORS)


# ---- a POST whose answer is cut -------------------------------------------------------------------------------------
class Orders:
    """An HTTP server that runs every POST, and cuts the first answer to each order."""

    def __init__(self) -> None:
        self.ran: Counter[bytes] = Counter()

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with contextlib.suppress(
            asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError
        ):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                order = head.split(b" ", 2)[1]
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(length)
                self.ran[order] += 1
                if self.ran[order] == 1:
                    break
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        writer.close()


async def second_effects(
    library: str, orders: int, *, decorators=DECORATORS, again: bool = False
) -> dict[str, int]:
    """Return how many effects came in addition to the first of a POST that arrived, and how many calls ended with an error, or were held.

    `again`: a caller that gets an error makes the identical call once more, at once.
    """
    server, errors, held = Orders(), 0, 0
    listening = await asyncio.start_server(server.attend, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    transport = (httpx.AsyncHTTPTransport if library in decorators else TRANSPORTS[library])()
    async with listening, httpx.AsyncClient(transport=transport) as client:

        async def post(number: int) -> None:
            await client.post(f"{base}/{number}", json={"amount": 1})

        protected = decorators.get(library, lambda f: f)(post)

        async def ask(number: int) -> None:
            try:
                await protected(number)
            except Exception:
                if not again:
                    raise
                await protected(number)

        for found in await asyncio.gather(*map(ask, range(orders)), return_exceptions=True):
            errors += isinstance(found, Exception)
            held += "OUTCOME UNKNOWN" in str(found)
    return {
        "second": sum(count - 1 for count in server.ran.values()),
        "of": len(server.ran),
        "errors": errors,
        "held": held,
    }


# ---- 50 cuts --------------------------------------------------------------------------------------------------------
PACE = 0.01  # seconds between two messages, each way
QUICK = BridgePolicy(  # cuts come many times faster than the caps on reconnections allow
    reconnect=Reconnect(
        backoff=rb.Backoff.constant(0.02), connect_burst=999, connects_per_minute=999
    )
)


class Exchange:
    """A bridge, a proxy that cuts the connection, and what each side sent and got."""

    def __init__(self, server, proxy, cuts: int) -> None:
        self.server, self.proxy, self.cuts = server, proxy, cuts
        self.sent = self.pushed = self.reported = 0
        self.got: set[int] = set()
        self.outgoing: asyncio.Queue[int] = asyncio.Queue()

    async def play(self) -> None:
        """Push and offer a message every 10 ms, and cut the connection every 20 messages."""
        for number in range(20 * (self.cuts + 1)):
            self.pushed += 1
            await self.server.push("tool_call", {"n": number})
            self.sent += 1
            self.outgoing.put_nowait(number)
            await asyncio.sleep(PACE)
            if number % 20 == 10 and number // 20 < self.cuts:
                self.proxy.apply(rb.testing.Fault.abort())
        await asyncio.sleep(1)  # what is on its way

    def result(self) -> dict[str, int]:
        """Return what is missing at either end."""
        arrived = {message["payload"]["n"] for message in self.server.received}
        return {
            "lost": self.sent - len(arrived) + self.pushed - len(self.got),
            "of": self.sent + self.pushed,
            "reported": self.reported,
        }


async def with_ours(exchange: Exchange) -> None:
    """The client as it comes, but for its caps on reconnections."""

    async def read(bridge: rb.BridgeClient) -> None:
        async for message in bridge:
            exchange.got.add(message.payload["n"])

    async def write(bridge: rb.BridgeClient) -> None:
        while True:
            await bridge.send("tool_result", {"n": await exchange.outgoing.get()})

    def gap(_gap: rb.bridge.Gap) -> None:
        exchange.reported += 1

    async with rb.BridgeClient(exchange.proxy.url("/ws"), policy=QUICK, on_gap=gap) as bridge:
        await bridge.wait_ready(10)
        reading, writing = asyncio.create_task(read(bridge)), asyncio.create_task(write(bridge))
        await exchange.play()
        writing.cancel()
    await reading


def frame(kind: str, **payload) -> str:
    """Return a message as the bridge reads it."""
    now = datetime.now(UTC).isoformat()
    return json.dumps({"type": kind, "id": str(uuid4()), "timestamp": now, "payload": payload})


async def with_their_loop(exchange: Exchange) -> None:
    """The loop of websockets as its documentation has it; a message whose `send` raised is sent again on the next connection."""
    joined = asyncio.Event()

    async def write(ws) -> None:
        while True:
            number = await exchange.outgoing.get()
            try:
                await ws.send(frame("tool_result", n=number))
            except ConnectionClosed:
                exchange.outgoing.put_nowait(number)
                raise

    async def loop() -> None:
        async for ws in connect(exchange.proxy.url("/ws")):
            writing = asyncio.create_task(asyncio.sleep(0))
            try:
                await ws.send(frame("auth"))
                await ws.send(frame("session_join", session_id="theirs", resume=False))
                writing = asyncio.create_task(write(ws))
                async for text in ws:
                    message = json.loads(text)
                    if message["type"] == "session_joined":
                        joined.set()
                    if message["type"] == "tool_call":
                        exchange.got.add(message["payload"]["n"])
            except ConnectionClosed:
                continue
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    looping = asyncio.create_task(loop())
    await joined.wait()
    await exchange.play()
    looping.cancel()
    await asyncio.gather(looping, return_exceptions=True)


async def lost_in_cuts(client, cuts: int) -> dict[str, int]:
    """Return how many messages are missing after so many cuts."""
    async with rb.testing.BridgeServer() as server, rb.testing.FaultProxy(*server.address) as proxy:
        exchange = Exchange(server, proxy, cuts)
        await client(exchange)
        return exchange.result()


# ---- a handshake that is refused for two seconds --------------------------------------------------------------------
async def early_returns(kind: str, clients: int, seconds: int = 2) -> dict[str, int]:
    """Return how many clients came back before the seconds that a 503 asked for had passed."""
    arrivals: dict[str, list[float]] = {}
    loop = asyncio.get_running_loop()

    def refuse(_connection, request) -> Response | None:
        times = arrivals.setdefault(request.path, [])
        times.append(loop.time())
        if len(times) > 1:
            return None
        headers = Headers({"Retry-After": str(seconds), "Content-Length": "0"})
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, "later", headers)

    async def attend(ws) -> None:
        await ws.send("hello")
        await ws.wait_closed()

    async with serve(attend, "127.0.0.1", 0, process_request=refuse) as server:
        base = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        async def theirs(number: int) -> None:
            async for ws in connect(f"{base}/{number}"):
                await ws.recv()
                return

        async def ours(number: int) -> None:
            async with rb.reconnecting(lambda: connect(f"{base}/{number}")) as ws:
                await ws.recv()

        await asyncio.gather(*map(ours if kind == OURS else theirs, range(clients)))
    early = sum(times[1] - times[0] < seconds for times in arrivals.values())
    return {"early": early, "of": clients}


async def effects(orders: int) -> dict[str, dict[str, int]]:
    """Return the row of the second effects."""
    return {name: await second_effects(name, orders) for name in NAMES}


async def again(orders: int) -> dict[str, dict[str, int]]:
    """Return the row of the calls in doubt that are made again; ours has a ledger of them on disk."""
    with (
        tempfile.TemporaryDirectory() as directory,
        rb.stores.Effects(f"{directory}/effects.db") as ledger,
    ):
        ours = {OURS: rb.Policy(rb.Retry())(idempotent=False, effects=ledger)}
        return {
            name: await second_effects(name, orders, decorators=ours | DECORATORS, again=True)
            for name in NAMES
        }


async def cuts(number: int) -> dict[str, dict[str, int]]:
    """Return the row of the messages that are lost."""
    clients = {OURS: with_ours, "websockets": with_their_loop}
    return {name: await lost_in_cuts(client, number) for name, client in clients.items()}


async def handshakes(clients: int) -> dict[str, dict[str, int]]:
    """Return what belongs to the row of Retry-After, for our link and for websockets' loop."""
    ours, theirs = await asyncio.gather(
        early_returns(OURS, clients), early_returns("websockets", clients)
    )
    return {f"{OURS}, a handshake": ours, "websockets": theirs}
