"""What a replay answer holds: objects or JSON strings (the seed stores strings), good ones and bad ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ..errors import Failure
from .frames import InvalidFrameError, decode, envelope, fields_of, message_from, raw_of
from .merge import Item


if TYPE_CHECKING:
    from collections.abc import Callable

    from .clock import Now


_encode: Final = json.JSONEncoder(separators=(",", ":")).encode


def read_replay(
    body: dict[str, Any],
    is_content: Callable[[dict[str, Any], Now], bool],
    counts: Callable[[str, dict[str, Any]], bool],
    now: Now,
) -> tuple[list[Item], list[Failure]]:
    """The replayable messages of an answer in the server's order, and a failure for each entry that is none.

    `is_content` decides what belongs into the stream, `counts` what of it is part of the position. An answer without a list of messages is an answer without messages.
    """
    payload = fields_of(body)
    entries: list[Any] | None = payload.get("messages")
    if type(entries) is not list:
        return [], [
            Failure.of("PROTO_INVALID_MESSAGE", "expected payload.messages to be a list in a replay answer")
        ]
    items: list[Item] = []
    rejected: list[Failure] = []
    for entry in entries:
        try:
            found = decode(entry) if isinstance(entry, str) else envelope(entry)
        except InvalidFrameError as error:
            rejected.append(error.failure)
            continue
        if is_content(found, now):
            text = entry if isinstance(entry, str) else _encode(raw_of(found))
            type_ = found["type"]
            items.append(Item(message_from(type_, found), text, counts=counts(type_, found)))
    return items, rejected
