"""Each row of the table of proofs on a real wire: a POST without a key goes out again after it, and its effect happens once."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import ssl
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import h2.config
import h2.connection
import h2.errors
import h2.events
import httpx
import pytest
import trustme
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.internals.failure import PROOFS


pytestmark = pytest.mark.real
AT_ONCE = rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0), budget=None))


class Peer:
    """A server of a few lines: it answers by a script and counts what it acted on."""

    def __init__(self, *statuses, body=b"{}"):
        self.script, self.body = list(statuses), body
        self.requests = self.effects = 0
        self.open = set()

    async def attend(self, reader, writer):
        self.open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [
                    line
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                ]
                await reader.readexactly(int(length[0].split(b":")[1]) if length else 0)
                self.requests += 1
                status = self.script.pop(0) if self.script else 200
                self.effects += status == 200
                body = b"{}" if status == 200 else self.body
                writer.write(
                    f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def serving(self, **how):
        server = await asyncio.start_server(self.attend, "127.0.0.1", 0, **how)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            while self.open:
                self.open.pop().close()
                await asyncio.sleep(0)


def client(**how):
    inner = how.pop("inner", None) or httpx.AsyncHTTPTransport(**how.pop("transport", {}))
    return httpx.AsyncClient(transport=rb.HTTPTransport(AT_ONCE, inner), trust_env=False, **how)


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


async def refused(send, proof, attempts=2):
    """The request ends in this proof, after as many attempts as there may be: that it was repeated shows that it counts."""
    seen = []
    with rb.listen(seen.append), pytest.raises(Exception) as caught:
        await send()
    failure = rb.classify(caught.value)
    assert (failure.executed, failure.proof) == (rb.errors.Executed.NO, proof)
    repeats = [event.permission for event in seen if isinstance(event, rb.events.RetryScheduled)]
    assert repeats == [proof] * (attempts - 1)


async def test_proof_not_resolved():
    """`.invalid` has no address, by RFC 6761."""
    async with client() as http:
        await refused(lambda: http.post("http://nobody.invalid/", content=b"x"), "not_connected")
    with pytest.raises(OSError, match=r"Name|service|name") as caught:
        await asyncio.open_connection("nobody.invalid", 80)
    assert rb.classify(caught.value).proof == "not_resolved"


async def test_proof_not_connected():
    """A port where nobody listens."""
    async with client() as http:
        await refused(lambda: http.post(f"http://127.0.0.1:{closed_port()}/"), "not_connected")


async def test_proof_connect_timeout():
    """A listener whose queue is full: the SYN is not answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        address = server.getsockname()
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        try:
            async with client(timeout=httpx.Timeout(5, connect=0.2)) as http:
                await refused(
                    lambda: http.post(f"http://127.0.0.1:{address[1]}/"), "connect_timeout"
                )
        finally:
            for filler in fillers:
                filler.close()


async def test_proof_pool_timeout():
    """One connection, and somebody else has it."""
    peer = Peer()
    release = asyncio.Event()

    async def slow():
        yield b"x"
        await release.wait()

    limits = httpx.Limits(max_connections=1)
    async with (
        peer.serving() as port,
        client(transport={"limits": limits}, timeout=httpx.Timeout(5, pool=0.1)) as http,
    ):
        url = f"http://127.0.0.1:{port}/"
        busy = asyncio.create_task(http.post(url, content=slow(), headers={"Content-Length": "1"}))
        await asyncio.sleep(0.05)
        await refused(lambda: http.post(url, content=b"y"), "pool_timeout")
        release.set()
        await asyncio.wait([busy])
    assert peer.requests <= 1


async def test_proof_tls_failed():
    """A certificate that nobody here trusts: the handshake ends before the request. It is not repeated, because that cannot help."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    peer = Peer()
    async with peer.serving(ssl=context) as port, client() as http:
        with pytest.raises(httpx.ConnectError) as caught:
            await http.post(f"https://127.0.0.1:{port}/")
    failure = rb.classify(caught.value)
    assert (failure.code, failure.executed) == ("CONN_TLS_HANDSHAKE_FAILED", rb.errors.Executed.NO)
    assert peer.requests == 0
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        async with peer.serving(ssl=context) as port:
            await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
    assert rb.classify(caught.value).proof == "tls_failed"


async def test_proof_tunnel_refused():
    """A proxy that answers CONNECT with 502."""
    proxy = Peer(502, 502)
    async with proxy.serving() as port:
        inner = httpx.AsyncHTTPTransport(proxy=f"http://127.0.0.1:{port}")
        async with client(inner=inner) as http:
            await refused(lambda: http.post("https://127.0.0.1:1/"), "tunnel_refused")


async def test_proof_upgrade_refused():
    """A WebSocket upgrade that is answered with 403, and one that is cut."""
    peer = Peer(403)
    async with peer.serving() as port:
        with pytest.raises(Exception) as caught:
            await connect(f"ws://127.0.0.1:{port}/")
    assert rb.classify(caught.value).proof == "upgrade_refused"

    async def cut(_, writer):
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    with pytest.raises(Exception) as caught:
        await connect(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    server.close()
    assert rb.classify(caught.value).proof == "upgrade_refused"


async def test_proof_refused_stream():
    """An HTTP/2 server that resets the first stream with REFUSED_STREAM, and serves the second."""
    seen = []

    async def attend(reader, writer):
        link = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        link.initiate_connection()
        writer.write(link.data_to_send())
        while data := await reader.read(65_536):
            for event in link.receive_data(data):
                if isinstance(event, h2.events.StreamEnded):
                    seen.append(event.stream_id)
                    if len(seen) == 1:
                        link.reset_stream(event.stream_id, h2.errors.ErrorCodes.REFUSED_STREAM)
                    else:
                        link.send_headers(event.stream_id, [(":status", "200")], end_stream=True)
            writer.write(link.data_to_send())
        writer.close()

    server = await asyncio.start_server(attend, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    inner = httpx.AsyncHTTPTransport(http1=False, http2=True)
    parts = []
    async with client(inner=inner) as http:
        with rb.listen(parts.append):
            answer = await http.post(f"http://127.0.0.1:{port}/", content=b"x")
    server.close()
    assert (answer.status_code, len(seen)) == (200, 2)
    assert [event.permission for event in parts if isinstance(event, rb.events.RetryScheduled)] == [
        "refused_stream"
    ]


@pytest.mark.parametrize("status", [401, 407, 421, 425, 426])
async def test_proof_http(status):
    """The server says that it did not apply the request; where a repeat can help it is made, and the effect happens once."""
    peer = Peer(status)
    policy = rb.Policy(
        rb.Retry(attempts=2, rules={status: rb.Rule(attempts=2)}, backoff=rb.Backoff.constant(0))
    )
    transport = rb.HTTPTransport(policy, httpx.AsyncHTTPTransport())
    async with (
        peer.serving() as port,
        httpx.AsyncClient(transport=transport, trust_env=False) as http,
    ):
        answer = await http.post(
            f"http://127.0.0.1:{port}/", content=b"x", extensions={"rb.idempotent": False}
        )
    assert (answer.status_code, peer.requests, peer.effects) == (200, 2, 1)
    assert rb.classify(httpx.Response(status)).proof == f"http_{status}"


def _rpc(code, message):
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}}
    ).encode()


async def test_proof_rpc_over_a_line():
    """-32700 and -32601 from a child that speaks JSON-RPC: nothing of the call has run."""
    program = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    said = json.loads(line)\n"
        "    code = -32601 if said['method'] == 'nope' else -32700\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': said['id'], 'error': {'code': code, 'message': 'no'}}), flush=True)\n"
    )
    async with rb.links.stdio(sys.executable, "-c", program)() as peer:
        for method, proof in (("nope", "rpc_unknown_method"), ("odd", "rpc_not_parsed")):
            outcome = await rb.capture(peer.request, method, {})
            assert rb.classify(outcome.error).proof == proof


async def test_proof_mcp_session_unknown():
    """A 404 to a request that carried a session."""
    peer = Peer(404, body=_rpc(-32600, "Session not found"))
    async with peer.serving() as port, httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(f"http://127.0.0.1:{port}/", headers={"Mcp-Session-Id": "s"})
    failure = rb.classify(answer.json())
    assert (failure.code, failure.proof, peer.effects) == (
        "SESS_NOT_FOUND",
        "mcp_session_unknown",
        0,
    )


async def test_proof_own_layer():
    """A full bulkhead in front of the request: the second one never leaves."""
    peer = Peer()
    policy = rb.Policy(rb.Bulkhead(1, queue=0))
    transport = rb.HTTPTransport(policy, httpx.AsyncHTTPTransport())
    async with (
        peer.serving() as port,
        httpx.AsyncClient(transport=transport, trust_env=False) as http,
    ):
        url = f"http://127.0.0.1:{port}/"
        outcomes = await asyncio.gather(*(http.post(url) for _ in range(2)), return_exceptions=True)
    rejected = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert [rb.classify(error).proof for error in rejected] == ["own_layer"]
    assert peer.requests == 1


async def test_proof_not_executed_and_stated():
    """A function that connects before it does anything, and says so: by the error it raises, and by a registration."""

    class NoServerError(Exception):
        pass

    port, calls = closed_port(), []

    @AT_ONCE(idempotent=False)
    async def order(error):
        calls.append(error)
        try:
            await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError as refusal:
            raise error from refusal

    with pytest.raises(rb.NotExecutedError) as caught:
        await order(rb.NotExecutedError)
    assert rb.classify(caught.value).proof == "not_executed"
    with rb.classify.register(
        NoServerError, kind=rb.Kind.TRANSIENT, executed=rb.errors.Executed.NO
    ):
        with pytest.raises(NoServerError) as caught:
            await order(NoServerError)
        assert rb.classify(caught.value).proof == "stated"
    assert len(calls) == 4


def test_every_row_has_its_test():
    """The table and this file name the same proofs."""
    here = inspect.getsource(sys.modules[__name__])
    missing = [name for name in PROOFS if f'"{name}"' not in here and not name.startswith("http_")]
    assert missing == []
    assert {name for name in PROOFS if name.startswith("http_")} == {
        f"http_{status}" for status in (401, 407, 421, 425, 426)
    }


# ---- what looks like a proof and is none ----------------------------------------------------------------------------


async def test_a13_a_post_that_was_redirected_to_no_one_went_out_once():
    """303 after the effect, then a refused connection: the proof speaks of the second request."""
    peer, dead = Peer(), closed_port()

    async def attend(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        peer.effects += 1
        writer.write(
            f"HTTP/1.1 303 x\r\nLocation: http://127.0.0.1:{dead}/\r\nContent-Length: 0\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    peer.attend = attend
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(peer.serving())
        url = f"http://127.0.0.1:{port}/"
        plain = httpx.AsyncClient(follow_redirects=True, trust_env=False)
        ours = client(follow_redirects=True)
        for http in (plain, ours):
            await stack.enter_async_context(http)

        @AT_ONCE(idempotent=False)
        async def decorated():
            return await plain.post(url)

        wrapped = rb.wrap(plain, AT_ONCE, methods={"post"})
        for send in (decorated, partial(wrapped.post, url), partial(ours.post, url)):
            before = peer.effects
            with pytest.raises(httpx.ConnectError) as caught:
                await send()
            assert peer.effects == before + 1
            assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE


async def test_a03_a_body_longer_than_declared_was_read_by_the_server():
    """`LocalProtocolError` came after the request was complete: told as a request that may have run."""
    peer = Peer()

    async def body():
        yield b"12345"
        await asyncio.sleep(0.1)
        yield b"more"

    async with peer.serving() as port, client() as http:
        with pytest.raises(Exception, match="Too much data") as caught:  # h11's own, or httpx's
            await http.post(
                f"http://127.0.0.1:{port}/", content=body(), headers={"Content-Length": "5"}
            )
    assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE
    assert peer.effects == 1


@pytest.mark.parametrize(("method", "sent"), [("GET", 2), ("POST", 1)])
async def test_a03_a_closed_http2_connection_is_a_lost_connection(method, sent):
    """What httpcore raises after a GOAWAY in the middle of an answer: a GET goes again, a POST may have run."""
    calls = []
    text = "Invalid input ConnectionInputs.RECV_DATA in state ConnectionState.CLOSED"

    def handler(request):
        calls.append(request.method)
        raise httpx.LocalProtocolError(text)

    async with client(inner=httpx.MockTransport(handler)) as http:
        with pytest.raises(httpx.LocalProtocolError) as caught:
            await http.request(method, "https://host.example/")
    failure = rb.classify(caught.value)
    assert (len(calls), failure.code, failure.executed) == (
        sent,
        "CONN_RESET",
        rb.errors.Executed.MAYBE,
    )
