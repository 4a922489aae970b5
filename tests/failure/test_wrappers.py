"""The cause below a wrapper: found on `__context__` too, and only where wrapping is what the class is for."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from resilient_bridge.failure import classify
from tests.rows import each_row

from .conftest import server_context


@pytest.fixture
def expired_server(authority):
    """A TLS server whose certificate ran out yesterday; gives its port."""
    yesterday = datetime.now(UTC) - timedelta(days=1)
    context = server_context(
        authority.issue_cert(
            "localhost", not_before=yesterday - timedelta(days=9), not_after=yesterday
        )
    )

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            context.wrap_socket(connection, server_side=True)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


@pytest.mark.real
@pytest.mark.requirement("R5")
def test_a_bad_certificate_is_found_below_an_http_client(expired_server, client_context):
    """httpx hides it on the suppressed `__context__` of httpcore's error: still final, still named."""
    with (
        httpx.Client(verify=client_context, trust_env=False) as client,
        pytest.raises(httpx.ConnectError) as caught,
    ):
        client.get(f"https://localhost:{expired_server}/")
    inner = caught.value.__cause__
    assert inner.__cause__ is None
    assert inner.__suppress_context__
    failure = classify(caught.value)
    assert failure.code == "CONN_TLS_HANDSHAKE_FAILED"
    assert failure.details["reason"] == "CERTIFICATE_EXPIRED"
    assert not failure.retryable
    assert failure.cause is caught.value
    assert failure.details["error"].startswith("SSLCertVerificationError: ")


@pytest.mark.real
def test_a_refused_connection_is_found_below_an_http_client():
    """The errno is that of the socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(httpx.ConnectError) as caught:
        httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
    assert classify(caught.value).code == "CONN_REFUSED"


def _chain(*errors: BaseException) -> BaseException:
    """Link errors by suppressed contexts, as `raise … from None` leaves them."""
    for above, below in itertools.pairwise(errors):
        above.__context__ = below
        above.__suppress_context__ = True
    return errors[0]


@each_row(
    ("error", "code"),
    [
        (_chain(httpx.ConnectError("x")), "CONN_UNREACHABLE"),
        (_chain(httpx.ReadError("x")), "CONN_RESET"),
        (_chain(httpx.RemoteProtocolError("x")), "CONN_RESET"),
        (_chain(httpx.ConnectError("x"), KeyError("x")), "CONN_UNREACHABLE"),
        (_chain(httpx.ReadTimeout(""), asyncio.CancelledError()), "CONN_TIMEOUT"),
        (_chain(httpx.ReadError("x"), asyncio.CancelledError()), "CONN_RESET"),
        (
            _chain(httpx.ReadError("x"), BaseExceptionGroup("g", [asyncio.CancelledError()])),
            "CONN_RESET",
        ),
        (
            _chain(httpx.ConnectError("x"), ExceptionGroup("g", [ConnectionRefusedError()])),
            "CONN_REFUSED",
        ),
        (
            _chain(
                httpx.ConnectError("x"), socket.gaierror(-2, "x"), ssl.SSLCertVerificationError()
            ),
            "CONN_DNS_FAILED",
        ),
        (_chain(ValueError("x"), ssl.SSLCertVerificationError()), "SYS_INTERNAL_ERROR"),
        (_chain(ConnectionResetError(), ssl.SSLCertVerificationError()), "CONN_RESET"),
    ],
)
def test_where_the_search_goes_and_where_it_ends(error, code):
    """Below wrappers only, to the first error that is none, never into a cancellation; the unknown leaves the wrapper's word."""
    assert classify(error).code == code


def test_an_explicit_cause_goes_before_the_context():
    """What the author named is what happened."""
    error = httpx.ConnectError("x")
    error.__context__ = TimeoutError()
    error.__cause__ = ConnectionRefusedError()
    assert classify(error).code == "CONN_REFUSED"


@pytest.mark.parametrize("package", ["httpx2", "httpcore", "httpcore2", "openai"])
def test_the_fork_is_read_by_its_name(package):
    """httpx2 shares no class with httpx: package and class name decide, and nothing is imported."""
    name = "APIConnectionError" if package == "openai" else "ConnectError"
    cls = type(name, (Exception,), {"__module__": f"{package}._exceptions"})
    assert classify(_chain(cls("x"), ConnectionRefusedError())).code == "CONN_REFUSED"
