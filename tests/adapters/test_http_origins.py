"""What is shared by the requests to one origin: circuit, budget, places; and the errors in which they end."""

from __future__ import annotations

import asyncio
import pickle

import httpx
import pytest

import resilient_bridge as rb
from tests.adapters.http_clients import AT_ONCE, each_kind, repeating, scripted
from tests.internals.adapters import transport


@each_kind
async def test_a_circuit_belongs_to_an_origin(kind, key):
    """One origin fails until its circuit is open; another, and another port, are served; the handle is its address."""
    host = f"h{abs(hash(key))}.example"
    policy = rb.Policy(rb.Breaker.consecutive(2, open_for=30))
    inner = kind.mock(lambda request: (503,) if request.url.port is None else (200,))
    async with kind.client(rb.HTTPTransport(policy, inner)) as client:
        for _ in range(2):
            await client.get(f"https://{host}/a")
        with pytest.raises(rb.CircuitOpenError):
            await client.get(f"https://{host}/b")
        assert (await client.get(f"https://{host}:8443/")).status_code == 200
        assert rb.calls.circuit(f"https://{host}").state == "open"
        assert rb.calls.circuit(f"https://{host}:8443").state == "closed"
        rb.calls.circuit(f"https://{host}").reset()
        assert (await client.get(f"https://{host}/")).status_code == 503


@each_kind
async def test_what_we_raise_is_also_the_librarys(kind, key):
    """An open circuit is a CircuitOpenError and a RequestError, has its request, and pickles as our own error."""
    host = f"https://h{abs(hash(key))}.example"
    policy = rb.Policy(AT_ONCE, rb.Breaker.consecutive(4, open_for=30))
    async with kind.client(rb.HTTPTransport(policy, kind.mock(scripted(503)))) as client:
        await client.get(f"{host}/")
        with pytest.raises(kind.library.RequestError) as caught:
            await client.get(f"{host}/secret-path")
    error = caught.value
    assert isinstance(error, rb.CircuitOpenError)
    assert isinstance(error, kind.library.HTTPError)
    assert error.request.url == f"{host}/secret-path"
    error.add_note("a note")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.__notes__) == (
        rb.CircuitOpenError,
        str(error),
        error.__notes__,
    )
    for one in (error, copy):
        failure = rb.classify(one)
        assert (failure.code, failure.executed) == ("SYS_CIRCUIT_OPEN", rb.errors.Executed.NO)


@each_kind
async def test_a_budget_belongs_to_an_origin(kind, key):
    """Repeats to one origin are used up; those to another are not."""
    host = f"h{abs(hash(key))}.example"
    answer = scripted(503)
    policy = repeating(budget=rb.RetryBudget(ratio=0.01, floor=3))
    async with kind.client(rb.HTTPTransport(policy, kind.mock(answer))) as client:
        for _ in range(3):
            await client.get(f"https://a.{host}/")
        assert len(answer.seen) == 3 + 3
        await client.get(f"https://b.{host}/")
        assert len(answer.seen) == 6 + 4


async def test_a_bulkhead_belongs_to_an_origin(key):
    """One origin hangs and its only place is taken; the next caller is rejected there, and served elsewhere."""
    host, gate, entered = f"h{abs(hash(key))}.example", asyncio.Event(), asyncio.Event()

    async def answer(request):
        if request.url.host.startswith("a."):
            entered.set()
            await gate.wait()
        return httpx.Response(200)

    transport = rb.HTTPTransport(rb.Policy(rb.Bulkhead(1, queue=0)), httpx.MockTransport(answer))
    async with httpx.AsyncClient(transport=transport) as client:
        hanging = asyncio.create_task(client.get(f"https://a.{host}/"))
        await entered.wait()
        with pytest.raises(httpx.RequestError) as caught:
            await client.get(f"https://a.{host}/")
        assert isinstance(caught.value, rb.errors.BulkheadFullError)
        assert (await client.get(f"https://b.{host}/")).status_code == 200
        gate.set()
        assert (await hanging).status_code == 200


async def test_c08_the_origin_in_use_is_not_compiled_again(monkeypatch):
    """Of more origins than are kept, the one that was not asked for the longest is dropped, and not the first."""
    compiled, bind = [], transport.bind
    monkeypatch.setattr(transport, "_MOST", 2)
    monkeypatch.setattr(
        transport,
        "bind",
        lambda *args, **options: compiled.append(options["name"]) or bind(*args, **options),
    )
    inner = httpx.MockTransport(lambda request: httpx.Response(200))
    async with httpx.AsyncClient(transport=rb.HTTPTransport(rb.Policy(AT_ONCE), inner)) as client:
        for number in range(6):
            await client.get("https://hot.test/")
            await client.get(f"https://n{number}.test/")
    assert compiled.count("https://hot.test") == 1
    assert len(compiled) == 7
