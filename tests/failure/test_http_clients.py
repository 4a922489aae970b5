"""httpx and its fork httpx2: every row of the mapping on what their clients raise, and whether the request was sent."""

from __future__ import annotations

import asyncio
import email.message
import http.client
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import httpx
import httpx2
import pytest

from resilient_bridge.failure import classify

from .edges import peer, raised, row


STACKS = pytest.mark.parametrize("stack", [httpx, httpx2], ids=lambda stack: stack.__name__)


def _get(stack, url, **options):
    with stack.Client(trust_env=False, timeout=options.pop("timeout", 5), **options) as client:
        return raised(lambda: client.get(url))


def _mock(stack, answer, *, call="get", **options):
    with stack.Client(transport=stack.MockTransport(answer), **options) as client:
        return raised(lambda: getattr(client, call)("http://host/"))


@pytest.mark.real
@STACKS
def test_a_refused_connection(stack):
    """`ConnectError`/ECONNREFUSED: TRANSPORT, yes ★, not sent; with the advice of G8."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    error = _get(stack, f"http://127.0.0.1:{port}/")
    assert type(error) is stack.ConnectError
    failure = classify(error)
    assert (row(error), failure.code) == ("TRANSPORT yes no", "CONN_REFUSED")
    assert failure.details["errno"]
    assert failure.suggestions[0] == "check the port"


@pytest.mark.real
@STACKS
@pytest.mark.parametrize(
    ("answer", "name", "wanted", "code"),
    [
        (b"", "RemoteProtocolError", "TRANSPORT yes maybe", "CONN_RESET"),
        (None, "ReadError", "TRANSPORT yes maybe", "CONN_RESET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "RemoteProtocolError", "TRANSPORT yes maybe", "CONN_RESET"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxyz", "DecodingError", "PROTOCOL no maybe", "PROTO_INVALID_FRAME"),
    ],
    ids=["RemoteProtocolError", "ReadError", "cut in the body", "DecodingError"],
)  # fmt: skip
def test_what_breaks_while_reading(stack, answer, name, wanted, code):
    """RemoteProtocolError and ReadError: TRANSPORT yes, may have run; DecodingError: PROTOCOL no."""
    with peer(answer) as port:
        error = _get(stack, f"http://127.0.0.1:{port}/")
    assert type(error).__name__ == name
    assert (row(error), classify(error).code) == (wanted, code)


@pytest.mark.real
@STACKS
def test_timeouts_by_phase(stack):
    """Read: may have run. Pool: not sent. Both TIMEOUT, yes, with a message although their text is empty."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        read = _get(stack, url, timeout=0.01)
        assert (type(read), row(read)) == (stack.ReadTimeout, "TIMEOUT yes maybe")

        async def both() -> list[object]:
            limits = stack.Limits(max_connections=1)
            timeout = stack.Timeout(0.05, pool=0.01)
            async with stack.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as client:
                return await asyncio.gather(
                    client.get(url), client.get(url), return_exceptions=True
                )

        errors = {type(error).__name__: error for error in asyncio.run(both())}
    assert str(errors["PoolTimeout"]) == ""
    assert row(errors["PoolTimeout"]) == "TIMEOUT yes no"
    assert classify(errors["PoolTimeout"]).message == "no free connection in time"


@STACKS
@pytest.mark.parametrize(
    ("name", "wanted", "code"),
    [
        ("ConnectTimeout", "TIMEOUT yes no", "CONN_TIMEOUT"),
        ("WriteTimeout", "TIMEOUT yes maybe", "CONN_TIMEOUT"),
        ("WriteError", "TRANSPORT yes maybe", "CONN_RESET"),
        ("CloseError", "TRANSPORT yes maybe", "CONN_RESET"),
    ],
)
def test_what_no_loopback_provokes(stack, name, wanted, code):
    """The phases that take a full network to fail, from a transport: CONN_TIMEOUT for Connect; Write may have run."""

    def fail(request):
        raise getattr(stack, name)("")

    error = _mock(stack, fail)
    assert (row(error), classify(error).code) == (wanted, code)


@STACKS
def test_where_it_broke_says_more_than_how(stack):
    """A reset while connecting was not sent, the same reset while reading may have been."""

    def fail(name):
        def handle(request):
            raise getattr(stack, name)("x") from ConnectionResetError(104, "reset")

        return handle

    assert row(_mock(stack, fail("ConnectError"))) == "TRANSPORT yes no"
    assert row(_mock(stack, fail("ReadError"))) == "TRANSPORT yes maybe"


@pytest.mark.real
@STACKS
def test_a_proxy_that_refuses(stack):
    """`ProxyError 407 → AUTH no`; 503 of a proxy can be repeated, a redirect cannot; none was sent."""
    for status, wanted in ((407, "AUTH no no"), (503, "UPSTREAM yes no"), (302, "UPSTREAM no no")):
        with peer(f"HTTP/1.1 {status} x\r\n\r\n".encode()) as port:
            error = _get(stack, "https://host.test/", proxy=f"http://127.0.0.1:{port}")
        assert (type(error), row(error)) == (stack.ProxyError, wanted)
        failure = classify(error)
        assert (failure.proof, failure.details["http_status"]) == ("tunnel_refused", status)


@STACKS
def test_what_the_caller_got_wrong(stack):
    """UnsupportedProtocol, InvalidURL, CookieConflict, LocalProtocolError: CONFIG, no; StreamError family: INTERNAL, no."""
    answer = stack.Response(
        200, headers=[("set-cookie", "a=1; path=/x"), ("set-cookie", "a=2; path=/y")]
    )
    client = stack.Client(transport=stack.MockTransport(lambda request: answer))
    client.get("http://host/")
    for error, name in (
        (_get(stack, "htp://host/"), "UnsupportedProtocol"),
        (_get(stack, "http://[::1"), "InvalidURL"),
        (raised(lambda: client.cookies["a"]), "CookieConflict"),
    ):
        assert (type(error).__name__, row(error)) == (name, "CONFIG no maybe")
    unread = stack.Response(200, stream=stack.ByteStream(b"x"))
    assert row(raised(lambda: unread.content)) == "INTERNAL no maybe"
    client.close()
    closed = raised(lambda: client.get("http://host/"))
    assert (str(closed), row(closed)) == (
        "Cannot send a request, as the client has been closed.",
        "INTERNAL no maybe",
    )


@pytest.mark.real
@STACKS
def test_a_header_with_the_token_in_it(stack):
    """`LocalProtocolError`: CONFIG, no; its text holds the bearer token, and nothing of ours does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        error = _get(
            stack,
            f"http://127.0.0.1:{server.getsockname()[1]}/",
            headers={"authorization": b"Bearer sk-canary\n"},
        )
    assert type(error) is stack.LocalProtocolError
    assert "canary" in str(error)
    assert row(error) == "CONFIG no maybe"
    assert "canary" not in classify(error).explain()


@STACKS
def test_answers_that_no_repeat_mends(stack):
    """TooManyRedirects: PROTOCOL, no; its severity is not one that opens circuits."""
    error = _mock(
        stack, lambda request: stack.Response(302, headers={"location": "/"}), follow_redirects=True
    )
    assert (type(error), row(error)) == (stack.TooManyRedirects, "PROTOCOL no maybe")
    assert classify(error).severity == "error"


def test_an_answer_that_is_no_event_stream():
    """`httpx2.SSEError`: PROTOCOL, no."""
    client = httpx2.Client(
        transport=httpx2.MockTransport(lambda request: httpx2.Response(200, text="x"))
    )
    with client, client.sse("http://host/") as source:
        error = raised(lambda: list(source))
    assert (type(error).__name__, row(error)) == ("SSEError", "PROTOCOL no maybe")


@STACKS
def test_raise_for_status(stack):
    """`HTTPStatusError` reads like its response: status, Retry-After, body; a raw 409 is not repeated ★"""

    def of(status, json=None, **headers):
        response = stack.Response(
            status,
            json=json,
            headers=headers,
            request=stack.Request("GET", "http://u:canary@host/?token=canary"),
        )
        return raised(response.raise_for_status)

    limited = of(429, **{"retry-after": "7"})
    assert (row(limited), classify(limited).retry_after) == ("UPSTREAM yes maybe", 7.0)
    assert row(of(409)) == "UPSTREAM no maybe"
    assert row(of(503)) == "UPSTREAM yes maybe"
    assert classify(of(404, {"code": "SESS_NOT_FOUND"})).code == "SESS_NOT_FOUND"
    assert (
        classify(of(429, {"error": {"code": "insufficient_quota"}})).details["reason"]
        == "quota_exhausted"
    )


@pytest.mark.real
def test_the_client_of_the_standard_library():
    """urllib: HTTPError by its status, URLError by what lies below; http.client: a cut is a cut, nonsense is PROTOCOL."""
    headers = email.message.Message()
    headers["Retry-After"] = "3"
    error = urllib.error.HTTPError("http://host/", 503, "x", headers, None)
    assert (row(error), classify(error).retry_after) == ("UPSTREAM yes maybe", 3.0)
    error.close()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    refused = raised(lambda: opener.open(f"http://127.0.0.1:{port}/"))
    assert (type(refused), classify(refused).code) == (urllib.error.URLError, "CONN_REFUSED")
    for answer, name, wanted in (
        (b"", "RemoteDisconnected", "TRANSPORT yes maybe"),
        (b"nonsense\r\n\r\n", "BadStatusLine", "PROTOCOL no maybe"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "IncompleteRead", "TRANSPORT yes maybe"),
    ):
        with peer(answer) as port:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/")
            error = raised(lambda connection=connection: connection.getresponse().read())
            connection.close()
        assert (type(error).__name__, row(error)) == (name, wanted)


SDKS = "openai anthropic google.genai mcp litellm httpx httpx2 websockets pydantic asyncio ssl"


def test_classifying_loads_no_library():
    """An error is recognised by the name of its class: `classify` imports no SDK, no HTTP client and no event loop."""
    code = f"""
import sys
from resilient_bridge import classify
for package in "openai anthropic google mcp litellm httpx httpx2 websockets".split():
    for name in "APIConnectionError APIStatusError APIError RateLimitError MCPError ConnectError Timeout ConnectionClosed".split():
        classify(type(name, (Exception,), {{"__module__": package + ".x"}})("x"))
classify(RuntimeError("connect ECONNREFUSED"))
classify({{"jsonrpc": "2.0", "error": {{"code": -32000, "message": "x"}}}})
print(*(name for name in {SDKS!r}.split() if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_an_answer_after_a_redirect_proves_nothing_about_the_request_before_it():
    """The first request was answered, and may have run, as with requests and aiohttp; only the last one did not."""

    def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            return httpx.Response(303, headers={"location": "/done"})
        return httpx.Response(401)

    with httpx.Client(transport=httpx.MockTransport(handle), follow_redirects=True) as client:
        answer = client.post("http://peer.example/")
    for seen in (answer, httpx.HTTPStatusError("x", request=answer.request, response=answer)):
        failure = classify(seen)
        assert (failure.code, failure.executed, failure.proof) == (
            "AUTH_TOKEN_EXPIRED",
            "maybe",
            "",
        )
    assert classify(httpx.Response(401)).proof == "http_401"
