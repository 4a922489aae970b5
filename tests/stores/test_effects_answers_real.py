"""What a client error of a server says of an effect: through httpx, against a server that counts."""

from __future__ import annotations

from contextlib import asynccontextmanager

import httpx
import pytest
from aiohttp import web

import resilient_bridge as rb
from resilient_bridge.errors import EffectHeldError
from resilient_bridge.stores import Effects


pytestmark = [pytest.mark.real, pytest.mark.requirement("X15")]

ONCE = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0)), rb.Timeout(20))
DECLINED = pytest.mark.parametrize("status", [400, 401, 402, 404, 422], ids=str)


class Bank:
    """Charges orders; `/mail` and `/check` do nothing but answer with `status`."""

    def __init__(self, status):
        self.status, self.charged, self.asked = status, [], 0

    async def charge(self, request):
        self.charged.append(await request.text())
        return web.Response(text="charged")

    async def decline(self, _):
        self.asked += 1
        return web.Response(status=self.status, text="no")


@asynccontextmanager
async def open_bank(status):
    bank, app = Bank(status), web.Application()
    app.add_routes([web.post("/charge", bank.charge), web.post("/mail", bank.decline), web.post("/check", bank.decline)])  # fmt: skip
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with httpx.AsyncClient(base_url=url) as client:
            yield bank, client
    finally:
        await runner.cleanup()


@DECLINED
async def test_an_error_says_where_a_function_stopped_and_not_what_it_had_done(status):
    """Charged, then refused by the mail server: the same call again must not charge again."""
    async with open_bank(status) as (bank, client):

        @ONCE(idempotent=False, effects=Effects(), name="pay")
        async def pay(order):
            await client.post("/charge", content=order)
            (await client.post("/mail", content=order)).raise_for_status()

        with pytest.raises(httpx.HTTPStatusError):
            await pay("A-7")
        with pytest.raises(EffectHeldError, match="OUTCOME UNKNOWN"):
            await pay("A-7")
    assert bank.charged == ["A-7"]


@DECLINED
async def test_a_tool_that_raises_it_is_held_too(status):
    async with open_bank(status) as (bank, client):
        tools = rb.agent.Toolbox(effects=Effects())

        @tools.tool
        async def pay(order: str) -> str:
            await client.post("/charge", content=order)
            return (await client.post("/mail", content=order)).raise_for_status().text

        first, second = [await tools.call("pay", {"order": "A-7"}) for _ in range(2)]
    assert first.failure.details["http_status"] == status
    assert second.failure.code == "SYS_EFFECT_HELD"
    assert bank.charged == ["A-7"]


@DECLINED
async def test_a_response_that_is_returned_is_the_end_of_the_function(status):
    """Its caller has the answer, and decides: the same call again is made."""
    async with open_bank(status) as (bank, client):

        @ONCE(idempotent=False, effects=Effects(), name="pay")
        async def pay(order):
            return await client.post("/check", content=order)

        assert [(await pay("A-7")).status_code for _ in range(2)] == [status] * 2
    assert bank.asked == 2


@DECLINED
async def test_a_function_that_knows_that_nothing_happened_says_so(status):
    """As the page shows it: what the server declined did not run, and is not held."""
    async with open_bank(status) as (bank, client):

        @ONCE(idempotent=False, effects=Effects(), name="pay")
        async def pay(order):
            try:
                return (await client.post("/check", content=order)).raise_for_status().text
            except httpx.HTTPStatusError as error:
                raise rb.NotExecutedError from error

        for _ in range(2):
            with pytest.raises(rb.NotExecutedError) as raised:
                await pay("A-7")
            assert raised.value.__cause__.response.text == "no"
    assert bank.asked == 2
