"""An answer that came and cannot be used: which of our requests it names. Pure.

Rule: only a frame that looks like an answer names a request. A line of a log does not, whatever it
has in it.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from ...failure import mapping_of
from .upstream import Loss


if TYPE_CHECKING:
    from .message import Message


# control characters in texts, and integers that Python refuses to read, are no reason to give up
_LENIENT: Final = json.JSONDecoder(strict=False, parse_int=lambda digits: int(digits[:30]))
_HEAD: Final = re.compile(
    r'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*"?(\d{1,15})"?\s*,'
)
_TAIL: Final = re.compile(
    r'[,{]\s*"id"\s*:\s*"?(\d{1,15})"?\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$'
)
_LOOKED_AT: Final = 1_000  # characters at either end of a frame that is no JSON
_OTHER_TYPE: Final = "its id is of another type than that of the request"


def request_named_in(frame: bytes | str) -> int | None:
    """Return the id of our request that a frame answers which is no message; None if none."""
    text = frame.decode("utf-8", "replace") if isinstance(frame, bytes) else frame
    try:
        document, _ = _LENIENT.raw_decode(text.lstrip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        return _named_by_its_ends(text)
    fields = mapping_of(document)
    is_answer = (
        "result" in fields or "jsonrpc" in fields or "code" in mapping_of(fields.get("error"))
    )
    return number_of(fields.get("id")) if is_answer and "method" not in fields else None


def request_misnamed_by(answer: Message) -> int | None:
    """Return the id of our request that an answer names in another type, such as "5"; else None."""
    is_ours = isinstance(answer.id, int) and not isinstance(answer.id, bool)
    return None if is_ours or not answer.is_answer else number_of(answer.id)


def number_of(id: Any) -> int | None:
    """Return the integer that an id stands for, in whatever type; None if for none."""
    if isinstance(id, bool):
        return None
    if isinstance(id, float):
        return int(id) if math.isfinite(id) and id.is_integer() else None
    if isinstance(id, str):
        return int(id) if id.isascii() and id.isdigit() and len(id) < 16 else None
    return id if isinstance(id, int) else None


def unusable(reason: object = _OTHER_TYPE) -> Loss:
    """Return the loss of a request whose answer came and cannot be used."""
    return Loss(reason=str(reason), is_unusable=True)


def _named_by_its_ends(text: str) -> int | None:
    """Return the id at the beginning or the end of a broken answer, where only its own can be."""
    begin, end = text[:_LOOKED_AT], text[-_LOOKED_AT:]
    if '"jsonrpc"' not in begin + end or '"method"' in begin + end:
        return None
    found = _HEAD.match(begin) or _TAIL.search(end)
    return int(found[1]) if found is not None else None
