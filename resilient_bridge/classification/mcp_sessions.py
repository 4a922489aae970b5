"""Whether an HTTP answer says that the MCP session which the request carried is unknown to the server. Pure.

Rule: a server looks the session up before it does anything, so such an answer proves that the request did not run. The
specification knows 404 only; servers also say it with other statuses and with the codes of JSON-RPC, each in its own words.
"""

from __future__ import annotations

from typing import Any, Final, cast

from ..errors import SESSION_UNKNOWN, mapping_of
from .statuses import read_json


_BY_WORDS: Final = frozenset({400, 401, 403, 404, 409, 410, 422, 503})
_LOOKED_AT: Final = 500  # characters
_SAYS_SO: Final = frozenset({-32001, -32600, 32600, -32000, -32002})


def is_session_unknown(status: int, body: bytes) -> bool:
    """Return whether this answer, to a request with a session id, means that the session is gone.

    404 does, unless it is a JSON-RPC error of another meaning (-32601: no such method). Any other status does when its text says so:
    400 "No valid session ID provided", 400 "Bad Request: Server not initialized", 401 "Session not found".
    """
    text = body.decode("utf-8", "replace")
    said = mapping_of(cast("Any", read_json(text)))
    error = mapping_of(said.get("error"))
    code, message = (
        error.get("code"),
        error.get("message") or said.get("message") or said.get("error") or text,
    )
    says_so = isinstance(message, str) and SESSION_UNKNOWN.match(message.strip()[:_LOOKED_AT]) is not None
    if status == 404:
        return says_so or not isinstance(code, int) or code in _SAYS_SO
    return status in _BY_WORDS and says_so
