"""What an HTTP response or error means for a request: its answer, or why it has none. Pure.

Rule: `executed` is NO only if the server cannot have begun: no byte was written, or its status says
that it refused the request before it handled it.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import attrs

from ...failure import Executed, classify, mapping_of, redact
from ...failure.contents import wait_from_headers
from ...failure.rpc import is_session_unknown
from ...failure.statuses import is_server_away, status_finding
from ...protocol.policies.losses import may_be_a_portal
from .defects import request_misnamed_by, unusable
from .message import Message, NotAMessage, parse
from .upstream import Loss


if TYPE_CHECKING:
    from collections.abc import Mapping


_NOT_HERE: Final = (
    "no MCP server at this path; for one of the old HTTP+SSE transport use:"
    " resilient-bridge mcp -- npx mcp-remote URL --transport sse-only"
)
_SIGN_IN: Final = "sign in with your client, or: resilient-bridge mcp -- npx mcp-remote URL"
_BEFORE_THE_REQUEST: Final = frozenset(
    {
        "not_resolved",
        "not_connected",
        "connect_timeout",
        "pool_timeout",
        "tls_failed",
        "tunnel_refused",
    }
)
_SHOWN: Final = 300  # characters of a refusal's body
SESSION_GONE: Final = Loss(
    reason="the session is unknown", executed=Executed.NO, is_session_gone=True
)
CUT: Final = Loss(reason="the answer was cut off", is_cut=True)
_CHALLENGE: Final = re.compile(r'\b(error_description|error)="([^"]{1,200})"')


def loss_of_error(
    error: Exception,
    *,
    is_started: bool,
    hops: int = 0,
    is_known: bool = False,
    now_wall: float = 0.0,
) -> Loss:
    """Return the loss for an error of the HTTP client, before the response had a status.

    `is_started`: whether a byte of the request was written. `hops`: how many redirects it followed;
    a server has then received it before. `is_known`: whether this path has accepted a message
    before; then a certificate may be that of a captive portal.
    """
    failure = classify(error)
    is_portal = is_known and may_be_a_portal(failure, now_wall, certificates=True)
    is_proof = hops == 0 and failure.executed is Executed.NO
    if is_started and not is_proof:
        return Loss(reason=failure.message, is_cut=True)
    is_before = failure.proof in _BEFORE_THE_REQUEST or failure.code.startswith("CONN_")
    is_refused = is_before and failure.retryable and failure.proof != "refused_stream"
    return Loss(
        reason=failure.message,
        executed=Executed.NO,
        is_away=is_refused,
        is_final=is_before and not failure.retryable and not is_portal,
    )


def loss_of_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    had_session: bool,
    is_known: bool,
    now_wall: float | None = None,
) -> Loss:
    """Return the loss that a status means, if `answer_in_refusal` has found no answer.

    `had_session`: whether the request carried a session id. `is_known`: whether this path has
    accepted a message before. Then a status without a word of an MCP server may be the answer of a
    captive portal or a proxy, so it is not final.
    """
    words = _words(headers, body)
    title = f"HTTP {status}"
    failure = status_finding(status, headers, body, now_wall=now_wall).failure()
    is_portal = (
        is_known and not words and may_be_a_portal(failure, now_wall or 0.0, certificates=True)
    )
    if had_session and is_session_unknown(status, body):
        return attrs.evolve(SESSION_GONE, words=words)
    wait, _ = wait_from_headers(headers, now_wall)
    if status in {401, 403, 407}:
        why = _reason_of(
            headers.get("proxy-authenticate" if status == 407 else "www-authenticate", "")
        )
        hint = "the proxy asks for credentials" if status == 407 else _SIGN_IN
        reason = f"{title}{f' ({why})' if why else ''}: {hint}"
        is_final = not is_portal or bool(why)
        return Loss(reason=reason, executed=Executed.NO, is_final=is_final, words=words)
    if status in {425, 429} or (status == 408 and wait is not None):
        return Loss(reason=title, executed=Executed.NO, retry_after=wait, words=words)
    if status in {404, 405} and not had_session and not is_known:
        return Loss(
            reason=f"{title}: {_NOT_HERE}", executed=Executed.NO, is_final=True, words=words
        )
    if status in {421, 426}:
        return Loss(reason=title, executed=Executed.NO, is_final=not is_portal, words=words)
    if 300 <= status < 400:
        reason = f"{title}: a redirect that is not followed, give the final URL inside one origin"
        return Loss(reason=reason, is_final=not is_portal)
    return Loss(reason=title, is_away=is_server_away(status), retry_after=wait, words=words)


def answer_in_refusal(status: int, body: bytes, request: int) -> Message | None:
    """Return the JSON-RPC error in a refusal (4xx, 5xx) of a request, under the request's id.

    None if there is none.

    An error without an id, or with a text as id, counts too: the server could not read ours. With
    5xx only the request's id counts: a proxy between us and the server knows no ids.
    """
    if status in {401, 403, 407, 425, 429} or status < 400:
        return None
    try:
        document = mapping_of(json.loads(body))
    except (ValueError, RecursionError):
        return None
    error, id_ = mapping_of(document.get("error")), document.get("id")
    code = error.get("code")
    is_ours = id_ == request and not isinstance(id_, bool)
    is_nobodys = id_ is None or isinstance(id_, str)
    if not isinstance(code, int) or not (is_ours or (is_nobodys and status < 500)):
        return None
    if not isinstance(error.get("message"), str):
        error = {**error, "message": f"HTTP {status}"}
    return parse(
        json.dumps({"jsonrpc": "2.0", "id": request, "error": error}, separators=(",", ":"))
    )


def own_answer(message: Message, request: int) -> Message:
    """Return an answer; an error without an id, or with a text as id, gets that of the request."""
    is_nobodys = message.id is None or isinstance(message.id, str)
    return message.with_id(request) if message.error and is_nobodys else message


def answer_of(body: bytes, request: int) -> Message | Loss:
    """Return the answer in a JSON body, or the loss if there is none."""
    if not body.strip():
        return Loss(reason="the server accepted it without an answer")
    try:
        message = own_answer(parse(body), request)
    except NotAMessage as error:
        return unusable(f"the answer is no JSON-RPC message: {error}")
    if request_misnamed_by(message) == request:
        return unusable()
    if not message.is_answer or message.id != request:
        return unusable("the answer is that of another request")
    return message


def too_long(limit: int) -> Loss:
    return unusable(f"the answer was given up: it has more than {limit} bytes")


def _reason_of(challenge: str) -> str:
    """Return the error in a WWW-Authenticate header; empty if it names none."""
    parts = {str(name): str(text) for name, text in _CHALLENGE.findall(challenge)}
    return redact(parts.get("error_description") or parts.get("error") or "", limit=_SHOWN)


def _words(headers: Mapping[str, str], body: bytes) -> str:
    """Return the error text of a body in one line; empty for a page of HTML."""
    text = body[: 4 * _SHOWN].decode("utf-8", "replace")
    if "html" in headers.get("content-type", "").lower() or text.lstrip()[:1] == "<":
        return ""
    document: Mapping[object, Any] = {}
    with suppress(ValueError, RecursionError):
        document = mapping_of(json.loads(body))
    error: object = document.get("error")
    for candidate in (
        mapping_of(error).get("message"),
        document.get("error_description"),
        document.get("message"),
        error,
    ):
        if isinstance(candidate, str) and candidate:
            text = candidate
            break
    return redact(text.strip(), limit=_SHOWN)
