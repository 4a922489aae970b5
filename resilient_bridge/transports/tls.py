"""TLS for the links we open: pins checked inside the handshake, and the dates of a refused
certificate.

Rule: a certificate is judged before the first byte of HTTP is sent, so a credential never reaches a
peer that failed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import functools
import hashlib
import os
import ssl
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterable


# limits the second dial of `explain_refusal`: a stuck peer must not delay the caller's error for
# long
DIAGNOSIS_SECONDS: Final = 1.0
_SHA256_BYTES: Final = 32


class PinMismatchError(ssl.SSLCertVerificationError):
    """The peer's certificate is not the pinned one; the handshake raises it, before any other data
    is sent.

    `certificate_reason` is always "PIN_MISMATCH". `certificate_expiry` is the notAfter time of the
    peer's certificate, None if it cannot be read.
    """

    reason = "PIN_MISMATCH"
    certificate_reason = "PIN_MISMATCH"
    certificate_expiry: str | None = None
    verify_code = 0
    verify_message = "certificate pin mismatch"


def parse_pin(text: str) -> bytes:
    """Return the 32 bytes of a SHA-256 certificate pin.

    Accepts `sha256:<64 hex digits>`, colons between the digits allowed, and `sha256/<base64>`. The
    digest is that of the whole certificate in DER form, as `openssl x509 -fingerprint -sha256`
    prints it. Raises `ValueError` naming `pin`.
    """
    wanted = 'pin: wanted "sha256:<64 hex digits>" or "sha256/<base64>"'
    value = text.strip()
    algorithm, separator, digest = value[:6].lower(), value[6:7], value[7:]
    if algorithm != "sha256" or separator not in {":", "/"}:
        raise ValueError(f"{wanted}, got {text[:80]!r}")
    try:
        if separator == ":":
            pin = binascii.unhexlify(digest.replace(":", ""))
        else:
            pin = base64.b64decode(digest + "=" * (-len(digest) % 4), validate=True)
    except ValueError as error:
        raise ValueError(f"{wanted}, got {text[:80]!r}") from error
    if len(pin) != _SHA256_BYTES:
        raise ValueError(f"{wanted}, got {len(pin)} bytes in {text[:80]!r}")
    return pin


def pins_of(pin: str | bytes | Iterable[str]) -> tuple[bytes, ...]:
    """Return the digests of one pin, or of several: those of today's certificate and of the next.

    Raises ValueError as `parse_pin` does, and for none at all.
    """
    if isinstance(pin, bytes):
        return (pin,)
    found = tuple(parse_pin(text) for text in ([pin] if isinstance(pin, str) else pin))
    if not found:
        raise ValueError("pin: wanted at least one, got none")
    return found


def shared_default_context() -> ssl.SSLContext:
    """Return the shared default context: it checks the chain against the system's authorities, and
    the host name; TLS 1.2 or newer.

    It is cached because loading the authorities takes milliseconds, too long for each attempt.
    Other values of SSL_CERT_FILE or SSL_CERT_DIR give another context.
    """
    return _context_for(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.lru_cache(maxsize=4)
def _context_for(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    return ssl.create_default_context()


class _PinnedContext(ssl.SSLContext):
    """A context whose handshakes raise `PinMismatchError` unless the peer presents the pinned
    certificate.
    """

    base: ssl.SSLContext | None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        if self.base is None:
            return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        # A context cannot be copied and the user's must not be changed, so the class of the
        # SSLObject that it makes is replaced by the one that checks the pin.
        wrapped = self.base.wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        wrapped.__class__ = self.sslobject_class
        return wrapped

    def wrap_socket(self, *_args: object, **_options: object) -> ssl.SSLSocket:
        raise NotImplementedError(
            "a pinned context works through wrap_bio (asyncio) only: a plain TLS socket would not check the pin"
        )


def pinned_context(
    pin: str | bytes | Iterable[str], base: ssl.SSLContext | None = None
) -> ssl.SSLContext:
    """Return a context that accepts exactly the certificates with these SHA-256 digests, for asyncio
    only.

    Without `base`, only the pin is checked, and no chain, host name or date, so a self-signed
    certificate is accepted. With `base` (a client certificate, a private authority), everything
    that context checks is checked as well; `base` is not changed. A mismatch ends the handshake
    with `PinMismatchError`. Raises `ValueError` naming `pin` when it cannot be read.
    """
    digests = pins_of(pin)

    class PinnedObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            _check_pin(self.getpeercert(binary_form=True), digests)

    context = _PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslobject_class = PinnedObject
    context.base = base
    return context


def _check_pin(certificate: bytes | None, wanted: tuple[bytes, ...]) -> None:
    got = hashlib.sha256(certificate or b"").digest()
    if certificate is not None and got in wanted:
        return
    shown = "no certificate" if certificate is None else f"sha256:{got.hex()}"
    pins = " or ".join(f"sha256:{digest.hex()}" for digest in wanted)
    mismatch = PinMismatchError(1, f"certificate pin mismatch: wanted {pins}, got {shown}")
    with contextlib.suppress(ValueError):
        mismatch.certificate_expiry = certificate_dates(certificate or b"")[1]
    raise mismatch


async def explain_refusal(
    error: ssl.SSLCertVerificationError, host: str, port: int, server_hostname: str
) -> None:
    """Set the error's `certificate_expiry`, `certificate_start` (such as "2026-03-01T00:00:00Z")
    and `certificate_sha256` from the peer's certificate.

    OpenSSL does not return a certificate that it refused, so the peer is dialled again, without
    verification and without sending anything after the handshake. Takes at most a second; raises
    nothing but cancellation.
    """
    if isinstance(error, PinMismatchError):
        return  # it has its `certificate_expiry` already
    try:
        async with asyncio.timeout(DIAGNOSIS_SECONDS):
            certificate = await _certificate_of(host, port, server_hostname)
        error.certificate_sha256 = hashlib.sha256(certificate).hexdigest()  # type: ignore[attr-defined]
        error.certificate_start, error.certificate_expiry = certificate_dates(certificate)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001, S110 (the caller raises the refusal, whatever fails here)
        pass


async def _certificate_of(host: str, port: int, server_hostname: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    transport, _ = await asyncio.get_running_loop().create_connection(
        asyncio.Protocol, host, port, ssl=context, server_hostname=server_hostname
    )
    try:
        tls: ssl.SSLObject = transport.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) or b""
    finally:
        transport.abort()


def certificate_dates(certificate: bytes) -> tuple[str, str]:
    """Return the notBefore and notAfter instants of an X.509 certificate in DER form, each as
    "2026-03-01T00:00:00Z".

    The standard library decodes only certificates it has accepted. Raises `ValueError` when the
    bytes are no certificate.
    """
    try:
        tbs, _ = _der_value(_der_value(certificate, 0, 0x30)[0], 0, 0x30)
        at = 0
        if tbs[0] == 0xA0:  # the version, left out by version 1
            at = _der_value(tbs, at, 0xA0)[1]
        for tag in (0x02, 0x30, 0x30):  # serial number, signature algorithm, issuer
            at = _der_value(tbs, at, tag)[1]
        validity, _ = _der_value(tbs, at, 0x30)
        start, at = _der_value(validity, 0, validity[0])
        end, _ = _der_value(validity, at, validity[at])
        return _instant(validity[0], start), _instant(validity[at], end)
    except IndexError as error:
        raise ValueError("wanted a DER certificate, got one that is cut short") from error


def _instant(kind: int, value: bytes) -> str:
    text = value.decode("ascii")
    if kind == 0x17:  # UTCTime: two digits of the year, 50 and above are 19xx (RFC 5280, 4.1.2.5.1)
        text = ("19" if text[:2] >= "50" else "20") + text
    if len(text) != len("YYYYMMDDHHMMSSZ") or not text[:-1].isdigit() or text[-1] != "Z":
        raise ValueError(f"wanted YYYYMMDDHHMMSSZ, got {text[:20]!r}")
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}Z"


def _der_value(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """Return the content of the DER element that starts at `at`, and where the next one starts."""
    if data[at] != tag:
        raise ValueError(f"wanted DER tag {tag:#x}, got {data[at]:#x}")
    length, start = data[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        start += size
        length = int.from_bytes(data[at + 2 : start], "big")
    if start + length > len(data):
        raise ValueError(f"wanted {length} bytes of DER, got {len(data) - start}")
    return data[start : start + length], start + length
