"""Certificates: the pin inside the handshake, and what a refused one says about itself."""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import hashlib
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.server import serve

from resilient_bridge.testing import Fault, FaultProxy
from tests.internals.transports import open_websocket, tls
from tests.rows import each_row


DIGEST = bytes(range(32))
MIB = 2**20


@pytest.mark.parametrize(
    "text",
    [
        f"sha256:{DIGEST.hex()}",
        f"SHA256:{DIGEST.hex(':').upper()}",
        f"sha256/{base64.b64encode(DIGEST).decode()}",
        f" sha256/{base64.b64encode(DIGEST).decode().rstrip('=')}\n",
    ],
)
def test_a_pin_is_hex_or_base64(text):
    """Both usual spellings of a SHA-256 fingerprint are read, colons and missing padding included."""
    assert tls.parse_pin(text) == DIGEST


@each_row(
    "text",
    [
        "",
        "sha256",
        "sha256:",
        "sha256:zz",
        "sha256:00",
        "sha1:" + "00" * 20,
        DIGEST.hex(),
        "sha256/!!",
        "sha256-x",
    ],
)
def test_a_pin_that_cannot_be_read_names_the_field(text):
    """Everything else is a `ValueError` that names `pin` and what was wanted."""
    with pytest.raises(
        ValueError, match=r'^pin: wanted "sha256:<64 hex digits>" or "sha256/<base64>", got '
    ):
        tls.parse_pin(text)


@pytest.mark.real
@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "spell", [lambda d: f"sha256:{d.hex(':')}", lambda d: d], ids=["text", "bytes"]
)
async def test_a_pin_makes_a_self_signed_peer_acceptable(serving, certificate_of, spell):
    """With the right pin a self-signed peer is connected to, and frames flow."""

    async def echo(ws):
        await ws.send(await ws.recv())

    async with serve(echo, "127.0.0.1", 0, ssl=serving("self-signed")) as server:
        port = server.sockets[0].getsockname()[1]
        pin = hashlib.sha256(await certificate_of(port)).digest()
        link = await open_websocket(f"wss://127.0.0.1:{port}/", pin=spell(pin), max_frame_bytes=MIB)
        await link.send("hello")
        assert await link.receive() == "hello"
        await link.close()


@pytest.mark.real
@pytest.mark.parametrize("position", [0, 1])
async def test_sec6_one_of_several_pins_is_enough(serving, certificate_of, recorder, position):
    """SEC6: today's certificate and the next one's; another one is refused, and none at all is no pin."""
    async with recorder(serving("self-signed")) as server:
        pins = [f"sha256:{'00' * 32}", f"sha256:{'11' * 32}"]
        with pytest.raises(
            tls.PinMismatchError, match=r"wanted sha256:00+ or sha256:11+, got sha256:"
        ):
            await open_websocket(f"wss://127.0.0.1:{server.port}/", pin=pins, max_frame_bytes=MIB)
        assert server.received == b""

    async def echo(ws):
        await ws.send(await ws.recv())

    async with serve(echo, "127.0.0.1", 0, ssl=serving("self-signed")) as server:
        port = server.sockets[0].getsockname()[1]
        pins[position] = f"sha256:{hashlib.sha256(await certificate_of(port)).hexdigest()}"
        link = await open_websocket(f"wss://127.0.0.1:{port}/", pin=pins, max_frame_bytes=MIB)
        await link.send("hello")
        assert await link.receive() == "hello"
        await link.close()
    with pytest.raises(ValueError, match="wanted at least one"):
        tls.pinned_context([])


@pytest.mark.real
@pytest.mark.requirement("R5")
@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_pin_mismatch_sends_nothing(serving, recorder, newest):
    """The wrong certificate ends inside the handshake: the peer never sees a byte of HTTP, so no credential."""
    context = serving("self-signed")
    context.maximum_version = newest
    async with recorder(context) as server:
        with pytest.raises(
            ssl.SSLCertVerificationError, match="certificate pin mismatch: wanted sha256:0001"
        ) as caught:
            await open_websocket(
                f"wss://localhost:{server.port}/",
                pin=DIGEST,
                headers={"Authorization": "Bearer canary"},
                max_frame_bytes=MIB,
            )
        await asyncio.sleep(0.05)
        assert server.received == b""
    assert isinstance(caught.value, tls.PinMismatchError)
    assert caught.value.certificate_reason == "PIN_MISMATCH"
    assert caught.value.certificate_expiry is not None


@pytest.mark.real
@pytest.mark.requirement("R5")
async def test_a_context_of_ones_own_keeps_its_checks_beside_the_pin(
    serving, trusting, certificate_of, recorder
):
    """With `ssl` and `pin` both must hold, and the user's context is not changed by it."""
    async with recorder(serving("self-signed")) as server:
        pin = hashlib.sha256(await certificate_of(server.port)).digest()
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            await open_websocket(
                f"wss://localhost:{server.port}/", pin=pin, ssl=trusting, max_frame_bytes=MIB
            )
        assert not isinstance(caught.value, tls.PinMismatchError)
    async with recorder(serving("good")) as server:
        with pytest.raises(tls.PinMismatchError):
            await open_websocket(
                f"wss://localhost:{server.port}/", pin=DIGEST, ssl=trusting, max_frame_bytes=MIB
            )
        assert server.received == b""
    assert trusting.sslobject_class is ssl.SSLObject


def test_a_pinned_context_never_checks_nothing():
    """A blocking TLS socket would skip the pin, so the context refuses to make one."""
    with pytest.raises(NotImplementedError, match="asyncio"):
        tls.pinned_context(DIGEST).wrap_socket(None)


@pytest.mark.real
@pytest.mark.requirement("R5")
@pytest.mark.parametrize(
    "refusal",
    [("expired", 10), ("wrong-host", 62), ("stranger", 20), ("self-signed", 18), ("century", 18)],
    ids=lambda refusal: refusal[0],
)
async def test_a_refused_certificate_tells_its_reason_and_its_end(
    serving, trusting, recorder, certificate_of, refusal
):
    """Each refusal keeps OpenSSL's reason, gains the certificate's notAfter, and sends nothing after the handshake."""
    kind, verify_code = refusal
    async with recorder(serving(kind)) as server:
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            await open_websocket(
                f"wss://localhost:{server.port}/", ssl=trusting, max_frame_bytes=MIB
            )
        shown = x509.load_der_x509_certificate(await certificate_of(server.port))
        assert server.received == b""
    assert caught.value.verify_code == verify_code
    assert caught.value.certificate_expiry == f"{shown.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    if kind == "expired":
        assert caught.value.certificate_expiry == "2026-03-01T00:00:00Z"


@pytest.mark.real
@pytest.mark.parametrize(
    "fault", [Fault.black_hole(), Fault.abort(), Fault.garbage()], ids=lambda fault: fault.kind
)
async def test_a_failing_diagnosis_leaves_the_refusal_as_it_is(
    serving, trusting, recorder, monkeypatch, fault
):
    """A peer that is silent, gone or broken when asked again changes nothing: the refusal comes, without an expiry."""
    monkeypatch.setattr(tls, "DIAGNOSIS_SECONDS", 0.2)
    async with (
        recorder(serving("expired")) as server,
        FaultProxy("127.0.0.1", server.port) as proxy,
    ):
        proxy.script(None, fault)
        async with asyncio.timeout(5):
            with pytest.raises(ssl.SSLCertVerificationError) as caught:
                await open_websocket(
                    f"wss://localhost:{proxy.port}/", ssl=trusting, max_frame_bytes=MIB
                )
        assert proxy.connections == 2
    assert caught.value.verify_code == 10
    assert not hasattr(caught.value, "certificate_expiry")


def test_the_end_of_a_certificate_is_read_in_both_spellings():
    """notAfter as cryptography wrote it, UTCTime and GeneralizedTime (2050 and later), comes back as ISO 8601."""
    for year in (1999, 2026, 2049, 2050, 9999):
        when = dt.datetime(year, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
        assert tls.certificate_dates(_certificate(when))[1] == f"{year}-12-31T23:59:59Z"


def test_any_piece_of_a_certificate_is_an_expiry_or_a_value_error():
    """Every prefix and every flipped byte ends in a value or a ValueError: a hostile peer cannot crash the diagnosis."""
    whole = _certificate(dt.datetime(2030, 1, 1, tzinfo=dt.UTC))
    pieces = [whole[:n] for n in range(len(whole))]
    pieces += [
        whole[:n] + bytes([whole[n] ^ flip]) + whole[n + 1 :]
        for n in range(len(whole))
        for flip in (1, 128, 255)
    ]
    read = 0
    for piece in pieces:
        try:
            read += len(tls.certificate_dates(piece)[1]) > 0
        except ValueError:
            continue
    assert 0 < read < len(pieces)


def test_the_default_context_checks_everything():
    """Chain and host name are checked; the shared one is made once."""
    context = tls.shared_default_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert tls.shared_default_context() is context


def _certificate(not_after: dt.datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x" * 60)])
    return (
        x509.CertificateBuilder(name, name, key.public_key(), 2**130)
        .not_valid_before(dt.datetime(1980, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(not_after)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )
