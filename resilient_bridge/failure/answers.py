"""Answers that are failures although no exception was raised.

They are HTTP responses, MCP results, outcomes and JSON-RPC errors. Rule: an answer not known to be a
failure is none. What a user's function returned is known by its type alone: a dict may be anybody's
data, and is searched for the forms of specifications only where it is an answer of a server or tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from .dispatch import Key, dispatch
from .failure import Failure
from .finding import Finding
from .http_clients import answer_status, body_of, response_finding
from .registry import applied, is_taught, taught
from .rpc_answers import answer_finding, error_answer, result_answer
from .statuses import hidden_finding


_Reader: TypeAlias = Callable[[Any], Finding | Failure | None]


def _response(response: Any) -> Finding | None:
    status = response.status_code
    if not isinstance(status, int):
        return None
    if status >= 400:
        return response_finding(response)
    body = body_of(response)
    return None if body is None else hidden_finding(body, response.headers)


_READERS: Final[Mapping[Key, _Reader]] = {
    **{(package, "Response"): _response for package in ("httpx", "httpx2", "websockets")},
    ("requests", "Response"): answer_status,
    ("urllib3", "BaseHTTPResponse"): answer_status,
    ("aiohttp", "ClientResponse"): answer_status,
    ("resilient_bridge", "AnswerView"): answer_status,  # our attribute on a ClientResponse
    **{(package, "CallToolResult"): result_answer for package in ("mcp", "mcp_types", "fastmcp")},
    ("fastmcp", "ToolResult"): result_answer,
    **{(package, "JSONRPCError"): error_answer for package in ("mcp", "mcp_types")},
    ("resilient_bridge", "Outcome"): lambda outcome: outcome.failure,
}


def answer_failure(answer: object, *, of_server: bool) -> Failure | None:
    """Return the failure that an answer stands for; never raises.

    None for a success, or for an unknown answer. `of_server`: a server or tool gave it, so a mapping
    is searched for the forms of specifications.
    """
    try:
        found = _find(answer, of_server=of_server)
    except Exception:  # noqa: BLE001 (an answer without the attributes of its class is nothing we know)
        found = None
    if found is None:
        return taught(answer)
    return found if isinstance(found, Failure) else applied(found.failure(), answer)


def _find(answer: object, *, of_server: bool) -> Finding | Failure | None:
    known = dispatch(type(answer))  # not isinstance: it would read the answer's __class__
    if issubclass(type(answer), Mapping):
        return answer_finding(cast("Mapping[object, Any]", answer)) if of_server else None
    read = next((read for key, read in _READERS.items() if key in known.keys), None)
    return None if read is None else read(answer)


def may_fail(cls: type[Any], *, of_server: bool) -> bool:
    """Return whether an instance of this class can be a failure; False is final for the class."""
    if is_taught(cls) or any(key in dispatch(cls).keys for key in _READERS):
        return True
    return of_server and issubclass(cls, Mapping)
