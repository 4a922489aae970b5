"""What we say about a request: never its secrets, always on one line, whatever a server or an exception puts into it."""

from __future__ import annotations

import asyncio
import logging
import traceback

import pytest

import resilient_bridge as rb
from tests.adapters.http_clients import AT_ONCE, KINDS, QUICK, each_kind, scripted
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault


CANARY = "c4n4ry-5ecret-9f31"
HEADERS = {"Authorization": f"Bearer {CANARY}", "X-Api-Key": CANARY, "Cookie": f"session={CANARY}"}
JSON = {"content-type": "application/json"}


def outcome_of(error: BaseException) -> list[str]:
    """All that we say about an error, ours or the client's: not the text of an error that is not ours."""
    failure = rb.classify(error)
    texts = [
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        str(failure.to_dict()),
    ]
    texts += getattr(error, "__notes__", [])
    if isinstance(error, rb.BridgeError):
        texts += [str(error), repr(error), "".join(traceback.format_exception(error))]
    return texts


@pytest.mark.real
@each_kind
async def test_a_secret_is_reported_to_no_one(kind, caplog):
    """In headers, URL, body and the server's own words; through losses, refusals, circuits and errors of the client: never shown."""
    caplog.set_level(logging.DEBUG, "resilient_bridge")
    parts: list[str] = []
    echo = f'{{"error": {{"message": "Authorization: Bearer {CANARY}", "api_key": "{CANARY}"}}}}'.encode()
    policy = rb.Policy(AT_ONCE, rb.Breaker.consecutive(12, open_for=30))
    asked = {
        "headers": HEADERS,
        "params": {"token": CANARY},
        "json": {"password": CANARY},
    }
    with rb.testing.record() as events:
        async with HttpFault() as server, HttpFault() as other:
            transport = rb.HTTPTransport(policy, kind.inner(), max_body=10_000)
            async with kind.client(transport, follow_redirects=True) as client:
                faults = [
                    Fault.reset_after(),
                    Fault.answer(503, echo, content_type="application/json"),
                ]
                faults.append(Fault.answer(302, location=other.url(f"/?token={CANARY}")))
                for url in (server.url(), f"http://user:{CANARY}@a.example/"):
                    for fault in faults:
                        server.strike(fault, times=4)
                        parts += await _all_output(client, url, asked)
                        server.heal()
                parts += await _all_output(
                    client, server.url(), {"headers": {"Authorization": f"Bearer {CANARY}\n"}}
                )
                await server.refuse()
                for _ in range(5):
                    parts += await _all_output(client, server.url(), asked)
                parts += [repr(transport), repr(rb.calls.circuit(server.url("")))]
    assert any("circuit" in text and "open" in text for text in parts)
    assert any("CONN_REDIRECT_REFUSED" in text for text in parts)
    assert any("CONN_INSECURE" in text for text in parts)
    parts += [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("resilient_bridge")
    ]
    parts += [repr(event) for event in events]
    assert len(events) > 10
    assert [text for text in parts if CANARY in text] == []


async def _all_output(client, url, asked) -> list[str]:
    try:
        answer = await client.post(url, **asked)
    except Exception as error:  # noqa: BLE001 -- every error is looked at
        return outcome_of(error)
    failure = rb.classify(answer)
    return (
        []
        if failure is None
        else [str(failure), failure.explain(), failure.to_llm(), str(failure.to_dict())]
    )


@each_kind
async def test_a_server_cannot_write_our_log(kind, caplog):
    """A new line, an escape sequence and a NUL in its words stay in one record, escaped (threat 46)."""
    body = (
        b'{"code": "SYS_UNAVAILABLE", "message": "a\\nERROR forged\\u001b[31m\\u0000 \\u2028end"}'
    )
    with caplog.at_level(logging.DEBUG, "resilient_bridge"):
        async with kind.client(
            rb.HTTPTransport(QUICK, kind.mock(scripted((503, JSON, body))))
        ) as client:
            await client.get("https://a.example/")
    assert len(caplog.records) == 4  # three repeats, and the end
    for record in caplog.records:
        assert record.getMessage().isprintable()
    assert all("forged" in record.getMessage() for record in caplog.records)


@each_kind
async def test_an_error_without_a_text_comes_out(kind):
    """An exception of the inner transport whose `str()` fails is repeated like its class, and raised itself (threat 45)."""
    calls = 0

    class MuteError(kind.library.ConnectError):
        def __str__(self) -> str:
            raise ValueError

    def answer(request):
        nonlocal calls
        calls += 1
        raise MuteError("x")

    async with kind.client(rb.HTTPTransport(QUICK, kind.mock(answer))) as client:
        with pytest.raises(kind.library.ConnectError) as caught:
            await client.get("https://a.example/")
    assert (type(caught.value), calls) == (MuteError, 4)


async def test_a_long_chain_of_causes_is_survived():
    """Five thousand causes below an error cost a look at some of them, and no recursion (threat 45)."""
    kind = KINDS[1]

    def answer(request):
        error: Exception = OSError("the first")
        for n in range(5_000):
            above = RuntimeError(str(n))
            above.__cause__ = error
            error = above
        raise kind.library.ReadError("x") from error

    async with (
        asyncio.timeout(20),
        kind.client(rb.HTTPTransport(QUICK, kind.mock(answer))) as client,
    ):
        with pytest.raises(kind.library.ReadError) as caught:
            await client.get("https://a.example/")
    caught.value.__cause__ = None  # or pytest shows all of them
