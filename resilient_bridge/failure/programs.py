"""The meaning of well-known programs' exit codes, and of the numbers in curl's messages.

Rule: a number is read only together with the name of its program: 7 is curl's "could not connect"
and means nothing elsewhere. The tables are the programs' own: curl's EXIT CODES, GNU wget's EXIT
STATUS, ssh(1), timeout(1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .finding import Finding
from .hints import hints
from .taxonomy import Category, Executed, Kind


def reported(
    code: str,
    message: str = "",
    *suggestions: str,
    hint: str = "",
    kind: Kind | None = None,
    category: Category = Category.UPSTREAM,
) -> Finding:
    """Return the verdict on a program's own report: it ran, so it may have had an effect."""
    return Finding(
        code=code,
        message=message,
        category=category,
        kind=kind,
        executed=Executed.MAYBE,
        suggestions=suggestions or hints(hint),
    )


_DNS = reported("CONN_DNS_FAILED", "host name not resolved")
_CONNECT = reported("CONN_REFUSED", "could not connect", hint="ECONNREFUSED")
_LOST = reported("CONN_RESET", "connection lost", hint="ECONNRESET")
_TIMED_OUT = reported("CONN_TIMEOUT", "timed out", hint="ETIMEDOUT", category=Category.TIMEOUT)
_HANDSHAKE = reported("CONN_RESET", "tls handshake not completed", hint="ECONNRESET")
_CERTIFICATE = reported(
    "SYS_UPSTREAM_REJECTED",
    "certificate not accepted",
    "check the certificate's expiry, chain and host name",
)
_URL = reported("SYS_UPSTREAM_REJECTED", "url not valid", "correct the url")
_LOGIN = reported("AUTH_INVALID_TOKEN", "credentials not accepted", "check the credentials")

_CURL: Final[Mapping[int, Finding]] = {
    **dict.fromkeys((1, 3), _URL),
    **dict.fromkeys((5, 6), _DNS),
    7: _CONNECT,
    **dict.fromkeys((9, 67, 94), _LOGIN),
    12: _TIMED_OUT,
    **dict.fromkeys((16, 18, 52, 55, 56, 89, 92, 95, 96), _LOST),
    28: _TIMED_OUT,
    35: _HANDSHAKE,
    **dict.fromkeys((51, 53, 54, 58, 59, 60, 66, 77, 83, 90, 91), _CERTIFICATE),
}
_PROGRAMS: Final[Mapping[str, Mapping[int, Finding]]] = {
    "curl": _CURL,
    "wget": {4: _LOST, 5: _CERTIFICATE, 6: _LOGIN},
    "ssh": {255: _LOST},
    "scp": {255: _LOST},
    "sftp": {255: _LOST},
    "rsync": {**dict.fromkeys((10, 12, 255), _LOST), **dict.fromkeys((30, 35), _TIMED_OUT)},
}


def program_finding(program: str, code: int) -> Finding | None:
    """Return the meaning of an exit code; None for a program or code that is not in the tables."""
    return _PROGRAMS.get(program.removesuffix(".exe"), {}).get(code)


def curl_finding(number: int) -> Finding | None:
    """Return the meaning of `curl: (number)`; None if only its text says more (22)."""
    return _CURL.get(number)
