"""Verdicts on what peers answer: JSON-RPC and MCP errors and results, and the responses of every library.

Rule: the error's `data` beats its number, and the number beats the text; a tool that failed has run.
An answer not known to be a failure is none. What a user's function returned is known by its type
alone: a dict may be anybody's data, and is searched for the forms of specifications only where it is
an answer of a server or tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from .contents import read_json
from .dispatch import KNOWN, Key, Rows, dispatch, own_words
from .failure import Failure, Finding, short_of
from .payloads import EXECUTIONS, payload_finding, report_finding
from .registry import Registration, applied, is_taught, taught
from .rpc import error_object_finding, mapping_of, severity_in
from .statuses import answer_status
from .texts import text_finding
from .vocabulary import Category


_FAILED: Final = Finding(code="TOOL_EXECUTION_FAILED")
# A code alone may be data.
_BESIDE_A_CODE: Final = frozenset({"message", "error", "errors", "violations", "suggestions"})
_RESERVED: Final = range(-32768, -31999)  # JSON-RPC keeps these numbers for errors


def _rpc_finding(error: object) -> Finding:
    """Return the verdict on a JSON-RPC error object, or on the answer around it."""
    reported = error_object_finding(error)
    named = mapping_of(
        (mapping_of(mapping_of(error).get("error")) or mapping_of(error)).get("data")
    ).get("code")
    if isinstance(named, str) and named.upper() in EXECUTIONS:  # of a peer that runs scripts
        found = payload_finding({"code": named, "message": reported.message}, unknown=None)
        if found is not None:
            return found.evolve(details={**reported.details, **found.details})
    return reported


def _answer_finding(answer: Mapping[object, Any]) -> Finding | None:
    """Return the verdict on a decoded answer.

    That is a JSON-RPC error or an MCP result with `isError`; None for anything else.
    """
    if "jsonrpc" in answer and isinstance(answer.get("error"), Mapping):
        return _rpc_finding(answer["error"])
    code = answer.get("code")
    if isinstance(code, int) and code in _RESERVED and isinstance(answer.get("message"), str):
        return _rpc_finding(answer)
    if answer.get("isError") is True or answer.get("is_error") is True:
        structured = answer.get("structuredContent", answer.get("structured_content"))
        return tool_finding(answer.get("content"), structured)
    return _seed_finding(answer)


def _seed_finding(answer: Mapping[object, Any]) -> Finding | None:
    """Return the verdict on an object in a form of the published specifications.

    None if it is not marked as a failure.
    """
    payload = mapping_of(answer.get("payload"))
    if isinstance(answer.get("type"), str) and payload:
        return payload_finding(payload, unknown=None)
    if answer.get("success") is False and "error" in answer:
        return _unsuccessful(answer["error"], answer)
    for fields in (answer, mapping_of(answer.get("error"))):
        if (
            fields.keys() & _BESIDE_A_CODE
            and (found := payload_finding(fields, unknown=None)) is not None
        ):
            return found
    return report_finding(answer)


def _unsuccessful(error: object, answer: Mapping[object, Any]) -> Finding:
    """Return the verdict on {success: false, error: 'csp_blocked'}.

    `error` may also be a report or an error object.
    """
    fields = mapping_of(error)
    found = report_finding(fields) or payload_finding(fields, unknown=None)
    if found is not None:
        return found
    text = error if isinstance(error, str) else fields.get("message")
    text = text if isinstance(text, str) else ""
    found = payload_finding({**answer, "code": text}, unknown=None) or text_finding(text)
    return _as_severe(found or _FAILED.evolve(message=_FAILED.summary + short_of(text)), fields)


def _as_severe(finding: Finding, error: Mapping[object, Any]) -> Finding:
    """Return the verdict with the severity that the error object states, whatever its code is."""
    stated = severity_in(error)
    return finding if stated is None else finding.evolve(severity=stated)


def tool_finding(content: object, structured: object) -> Finding:
    """Return the verdict on a tool's reported failure.

    It reads the structured content, the text as JSON, or the plain text.
    """
    text = _text_of(content)
    error: Mapping[object, Any] = {}
    for fields in (structured, read_json(text)):
        found = _error_finding(mapping_of(fields))
        if found is not None:
            return found
        error = error or mapping_of(mapping_of(fields).get("error"))
    found = text_finding(text)
    if found is None:
        found = _FAILED.evolve(message=_FAILED.summary + short_of(text)) if text else _FAILED
    return _as_severe(found, error)


def _error_finding(fields: Mapping[object, Any]) -> Finding | None:
    inner = fields.get("error")
    if isinstance(inner, str) and "code" not in fields:  # {"error": "CSP_BLOCKED", "message": …}
        fields = {**fields, "code": inner}
    else:
        fields = mapping_of(inner) or fields
    code = fields.get("code")
    if isinstance(code, int):
        return _rpc_finding(fields)
    if (report := report_finding(fields)) is not None:
        return report
    if fields.get("type") in Category.__members__ and isinstance(fields.get("retryable"), bool):
        return _rpc_finding({"message": fields.get("message"), "data": fields})
    return payload_finding(fields, unknown=None)


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    for part in cast("list[object]", content)[:50]:
        text: object = mapping_of(part).get("text") or getattr(part, "text", None)
        if isinstance(text, str) and text:
            return text
    return ""


def _error_answer(answer: Any) -> Finding:
    """Return the verdict on mcp's error answer (JSONRPCError), or on the error raised for one."""
    inner = answer.error
    return _rpc_finding(
        {"code": inner.code, "message": inner.message, "data": getattr(inner, "data", None)}
    )


def _result_answer(answer: Any) -> Finding | None:
    """Return the verdict on mcp's own tool result, None when it is a success."""
    if (
        getattr(answer, "is_error", None) is not True
        and getattr(answer, "isError", None) is not True
    ):
        return None
    structured = getattr(answer, "structured_content", None) or getattr(
        answer, "structuredContent", None
    )
    return tool_finding(answer.content, structured)


def _fastmcp_tool(error: BaseException) -> Finding:
    """The rule for fastmcp's client, which raises what a tool reported."""
    return tool_finding(own_words(error, "fastmcp"), None)


_LOST = Finding(code="CONN_RESET", message="stream of the server lost")
_LOGIN = Finding(code="AUTH_REFRESH_FAILED", message="authorization not obtained")

ROWS: Final = Rows(
    {
        ("mcp", "MCPError"): _error_answer,
        ("mcp", "McpError"): _error_answer,
        ("mcp", "StreamableHTTPError"): _LOST,
        ("mcp", "SubscriptionLost"): _LOST,
        ("mcp", "OAuthFlowError"): _LOGIN,
        ("mcp", "ListenNotSupportedError"): Finding(
            code="SYS_CONFIG_INVALID", message="server offers no subscriptions", proof="own_layer"
        ),
        ("mcp", "InputRequiredRoundsExceededError"): Finding(
            code="SYS_UPSTREAM_REJECTED", message="server asked for input too often"
        ),
        ("mcp", "ToolError"): Finding(code="TOOL_EXECUTION_FAILED"),
        ("fastmcp", "ToolError"): _fastmcp_tool,
    }
)


# ---- answers of every library -----------------------------------------------------------------------


_Reader: TypeAlias = Callable[[Any], Finding | Failure | None]


_READERS: Final[Mapping[Key, _Reader]] = {
    **{
        (package, "Response"): answer_status
        for package in ("httpx", "httpx2", "requests", "websockets")
    },
    ("urllib3", "BaseHTTPResponse"): answer_status,
    ("aiohttp", "ClientResponse"): answer_status,
    ("resilient_bridge", "AnswerView"): answer_status,  # our attribute on a ClientResponse
    **{(package, "CallToolResult"): _result_answer for package in ("mcp", "mcp_types", "fastmcp")},
    ("fastmcp", "ToolResult"): _result_answer,
    **{(package, "JSONRPCError"): _error_answer for package in ("mcp", "mcp_types")},
    ("resilient_bridge", "Outcome"): lambda outcome: outcome.failure,
}


def answer_failure(answer: object, *, of_server: bool) -> Failure | None:
    """Return the failure that an answer stands for; never raises.

    None for a success, or for an unknown answer. `of_server`: a server or tool gave it, so a mapping
    is searched for the forms of specifications.
    """
    found: Finding | Failure | None
    try:
        cls = type(answer)  # not isinstance: it would read the answer's __class__
        read = _reader_of(cls)
        if issubclass(cls, Mapping):
            found = _answer_finding(cast("Mapping[object, Any]", answer)) if of_server else None
        else:
            found = None if read is None else read(answer)
    except Exception:  # noqa: BLE001 (an answer without the attributes of its class is nothing we know)
        found = None
    if found is None:
        return taught(answer)
    if isinstance(found, Failure):
        return found
    failure = found.failure()
    return applied(failure, answer) if Registration.in_force else failure


def _reader_of(cls: type) -> _Reader | None:
    """Return what reads the instances of a class; None for a class that is no answer we know."""
    known = KNOWN.get(cls) or dispatch(cls)
    return next((read for key, read in _READERS.items() if key in known.keys), None)


def may_fail(cls: type[Any], *, of_server: bool) -> bool:
    """Return whether an instance of this class can be a failure; False is final for the class."""
    if _reader_of(cls) is not None or is_taught(cls):
        return True
    return of_server and issubclass(cls, Mapping)
