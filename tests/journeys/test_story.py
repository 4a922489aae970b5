"""One loss and its recovery as the events tell it; and what no event, log line or repr ever tells: a secret."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import simulate

from .journey import Journey, simulated


CANARY = "canary-4f9a2b7c81d34e5d"
EXACT = rb.bridge.BridgePolicy(reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(2)))


def line_of(event: rb.events.Event) -> str:
    """One line per event, without time and ids."""
    match event:
        case rb.events.StateChanged():
            return f"{event.previous}->{event.state} {event.reason}"
        case rb.events.ReconnectScheduled():
            return f"ReconnectScheduled {event.attempt} {event.wait:g} s {event.reason}"
        case rb.events.Resumed():
            return f"Resumed {event.verdict} {event.reason} {event.replayed}"
        case rb.events.Disconnected() | rb.events.Closed():
            return f"{type(event).__name__} {event.reason}"
        case _:
            return type(event).__name__


STORY = """
IDLE->CONNECTING user
CONNECTING->AUTHENTICATING connected
AUTHENTICATING->JOINING authenticated
Connected
Joined
JOINING->FLUSHING merged
FLUSHING->READY flushed
Disconnected connection_lost
READY->BACKOFF connection_lost
ReconnectScheduled 1 2 s connection_lost
BACKOFF->CONNECTING retry
CONNECTING->BACKOFF connect_refused
ReconnectScheduled 2 2 s connect_refused
BACKOFF->CONNECTING retry
CONNECTING->AUTHENTICATING connected
AUTHENTICATING->JOINING authenticated
Connected
JOINING->REPLAYING joined
Resumed RECOVERED anchor 2
REPLAYING->FLUSHING merged
FLUSHING->READY flushed
READY->CLOSING user
CLOSING->CLOSED closed
Closed user
"""


@simulated
async def test_the_events_of_one_loss_and_recovery(server):
    """Exactly these events, in this order, the same through `rb.listen` and `events()`, with the virtual time of each."""
    server.behave(push_buffer=False)
    heard: list[rb.events.Event] = []
    client = rb.BridgeClient(server.url, policy=EXACT)
    stream = client.events()

    async def follow() -> list[rb.events.Event]:
        return [event async for event in stream]

    following = asyncio.create_task(follow())
    with rb.listen(heard.append):
        async with client:
            await client.wait_ready()
            await server.push("tool_call", {"n": 1})
            await asyncio.sleep(1)
            await server.cut("abort", seconds=3)
            await asyncio.sleep(0.1)
            await server.push("tool_call", {"n": 2})
            await server.push("tool_call", {"n": 3})
            await client.wait_ready()
            receipt = await client.send("tool_result", {})
            await asyncio.sleep(1)
            assert receipt.state == "confirmed"
            await client.aclose()
    assert [line_of(event) for event in heard] == STORY.strip().splitlines()
    assert await following == heard
    assert [event.at for event in heard] == sorted(event.at for event in heard)
    assert all(event.at.tzinfo is not None for event in heard)
    (resumed,) = [event for event in heard if isinstance(event, rb.events.Resumed)]
    assert resumed.session_id == client.session_id


@simulated
async def test_event_streams_start_when_asked_and_end_with_the_client(server):
    """A stream made later begins there; two streams hear the same; each ends after Closed, or after GaveUp."""
    async with rb.BridgeClient(server.url) as client:
        await client.wait_ready()
        streams = [client.events(), client.events()]
        await server.cut("close", code=4003)
        await asyncio.sleep(1)
        for stream in streams:
            assert [line_of(event) async for event in stream] == [
                "Disconnected auth_rejected", "READY->FAILED auth_rejected", "GaveUp",
            ]  # fmt: skip


@simulated
async def test_a_listener_that_raises_disturbs_no_other(server):
    """Raising, even CancelledError, in a listener breaks neither the client nor the next listener."""
    heard: list[rb.events.Event] = []

    def bad(event: rb.events.Event) -> None:
        raise (
            asyncio.CancelledError if isinstance(event, rb.events.Connected) else ValueError("mine")
        )

    with rb.listen(bad), rb.listen(heard.append):
        async with Journey(server) as journey:
            await journey.ready()
            await server.cut("abort")
            await journey.push(1)
            await asyncio.sleep(0.1)
            await journey.rest()
        journey.check()
    assert {"Connected", "Disconnected", "Resumed", "Closed"} <= {
        type(event).__name__ for event in heard
    }


def texts_of(error: BaseException | None) -> list[str]:
    """All that an error says, with its causes."""
    if error is None:
        return []
    inner = error.__cause__ or error.__context__
    return [
        str(error),
        repr(error),
        repr(error.args),
        *error.__dict__.get("__notes__", ()),
        *texts_of(inner),
    ]


async def endure(server: Any, client: rb.BridgeClient) -> list[str]:
    """A life through every kind of trouble; what could be read on the way."""
    await client.wait_ready()
    receipt = await client.send("tool_result", {"secret": CANARY})
    await server.push("tool_call", {"secret": CANARY})
    texts = [repr(receipt), repr(client), repr(client.health())]
    async for message in client:
        texts += [repr(message), str(message)]
        break
    await server.push_raw(f'{{"type":"tool_call","payload":{{"token":"{CANARY}"')
    for how in ("abort", "fin", "close"):
        await server.cut(how)
        await asyncio.sleep(0.5)
        await client.wait_ready()
    server.behave(reject_upgrade=503)
    await server.cut("abort")
    await asyncio.sleep(4)
    server.behave(reject_upgrade=None, auth_error="AUTH_INVALID_TOKEN")
    with pytest.raises(rb.BridgeError) as caught:
        await client.wait_ready()
    failure = caught.value.failure
    texts += [*texts_of(caught.value), failure.explain(), failure.to_llm(), str(failure.to_dict())]
    return [*texts, repr(client), repr(client.health())]


async def trouble(server: Any) -> list[str]:
    """A client with a token, a key in a header and one in the query; all that was said of it."""
    server.token = CANARY
    client = rb.BridgeClient(
        f"{server.url}?access_token={CANARY}",
        token=lambda: CANARY,
        headers={"X-Api-Key": CANARY, "Cookie": f"a={CANARY}"},
        policy=rb.presets.recursor,
    )
    events = client.events()
    async with client:
        texts = await endure(server, client)
    return [repr(client), *texts, *[repr(event) async for event in events]]


@pytest.mark.parametrize("heard", [True, False])
def test_no_secret_leaves_the_client(caplog, heard):
    """Token, header and query value appear in no event, log record, repr or error text, listener or not; log lines are single."""
    caplog.set_level(logging.DEBUG)
    if heard:
        with rb.listen(lambda event: None):
            texts = simulate(trouble)
    else:
        texts = simulate(trouble)
    assert len(texts) > 40
    assert [text for text in texts if CANARY in text] == []
    records = [record for record in caplog.records if record.name.startswith("resilient_bridge")]
    assert [
        r.getMessage() for r in records if CANARY in r.getMessage() or "\n" in r.getMessage()
    ] == []


def test_the_default_log_tells_waits_over_a_second_suspensions_and_the_end(caplog):
    """An info for the loss, a warning for each wait over 1 s and for disconnected mode, an error at the end; with a listener, the same lines (J02)."""

    async def main(server: Any) -> None:
        policy = rb.bridge.BridgePolicy(
            reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.steps(1, 2, 4, 8), attempts=3)
        )
        async with rb.BridgeClient(server.url, policy=policy) as client:
            await client.wait_ready()
            await asyncio.sleep(1)
            await server.cut("abort", seconds=20)
            await asyncio.sleep(30)
            await client.wait_ready()
            await server.cut("close", code=4003)
            await asyncio.sleep(1)

    caplog.set_level(logging.INFO, "resilient_bridge")
    simulate(main)
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "resilient_bridge"]
    assert [line[0] for line in lines] == ["INFO", *["WARNING"] * 5, "ERROR"]
    assert [line[1].split(":")[0] for line in lines] == [
        "connection lost, attempt 1 in 1 s",
        "not reached, attempt 2 in 2 s",
        "not reached, attempt 3 in 4 s",
        "disconnected after 3 attempts, still trying",
        "not reached, attempt 4 in 8 s",
        "not reached, attempt 5 in 8 s",
        "gave up on bridge",
    ]
    caplog.clear()
    with rb.listen(lambda event: None):
        simulate(main)
    assert lines == [
        (r.levelname, r.getMessage()) for r in caplog.records if r.name == "resilient_bridge"
    ]
