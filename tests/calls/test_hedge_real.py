"""Races against a real server, aiohttp's: its requests, effects and connections are counted at its end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import aiohttp
import httpx
import pytest
from aiohttp import web

import resilient_bridge as rb
from resilient_bridge.calls import Hedge


pytestmark = [pytest.mark.real, pytest.mark.requirement("X16")]

RACED = rb.Policy(rb.Retry(attempts=2), rb.Timeout(20), Hedge(0.1, budget=1))


class Shop:
    """The first request of every third question hangs until its client has gone."""

    def __init__(self):
        self.asked = self.gone = 0
        self.effects = {}
        self.known = set()

    async def read(self, request):
        await self._hang(request)
        return web.Response(text=f"{self.asked}")

    async def pay(self, request):
        order = await request.text()
        self.effects[order] = self.effects.get(order, 0) + 1
        if order.startswith("slow"):
            await asyncio.sleep(0.5)
        return web.Response(text=order)

    async def stream(self, request):
        response = web.StreamResponse()
        await response.prepare(request)
        await self._hang(request)
        for number in range(3):
            await response.write(b"%d\n" % number)
        await response.write_eof()
        return response

    async def _hang(self, request):
        self.asked += 1
        question = int(request.query["question"])
        if question % 3 or question in self.known:
            return
        self.known.add(question)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.gone += 1
            raise


@asynccontextmanager
async def open_shop():
    shop, app = Shop(), web.Application()
    app.add_routes([web.get("/read", shop.read), web.post("/pay", shop.pay), web.get("/stream", shop.stream)])  # fmt: skip
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    shop.runner = runner
    try:
        yield shop, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def until(is_so):
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.01)


def raced_requests(seen):
    return sum(event.requests - 1 for event in seen if isinstance(event, rb.events.Hedged))


async def reads_of(session, url):
    """Return a function that reads, with aiohttp's own client."""

    @RACED(idempotent=True)
    async def read(question):
        async with session.get(f"{url}/read?question={question}") as response:
            return await response.text()

    return read


@pytest.mark.parametrize("client", ["httpx", "aiohttp"])
async def test_the_server_counts_what_the_events_say_and_keeps_no_connection(client):
    seen = []
    async with open_shop() as (shop, url):
        before = len(asyncio.all_tasks())
        if client == "httpx":
            raw = httpx.AsyncClient(transport=rb.HTTPTransport(RACED), timeout=20)
            read = lambda question: raw.get(f"{url}/read?question={question}")  # noqa: E731
            close = raw.aclose
        else:
            raw = aiohttp.ClientSession()
            read, close = await reads_of(raw, url), raw.close
        with rb.listen(seen.append):
            for question in range(9):
                await read(question)
            await asyncio.gather(*(read(question) for question in range(9, 15)))
        assert raced_requests(seen) >= 5
        assert shop.asked == 15 + raced_requests(seen)
        await until(lambda: shop.gone == 5)  # each that hung was given up by its client
        await close()
        await until(lambda: not shop.runner.server.connections)
        await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_an_effect_happens_once_where_it_may_not_happen_twice():
    """Under a client a POST is not raced by itself, and is where its caller permits it."""
    async with open_shop() as (shop, url):
        transport = rb.HTTPTransport(RACED)
        async with httpx.AsyncClient(transport=transport, timeout=20) as client:
            for order in ("quick", "slow", "slow with a key"):
                headers = {"Idempotency-Key": order} if "key" in order else {}
                await client.post(f"{url}/pay", content=order, headers=headers)
            permitted = await client.post(
                f"{url}/pay", content="slow, may run twice", extensions={"rb.idempotent": True}
            )
            assert permitted.status_code == 200
    assert shop.effects == {"quick": 1, "slow": 1, "slow with a key": 1, "slow, may run twice": 2}


async def test_a_stream_is_raced_until_its_first_line():
    seen = []
    async with open_shop() as (shop, url), aiohttp.ClientSession() as session:

        @RACED(idempotent=True)
        async def lines(question):
            async with session.get(f"{url}/stream?question={question}") as response:
                async for line in response.content:
                    yield int(line)

        with rb.listen(seen.append):
            for question in range(4):
                assert [number async for number in lines(question)] == [0, 1, 2]
        assert raced_requests(seen) >= 2
        assert shop.asked == 4 + raced_requests(seen)
        await until(lambda: shop.gone == 2)


async def test_a_caller_that_is_cancelled_leaves_no_request():
    async with open_shop() as (shop, url), aiohttp.ClientSession() as session:
        read = await reads_of(session, url)

        for question in range(0, 15, 3):
            task = asyncio.create_task(read(question))
            await until(lambda: len(shop.known) == question // 3 + 1)  # noqa: B023 -- waited for here
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: shop.gone == question // 3 + 1)  # noqa: B023
        await until(lambda: not any(task.get_name() == "hedge" for task in asyncio.all_tasks()))


async def test_the_other_region_is_asked_once_for_each_that_hangs_and_both_are_let_go():
    """Two servers: the first hangs at every third question, and only then the second is asked."""
    seen = []
    async with open_shop() as (here, url), open_shop() as (there, other_url):
        before = len(asyncio.all_tasks())
        async with httpx.AsyncClient(timeout=20) as client:

            async def read_there(question):
                return "there", (await client.get(f"{other_url}/read?question=1")).text

            hedge = Hedge(0.1, budget=1, to=read_there)

            @rb.Policy(rb.Retry(attempts=2), rb.Breaker(), rb.Timeout(20), hedge)(idempotent=True)
            async def read(question):
                return "here", (await client.get(f"{url}/read?question={question}")).text

            with rb.listen(seen.append):
                answers = [await read(question) for question in range(9)]
            hedged = raced_requests(seen)
        assert [where for where, _ in answers].count("there") >= 3
        assert (here.asked, there.asked) == (9, hedged)
        await until(lambda: here.gone == 3)
        await until(lambda: not (here.runner.server.connections or there.runner.server.connections))
        await until(lambda: len(asyncio.all_tasks()) <= before)
    assert rb.calls.circuit(read).state == "closed"
