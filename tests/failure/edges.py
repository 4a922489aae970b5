"""The edge of the real clients: SDKs and HTTP clients that run as they do for a user, against an HTTP that is ours.

Rule: an error is raised by the library itself; only what would come from the network is made here.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import openai
from google import genai
from google.genai.types import HttpOptions

from resilient_bridge.failure import Failure, classify


Handler = Callable[[httpx2.Request], httpx2.Response]
SECRET = "sk-canary1234567890"


def answering(status: int, body: object = None, **headers: str) -> Handler:
    """An HTTP that always answers this; header names with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, json=body, headers=named)

    return handle


def streaming(*events: object, name: str = "") -> Handler:
    """An HTTP that answers 200 with server-sent events."""
    head = f"event: {name}\n" if name else ""
    text = "".join(f"{head}data: {json.dumps(event)}\n\n" for event in events)
    return lambda request: httpx2.Response(
        200, content=text.encode(), headers={"content-type": "text/event-stream"}
    )


def garbled(request: httpx2.Request) -> httpx2.Response:
    """200 and a body that is no JSON although it says so."""
    return httpx2.Response(200, content=b"{no", headers={"content-type": "application/json"})


def raising(error: Exception) -> Handler:
    """A transport that fails like this."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        raise error

    return handle


def _http(edge: Handler | httpx2.BaseTransport) -> httpx2.Client:
    return httpx2.Client(
        transport=edge if isinstance(edge, httpx2.BaseTransport) else httpx2.MockTransport(edge),
        trust_env=False,
    )


def of_openai(edge: Handler | httpx2.BaseTransport, *, stream: bool = False) -> Exception:
    """What openai's client raises at this edge."""
    client = openai.OpenAI(
        api_key=SECRET, base_url="http://host/v1", max_retries=0, http_client=_http(edge)
    )
    with client:
        return raised(
            lambda: client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x"}], stream=stream
            )
        )


def of_anthropic(edge: Handler | httpx2.BaseTransport, *, stream: bool = False) -> Exception:
    """What anthropic's client raises at this edge."""
    client = anthropic.Anthropic(
        api_key=SECRET, base_url="http://host", max_retries=0, http_client=_http(edge)
    )
    with client:
        return raised(
            lambda: client.messages.create(
                model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}], stream=stream
            )
        )


def of_google(edge: Handler | httpx2.BaseTransport, *, stream: bool = False) -> Exception:
    """What google-genai's client raises at this edge."""
    with _http(edge) as http:
        client = genai.Client(
            api_key=SECRET, http_options=HttpOptions(base_url="http://host", httpx_client=http)
        )
        call = client.models.generate_content_stream if stream else client.models.generate_content
        return raised(lambda: call(model="m", contents="x"))


def raised(call: Callable[[], Any]) -> Exception:
    """The error of a call, or of reading the stream that it returns."""
    try:
        answer = call()
        for _ in answer if hasattr(answer, "__next__") else ():
            pass
    except Exception as error:  # noqa: BLE001 - it is what is asked for
        return error
    raise AssertionError(f"an error expected, got {answer!r}")


def row(what: object) -> str:
    """Category, whether to repeat, whether it ran: what a row of the table says."""
    failure = classify(what)
    assert isinstance(failure, Failure), f"a failure expected, got {failure!r}"
    assert failure.message
    assert "canary" not in repr(failure.to_dict())
    return f"{failure.category} {'yes' if failure.retryable else 'no'} {failure.executed}"


@contextlib.contextmanager
def peer(*script: bytes | None) -> Iterator[int]:
    """A loopback server; each connection reads once, gets the next answer and is closed, or reset for None. Gives its port."""

    def serve(listener: socket.socket) -> None:
        for answer in script:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65_536)
                    if answer is None:
                        connection.setsockopt(
                            socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
                        )
                    else:
                        connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield listener.getsockname()[1]
        thread.join()
