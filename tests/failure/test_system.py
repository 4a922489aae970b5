"""What the operating system says: each errno, each getaddrinfo number, timeouts and ends; real ones where that is cheap."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import subprocess

import pytest

from resilient_bridge.failure import classify
from tests.rows import each_row


ROWS = {
    "CONN_REFUSED TRANSPORT yes": "ECONNREFUSED",
    "CONN_RESET TRANSPORT yes": "ECONNRESET EPIPE ECONNABORTED ENOTCONN ESHUTDOWN ENETRESET",
    "CONN_UNREACHABLE TRANSPORT yes": "ENETUNREACH EHOSTUNREACH ENETDOWN EHOSTDOWN",
    "CONN_TIMEOUT TIMEOUT yes": "ETIMEDOUT",
    "CONN_RESOURCE_EXHAUSTED TRANSPORT yes": (
        "EAGAIN EWOULDBLOCK EBUSY EINTR ETXTBSY EDEADLK EMFILE ENFILE ENOBUFS EADDRINUSE EADDRNOTAVAIL"
    ),
    "SYS_CONFIG_INVALID CONFIG no": "ENOENT EACCES EPERM ENOTDIR EISDIR ENOSPC EROFS EINVAL ENOEXEC",
    "SYS_INTERNAL_ERROR INTERNAL no": "EDOM ENOTSOCK",
}


def _row(failure) -> str:
    return f"{failure.code} {failure.category} {'yes' if failure.retryable else 'no'}"


@pytest.mark.requirement("R1")
@each_row(("name", "row"), [(name, row) for row, names in ROWS.items() for name in names.split()])
def test_every_errno(name, row):
    """Dispatch is on the number, whichever class Python picked for it; the details keep it."""
    number = getattr(errno, name)
    failure = classify(OSError(number, os.strerror(number)))
    assert _row(failure) == row
    if row.split()[0] != "SYS_INTERNAL_ERROR":
        assert failure.details["errno"] == number


@each_row(
    ("error", "row"),
    [
        (ConnectionRefusedError(), "CONN_REFUSED TRANSPORT yes"),
        (ConnectionResetError("Cannot write to closing transport"), "CONN_RESET TRANSPORT yes"),
        (
            ConnectionResetError(errno.EMFILE, "number beats class"),
            "CONN_RESOURCE_EXHAUSTED TRANSPORT yes",
        ),
        (ConnectionError("Connection lost"), "CONN_RESET TRANSPORT yes"),
        (BrokenPipeError(), "CONN_RESET TRANSPORT yes"),
        (FileNotFoundError(), "SYS_CONFIG_INVALID CONFIG no"),
        (TimeoutError(), "CONN_TIMEOUT TIMEOUT yes"),
        (subprocess.TimeoutExpired("x", 1), "TOOL_TIMEOUT TIMEOUT yes"),
        (EOFError(), "CONN_RESET TRANSPORT yes"),
        (asyncio.IncompleteReadError(b"x", 2), "CONN_RESET TRANSPORT yes"),
        (asyncio.LimitOverrunError("x", 2), "PROTO_MESSAGE_TOO_BIG PROTOCOL no"),
        (OSError("something else"), "SYS_INTERNAL_ERROR INTERNAL no"),
        (MemoryError(), "SYS_INTERNAL_ERROR INTERNAL yes"),
        (ValueError("x"), "SYS_INTERNAL_ERROR INTERNAL no"),
        (RecursionError("x"), "SYS_INTERNAL_ERROR INTERNAL no"),
    ],
)
def test_a_class_decides_where_there_is_no_errno(error, row):
    """Raised by hand or by asyncio; the unknown is internal and not repeated (S10)."""
    assert _row(classify(error)) == row


@each_row(
    ("number", "row"),
    [
        *(
            (number, "CONN_DNS_FAILED TRANSPORT yes")
            for number in (-2, -3, -4, -5, 2, 8, 11001, 11002)
        ),
        *((number, "CONN_DNS_FAILED CONFIG no") for number in (-1, -6, -7, -8, 3, 5, 9, 10, 10047)),
    ],
)
def test_every_getaddrinfo_number(number, row):
    """Linux counts down, macOS up, Windows from 10,000."""
    assert _row(classify(socket.gaierror(number, "x"))) == row


@pytest.mark.real
@pytest.mark.parametrize(
    ("ask", "row"),
    [
        (
            lambda: socket.getaddrinfo("not-an-ip", 80, flags=socket.AI_NUMERICHOST),
            "CONN_DNS_FAILED TRANSPORT yes",
        ),
        (lambda: socket.getaddrinfo("127.0.0.1", "no-such-port"), "CONN_DNS_FAILED CONFIG no"),
        (lambda: socket.getaddrinfo("a" * 64 + ".test", 80), "SYS_CONFIG_INVALID CONFIG no"),
    ],
)
def test_the_resolver_itself(ask, row):
    """The errors that getaddrinfo really raises, without a packet."""
    with pytest.raises((OSError, UnicodeError)) as caught:
        ask()
    assert _row(classify(caught.value)) == row


def _as_windows_says(kind, number):
    """An error of its default event loop: its own number, and EINVAL, because Python knows no errno for that."""
    error = kind(errno.EINVAL, "x")
    error.winerror = number
    return error


@pytest.mark.parametrize(
    ("kind", "number", "name"),
    [
        (PermissionError, 32, "EBUSY"),
        (PermissionError, 33, "EBUSY"),
        (ConnectionResetError, 64, "ECONNRESET"),
        (OSError, 121, "ETIMEDOUT"),
        (ConnectionRefusedError, 1225, "ECONNREFUSED"),
        (OSError, 1231, "ENETUNREACH"),
        (OSError, 1232, "EHOSTUNREACH"),
        (ConnectionAbortedError, 1236, "ECONNABORTED"),
    ],
)
def test_a_number_of_windows_is_its_errno(kind, number, name):
    """What its loop says of a connection is no setting that is wrong: it passes, as elsewhere, and has the same name."""
    failure = classify(_as_windows_says(kind, number))
    assert _row(failure) == next(row for row, names in ROWS.items() if name in names.split())
    assert failure.details["errno"] == getattr(errno, name)
    assert name in str(failure)
    assert classify(_raised_from(_as_windows_says(kind, number))).code == failure.code
    text = f"Multiple exceptions: [WinError {number}] x, [WinError {number}] y"
    assert classify(OSError(text)).code == failure.code


def test_an_errno_of_windows_has_its_common_name(monkeypatch):
    """Windows calls it WSAECONNREFUSED: whoever reads, a model above all, knows the other."""
    monkeypatch.setitem(errno.errorcode, errno.ECONNREFUSED, "WSAECONNREFUSED")
    failure = classify(ConnectionRefusedError(errno.ECONNREFUSED, "x"))
    assert str(failure) == "connection refused (TRANSPORT, ECONNREFUSED)"


def test_a_host_name_that_cannot_be_encoded_is_a_setting():
    """As 3.13 says it; a text that UTF-8 cannot write stays what it is."""
    too_long = UnicodeEncodeError("idna", "a" * 64, 0, 64, "label too long")
    assert _row(classify(too_long)) == "SYS_CONFIG_INVALID CONFIG no"
    assert (
        _row(classify(UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates")))
        == "PROTO_INVALID_MESSAGE PROTOCOL no"
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.real
def test_a_refused_connection():
    """Nobody listens: not executed, repeatable."""
    with pytest.raises(OSError) as caught:
        socket.create_connection(("127.0.0.1", _free_port()), timeout=5)
    failure = classify(caught.value)
    assert _row(failure) == "CONN_REFUSED TRANSPORT yes"
    assert failure.executed == "no"
    assert str(failure) == "connection refused (TRANSPORT, ECONNREFUSED)"


@pytest.mark.real
def test_a_reset_connection():
    """The peer drops it with RST: it may have been executed."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=5) as near,
    ):
        far, _ = server.accept()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        with pytest.raises(OSError) as caught:
            near.recv(1)
    failure = classify(caught.value)
    assert _row(failure) == "CONN_RESET TRANSPORT yes"
    assert failure.executed == "maybe"


@pytest.mark.real
async def test_a_host_with_several_addresses(monkeypatch):
    """asyncio joins what each address said into one text without errno; the errnos in it still count."""
    loop, port = asyncio.get_running_loop(), _free_port()

    async def both(*_args: object, **_options: object):
        family = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*family, ("127.0.0.1", port)), (*family, ("127.0.0.2", port))]

    monkeypatch.setattr(loop, "getaddrinfo", both)
    with pytest.raises(OSError, match="Multiple exceptions") as caught:
        await loop.create_connection(asyncio.Protocol, "bridge.test", port)
    assert caught.value.errno is None
    assert _row(classify(caught.value)) == "CONN_REFUSED TRANSPORT yes"


def test_the_least_hopeful_of_several_addresses_decides():
    """One address that needs a person outweighs one that may come back."""
    text = (
        f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] refused, [Errno {errno.EACCES}] denied"
    )
    assert _row(classify(OSError(text))) == "SYS_CONFIG_INVALID CONFIG no"
    assert (
        _row(classify(OSError("Multiple exceptions: none with a number")))
        == "SYS_INTERNAL_ERROR INTERNAL no"
    )


@pytest.mark.requirement("S1")
async def test_a_timeout_without_a_text_has_a_message():
    """asyncio's TimeoutError stringifies to nothing; whether it was sent is not known."""
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0):
            await asyncio.sleep(1)
    failure = classify(caught.value)
    assert failure.message == "timed out"
    assert failure.executed == "maybe"


def _raised_from(cause):
    try:
        raise OSError("All connection attempts failed") from cause
    except OSError as error:
        return error


def _refused():
    return ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed")


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (_refused(), "CONN_REFUSED"),
        (ExceptionGroup("several", [_refused(), OSError(errno.ENETUNREACH, "b")]), "CONN_REFUSED"),
        (
            ExceptionGroup("several", [OSError(errno.ENETUNREACH, "b"), PermissionError(13, "c")]),
            "SYS_CONFIG_INVALID",
        ),
        (ValueError("something else"), "SYS_INTERNAL_ERROR"),
    ],
)
def test_all_addresses_failed_says_its_cause(cause, code):
    """As anyio says it, below the async clients of httpx: the text has no errno, the cause has."""
    assert classify(_raised_from(cause)).code == code


@each_row(
    ("error", "message"),
    [
        (
            FileNotFoundError(2, "No such file or directory", "notes.md"),
            "no such file or directory: notes.md",
        ),
        (PermissionError(13, "Permission denied", b"/x"), "permission denied: /x"),
        (IsADirectoryError(21, "Is a directory"), "is a directory"),
        (FileNotFoundError("no style guide"), "no style guide"),
        (FileNotFoundError(), "refused by the operating system"),
        (TimeoutError("the index was not ready"), "timed out: the index was not ready"),
        (TimeoutError(), "timed out"),
        (
            FileNotFoundError(2, "No such file", "token=s3cret-value"),
            "no such file: token=[redacted]",
        ),
    ],
)
def test_the_message_says_which_file_and_what(error, message):
    """Whoever reads no more than the message, a model above all, can act on it."""
    assert classify(error).message == message
