"""What the details of a failure show: why it failed, in the words that a model acts on, and whether it ran, in those for a person.

Rule: works on the plain details alone; numbers say more than names, and names more than text.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, Final

from .taxonomy import Executed


PERMISSION: Final[Mapping[str, tuple[object, ...]]] = {
    "errno": (errno.EACCES, errno.EPERM),
    "exit_code": (126, 77),
    "http_status": (403,),
    "reason": ("permission_denied",),
    "error": ("PermissionError",),  # raised with a text alone, as tools do: no errno
}
NOT_FOUND: Final[Mapping[str, tuple[object, ...]]] = {
    "errno": (errno.ENOENT,),
    "exit_code": (127,),
    "http_status": (404, 410),
    "reason": ("not_found",),
    "error": ("FileNotFoundError",),
}
REFUSED: Final[Mapping[str, tuple[object, ...]]] = {
    "rpc_code": (-32602,),
    "http_status": (422,),
    "error": ("ValidationError",),  # pydantic's, jsonschema's, marshmallow's
}
INVALID: Final = frozenset(
    {"PROTO_INVALID_MESSAGE", "HOOK_VALIDATION_FAILED", "TOOL_ARGUMENTS_INVALID", "SYS_CONFIG_INVALID"}
)
_RAN: Final = {Executed.NO: "it did not run", Executed.MAYBE: "it may have run", Executed.YES: "it ran"}
_UNDECIDED: Final = frozenset({408, 409, 423, 429, 499})  # said by a server that may have begun
_REFUSALS: Final = frozenset({-32600, -32602, -32042})


def shows(details: Mapping[str, Any], signs: Mapping[str, tuple[object, ...]]) -> bool:
    """Return whether a detail is one of these signs; of a text only what stands before its colon counts."""
    for key, these in signs.items():
        told = details.get(key)
        if (told.partition(":")[0] if isinstance(told, str) else told) in these:
            return True
    return False


def ran_text(executed: Executed, details: Mapping[str, Any]) -> str:
    """Return whether it ran, for a person: a refusal of the server is told as that, and requests that were counted are told."""
    if executed is not Executed.MAYBE:
        return _RAN[executed]
    if _is_refusal(details):
        return "refused by the server"
    sent = details.get("requests_sent")
    if isinstance(sent, int) and sent > 1:
        return f"it may have run ({sent} requests were sent inside of it)"
    return _RAN[executed]


def _is_refusal(details: Mapping[str, Any]) -> bool:
    """Return whether the server itself refused the request: it read it, said no, and by its own word did nothing."""
    status = details.get("http_status")
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _UNDECIDED
    number = details.get("rpc_code")
    return isinstance(number, int) and number in _REFUSALS
