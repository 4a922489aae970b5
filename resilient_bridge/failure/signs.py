"""What the details of a failure show.

The reason, as a word for a model, and whether the call ran, as text for a person.

Rule: reads the plain details alone; numbers beat names, and names beat text.
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
    "error": ("PermissionError",),  # raised by tools with a text alone, without errno
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
    {
        "PROTO_INVALID_MESSAGE",
        "HOOK_VALIDATION_FAILED",
        "TOOL_ARGUMENTS_INVALID",
        "SYS_CONFIG_INVALID",
    }
)
_RAN: Final = {
    Executed.NO: "it did not run",
    Executed.MAYBE: "it may have run",
    Executed.YES: "it ran",
}
_UNDECIDED: Final = frozenset(
    {408, 409, 423, 429, 499}
)  # from a server that may have started processing
_REFUSALS: Final = frozenset({-32600, -32602, -32042})


def shows(details: Mapping[str, Any], signs: Mapping[str, tuple[object, ...]]) -> bool:
    """Return whether a detail is one of these signs.

    Of a text only the part before the colon counts.
    """
    for key, these in signs.items():
        value = details.get(key)
        if (value.partition(":")[0] if isinstance(value, str) else value) in these:
            return True
    return False


def ran_text(executed: Executed, details: Mapping[str, Any]) -> str:
    """Return, as text for a person, whether the call ran.

    It names a refusal by the server and the number of requests sent.
    """
    if executed is not Executed.MAYBE:
        return _RAN[executed]
    if _is_refusal(details):
        return "refused by the server"
    sent = details.get("requests_sent")
    if isinstance(sent, int) and sent > 1:
        return f"it may have run ({sent} requests were sent inside of it)"
    return _RAN[executed]


def _is_refusal(details: Mapping[str, Any]) -> bool:
    """Return whether the server refused the request: it read it, and says that it did nothing."""
    status = details.get("http_status")
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _UNDECIDED
    number = details.get("rpc_code")
    return isinstance(number, int) and number in _REFUSALS
