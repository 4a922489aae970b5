"""Rules for errors of the operating system: errnos, getaddrinfo, timeouts, ends of streams; and of
drivers that pass its words on.

Rule: the errno decides, and the class only if there is none. Numbers come from the running system's
`errno`.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .errnos import errno_of, errno_of_windows
from .finding import Finding, Reader, Rules, own_words, package_of
from .hints import hints
from .taxonomy import Category
from .texts import text_finding


_REFUSED = Finding(code="CONN_REFUSED", proof="not_connected", suggestions=hints("ECONNREFUSED"))
_RESET = Finding(code="CONN_RESET", suggestions=hints("ECONNRESET"))
_CLOSED = Finding(code="CONN_RESET", message="connection lost")
_UNREACHABLE = Finding(code="CONN_UNREACHABLE")
# A bare timeout does not say whether the connection existed: the code's "no" would be a guess.
_TIMEOUT = Finding(
    code="CONN_TIMEOUT",
    message="timed out",
    suggestions=("allow more time, or ask for less at once",),
)
_NETWORK_TIMEOUT = Finding(code="CONN_TIMEOUT")
_EXHAUSTED = Finding(code="CONN_RESOURCE_EXHAUSTED")
_SETTING = Finding(code="SYS_CONFIG_INVALID", message="refused by the operating system")
_MEMORY = Finding(
    code="SYS_INTERNAL_ERROR",
    message="out of memory",
    retryable=True,
    suggestions=("ask for less at once",),
    details={"max_retries": 1},
)


_NO_MEMORY = _EXHAUSTED.evolve(
    message="out of memory", suggestions=_MEMORY.suggestions, details=_MEMORY.details
)

_INVALID_VALUES = Finding(
    code="SYS_INTERNAL_ERROR",
    message="values not valid",
    suggestions=("correct the values it names",),
)


def _numbers(finding: Finding, names: str) -> Iterator[tuple[int, Finding]]:
    for name in names.split():
        number: int | None = getattr(errno, name, None)  # not every system has every errno
        if number is not None:
            yield (
                number,
                finding.evolve(
                    suggestions=hints(name.removeprefix("WSA")), details={"errno": number}
                ),
            )


ERRNOS: dict[int, Finding] = dict(
    [
        *_numbers(
            _SETTING, "ENOENT EACCES EPERM ENOTDIR EISDIR ENOSPC EROFS EINVAL ENOEXEC EAFNOSUPPORT"
        ),
        *_numbers(
            _EXHAUSTED, "EAGAIN EWOULDBLOCK EBUSY EINTR ETXTBSY EDEADLK EMFILE ENFILE ENOBUFS"
        ),
        *_numbers(_EXHAUSTED, "EADDRINUSE EADDRNOTAVAIL"),
        *_numbers(_REFUSED, "ECONNREFUSED WSAECONNREFUSED"),
        *_numbers(_RESET, "ECONNRESET EPIPE ECONNABORTED ENOTCONN ESHUTDOWN ENETRESET EPROTO"),
        *_numbers(_RESET, "WSAECONNRESET WSAECONNABORTED"),
        *_numbers(
            _UNREACHABLE,
            "ENETUNREACH EHOSTUNREACH ENETDOWN EHOSTDOWN WSAENETUNREACH WSAEHOSTUNREACH",
        ),
        *_numbers(_NETWORK_TIMEOUT, "ETIMEDOUT WSAETIMEDOUT"),
        (errno.ENOMEM, _NO_MEMORY.evolve(details={**_NO_MEMORY.details, "errno": errno.ENOMEM})),
    ]
)
"""The meaning of each errno, which stands in its details; one that is missing here is not known to be temporary."""

# getaddrinfo's own numbers: Linux counts down, BSD and macOS up, Windows from 10,000. They do not collide.
_GAI_SETTINGS = frozenset({-1, -6, -7, -8, 3, 5, 9, 10, 10022, 10044, 10047, 10109})
_DNS = Finding(code="CONN_DNS_FAILED", proof="not_resolved")
_DNS_SETTING = Finding(
    code="CONN_DNS_FAILED",
    category=Category.CONFIG,
    retryable=False,
    message="address family or port not usable",
    proof="not_resolved",
)
_SEVERAL = re.compile(r"\[(Errno|WinError) (\d{1,6})\]")


def by_errno(fallback: Finding | None = None) -> Reader:
    """Return the rule of an OSError class: its errno decides, else the fallback of the class."""

    def read(error: OSError) -> Finding | None:
        number = errno_of(error)
        if number is None:
            several = _several_addresses(error) if type(error) is OSError else None
            return several or (fallback and _in_its_words(error, fallback))
        if (finding := ERRNOS.get(number)) is not None:
            return _in_its_words(error, finding)
        return fallback and _in_its_words(error, fallback).evolve(details={"errno": number})

    return read


def _in_its_words(error: OSError, finding: Finding) -> Finding:
    """Return the finding with the error's own text where that says more: which file, which time."""
    message: object = error.args[0] if len(error.args) == 1 else None
    text = message if isinstance(message, str) else ""
    if finding is _TIMEOUT and text:
        return finding.evolve(message=f"timed out: {text}")
    if finding.code != _SETTING.code:
        return finding
    if isinstance(error.strerror, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- None without an errno
        text = error.strerror.lower()
        if isinstance(error.filename, str | bytes):
            name = (
                error.filename if isinstance(error.filename, str) else os.fsdecode(error.filename)
            )
            text = f"{text}: {name}"
    return finding.evolve(message=text) if text else finding


def _several_addresses(error: OSError) -> Finding | None:
    # anyio tries every address of a host, and raises its own error made from theirs.
    cause: Any = error.__cause__
    causes: Iterable[object] = getattr(cause, "exceptions", (cause,))  # several, if it is a group
    numbers = [number for one in causes if isinstance(one, OSError) and (number := errno_of(one))]
    if numbers:
        return _least_hopeful(numbers)
    # asyncio joins their texts: "Multiple exceptions: [Errno 111] …, [Errno 101] …"
    text = error.args[0] if error.args else None
    if not isinstance(text, str) or not text.startswith("Multiple exceptions: "):
        return None
    numbers = [
        errno_of_windows(int(number)) if kind == "WinError" else int(number)
        for kind, number in _SEVERAL.findall(text[:4096])
    ]
    return _least_hopeful(numbers)


def _least_hopeful(numbers: Iterable[int]) -> Finding | None:
    known = [ERRNOS[number] for number in numbers if number in ERRNOS]
    lasting = [finding for finding in known if finding.code == _SETTING.code]
    return next(iter(lasting or known), None)


def _getaddrinfo(error: OSError) -> Finding:
    setting = error.errno in _GAI_SETTINGS
    return (_DNS_SETTING if setting else _DNS).evolve(details={"reason": f"EAI {error.errno}"})


BAD_HOST_NAME = Finding(code="SYS_CONFIG_INVALID", message="host name not valid")


def _host_name(error: UnicodeError) -> Finding | None:
    # getaddrinfo encodes the host first: "label empty or too long"
    if package_of(type(error)) != "builtins":
        return None
    if "label" not in str(error) and "idna" not in str(error):
        return None
    return BAD_HOST_NAME


def _in_words(error: BaseException) -> Finding | None:
    """The rule for a driver's class that has nothing but the words of the system or of its server."""
    return text_finding(own_words(error, *_DRIVERS))


_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg2", "pymysql", "redis", "paramiko")
RULES: Rules = {
    **{
        (package, "OperationalError"): _in_words
        for package in ("sqlite3", "psycopg", "psycopg2", "pymysql")
    },
    **{("redis", name): _in_words for name in ("ConnectionError", "TimeoutError")},
    ("paramiko", "SSHException"): _in_words,
    ("builtins", "OSError"): by_errno(),
    ("builtins", "ConnectionError"): by_errno(_CLOSED),
    ("builtins", "ConnectionRefusedError"): by_errno(_REFUSED),
    ("builtins", "ConnectionResetError"): by_errno(_RESET),
    ("builtins", "ConnectionAbortedError"): by_errno(_RESET),
    ("builtins", "BrokenPipeError"): by_errno(_RESET),
    ("builtins", "TimeoutError"): by_errno(_TIMEOUT),
    ("builtins", "FileNotFoundError"): by_errno(_SETTING),
    ("builtins", "PermissionError"): by_errno(_SETTING),
    ("builtins", "NotADirectoryError"): by_errno(_SETTING),
    ("builtins", "IsADirectoryError"): by_errno(_SETTING),
    ("builtins", "BlockingIOError"): by_errno(_EXHAUSTED),
    ("builtins", "InterruptedError"): by_errno(_EXHAUSTED),
    ("builtins", "EOFError"): _CLOSED,
    ("builtins", "UnicodeError"): _host_name,
    **dict.fromkeys(
        (("pydantic_core", "ValidationError"), ("jsonschema", "ValidationError")), _INVALID_VALUES
    ),
    ("asyncio", "TimeoutError"): _TIMEOUT,
    ("concurrent", "TimeoutError"): _TIMEOUT,
    ("builtins", "MemoryError"): _MEMORY,
    ("socket", "gaierror"): _getaddrinfo,
    ("socket", "herror"): _DNS,
    ("anyio", "ClosedResourceError"): _CLOSED,
    ("anyio", "BrokenResourceError"): _CLOSED,
    ("anyio", "EndOfStream"): _CLOSED,
}
