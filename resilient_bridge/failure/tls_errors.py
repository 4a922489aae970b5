"""Rules for TLS.

Which check a certificate failed, until when it was valid, and what to do about it.

Rule: a failed verification fails again, so it is never retryable. Only an interrupted handshake is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .finding import Finding, Rules


class _TLSAdvice(NamedTuple):
    message: str
    action: str
    suggestion: str


_REASONS: Mapping[str, _TLSAdvice] = {
    "CERTIFICATE_EXPIRED": _TLSAdvice(
        "certificate expired",
        "regenerate_certificates",
        "renew the server's certificate and restart the server",
    ),
    "NOT_YET_VALID": _TLSAdvice(
        "certificate not yet valid",
        "check_clock",
        "check the clocks of both ends, then the certificate's start date",
    ),
    "SELF_SIGNED": _TLSAdvice(
        "certificate is self-signed",
        "confirm_pinning_hash",
        "pin the certificate by its sha-256, or trust its issuer",
    ),
    "UNTRUSTED_CHAIN": _TLSAdvice(
        "certificate chain not trusted",
        "verify_certificate_chain",
        "let the server send its whole chain, or add the issuer to the trusted ones",
    ),
    "HOSTNAME_MISMATCH": _TLSAdvice(
        "certificate is for another host",
        "check_hostname",
        "connect by a name that the certificate lists",
    ),
    "REVOKED": _TLSAdvice(
        "certificate revoked", "regenerate_certificates", "replace the server's certificate"
    ),
    "PIN_MISMATCH": _TLSAdvice(
        "certificate does not match the pin",
        "confirm_pinning_hash",
        "compare the pin with the server's certificate through another channel before changing it",
    ),
    "CLIENT_CERTIFICATE": _TLSAdvice(
        "client certificate refused",
        "provide_client_certificate",
        "present a certificate that the server accepts",
    ),
    "VERIFICATION_FAILED": _TLSAdvice(
        "certificate verification failed",
        "verify_certificate_chain",
        "check the certificate and its chain",
    ),
    "PROTOCOL": _TLSAdvice(
        "no common tls protocol",
        "check_tls_versions",
        "check that the port speaks tls, and the versions of both ends",
    ),
}

# OpenSSL's X509_V_ERR numbers
_VERIFY_CODES: Mapping[int, str] = {
    9: "NOT_YET_VALID",
    10: "CERTIFICATE_EXPIRED",
    18: "SELF_SIGNED",
    19: "SELF_SIGNED",
    2: "UNTRUSTED_CHAIN",
    20: "UNTRUSTED_CHAIN",
    21: "UNTRUSTED_CHAIN",
    23: "REVOKED",
    27: "UNTRUSTED_CHAIN",
    62: "HOSTNAME_MISMATCH",
    64: "HOSTNAME_MISMATCH",
}
# The client's own check precedes the request. The server's verdict on our certificate may come after it (TLS 1.3).
_OURS = frozenset(_REASONS) - {"CLIENT_CERTIFICATE", "PROTOCOL"}
_CUT = Finding(code="CONN_RESET", message="connection lost during tls")
# The stream was damaged or cut in transit; a new connection starts with fresh keys.
_DAMAGED = frozenset(
    {
        "APPLICATION_DATA_AFTER_CLOSE_NOTIFY",
        "BAD_RECORD_MAC",
        "DECRYPTION_FAILED_OR_BAD_RECORD_MAC",
        "SSLV3_ALERT_BAD_RECORD_MAC",
        "UNEXPECTED_EOF_WHILE_READING",
    }
)


def tls_finding(reason: str, expiry: str | None = None, **details: Any) -> Finding:
    """Return the verdict for a reason.

    `expiry` is the end of the certificate's validity as ISO 8601, if known.
    """
    advice = _REASONS.get(reason, _REASONS["VERIFICATION_FAILED"])
    fields: dict[str, Any] = {"reason": reason, "suggested_action": advice.action, **details}
    if expiry is not None:
        fields["expiry"] = expiry
    when = details.get("start") if reason == "NOT_YET_VALID" else expiry
    return Finding(
        code="CONN_TLS_HANDSHAKE_FAILED",
        message=f"tls handshake failed: {advice.message}" + (f" ({when})" if when else ""),
        retryable=False,
        proof="tls_failed" if reason in _OURS else "",
        suggestions=(advice.suggestion,),
        details=fields,
    )


def _verification(error: Any) -> Finding:
    named: object = getattr(error, "certificate_reason", None)
    number: object = getattr(error, "verify_code", None)
    reason = (
        _VERIFY_CODES.get(number, "VERIFICATION_FAILED")
        if isinstance(number, int)
        else "VERIFICATION_FAILED"
    )
    if isinstance(named, str) and named in _REASONS:
        reason = named
    expiry, start = _text(error, "certificate_expiry"), _text(error, "certificate_start")
    digest = _text(error, "certificate_sha256")
    shown = {"start": start, "sha256": digest}
    found = tls_finding(
        reason, expiry, **{name: text for name, text in shown.items() if text is not None}
    )
    if reason == "SELF_SIGNED" and digest is not None:
        advice = f"compare its sha-256 through another channel, then pin it: sha256:{digest}"
        return found.evolve(suggestions=(advice, "or trust its issuer"))
    return found


def _text(error: Any, name: str) -> str | None:
    value: object = getattr(error, name, None)
    return value if isinstance(value, str) else None


def _handshake(error: Any) -> Finding:
    reason: object = getattr(error, "reason", None)
    alert = reason if isinstance(reason, str) else ""
    if alert in _DAMAGED:
        return _CUT
    # CERTIFICATE_VERIFY_FAILED is our own check; ALERT … CERTIFICATE … and UNKNOWN_CA: the server refuses our certificate
    if alert == "CERTIFICATE_VERIFY_FAILED":
        return _verification(error)
    by_server = "ALERT" in alert and ("CERTIFICATE" in alert or "UNKNOWN_CA" in alert)
    return tls_finding("CLIENT_CERTIFICATE" if by_server else "PROTOCOL", tls_alert=alert)


RULES: Rules = {
    ("ssl", "SSLCertVerificationError"): _verification,
    ("ssl", "CertificateError"): _verification,
    ("ssl", "SSLEOFError"): _CUT,
    ("ssl", "SSLZeroReturnError"): _CUT,
    ("ssl", "SSLSyscallError"): _CUT,
    ("ssl", "SSLError"): _handshake,
}
