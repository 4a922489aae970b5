"""Whether an HTTP response says that the server does not know the request's MCP session. Pure.

Rule: a server looks up the session before anything else, so such a response proves that the request
did not run. The specification has only 404; servers also use other statuses and JSON-RPC codes,
with texts of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from .bodies import read_json
from .rpc import SESSION_UNKNOWN, mapping_of


if TYPE_CHECKING:
    from collections.abc import Mapping


_BY_WORDS: Final = frozenset({400, 401, 403, 404, 409, 410, 422, 503})
_LOOKED_AT: Final = 500  # characters
_OF_SESSIONS: Final = frozenset({-32001, -32600})
_SAYS_SO: Final = frozenset({-32001, -32600, 32600, -32000, -32002})


def is_session_error(error: Mapping[str, Any]) -> bool:
    """Return whether a JSON-RPC error in a successful response means that the session is gone.

    It needs a code and a text that say so, and no data: a session of the application has some.
    """
    message = error.get("message")
    is_text = (
        isinstance(message, str) and SESSION_UNKNOWN.match(message.strip()[:_LOOKED_AT]) is not None
    )
    return is_text and error.get("code") in _OF_SESSIONS and error.get("data") is None


def is_session_unknown(status: int, body: bytes) -> bool:
    """Return whether this response to a request with a session id means that the session is gone.

    404 does, unless it is a JSON-RPC error of another meaning (-32601: no such method). Another
    status does if its text says so: 400 "No valid session ID provided", 400 "Bad Request: Server
    not initialized", 401 "Session not found".
    """
    text = body.decode("utf-8", "replace")
    body_fields = mapping_of(cast("Any", read_json(text)))
    error = mapping_of(body_fields.get("error"))
    code, message = (
        error.get("code"),
        error.get("message") or body_fields.get("message") or body_fields.get("error") or text,
    )
    says_so = (
        isinstance(message, str) and SESSION_UNKNOWN.match(message.strip()[:_LOOKED_AT]) is not None
    )
    if status == 404:
        return says_so or not isinstance(code, int) or code in _SAYS_SO
    return status in _BY_WORDS and says_so
