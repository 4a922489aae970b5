"""TLS: every reason with OpenSSL's real error and its details; none of them is retried."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from resilient_bridge.failure import classify

from .conftest import server_context


pytestmark = pytest.mark.requirement("R5")
DAY = timedelta(days=1)
NOW = datetime.now(UTC)


def _final(error: BaseException, reason: str, action: str):
    failure = classify(error)
    assert failure.code == "CONN_TLS_HANDSHAKE_FAILED"
    assert failure.category == "TRANSPORT"
    assert not failure.retryable
    # The server's verdict may come after the request was sent (TLS 1.3): only our own check is a proof.
    assert failure.executed == ("maybe" if reason in {"PROTOCOL", "CLIENT_CERTIFICATE"} else "no")
    assert failure.details["reason"] == reason
    assert failure.details["suggested_action"] == action
    assert failure.suggestions
    assert f"TRANSPORT, {reason}, not retryable" in str(failure)
    return failure


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "days", "outcome"),
    [
        ("bridge.test", (-2, -1), ("CERTIFICATE_EXPIRED", "regenerate_certificates")),
        ("bridge.test", (1, 2), ("NOT_YET_VALID", "check_clock")),
        ("other.test", (-1, 1), ("HOSTNAME_MISMATCH", "check_hostname")),
        ("127.0.0.1", (-1, 1), ("HOSTNAME_MISMATCH", "check_hostname")),
    ],
)
def test_a_bad_certificate_is_named(authority, client_context, handshake, name, days, outcome):  # noqa: PLR0917
    """Expired, too early, or for another host or address."""
    since, until = (NOW + day * DAY for day in days)
    certificate = authority.issue_cert(name, not_before=since, not_after=until)
    _final(handshake(client_context, server_context(certificate)), *outcome)


@pytest.mark.real
def test_an_unknown_issuer_is_an_untrusted_chain(client_context, handshake):
    """A certificate of an authority that the client does not trust."""
    stranger = trustme.CA().issue_cert("bridge.test")
    error = handshake(client_context, server_context(stranger))
    _final(error, "UNTRUSTED_CHAIN", "verify_certificate_chain")


@pytest.mark.real
def test_a_self_signed_certificate_is_named(client_context, handshake, tmp_path):
    """The advice is to pin it."""
    ca = trustme.CA()
    both = tmp_path / "self.pem"
    both.write_bytes(ca.private_key_pem.bytes() + ca.cert_pem.bytes())
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(both)
    client_context.check_hostname = False
    _final(handshake(client_context, server), "SELF_SIGNED", "confirm_pinning_hash")


@pytest.mark.real
def test_a_revoked_certificate_is_named(authority, client_context, handshake, tmp_path):
    """The authority's revocation list names the serial number."""
    certificate = authority.issue_cert("bridge.test")
    shown = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes())
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    entry = (
        x509.RevokedCertificateBuilder()
        .serial_number(shown.serial_number)
        .revocation_date(NOW - DAY)
        .build()
    )
    revoked = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(NOW - DAY)
        .next_update(NOW + DAY)
        .add_revoked_certificate(entry)
        .sign(key, hashes.SHA256())
    )
    listed = tmp_path / "revoked.pem"
    listed.write_bytes(revoked.public_bytes(serialization.Encoding.PEM))
    client_context.load_verify_locations(listed)
    client_context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    _final(
        handshake(client_context, server_context(certificate)), "REVOKED", "regenerate_certificates"
    )


@pytest.mark.real
def test_versions_without_overlap_are_a_protocol_error(authority, client_context, handshake):
    """The client wants TLS 1.3, the server ends at 1.2."""
    server = server_context(authority.issue_cert("bridge.test"))
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    client_context.minimum_version = ssl.TLSVersion.TLSv1_3
    failure = _final(handshake(client_context, server), "PROTOCOL", "check_tls_versions")
    assert failure.details["tls_alert"]


@pytest.mark.real
def test_a_client_certificate_that_is_missing_is_named(authority, client_context, handshake):
    """The server asks for one and gets none."""
    server = server_context(authority.issue_cert("bridge.test"))
    server.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server)
    failure = classify(handshake(client_context, server))
    assert failure.details["reason"] in {
        "CLIENT_CERTIFICATE",
        "PROTOCOL",
    }  # older OpenSSL says "handshake failure"
    assert not failure.retryable


def _fed(context: ssl.SSLContext, answer: bytes | None) -> ssl.SSLError:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = context.wrap_bio(incoming, outgoing, server_hostname="bridge.test")
    if answer is None:
        incoming.write_eof()
    else:
        incoming.write(answer)
    with pytest.raises(ssl.SSLError) as caught:
        near.do_handshake()
    return caught.value


@pytest.mark.real
def test_a_port_that_does_not_speak_tls_is_a_protocol_error(client_context):
    """A plain HTTP server answers in clear text."""
    _final(
        _fed(client_context, b"HTTP/1.1 400 Bad Request\r\n\r\n"), "PROTOCOL", "check_tls_versions"
    )


@pytest.mark.real
def test_a_handshake_that_was_cut_is_repeated(client_context):
    """End of file in the middle of it says nothing about the certificate."""
    error = _fed(client_context, None)
    assert isinstance(
        error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)
    )  # which of the two depends on timing
    failure = classify(error)
    assert (failure.code, failure.retryable) == ("CONN_RESET", True)


def _ssl_error(cls: type[ssl.SSLError], **attributes: object) -> ssl.SSLError:
    error = cls(1, "failed")
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize("cls", [ssl.SSLZeroReturnError, ssl.SSLSyscallError, ssl.SSLEOFError])
def test_cuts_below_tls_are_repeated(cls):
    """Closed or broken transports under TLS are losses like any other."""
    assert classify(_ssl_error(cls)).retryable


@pytest.mark.parametrize(
    "reason", ["DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "APPLICATION_DATA_AFTER_CLOSE_NOTIFY"]
)
def test_a_damaged_stream_is_repeated(reason):
    """Bytes were altered in transit: a new connection has fresh keys."""
    failure = classify(_ssl_error(ssl.SSLError, reason=reason))
    assert (failure.code, failure.retryable) == ("CONN_RESET", True)


def test_the_end_of_validity_is_in_the_failure():
    """`certificate_expiry` of the exception is in the details, the message and the report."""
    error = _ssl_error(
        ssl.SSLCertVerificationError, verify_code=10, certificate_expiry="2026-03-01T00:00:00Z"
    )
    failure = _final(error, "CERTIFICATE_EXPIRED", "regenerate_certificates")
    assert failure.details["expiry"] == "2026-03-01T00:00:00Z"
    assert "2026-03-01T00:00:00Z" in failure.message
    assert "expiry: 2026-03-01T00:00:00Z" in failure.explain()


def test_a_pin_mismatch_is_named():
    """Our transport raises a subclass with its own reason."""

    class PinMismatch(ssl.SSLCertVerificationError):
        certificate_reason = "PIN_MISMATCH"
        verify_code = 0

    _final(
        PinMismatch(1, "wanted sha256:aa, got sha256:bb"), "PIN_MISMATCH", "confirm_pinning_hash"
    )


@pytest.mark.parametrize(
    "attributes", [{}, {"verify_code": 999}, {"verify_code": "x", "certificate_reason": "ODD"}]
)
def test_an_unlisted_verification_error_is_still_final(attributes):
    """A failed verification fails again."""
    error = _ssl_error(ssl.SSLCertVerificationError, **attributes)
    _final(error, "VERIFICATION_FAILED", "verify_certificate_chain")


def test_f15_a_self_signed_certificate_shows_its_fingerprint():
    """R5: "for self-signed certs: confirm pinning hash": the hash to compare, ready for `pin=`; and a start is no end."""
    shown = {"certificate_sha256": "ab" * 32, "certificate_start": "2030-01-01T00:00:00Z", "certificate_expiry": "2031-01-01T00:00:00Z"}  # fmt: skip
    self_signed = classify(_refused_with(18, shown))
    assert self_signed.details["sha256"] == "ab" * 32
    assert f"sha256:{'ab' * 32}" in self_signed.suggestions[0]
    early = classify(_refused_with(9, shown))
    assert early.message == "tls handshake failed: certificate not yet valid (2030-01-01T00:00:00Z)"
    assert early.details["expiry"] == "2031-01-01T00:00:00Z"


def _refused_with(number: int, shown: dict[str, str]) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = number
    for name, value in shown.items():
        setattr(error, name, value)
    return error
