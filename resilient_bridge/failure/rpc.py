"""JSON-RPC error objects, MCP's among them: what their numbers mean, and what else says what they say.

Which fields of `data` override a number, and which HTTP responses say that the session of MCP is
unknown.

Rule: nothing in a response is trusted: wrong types are ignored. `data` beats the number; a
permanent failure stays permanent. A server looks up the session before anything else, so a response
that does not know it proves that the request did not run. The specification has only 404; servers
also use other statuses and JSON-RPC codes, with texts of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from .contents import read_json
from .failure import Finding
from .vocabulary import CODES, PREFIXES, Category, Executed, Kind, Severity


_UNKNOWN: Final = "SYS_INTERNAL_ERROR"
_NOTHING: Final = Finding(code=_UNKNOWN)

RPC_CODES: Mapping[int, Finding] = MappingProxyType(
    {
        -32000: Finding(code="CONN_RESET"),
        -32001: Finding(code="SYS_TIMEOUT"),
        -32002: Finding(code="SYS_UPSTREAM_REJECTED"),
        -32003: Finding(code="AUTH_INVALID_TOKEN"),
        -32004: Finding(code="SYS_CONFIG_INVALID"),
        -32020: Finding(code="SYS_CONFIG_INVALID"),  # MCP: headers and body disagree
        -32021: Finding(code="SYS_CONFIG_INVALID"),  # MCP: a capability of the client is missing
        -32022: Finding(code="SYS_CONFIG_INVALID"),  # MCP: protocol version not supported
        -32042: Finding(
            code="SYS_UPSTREAM_REJECTED", suggestions=("open the url it names, then repeat",)
        ),
        -32600: Finding(code="PROTO_INVALID_MESSAGE", kind=Kind.PERMANENT),
        -32601: Finding(code="PROTO_UNKNOWN_TYPE", proof="rpc_unknown_method"),
        -32602: Finding(code="SYS_UPSTREAM_REJECTED", suggestions=("correct the parameters",)),
        -32603: Finding(code=_UNKNOWN),
        -32700: Finding(code="PROTO_INVALID_FRAME", proof="rpc_not_parsed"),
    }
)
"""What each number means; one that is missing here is an internal error."""

CATEGORY_CODES: Mapping[Category, str] = MappingProxyType(
    {
        Category.CONFIG: "SYS_CONFIG_INVALID",
        Category.AUTH: "AUTH_INVALID_TOKEN",
        Category.UPSTREAM: "SYS_UPSTREAM_REJECTED",
        Category.TRANSPORT: "CONN_RESET",
        Category.TIMEOUT: "SYS_TIMEOUT",
        Category.PROTOCOL: "PROTO_INVALID_MESSAGE",
        Category.INTERNAL: _UNKNOWN,
    }
)
"""The code of a failure of which nothing but the category is known."""

_WAIT: Final = "wait, then repeat"
_HEALTH: Final = "check the bridge's health, and restart it if needed"
_AGENTS: Final = "check the available agents"


_BY_WORDS: Mapping[str, tuple[str | None, tuple[str, ...]]] = MappingProxyType(
    {
        "rate limit": ("SYS_RATE_LIMITED", (_WAIT, "slow down if it recurs")),
        "overloaded": ("SYS_UNAVAILABLE", (_WAIT, "send fewer requests at once")),
        "timed out": ("SYS_TIMEOUT", (_WAIT, _HEALTH)),
        "session not found": (
            None,
            ("create a new session: this one may have expired", _AGENTS),
        ),
        "agent not found": (None, (_AGENTS,)),
        "no agents registered": (None, ("register an agent, then start the bridge again",)),
        "session capacity": (None, ("close a session that is no longer needed, then repeat",)),
        "executor not started": (None, ("start the bridge", _HEALTH)),
        "failed to start": (None, (_HEALTH,)),
        "invalid worker response": (None, (_HEALTH, "update the worker")),
        "exceeds maximum size": (None, ("send less at once",)),
        "missing required credential": (None, ("set the credential it names",)),
        "not registered": (None, ("use the id of a registered provider, or register it",)),
        "api key": (None, ("fix the api key",)),
    }
)
"""What peers say in their messages, the first that is found: a more specific code (None: the number's), and what to do."""
_BY_CATEGORY: Mapping[Category, tuple[str, ...]] = MappingProxyType(
    {
        Category.INTERNAL: (_HEALTH, "report it with its message"),
        Category.TIMEOUT: (_WAIT, _HEALTH),
        Category.AUTH: ("fix the api key or the token",),
    }
)
_GENERAL: Final = frozenset(
    {*CATEGORY_CODES.values()}
)  # codes no more specific than their category
_INTERNAL: Final = -32603
_LOOKED_AT: Final = 500  # characters of a message

_SESSION_GONE = frozenset({-32600, 32600, -32002, -32001, -32000})
SESSION_UNKNOWN: Final = re.compile(
    r"(?:[a-z ]{1,24}: )?"  # Bad Request: …, Unauthorized: …, Not Found: …
    r"(?:session(?: id)?(?: was| is)? (?:not found|terminated|expired|unknown|not valid)"
    r"|(?:no valid|unknown|expired|invalid|invalid or expired|invalid or missing) session\b"
    r"|server not initialized)",
    re.ASCII | re.IGNORECASE,
)
"""What MCP servers say of a session that they do not know: the SDKs' words, and those of servers that were seen."""
_SEVERITIES: Final = frozenset(Severity)
_OURS = re.compile(r"[A-Z][A-Z0-9_]{1,63}", re.ASCII)
_READ = frozenset(
    [
        "type",
        "retryable",
        "sessionValid",
        "sessionId",
        "retryAfter",
        "code",
        "providerId",
        "executed",
        "severity",
    ]
)
OWN_DETAILS: Final = frozenset(
    {
        "close_code",
        "close_text",
        "close_by",
        "http_status",
        "rpc_code",
        "errno",
        "retry_at",
        "error",
    }
)
"""Details about our end of the link: decisions depend on them, so a peer cannot set them."""


def error_object_finding(error: object) -> Finding:
    """Return the verdict on a JSON-RPC error object, or on the answer around it; never raises."""
    fields = mapping_of(error)
    fields = mapping_of(fields.get("error")) or fields
    number, text, data = fields.get("code"), fields.get("message"), mapping_of(fields.get("data"))
    message = text if isinstance(text, str) else ""
    number = number if isinstance(number, int) and not isinstance(number, bool) else None
    found = _advised(_meaning(number, message, data), number, message, data)
    found = found.evolve(**_stated(found.code, data))
    if found.executed is not None:  # more is said than a number can prove
        found = found.evolve(proof="")
    details: dict[str, Any] = {} if number is None else {"rpc_code": number}
    for name, key in (("providerId", "provider_id"), ("sessionId", "session_id")):
        if isinstance(value := data.get(name), str):
            details[key] = value
    return found.evolve(message=message, details={**details, **peer_details(data, _READ)})


def peer_details(reported: Mapping[Any, Any], read: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the details that a peer may set: those that are not `read` elsewhere, and none of ours.

    Its `max_retries` counts if it is a count.
    """
    details = {
        str(key): value
        for key, value in reported.items()
        if str(key) not in read and str(key) not in OWN_DETAILS
    }
    if not is_count(details.get("max_retries", 0)):
        del details["max_retries"]
    return details


def is_our_code(code: object) -> bool:
    """Return True for a code of the table, or an unlisted one with one of the seven prefixes."""
    if not isinstance(code, str):
        return False
    return code in CODES or (
        _OURS.fullmatch(code) is not None
        and any(code.startswith(prefix) and code != prefix for prefix in PREFIXES)
    )


def is_count(value: object) -> bool:
    """Return True for an integer from 0 on; False for text and booleans."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _meaning(number: int | None, message: str, data: Mapping[object, Any]) -> Finding:
    named_code = data.get("code")
    if is_our_code(named_code):
        return Finding(code=str(named_code))
    if number in _SESSION_GONE and SESSION_UNKNOWN.match(message):
        return Finding(code="SESS_NOT_FOUND", proof="mcp_session_unknown")
    meaning = _NOTHING if number is None else RPC_CODES.get(number, _NOTHING)
    category = _category(data)
    if (
        category is not None and category is not CODES[meaning.code].category
    ):  # -32000 stands for two of them
        return Finding(code=CATEGORY_CODES[category])
    return meaning


def _advised(
    found: Finding, number: int | None, message: str, data: Mapping[object, Any]
) -> Finding:
    """Return the verdict with what to do, by the peer's message, its category and its `retryable` mark."""
    if is_our_code(data.get("code")) or number not in RPC_CODES:
        return found
    code = found.code
    category = _category(data) or CODES[code].category
    lowered = message[:_LOOKED_AT].lower()
    advice = next((advice for words, advice in _BY_WORDS.items() if words in lowered), None)
    if advice is None:
        lines = _BY_CATEGORY.get(category) if "type" in data or number == _INTERNAL else None
        if data.get("retryable") is True:
            lines = (_WAIT, _HEALTH) if category is Category.TRANSPORT else (_WAIT,)
        return found.evolve(suggestions=lines) if lines else found
    better, lines = advice
    if better is None or code not in _GENERAL:
        return found.evolve(suggestions=lines)
    return found.evolve(
        code=better,
        suggestions=lines,
        category=category,
        executed=Executed.MAYBE,
        retryable=CODES[code].retryable or CODES[better].retryable,
    )


def _stated(code: str, data: Mapping[object, Any]) -> dict[str, Any]:
    """Return the fields that `data` states, as a failure has them."""
    found: dict[str, Any] = {}
    category, retryable, session = _category(data), data.get("retryable"), data.get("sessionValid")
    if category is not None:
        found["category"] = category
    if isinstance(retryable, bool) and code != "CONN_TLS_HANDSHAKE_FAILED":
        found["retryable"] = retryable
        if retryable:  # a retry is useful; the mark does not say whether the call ran
            found["kind"] = Kind.TRANSIENT
    executed = data.get("executed")
    if isinstance(executed, str) and executed in {Executed.MAYBE, Executed.YES}:
        found["executed"] = Executed(executed)  # "no" would be a proof, which a peer cannot give
    if isinstance(session, bool):
        found["session_valid"] = session
    if (severity := severity_in(data)) is not None:
        found["severity"] = severity
    wait = data.get("retryAfter")
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < math.inf:
        found["retry_after"] = float(wait) if wait < 1e10 else 1e10
    return found


def severity_in(data: Mapping[Any, Any]) -> Severity | None:
    """Return the severity that a peer states for its error, None if that is not one of the five."""
    named = data.get("severity")
    return Severity(named) if isinstance(named, str) and named in _SEVERITIES else None


def _category(data: Mapping[object, Any]) -> Category | None:
    named = data.get("type")
    return Category(named) if isinstance(named, str) and named in Category.__members__ else None


def mapping_of(value: object) -> Mapping[object, Any]:
    """Return the value if it is a mapping, else an empty one."""
    return cast("Mapping[object, Any]", value) if isinstance(value, Mapping) else {}


# ---- responses that do not know the session ---------------------------------------------------------


_SESSION_STATUSES: Final = frozenset({400, 401, 403, 404, 409, 410, 422, 503})
_SESSION_READ: Final = 500  # characters
_OF_SESSIONS: Final = frozenset({-32001, -32600})


def is_session_error(error: Mapping[str, Any]) -> bool:
    """Return whether a JSON-RPC error in a successful response means that the session is gone.

    It needs a code and a text that say so, and no data: a session of the application has some.
    """
    message = error.get("message")
    is_text = (
        isinstance(message, str)
        and SESSION_UNKNOWN.match(message.strip()[:_SESSION_READ]) is not None
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
        isinstance(message, str)
        and SESSION_UNKNOWN.match(message.strip()[:_SESSION_READ]) is not None
    )
    if status == 404:
        return says_so or not isinstance(code, int) or code in _SESSION_GONE
    return status in _SESSION_STATUSES and says_so
