"""Certificates of every kind, and servers that remember what reached them. Rule: real sockets on loopback, real TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


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
        server = await asyncio.get_running_loop().create_server(lambda: self, "127.0.0.1", 0, ssl=context)
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
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    past = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)

    def issued(ca: trustme.CA, name: str = "localhost", **dates: datetime.datetime) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ca.issue_cert(name, **dates).configure_cert(context)
        return context

    def self_signed(not_after: datetime.datetime) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
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
        "expired": lambda: issued(authority, not_after=past, not_before=past - datetime.timedelta(days=9)),
        "wrong-host": lambda: issued(authority, "elsewhere.example"),
        "stranger": lambda: issued(trustme.CA()),
        "self-signed": lambda: self_signed(now + datetime.timedelta(days=9)),
        "century": lambda: self_signed(datetime.datetime(2061, 5, 4, 3, 2, 1, tzinfo=datetime.UTC)),
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
