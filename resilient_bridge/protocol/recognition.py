"""Which dialects match a server's first frames: for the error message of a stalled handshake, and
for `doctor`.

Rule: it proposes and decides nothing. A frame shows what a server speaks, never what it promises.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from ..failure import redact
from .frames import decode_json


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_SHOWN: Final = 100  # characters of a frame
_READ: Final = 4_000
_FRAMES: Final = 3
#: the top-level fields of a frame, and the dialect they indicate; the first match decides
_BY_FIELDS: Final = (
    ({"jsonrpc"}, ("jsonrpc",)),
    ({"header", "parent_header"}, ("jupyter(session=…)",)),
    ({"type", "from_seq"}, ("openhands",)),
    ({"type", "num_connections"}, ("slack_socket_mode",)),
    ({"kind", "source"}, ("openhands_legacy",)),
    ({"event", "requires_auth"}, ("agno(workflow_id=…)",)),
    ({"event", "data", "broadcast"}, ("mattermost",)),
    ({"id", "connect"}, ("centrifugo(…)",)),
    ({"push"}, ("centrifugo(…)",)),
)
_KINDS: Final = ("type", "action", "method", "event")
_RECURSOR: Final = frozenset({"connection_ack", "connection_error"})
_NUMBERS: Final = ("seq", "sequence", "offset", "event_index", "_event_id", "last_event_id")


class FirstFrames:
    """The first frames of a connection that has not been accepted: those received, and the types of
    those sent.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        self._mask = mask
        self.sent: list[str] = []
        self._shown: list[str] = []
        self.is_foreign = False  # was there a frame that the dialect cannot read?
        self._came: deque[str] = deque(maxlen=_FRAMES)

    def went(self, frame: str | bytes) -> None:
        """A frame of ours was sent: its kind is recorded, and none of its values."""
        if isinstance(frame, bytes):
            if len(self.sent) < _FRAMES:
                self.sent.append("bytes")
            return
        try:
            value: Any = decode_json(frame)
        except ValueError:
            value = None
        body = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        kind = next((body[name] for name in _KINDS if isinstance(body.get(name), str)), None)
        if len(self.sent) < _FRAMES:
            self.sent.append(kind or ("{" + ", ".join(body) + "}" if body else "a text"))

    def came(self, frame: str | bytes) -> None:
        if len(self._came) < _FRAMES:
            text = frame if isinstance(frame, str) else frame.decode("utf-8", "replace")
            self._came.append(text[:_READ])
            # masked before it is cut, because half of a secret would not be recognized
            self._shown.append(self._mask(text[:_READ]))

    def __str__(self) -> str:
        """Describe what was sent, what came back, and which dialect would match; no secrets."""
        sent = ", ".join(self.sent) or "nothing"
        if not self._came:
            return f"sent: {sent}; nothing came back"
        shown = ", ".join(redact(frame, limit=_SHOWN) for frame in self._shown)
        fits = fitting(self._came)
        proposed = f"; what would fit: {', '.join(fits)}" if fits else ""
        return f"sent: {sent}; came back: {shown}{proposed}"


def fitting(frames: Iterable[str]) -> tuple[str, ...]:
    """Return the dialects that the first frames of a server fit, the likeliest first.

    They are named as in `rb.dialects`.
    """
    found: dict[str, None] = {}
    for frame in frames:
        found.update(dict.fromkeys(_fitting(frame)))
    return tuple(f"rb.dialects.{name}" for name in found)


def _fitting(frame: str) -> tuple[str, ...]:
    if frame.startswith("0{") and "pingInterval" in frame:
        return ("socketio()",)
    try:
        value: Any = decode_json(frame.split("\n", 1)[0])
    except ValueError:
        return ("plain",)
    if not isinstance(value, dict):
        return ("plain",)
    body = cast("dict[str, Any]", value)
    for fields, names in _BY_FIELDS:
        if fields <= body.keys():
            return names
    kind = body.get("type")
    if isinstance(kind, str) and kind in _RECURSOR:
        return ("recursor", "recursor_live")
    numbered = next((name for name in _NUMBERS if isinstance(body.get(name), int)), None)
    if numbered is not None:
        return (f"sequence(field={numbered!r}, ask=…)", "plain")
    return ("plain",)
