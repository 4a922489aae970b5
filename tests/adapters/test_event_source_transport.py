"""An EventSource over a client with an HTTPTransport: the transport repeats requests, the source resumes the stream."""

from __future__ import annotations

import httpx
import httpx2
import pytest

import resilient_bridge as rb
from tests.adapters.event_servers import Server, answer, numbered, replay, stream


pytestmark = [
    pytest.mark.real,
    pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"]),
]
AT_ONCE = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.constant(0), budget=None))


def simulated(main, library, *scripts, policy=AT_ONCE, **options):
    """Run `await main(source, server)` in virtual time; the requests, but for those of the first connection."""

    async def inside(_bridge):
        async with (
            Server(*scripts).running() as server,
            library.AsyncClient(trust_env=False, transport=rb.HTTPTransport(policy)) as client,
            rb.links.EventSource(
                client, server.url, reconnect=rb.presets.default, **options
            ) as source,
        ):
            await main(source, server)
            return server.asked[1:]

    return rb.testing.simulate(inside)


def takes(*wanted):
    """Take these events, and no other."""

    async def main(source, _server):
        assert [(await anext(source)).data for _ in wanted] == list(wanted)

    return main


@pytest.mark.parametrize("cut", ["break", "end"])
def test_it_resumes_through_a_cut_and_a_503(library, cut):
    """Each request after the cut has the id of the last event, those that the transport repeats too; no event twice, none lost."""
    asked = simulated(
        takes("n1", "n2", "n3", "n4"),
        library,
        stream(numbered(1), numbered(2), then=cut),
        answer(503),
        answer(503, "Retry-After: 3"),
        stream(numbered(3), numbered(4)),
    )
    assert [each["Last-Event-ID"] for each in asked] == ["2"] * 3
    assert asked[2]["time"] - asked[1]["time"] >= 3


def test_what_the_transport_gives_up_the_source_goes_on_with(library):
    """Ten answers of 503 are more than the transport repeats: the source waits by its own schedule, and resumes."""
    asked = simulated(
        takes("n1", "n2"),
        library,
        stream(numbered(1), then="break"),
        *[answer(503)] * 10,
        stream(numbered(2)),
    )
    assert [each["Last-Event-ID"] for each in asked] == ["1"] * 11


@pytest.mark.parametrize("policy", [None, AT_ONCE], ids=["recommended", "at once"])
def test_many_cuts_lose_and_repeat_nothing(library, policy):
    """Twenty events over a server that breaks off after every third; the transport counts none of it as a failure."""
    asked = simulated(takes(*(f"n{n}" for n in range(1, 21))), library, replay, policy=policy)
    assert [int(each["Last-Event-ID"]) for each in asked] == [3, 6, 9, 12, 15, 18]


def test_a_refusal_of_the_transport_ends_it(library):
    """Credentials over http:// to another machine: CONN_INSECURE, raised by the next event, and no schedule begins."""

    async def main(source, server):
        with pytest.raises(rb.BridgeError) as caught:
            await anext(source)
        assert caught.value.failure.code == "CONN_INSECURE"
        assert source.state == "FAILED"
        server.asked.append(None)

    async def inside(_bridge):
        transport = rb.HTTPTransport(AT_ONCE)
        async with (
            library.AsyncClient(trust_env=False, transport=transport) as client,
            rb.links.EventSource(
                client, "http://192.0.2.7/", headers={"X-Api-Key": "abc123"}
            ) as source,
        ):
            await main(source, Server())

    rb.testing.simulate(inside)
