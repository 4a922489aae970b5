"""Bodies: those that can be sent once are sent once, those that were looked into come out whole, and long ones have an end."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import zlib
from functools import cache

import httpx
import pytest

import resilient_bridge as rb
from tests.adapters.http_clients import QUICK, each_kind, repeating
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault
from tests.peers.http_wire import Answer, BreakError
from tests.peers.running import until


real = pytest.mark.real
JSON = {"content-type": "application/json"}
SMALL = json.dumps({"error": {"message": "x" * 100}}).encode()
LARGE = json.dumps({"error": {"message": "x" * 200_000}}).encode()


class Pipe(io.RawIOBase):
    """A file that can be read once."""

    def __init__(self, content: bytes) -> None:
        self._rest = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(size)


# ---- requests ----------------------------------------------------------------------------------------------------------


def pieces(kind):
    """A body of two pieces: a generator in the way of the client."""

    def generate():
        yield b"one"
        yield b"two"

    async def generate_async():
        yield b"one"
        yield b"two"

    return generate_async() if kind.is_async else generate()


@real
@each_kind
async def test_a_generator_is_sent_once(kind):
    """A PUT may be repeated, but its body cannot be read again: the 503 is returned, and the server got all of the body."""
    async with HttpFault() as server, kind.client() as client:
        server.strike(Fault.answer(503))
        answer = await client.request(
            "PUT", server.url(), content=pieces(kind), headers={"content-length": "6"}
        )
        assert (answer.status_code, server.requests) == (503, 1)
        assert server.log[0].request.body == b"onetwo"


@real
@each_kind
async def test_a_stream_that_was_never_read_may_be_sent_later(kind):
    """Nobody listened at first: no byte was read, so the attempt that finds a server sends all of it."""
    loop = asyncio.get_running_loop()
    async with HttpFault() as server:
        await server.refuse()

        def open_up() -> None:
            asyncio.run_coroutine_threadsafe(server.listen(), loop).result(10)

        async def open_up_async() -> None:
            await server.listen()

        before = open_up_async if kind.is_async else open_up
        policy = repeating(rules={rb.Category.TRANSPORT: rb.Rule(attempts=2, before=before)})
        async with kind.client(rb.HTTPTransport(policy, kind.inner())) as client:
            sent = {"content": pieces(kind), "headers": {"content-length": "6"}}
            assert (await client.post(server.url(), **sent)).status_code == 200
        assert [exchange.request.body for exchange in server.log] == [b"onetwo"]


class Reading:
    """An inner transport that reads each body as a connection does, and answers 503 first, then 200."""

    def __init__(self, kind) -> None:
        self._kind = kind
        self.bodies: list[bytes] = []

    def _answered(self, body):
        self.bodies.append(body)
        return self._kind.library.Response(503 if len(self.bodies) == 1 else 200)

    def handle_request(self, request):
        return self._answered(b"".join(request.stream))

    async def handle_async_request(self, request):
        return self._answered(b"".join([part async for part in request.stream]))

    async def aclose(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


@each_kind
async def test_multipart_is_repeated_if_its_files_rewind(kind):
    """A file in memory is sent whole twice; one that can be read once is sent once."""
    for file, status, calls in ((io.BytesIO(b"content"), 200, 2), (Pipe(b"content"), 503, 1)):
        inner = Reading(kind)
        async with kind.client(rb.HTTPTransport(QUICK, inner)) as client:
            answer = await client.request("PUT", "https://a.example/", files={"f": file})
        assert (answer.status_code, len(inner.bodies)) == (status, calls)
        assert inner.bodies == [inner.bodies[0]] * calls
        assert b"content" in inner.bodies[0]


# ---- errors that were looked into --------------------------------------------------------------------------------------


def chunked(content):
    """The same content in pieces of no round size."""

    async def generate():
        for start in range(0, len(content), 7_919):
            yield content[start : start + 7_919]

    return generate()


@real
@each_kind
@pytest.mark.parametrize(
    "content",
    [b"{}", SMALL, LARGE, LARGE[:65_536], b""],
    ids=["{}", "small", "large", "64K", "none"],
)
async def test_a_body_that_was_looked_into_is_whole(kind, content):
    """The last error of four, read at once, as a stream, raw, chunked or gzipped: every byte, as if nobody had looked."""
    packed = gzip.compress(content)
    made = {
        "/": lambda: Answer(503, content, JSON),
        "/chunked": lambda: Answer(503, chunked(content), JSON),
        "/gzip": lambda: Answer(503, packed, {**JSON, "content-encoding": "gzip"}),
    }
    async with HttpFault(lambda request: made[request.path]()) as server, kind.client() as client:
        for path, raw in (("/", content), ("/chunked", content), ("/gzip", packed)):
            before = server.requests
            assert (await client.get(server.url(path))).content == content
            for how, wanted in (("raw", raw), ("bytes", content)):
                answer, body = await client.streamed("GET", server.url(path), how)
                assert (answer.status_code, body) == (503, wanted)
            assert server.requests == before + 12


@real
@each_kind
async def test_a_body_that_breaks_off_breaks_off_for_the_reader(kind):
    """The status of the answer stands, a repeat included; the error of the body comes to who reads it, after what came before."""

    async def torn():
        yield b'{"begun": '
        raise BreakError

    async with HttpFault(lambda _: Answer(503, torn(), JSON)) as server, kind.client() as client:
        parts = []

        async def read_async():
            async with client.raw.stream("GET", server.url()) as answer:
                parts.append(answer.status_code)
                async for part in answer.aiter_raw():
                    parts.append(part)  # noqa: PERF401 -- what came before the error is what counts

        def read():
            with client.raw.stream("GET", server.url()) as answer:
                parts.append(answer.status_code)
                parts.extend(answer.iter_raw())

        with pytest.raises(kind.library.RemoteProtocolError):
            await client.do(read_async if kind.is_async else read)
        assert server.requests == 4
        assert parts[:1] == [503]
        assert kind.is_async is False or parts == [503, b'{"begun": ']


# ---- a bound -----------------------------------------------------------------------------------------------------------


@real
@each_kind
@pytest.mark.parametrize("path", ["/", "/chunked"])
@pytest.mark.parametrize("status", [200, 503])
async def test_a_body_has_an_end(kind, path, status):
    """More than `max_body` bytes are not read: a typed error, the connection is closed; as many as allowed come through."""
    content = b'"' + b"x" * 299_998 + b'"'

    def answer(request):
        return Answer(status, content if request.path == "/" else chunked(content), JSON)

    async with HttpFault(answer) as server:
        bounded = rb.HTTPTransport(repeating(attempts=1), kind.inner(), max_body=299_999)
        async with kind.client(bounded) as client:
            for read in (client.get, lambda url: client.streamed("GET", url)):
                with pytest.raises(
                    kind.library.RequestError, match="wanted at most 299999 bytes"
                ) as caught:
                    await read(server.url(path))
                assert isinstance(caught.value, rb.errors.ProtocolError)
                assert caught.value.failure.code == "PROTO_MESSAGE_TOO_BIG"
                await until(lambda: not server._open, "the end of the connection")
        async with kind.client(
            rb.HTTPTransport(repeating(attempts=1), kind.inner(), max_body=300_000)
        ) as client:
            assert (await client.get(server.url(path))).content == content


def _deflated(data, form):
    packer = zlib.compressobj(9, zlib.DEFLATED, form)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress,
    "deflate": lambda data: _deflated(data, zlib.MAX_WBITS),
    "deflate raw": lambda data: _deflated(data, -zlib.MAX_WBITS),
    "gzip, gzip": lambda data: gzip.compress(gzip.compress(data)),
}


@cache
def packed_bomb(form):
    return PACKED[form](b"x" * 50_000_000)


@pytest.mark.real
@each_kind
@pytest.mark.parametrize("form", PACKED)
async def test_g03_a_body_that_grows_when_decoded_has_an_end(kind, form):
    """A few KB become 50 MB: raised while they are read, however they are read, and no more than a part was decoded by then."""
    encoding = form.removesuffix(" raw")

    def answer(request):
        return Answer(
            int(request.path[1:]), packed_bomb(form), {"content-encoding": encoding, **JSON}
        )

    async with HttpFault(answer) as server:
        transport = rb.HTTPTransport(repeating(attempts=1), kind.inner(), max_body=1_000_000)
        async with kind.client(transport) as client:
            for status in (200, 503):
                for read in (client.get, lambda url: client.streamed("GET", url)):
                    with pytest.raises(
                        kind.library.RequestError, match="1000000 bytes once decoded"
                    ) as caught:
                        await read(server.url(f"/{status}"))
                    assert caught.value.failure.code == "PROTO_MESSAGE_TOO_BIG"


def test_g03_raw_iteration_is_bounded_as_well():
    """Who reads the compressed bytes and decodes them by hand is told before the bomb is in hand."""
    packed = packed_bomb("gzip")

    def answer(request):
        return httpx.Response(
            200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(packed)
        )

    transport = rb.HTTPTransport(QUICK, httpx.MockTransport(answer), max_body=1_000_000)
    with (
        httpx.Client(transport=transport) as client,
        pytest.raises(rb.errors.ProtocolError, match="once decoded"),
        client.stream("GET", "https://a.example/") as response,
    ):
        list(response.iter_raw())


@pytest.mark.real
@each_kind
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity", "unknown"])
async def test_g03_what_fits_comes_through(kind, encoding):
    """Exactly `max_body` bytes once decoded are read; a broken body is the client's own error."""
    content = b"0123456789" * 10_000
    packed = {"gzip": gzip.compress(content), "deflate": zlib.compress(content)}.get(
        encoding, content
    )
    bodies = {"/": packed, "/broken": b"broken" * 10}

    def answer(request):
        return Answer(200, bodies[request.path], {"content-encoding": encoding})

    async with HttpFault(answer) as server:
        for most, fits in ((len(content), True), (len(content) - 1, False)):
            async with kind.client(
                rb.HTTPTransport(repeating(attempts=1), kind.inner(), max_body=most)
            ) as client:
                if fits:
                    assert (await client.get(server.url("/"))).content == content
                    if encoding == "gzip":
                        with pytest.raises(kind.library.DecodingError):
                            await client.get(server.url("/broken"))
                else:
                    with pytest.raises(rb.BridgeError):
                        await client.get(server.url("/"))


async def test_a_cancelled_look_closes_the_response():
    """A timeout strikes while the body of an error is looked into: the response is closed, not left open."""
    closed = asyncio.Event()

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self):
            yield b"{"
            await asyncio.Event().wait()

        async def aclose(self):
            closed.set()

    def answer(_):
        return httpx.Response(503, headers=JSON, stream=Slow())

    policy = rb.Policy(rb.Timeout(0.02))
    async with httpx.AsyncClient(
        transport=rb.HTTPTransport(policy, httpx.MockTransport(answer))
    ) as client:
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await client.get("https://a.example/")
    assert closed.is_set()


async def test_what_is_not_json_is_not_looked_into():
    """An event stream or a page of HTML is handed on unread: looking could take for ever."""
    pulled = []

    def body():
        pulled.append(1)
        yield b"<html>"

    def answer(_):
        return httpx.Response(503, headers={"content-type": "text/html"}, content=body())

    transport = rb.HTTPTransport(repeating(attempts=1), httpx.MockTransport(answer))
    with (
        httpx.Client(transport=transport) as client,
        client.stream("GET", "https://a.example/") as answered,
    ):
        assert not pulled
        assert answered.read() == b"<html>"
