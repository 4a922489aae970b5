"""Sends to a server that confirms nothing, and a loss: what the client says of them, by events, the log, receipts and `on_doubt`.

Rule: virtual time and a simulated network; the server is a double on `websockets`, whose pongs are its own.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.bridges.dialects.schedules import Case, server_of
from tests.bridges.doubles.jsonrpc import JsonRpc
from tests.bridges.foreign import quick
from tests.internals.telemetry import OutboundInDoubt
from tests.internals.testing import Simulation


CASE = Case("plain", JsonRpc, lambda _: rb.dialects.plain)


def _run(main):
    return Simulation(3, server=server_of(CASE)).run(main)


def _client(server, **options):
    return rb.BridgeClient(
        str(server.address), dialect=rb.dialects.plain, policy=quick(), **options
    )


async def _cut():
    """The network drops the connection; the client knows of it when this returns."""
    asyncio.get_running_loop().network.cut("abort")
    await asyncio.sleep(0.02)


@pytest.mark.requirement("X20")
def test_l07_one_event_one_warning_one_call_and_receipts_that_agree(caplog):
    """Before the last pong: `written`, perhaps unread; after it: `unknown`; one line with both numbers, and `on_doubt` gets the event."""
    called = []

    async def main(server):
        async def on_doubt(event):
            await asyncio.sleep(1)
            called.append(event)

        async with _client(server, on_doubt=on_doubt, name="board") as bridge:
            await bridge.wait_ready(5)
            shown = [await bridge.send({"n": n}) for n in range(3)]
            await asyncio.sleep(2)
            assert [receipt.state for receipt in shown] == ["written"] * 3
            with pytest.raises(rb.OutcomeUnknownError, match="it left this machine"):
                await shown[0].confirmed(0)
            later = [await bridge.send({"n": n}) for n in range(2)]
            await asyncio.sleep(0.01)
            await _cut()
            assert [receipt.state for receipt in later] == ["unknown"] * 2
            with pytest.raises(rb.OutcomeUnknownError, match="nothing had shown that it left"):
                await later[0].confirmed(0)
            await bridge.wait_ready(5)
            assert called == []  # it is waited for by nobody
            await asyncio.sleep(2)
            return shown, later

    caplog.set_level(logging.WARNING, "resilient_bridge")
    shown, later = _run(main)
    (event,) = called
    assert isinstance(event, rb.events.OutboundInDoubt)
    assert (event.unknown, event.reached, event.bridge) == (2, 3, "board")
    assert event.unknown_keys == tuple(receipt.idempotency_key for receipt in later)
    assert event.reached_keys == tuple(receipt.idempotency_key for receipt in shown)
    lines = [record.getMessage() for record in caplog.records if "doubt" in record.getMessage()]
    assert lines == [
        "5 sends in doubt: the outcome of 2 is unknown, 3 left this machine and may be unread"
    ]


def test_l07_175_of_200_sends_in_doubt_are_one_line(caplog):
    """A server that acknowledges and is killed: the next join cannot settle 175, which are one event and one warning."""
    caplog.set_level(logging.WARNING, "resilient_bridge")

    async def main(server):
        dialect = rb.bridge.Dialect.envelopes(ack="message_ack", dedupes=False)
        heard = []
        with rb.listen(heard.append):
            async with rb.BridgeClient(
                str(server.address), dialect=dialect, policy=quick()
            ) as bridge:
                await bridge.wait_ready(5)
                receipts = [await bridge.send("note", {"n": n}) for n in range(175)]
                await asyncio.sleep(0.02)
                await _cut()
                await bridge.wait_ready(5)
                await asyncio.sleep(0.02)
                states = {receipt.state for receipt in receipts}
        return states, [event for event in heard if isinstance(event, OutboundInDoubt)]

    states, events = _run(main)
    assert states <= {"unknown", "written"}
    assert [event.unknown + event.reached for event in events] == [175]
    assert len([record for record in caplog.records if "arrived" in record.getMessage()]) == 0
    assert len([record for record in caplog.records if "in doubt" in record.getMessage()]) == 1


def test_l07_what_on_doubt_raises_is_logged_and_ends_nothing(caplog):
    """A plain function works too; an error of it is one line, and the client, the next call and the close go on."""
    calls = []

    def on_doubt(event):
        calls.append(event.unknown)
        raise ZeroDivisionError

    async def main(server):
        async with _client(server, on_doubt=on_doubt) as bridge:
            for number in range(2):
                await bridge.wait_ready(5)
                await bridge.send({"n": number})
                await asyncio.sleep(0.01)
                await _cut()
            await bridge.wait_ready(5)
            return bridge.state

    assert _run(main) == "READY"
    assert calls == [1, 1]
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "on_doubt raised ZeroDivisionError: the client goes on"
    ] * 2


def test_l07_on_doubt_is_checked_at_once():
    """What cannot be called is a ConfigError at once."""
    with pytest.raises(rb.ConfigError, match=r"BridgeClient.on_doubt: wanted a callable"):
        rb.BridgeClient("ws://x", on_doubt=7)


def test_l07_a_clean_close_waits_for_the_pong_and_says_nothing():
    """Leaving the block asks at once: what was sent has left this machine when it returns, and nothing is in doubt."""
    calls = []

    async def main(server):
        began = asyncio.get_running_loop().time()
        async with _client(server, on_doubt=calls.append) as bridge:
            await bridge.wait_ready(5)
            receipt = await bridge.send({"n": 1})
        return receipt.state, asyncio.get_running_loop().time() - began < 0.5

    assert _run(main) == ("written", True)
    assert calls == []


def test_l07_a_close_without_a_pong_is_reported_before_it_returns():
    """`aclose(drain=0)` right after a send: unknown, and `on_doubt` was called when `aclose` returns."""
    calls = []

    async def main(server):
        async with _client(server, on_doubt=calls.append) as bridge:
            await bridge.wait_ready(5)
            receipt = await bridge.send({"n": 1})
            await asyncio.sleep(0)
            remaining = await bridge.aclose(drain=0)
            return receipt.sends, receipt.state, [one.state for one in remaining], len(calls)

    assert _run(main) == (1, "unknown", ["unknown"], 1)


def test_l07_on_doubt_may_close_its_client_and_a_deaf_one_is_cancelled():
    """`aclose` inside `on_doubt` does not wait for itself; one that never returns is cancelled after 5 s."""

    async def main(server):
        loop = asyncio.get_running_loop()

        async def close(_event):
            await bridge.aclose()

        async def never(_event):
            await asyncio.Event().wait()

        seconds = []
        for function in (close, never):
            async with _client(server, on_doubt=function) as bridge:
                await bridge.wait_ready(5)
                await bridge.send({"n": 1})
                await asyncio.sleep(0.01)
                await _cut()
                began = loop.time()
            seconds.append(loop.time() - began)
        return seconds

    soon, late = _run(main)
    assert soon < 1.5
    assert 5 <= late < 6.5


def test_l07_a_websocket_of_the_users_without_pings_makes_each_send_unknown(caplog):
    """`over` an object with send, recv and close: nothing shows what left, and the loss says how many."""

    class Bare:
        def __init__(self, socket):
            self.send, self.recv, self.close = socket.send, socket.recv, socket.close

    async def main(server):
        sockets = []

        @asynccontextmanager
        async def opened():
            async with connect(str(server.address), ping_interval=None) as socket:
                sockets.append(socket)
                yield Bare(socket)

        calls = []
        async with rb.BridgeClient.over(
            opened, dialect=rb.dialects.plain, policy=quick(), on_doubt=calls.append
        ) as bridge:
            await bridge.wait_ready(5)
            receipts = [await bridge.send({"n": n}) for n in range(3)]
            await asyncio.sleep(1)
            states = [receipt.state for receipt in receipts]
            await _cut()
            await bridge.wait_ready(5)
            await asyncio.sleep(0.1)
        return states, [(event.unknown, event.reached) for event in calls]

    states, calls = _run(main)
    assert states == ["unknown"] * 3
    assert calls == [(3, 0)]


# -- L02: one reader ----------------------------------------------------------------------------------------------------
def test_l02_a_second_reader_is_refused_and_the_first_goes_on():
    """Of messages and of one event stream: ConfigError at once in the second task; the first gets all, and wakes at CLOSED."""

    async def main(server):
        got, errors, ended = [], [], []

        async def read(source, into):
            try:
                async for item in source:
                    into.append(item)
                    await asyncio.sleep(0.1)  # the second one comes while the first is busy, too
            except rb.ConfigError as error:
                errors.append(str(error))
            else:
                ended.append(source)

        async with _client(server) as bridge:
            await bridge.wait_ready(5)
            events = bridge.events()
            heard = []
            tasks = [
                asyncio.ensure_future(read(bridge, got)),
                asyncio.ensure_future(read(events, heard)),
            ]
            await asyncio.sleep(0.01)
            for number in range(4):
                await server.double.publish(number)
                await asyncio.sleep(0.15 if number % 2 else 0.01)
                tasks += [
                    asyncio.ensure_future(read(bridge, got)),
                    asyncio.ensure_future(read(events, heard)),
                ]
                await asyncio.sleep(0)
            await asyncio.sleep(1)
            assert not tasks[0].done()
            assert not tasks[1].done()
        async with asyncio.timeout(5):
            await asyncio.gather(*tasks)
        return len(got), len(errors), ended == [bridge, events], errors

    count, refused, ended, errors = _run(main)
    assert (count, refused, ended) == (4, 8, True)
    assert all("one reader at a time: one task that reads" in text for text in errors)


def test_l02_one_reader_after_the_other_is_fine():
    """A loop that was left, in this task or in one that is over; and streams of events of their own."""

    async def main(server):
        async with _client(server) as bridge:
            await bridge.wait_ready(5)
            for number in range(4):
                await server.double.publish(number)
            got = []

            async def one():
                async for message in bridge:
                    return message.raw["params"]["number"]
                return None

            got.append(await asyncio.create_task(one()))
            got.append(await one())
            got.append((await anext(aiter(bridge))).raw["params"]["number"])
            got.append(await asyncio.create_task(one()))
            first, second = bridge.events(), bridge.events()
            waiting = [asyncio.create_task(anext(stream)) for stream in (first, second)]
            await asyncio.sleep(0)
            await _cut()
            return got, [type(await task).__name__ for task in waiting]

    got, names = _run(main)
    assert got == [0, 1, 2, 3]
    assert names == ["Disconnected"] * 2 or len(set(names)) == 1


def test_l02_a_second_reader_costs_a_full_inbox_nothing():
    """The refused one does not count as the reader: the first still does."""

    async def main(server):
        async with _client(server) as bridge:
            await bridge.wait_ready(5)
            first = aiter(bridge)
            waiting = asyncio.create_task(anext(first))
            await asyncio.sleep(0)
            with pytest.raises(rb.ConfigError):
                await anext(aiter(bridge))
            await server.double.publish(1)
            await waiting
            return bridge._driver.is_iterated()

    assert _run(main) is True


# -- L05: None and 0 ----------------------------------------------------------------------------------------------------
def test_l05_none_is_no_limit_and_0_is_none_at_all():
    """`request`, `aclose`, `wait_ready`, `confirmed`, `ttl`: None waits, 0 does not."""

    async def main(server):
        loop = asyncio.get_running_loop()
        envelopes = rb.bridge.Dialect.envelopes()
        async with rb.BridgeClient(
            str(server.address), dialect=envelopes, policy=quick()
        ) as bridge:
            await bridge.wait_ready(None)
            asking = asyncio.create_task(bridge.request("look", {}, timeout=None))
            await asyncio.sleep(100_000)
            assert not asking.done()
            with pytest.raises(rb.errors.AttemptTimeoutError):
                await bridge.request("look", {}, timeout=0)
            asking.cancel()
            expired = await bridge.send("note", {}, ttl=0)
            stored = await bridge.send("note", {}, ttl=None)
            await asyncio.sleep(1)
            assert (expired.state, stored.state) == ("expired", "written")
            loop.network.cut("blackhole", 600)
            late = await bridge.send("note", {"late": True})
            began = loop.time()
            await bridge.aclose(drain=None)
            return late.state, loop.time() - began

    state, seconds = _run(main)
    assert state in {"written", "unknown"}
    assert seconds > 10  # until the connection was found dead


@pytest.mark.parametrize("pings", [True, "in_order"])
def test_l05_a_dialect_with_pings_may_have_a_health_check(pings):
    """`pings=` of a dialect of functions is a second opinion like `ping=`; without either the error says what to write."""
    dialect = rb.bridge.Dialect.envelopes(
        decode=lambda frame: (), encode=lambda intent: "x", error=None, bearer=False, pings=pings
    )
    rb.BridgeClient("ws://x", dialect=dialect, health_check=lambda: True)
    with pytest.raises(rb.ConfigError, match=r"leave health_check out"):
        rb.BridgeClient("ws://x", dialect=rb.dialects.plain, health_check=lambda: True)
