"""What a link must know of MCP on the wire: what requests and errors prove, and a server's hints.

The clients of mcp report little: they turn every status but 404 into one error without the status,
and a refused connection ends the client with all its calls. They make their requests in the context
of the call, so a watched HTTP client can report to that call.

Rule: only observations are evidence. A call whose HTTP client is not watched has none, and may have
run. A list of hints that does not arrive in time counts as no hint.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from ..failure import Executed, classify, mapping_of, text_of
from ..failure.rpc import is_session_unknown
from ..failure.statuses import is_server_away
from .sdk_errors import package_of


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import TypeAlias

    from .arguments import Call

    Look: TypeAlias = Callable[[Any], Awaitable[bytes]]
    Hint: TypeAlias = Literal["", "read", "idempotent"]


_SHORT: Final = 65_536  # bytes of an error's body that are read
_SESSION: Final = "mcp-session-id"

READS: Final = frozenset(
    {
        "complete", "get_prompt", "list_prompts", "list_resource_templates", "list_resources", "list_tools",
        "read_resource", "send_ping",
    }
)  # fmt: skip
"""The methods of mcp's clients that change nothing on the server."""

_METHODS: Final = {
    "call_tool": "tools/call",
    "set_logging_level": "logging/setLevel",
    "subscribe_resource": "resources/subscribe",
    "unsubscribe_resource": "resources/unsubscribe",
}
"""The other methods that are one request each, as the wire calls them."""

_CLOSED: Final = "Connection closed"

_REFUSED: Final = "Server returned an error response"  # for every status but 404

_LOST: Final = (_CLOSED, "SSE stream")

_PATIENCE: Final = 5.0  # seconds for the list of tools
_PAGES: Final = 20


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


# ---- clients and their errors ------------------------------------------------------------------------------------


def is_mcp(client: object) -> bool:
    """Return whether a client is one of mcp."""
    return package_of(client) == "mcp"


def is_command(client: Any) -> bool:
    """Return whether the server behind an mcp client is a command that the client starts."""
    server = getattr(client, "server", None)
    if type(server).__name__ == "StdioServerParameters":
        return True
    return getattr(getattr(server, "gen", None), "__qualname__", "") == "stdio_client"


def is_session_lost(error: Exception, client: Any, wire: MCPWire) -> bool:
    """Return whether an error of mcp says that the server does not know the session.

    A server started as a command has no session.
    """
    if not is_mcp(client):
        return False
    if wire.is_answered:
        return wire.says_unknown
    has_data = getattr(error, "data", None) is not None  # then it is a session of the application
    return classify(error).code == "SESS_NOT_FOUND" and not has_data and not is_command(client)


def is_silent(error: Exception) -> bool:
    """Return whether an error only says "closed", as mcp does: the client may raise the cause."""
    return type(error).__name__ == "MCPError" and text_of(error) == _CLOSED


def is_refusal(error: Exception) -> bool:
    """Return whether an error is mcp's for an answer with any error status but 404."""
    return text_of(error) == _REFUSED


def is_lost_text(text: str) -> bool:
    """Return whether this is mcp's own text for a lost connection, not one of a server."""
    return text.startswith(_LOST)


def is_afterthought(error: BaseException) -> bool:
    """Return whether mcp raised an error after a tool's first answer.

    It then lists the tools to validate the result, or sends the next round.
    """
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in {"validate_tool_result", "run_input_required_driver"}:
            return True
        trace = trace.tb_next
    return False


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


# ---- hints about tools -------------------------------------------------------------------------------------------


async def listed_hints(list_page: Callable[..., Awaitable[Any]]) -> dict[str, Hint] | None:
    """Return the hints by tool: which are read-only, and which are idempotent.

    `list_page` returns a page of the list, or None if it was refused; then there are no hints.
    """
    found: dict[str, Hint] = {}
    cursor: str | None = None
    with suppress(Exception):
        async with asyncio.timeout(_PATIENCE):
            for _ in range(_PAGES):
                page = await list_page(**({} if cursor is None else {"cursor": cursor}))
                if page is None:
                    return None
                found |= {tool.name: _hint(tool) for tool in page.tools}
                cursor = getattr(page, "next_cursor", None) or getattr(page, "nextCursor", None)
                if not cursor:
                    break
    return found


def _hint(tool: Any) -> Hint:
    tool_hints = tool.annotations
    if tool_hints is None:
        return ""
    # The second name is from mcp 1.
    if _has_hint(tool_hints, "read_only_hint", "readOnlyHint"):
        return "read"
    return "idempotent" if _has_hint(tool_hints, "idempotent_hint", "idempotentHint") else ""


def _has_hint(tool_hints: Any, *names: str) -> bool:
    return any(getattr(tool_hints, name, None) is True for name in names)
