"""Threat 44 over HTTPTransport: a refresh that hangs, and many requests that are refused at once with the same stale token.

Rule: the token is set by the refresh and read by each request, as users do it: an `auth` of the client's library.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import httpx2
import pytest

import resilient_bridge as rb
from tests.adapters.link_peers import now


libraries = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


def refreshing(before, *around, attempts=2):
    """A policy that asks for a token before it repeats a 401."""
    rule = rb.Rule(attempts=attempts, before=before, backoff=rb.Backoff.constant(0))
    return rb.Policy(*around, rb.Retry(rules={401: rule}, budget=None))


def guarded(library, session):
    """A server that takes the token of the moment; it counts what it answered."""
    session.answers = {200: 0, 401: 0}
    session.lock = threading.Lock()

    def answer(request):
        with session.lock:
            status = 200 if request.headers["X-Token"] == session.valid else 401
            session.answers[status] += 1
        return library.Response(status)

    return library.MockTransport(answer)


def signing(library, session):
    """A transport below ours that puts the token of the moment on each attempt."""

    class Signing(library.AsyncBaseTransport, library.BaseTransport):
        def __init__(self):
            self.below = guarded(library, session)

        def handle_request(self, request):
            request.headers["X-Token"] = session.token
            if session.token == "stale":
                session.together.wait()  # they are all on their way before the first is refused
            return self.below.handle_request(request)

        async def handle_async_request(self, request):
            request.headers["X-Token"] = session.token
            await asyncio.sleep(0.01)  # they are all on their way before the first is refused
            return await self.below.handle_async_request(request)

    return Signing()


@libraries
def test_row_44_a_refresh_that_hangs_ends_with_the_deadline(library):
    """DeadlineExceededError, which is the library's timeout too, at the deadline; the refresh is cancelled, and the next call tries its own."""

    async def main(_bridge):
        session = SimpleNamespace(token="stale", valid="fresh", entered=0, cancelled=0)

        async def log_in():
            session.entered += 1
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                session.cancelled += 1
                raise

        transport = rb.HTTPTransport(refreshing(log_in, rb.Deadline(7)), signing(library, session))
        async with library.AsyncClient(transport=transport, timeout=None) as client:
            for number in (1, 2):
                started = now()
                with pytest.raises(rb.DeadlineExceededError) as caught:
                    await client.post("https://a.example/")
                assert isinstance(caught.value, library.TimeoutException)
                assert 7 <= now() - started < 7.1
                assert (session.entered, session.cancelled) == (number, number)
        assert session.answers == {200: 0, 401: 2}

    rb.testing.simulate(main)


@libraries
def test_row_44_those_that_wait_for_a_refresh_that_hangs_end_too(library):
    """Twenty refused at once behind one refresh that never ends: all of them end at their deadline, and none began a second one meanwhile."""

    async def main(_bridge):
        session = SimpleNamespace(token="stale", valid="fresh", entered=0)

        async def log_in():
            session.entered += 1
            await asyncio.Event().wait()

        transport = rb.HTTPTransport(refreshing(log_in, rb.Deadline(7)), signing(library, session))
        async with library.AsyncClient(transport=transport, timeout=None) as client:
            asked = [asyncio.create_task(client.get("https://a.example/")) for _ in range(20)]
            await asyncio.sleep(6.9)
            assert (session.entered, session.answers) == (1, {200: 0, 401: 20})
            ended = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(error) for error in ended} <= {type(ended[0])}
        assert all(isinstance(error, rb.DeadlineExceededError) for error in ended)
        assert now() < 7.2

    rb.testing.simulate(main)


@libraries
def test_row_44_of_many_requests_one_refreshes(library):
    """Fifty requests with the same stale token: one refresh is in flight, and all of them are answered with what it brought."""

    async def main(_bridge):
        session = SimpleNamespace(token="stale", valid="fresh", entered=0, running=0)

        async def log_in():
            session.entered += 1
            session.running += 1
            assert session.running == 1
            await asyncio.sleep(2)
            session.token = "fresh"
            session.running -= 1

        transport = rb.HTTPTransport(refreshing(log_in, rb.Deadline(30)), signing(library, session))
        async with library.AsyncClient(transport=transport) as client:
            answers = await asyncio.gather(*(client.get("https://a.example/") for _ in range(50)))
        assert {answer.status_code for answer in answers} == {200}
        assert (session.entered, session.answers) == (1, {200: 50, 401: 50})

    rb.testing.simulate(main)


@libraries
def test_row_44_of_many_threads_one_refreshes(library):
    """The same over a blocking client that eight threads share."""
    session = SimpleNamespace(
        token="stale", valid="fresh", entered=0, together=threading.Barrier(8, timeout=10)
    )
    running = threading.Lock()

    def log_in():
        assert running.acquire(blocking=False)
        session.entered += 1
        time.sleep(0.02)  # long enough for all of them to come, were they let in
        session.token = "fresh"
        running.release()

    def get(client):
        return client.get("https://a.example/").status_code

    transport = rb.HTTPTransport(refreshing(log_in), signing(library, session))
    with library.Client(transport=transport) as client, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(get, [client] * 8)) == [200] * 8
    assert session.entered == 1


@libraries
@pytest.mark.parametrize(
    ("code", "expected"),
    [("TOKEN_EXPIRED", "AUTH_TOKEN_EXPIRED"), ("invalid_api_key", "AUTH_INVALID_TOKEN")],
)
def test_the_body_of_a_401_is_read_for_what_it_says(library, code, expected):
    """Its JSON decides the code of the failure, although the answer is a stream; the caller still reads all of it."""
    body = json.dumps({"error": {"code": code, "message": "no"}}).encode()
    kind = {"Content-Type": "application/json"}
    refusing = library.MockTransport(
        lambda _: library.Response(401, headers=kind, content=iter([body]))
    )
    with (
        rb.testing.record(calls=True) as events,
        library.Client(transport=rb.HTTPTransport(inner=refusing)) as client,
        client.stream("GET", "http://host/") as answer,
    ):
        assert answer.read() == body
    (finished,) = [event for event in events if isinstance(event, rb.events.CallFinished)]
    assert finished.failure.code == expected
