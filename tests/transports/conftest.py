"""Certificates of every kind, and servers that remember what reached them. Rule: real sockets on loopback, real TLS."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from tests.internals.transports import open_websocket
from tests.peers.running import until


MIB = 2**20
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Recorder(asyncio.Protocol):
    """A server that answers nothing and remembers everything that came after the handshake."""

    def __init__(self) -> None:
        self.connections = 0
        self.received = b""
        self.port = 0
        self._transports: list[asyncio.Transport] = []

    def connection_made(self, transport):
        self.connections += 1
        self._transports.append(transport)

    def data_received(self, data):
        self.received += data

    @contextlib.asynccontextmanager
    async def listening(self, context: ssl.SSLContext | None = None) -> AsyncIterator[Recorder]:
        server = await asyncio.get_running_loop().create_server(
            lambda: self, "127.0.0.1", 0, ssl=context
        )
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for transport in self._transports:
                transport.abort()
            await asyncio.sleep(0)


@pytest.fixture
def recorder() -> Callable[..., AbstractAsyncContextManager[Recorder]]:
    """Start a recording server: `async with recorder(context) as server`."""
    return lambda context=None: Recorder().listening(context)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The authority that `trusting` trusts."""
    return trustme.CA()


@pytest.fixture
def trusting(authority) -> ssl.SSLContext:
    """A client's context that trusts `authority` and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


@pytest.fixture(scope="session")
def serving(authority, tmp_path_factory) -> Callable[[str], ssl.SSLContext]:
    """A server's context by the kind of its certificate: good, expired, wrong-host, stranger, self-signed, century."""
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    past = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)

    def issued(ca: trustme.CA, name: str = "localhost", **dates: dt.datetime) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(name, **dates).configure_cert(context)
        return context

    def self_signed(not_after: dt.datetime) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(not_after)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(key, hashes.SHA256())
        )
        path = tmp_path_factory.mktemp("tls") / "self.pem"
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    kinds: dict[str, Callable[[], ssl.SSLContext]] = {
        "good": lambda: issued(authority),
        "expired": lambda: issued(
            authority, not_after=past, not_before=past - dt.timedelta(days=9)
        ),
        "wrong-host": lambda: issued(authority, "elsewhere.example"),
        "stranger": lambda: issued(trustme.CA()),
        "self-signed": lambda: self_signed(now + dt.timedelta(days=9)),
        "century": lambda: self_signed(dt.datetime(2061, 5, 4, 3, 2, 1, tzinfo=dt.UTC)),
    }
    return lambda kind: kinds[kind]()


@pytest.fixture
def certificate_of() -> Callable[[int], object]:
    """Ask a server on loopback for the certificate it shows, in DER form."""

    async def ask(port: int) -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        await asyncio.sleep(0)
        return shown

    return ask


@pytest.fixture
async def bridge():
    """A WebSocket server on loopback that echoes, or does what its `script` says."""
    server = Bridge()
    async with serve(
        server.handle,
        "127.0.0.1",
        0,
        process_request=server.answer,
        max_size=None,
        close_timeout=0.2,
        ping_interval=None,
    ) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
        listening.close()


class Bridge:
    """Requests seen, connections open, and how to treat them."""

    def __init__(self) -> None:
        self.port = 0
        self.requests = []
        self.sockets = []
        self.answers = []
        self.received = []

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.port}/ws"

    def answer(self, ws, request):
        self.requests.append(request)
        if not self.answers:
            return None
        status, location = self.answers.pop(0)
        response = ws.respond(status, "")
        response.headers["Location"] = location
        return response

    async def handle(self, ws):
        self.sockets.append(ws)
        with contextlib.suppress(ConnectionClosed):
            async for frame in ws:
                self.received.append(frame)
                await ws.send(frame)


@contextlib.asynccontextmanager
async def _raw_server(after_upgrade):
    """A server below websockets: it upgrades by hand, then does as told with reader and writer."""

    handlers = set()

    async def handle(reader, writer):
        handlers.add(asyncio.current_task())
        try:
            await talk(reader, writer)
        except asyncio.CancelledError:
            pass  # raised on, it would be logged by the streams of Python 3.11
        finally:
            writer.transport.abort()

    async def talk(reader, writer):
        request = await reader.readuntil(b"\r\n\r\n")
        key = next(
            line[19:]
            for line in request.split(b"\r\n")
            if line.lower().startswith(b"sec-websocket-key: ")
        )
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError):
            await after_upgrade(reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await asyncio.sleep(0)


async def _dial(url, **options):
    async with asyncio.timeout(5):
        return await open_websocket(url, **{"max_frame_bytes": MIB} | options)


def _held() -> tuple[set[asyncio.Task], int]:
    links = (link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return asyncio.all_tasks(), sum(str(link).startswith("socket:") for link in links)


@pytest.fixture
def raw_server():
    """Start a server that upgrades by hand and then does as told: `async with raw_server(talk) as url`."""
    return _raw_server


@pytest.fixture
def dial():
    """Open a WebSocket within five seconds, frames up to 1 MiB."""
    return _dial


@pytest.fixture
def leaving_nothing():
    """Around a block: at its end, or within five seconds, there are the tasks and as many sockets as before."""

    @contextlib.asynccontextmanager
    async def around():
        before = _held()
        yield
        await until(lambda: _held() == before, "the tasks and sockets of before", seconds=5)

    return around
