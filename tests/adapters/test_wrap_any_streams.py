"""Streams that a method of any object returns: repeated up to their first item, closed if that one fails, watched from then on."""

from __future__ import annotations

import pytest

import resilient_bridge as rb


FAST = rb.Policy(
    rb.Retry(attempts=3, backoff=rb.Backoff.constant(1)), rb.Breaker.consecutive(5, open_for=30)
)


class Items:
    """A stream, sync and async, that fails where it is told to, and notes that it was closed."""

    def __init__(self, fails_at, closed):
        self.at, self.fails_at, self.closed = 0, fails_at, closed

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == self.fails_at:
            raise ConnectionResetError("reset")
        if self.at == 3:
            raise StopIteration
        self.at += 1
        return self.at

    def close(self):
        self.closed.append(self.at)


class AsyncItems(Items):
    """The async one."""

    def __aiter__(self):
        return self

    __iter__ = None

    async def __anext__(self):
        try:
            return Items.__next__(self)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self):
        super().close()

    close = None


class Streaming:
    """Gives streams that fail at the places listed."""

    def __init__(self, *fails_at):
        self.fails_at, self.closed = list(fails_at), []

    def read(self):
        return Items(self.fails_at.pop(0), self.closed)

    async def aread(self):
        return AsyncItems(self.fails_at.pop(0), self.closed)


@pytest.mark.parametrize("name", ["read", "aread"])
async def test_a_stream_that_is_returned_is_repeated_up_to_its_first_item(name):
    """One that fails at its first item is closed and asked for again; later its failure is noted, and the circuit hears of it."""
    streaming = Streaming(0, -1, 1)
    client = rb.wrap(streaming, FAST, methods=[name], idempotent=True)
    with rb.testing.virtual_time() as time:
        for _ in range(2):
            got, failed = [], None
            stream = client.read() if name == "read" else await client.aread()
            try:
                if name == "read":
                    for item in stream:
                        got.append(item)  # noqa: PERF402  # what came before an error counts
                else:
                    async for item in stream:
                        got.append(item)  # noqa: PERF401  # see above
            except ConnectionResetError as error:
                failed = error
            if not streaming.fails_at:
                break
            assert (got, failed, streaming.closed) == ([1, 2, 3], None, [0])
    assert (got, time.slept) == ([1], [1.0])
    assert "not repeated: items had been handed out" in failed.__notes__
    assert "1/5 failed" in repr(rb.calls.circuit(client))
