"""What the HTTP requests of an MCP call prove: none was written, or the session is unknown.

mcp reports neither: it turns every status but 404 into one error without the status, and a refused
connection ends the client with all its calls. It makes its requests in the context of the call, so
a watched HTTP client can report to that call.

Rule: only observations are evidence. A call whose HTTP client is not watched has none, and may have
run.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

from ..failure import Executed, classify, mapping_of
from ..failure.mcp_sessions import is_session_unknown
from ..failure.proxies import is_server_away


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import TypeAlias

    from .idempotency import Call

    Look: TypeAlias = Callable[[Any], Awaitable[bytes]]


_SHORT: Final = 65_536  # bytes of an error's body that are read
_SESSION: Final = "mcp-session-id"


class MCPWire:
    """The HTTP requests of one call, as far as a watched client made them."""

    def __init__(self, client: Any = None) -> None:
        self._is_watched = isinstance(getattr(client, "server", None), _ReportedTransport)
        self.posts = self.redirects = self.answers = 0
        self.is_traced = self.is_written = False
        self.says_unknown = False  # an answer reported that the session is unknown
        self.says_away = False  # a proxy reported that the server is away

    @property
    def is_answered(self) -> bool:
        """Whether an answer was seen, so that its status and its session error are known."""
        return self.answers > 0

    @property
    def is_seen(self) -> bool:
        """Whether the call's requests are observed: its client is watched, or has reported one."""
        return self._is_watched or self.posts > 0

    @property
    def never_sent(self) -> bool:
        """Whether no byte of a request was written.

        A client that is not watched must have called the `trace` extension, as it would then
        report a write, too.
        """
        return (self._is_watched or self.is_traced) and not self.is_written and not self.is_answered

    @property
    def is_session_unknown(self) -> bool:
        """Whether the one request of this call was answered that its session is unknown."""
        return self.says_unknown and self.answers == 1 and self.posts == 1 + self.redirects

    def sending(self, request: Any) -> None:
        """Count a request that is about to be sent, and trace whether it is written."""
        self.posts += 1
        before = request.extensions.get("trace")

        async def trace(name: str, info: Any) -> None:
            self.is_traced = True
            self.is_written |= "send_request_headers" in name
            if before is not None:
                await before(name, info)

        request.extensions["trace"] = trace

    def answered(self, request: Any, status: int, body: bytes) -> None:
        if 300 <= status < 400:
            self.redirects += 1
            return
        self.answers += 1
        self.says_away |= is_server_away(status)
        if status >= 400 and _SESSION in request.headers:
            self.says_unknown |= is_session_unknown(status, body)


_WIRE: Final = "resilient_bridge.wire"  # an extension of a request and its answer
CURRENT_WIRE: ContextVar[MCPWire | None] = ContextVar("resilient_bridge.mcp_wire", default=None)


async def watch_request(request: Any) -> None:
    """Report a request to the call that made it, if there is one.

    An `event_hooks` function, also called by HTTPTransport.
    """
    wire = CURRENT_WIRE.get()
    if wire is not None and request.method == "POST" and request.extensions.get(_WIRE) is not wire:
        request.extensions[_WIRE] = wire
        wire.sending(request)


async def watch_answer(request: Any, response: Any, look: Look) -> None:
    """Report the answer to a request. `look` reads the body of an error, if it is short."""
    wire = CURRENT_WIRE.get()
    if wire is None or request.extensions.get(_WIRE) is not wire or _WIRE in response.extensions:
        return
    response.extensions[_WIRE] = wire
    body: bytes = response.extensions.get("rb.body", b"")
    length = response.headers.get("content-length", "")
    if not body and response.status_code >= 400 and length.isdigit() and int(length) <= _SHORT:
        with suppress(Exception):
            body = await look(response)
    wire.answered(request, response.status_code, body)


# ---- whose HTTP client can be watched -------------------------------------------------------------------------------


def watched(made: AbstractAsyncContextManager[Any], look: Look) -> AbstractAsyncContextManager[Any]:
    """Return the factory's object, with its HTTP client watched if it is an mcp `Client` for a URL.

    Other clients report if they send through `rb.HTTPTransport`.
    """
    library: Any = sys.modules.get("mcp.client.client")  # its user has imported it
    http: Any = sys.modules.get("mcp.client.streamable_http")
    client: Any = made
    if type(made) is not getattr(library, "Client", None) or not isinstance(client.server, str):
        return made
    if not hasattr(http, "create_mcp_http_client"):
        return made
    try:
        return cast(
            "AbstractAsyncContextManager[Any]",
            dataclasses.replace(client, server=_ReportedTransport(http, client.server, look)),
        )
    except (
        TypeError,
        ValueError,
    ):  # another release with other fields, or a cache that is kept by the url
        return made


class _ReportedTransport(AbstractAsyncContextManager[Any]):
    """mcp's own transport for a URL, over an HTTP client that reports to the calls."""

    def __init__(self, http: Any, url: str, look: Look) -> None:
        self._http, self._url, self._look = http, url, look
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Any:
        async with AsyncExitStack() as stack:
            client: Any = await stack.enter_async_context(self._http.create_mcp_http_client())
            hooks = client.event_hooks
            client.event_hooks = {
                "request": [*hooks["request"], watch_request],
                "response": [*hooks["response"], self._watch],
            }
            streams = await stack.enter_async_context(
                self._http.streamable_http_client(self._url, http_client=client)
            )
            self._stack = stack.pop_all()
        return streams

    async def _watch(self, response: Any) -> None:
        await watch_answer(response.request, response, self._look)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)


def is_command(client: Any) -> bool:
    """Return whether the server behind an mcp client is a command that the client starts."""
    server = getattr(client, "server", None)
    if type(server).__name__ == "StdioServerParameters":
        return True
    return getattr(getattr(server, "gen", None), "__qualname__", "") == "stdio_client"


def never_sent_for(cause: BaseException | None, call: Call) -> bool:
    """Return whether the error that ended a client proves that this call was never sent.

    It does if the request that was refused is the first one of this call.
    """
    method = _METHODS.get(call.method)
    if (
        method is None
        or not isinstance(cause, Exception)
        or classify(cause).executed is not Executed.NO
    ):
        return False
    try:
        sent = mapping_of(json.loads(cast("Any", cause).request.content))
    except Exception:  # noqa: BLE001 -- no HTTP error, or a body that is a stream
        return False
    params = mapping_of(sent.get("params"))
    if sent.get("method") != method or {"inputResponses", "requestState"} & params.keys():
        return False
    if method != "tools/call":
        return True
    value = {**dict(zip(("name", "arguments"), call.args, strict=False)), **call.kwargs}
    is_same = (params.get("arguments") or {}) == (value.get("arguments") or {})
    return is_same and params.get("name") == value.get("name")


_METHODS: Final = {
    "call_tool": "tools/call",
    "set_logging_level": "logging/setLevel",
    "subscribe_resource": "resources/subscribe",
    "unsubscribe_resource": "resources/unsubscribe",
}
