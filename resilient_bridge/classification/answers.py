"""Answers that are failures although nothing was raised: HTTP responses, MCP results, JSON-RPC errors.

Rule: what is not known to be a failure is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from ..errors import Failure
from .dispatch import Key, dispatch
from .finding import Finding
from .http_libraries import answer_status
from .registry import applied, is_taught, taught
from .rpc_answers import answer_finding, error_answer, result_answer
from .wrappers import response_finding


_Reader: TypeAlias = Callable[[Any], Finding | None]


def _response(response: Any) -> Finding | None:
    status = response.status_code
    return response_finding(response) if isinstance(status, int) and status >= 400 else None


_READERS: Final[Mapping[Key, _Reader]] = {
    **{(package, "Response"): _response for package in ("httpx", "httpx2", "websockets")},
    ("requests", "Response"): answer_status,
    ("urllib3", "BaseHTTPResponse"): answer_status,
    ("aiohttp", "ClientResponse"): answer_status,
    ("resilient_bridge", "AnswerView"): answer_status,  # ours, of a ClientResponse
    **{(package, "CallToolResult"): result_answer for package in ("mcp", "mcp_types")},
    **{(package, "JSONRPCError"): error_answer for package in ("mcp", "mcp_types")},
}


def answer_failure(answer: object) -> Failure | None:
    """Return the failure an answer stands for, None when it is a success or nothing we know; never raises."""
    try:
        found = _find(answer)
    except Exception:  # noqa: BLE001 (an answer without the attributes of its class is nothing we know)
        found = None
    return taught(answer) if found is None else applied(found.failure(), answer)


def _find(answer: object) -> Finding | None:
    known = dispatch(type(answer))  # not isinstance: it would ask the answer for its __class__
    if issubclass(type(answer), Mapping):
        return answer_finding(cast("Mapping[object, Any]", answer))
    read = next((read for key, read in _READERS.items() if key in known.keys), None)
    return None if read is None else read(answer)


def may_be_answer(cls: type[Any]) -> bool:
    """Return whether an instance of this class can stand for a failure: False lets a caller skip the question for good."""
    return any(key in dispatch(cls).keys for key in _READERS) or issubclass(cls, Mapping) or is_taught(cls)
