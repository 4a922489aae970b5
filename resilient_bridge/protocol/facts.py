"""What a frame says, and what we want said: the words between a dialect and the session. Pure values.

A dialect of its own has two functions: `decode(frame)` returns the facts of one frame, `encode(intent)` the frame of one intent. The session
knows nothing of a server beyond these facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import attrs


if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen(kw_only=True)
class Event:
    """A message of the server's, for the consumer.

    `raw` is the frame as it came, decoded as far as the dialect reads it: an object, an array, a text, bytes. `payload` is what a reader of
    messages finds in it. Two events with one `type` and `id` are one message; without an `id` nothing is taken for a repetition.
    """

    raw: Any
    type: str = ""
    payload: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    id: str | None = None
    timestamp: str | None = None


Fact: TypeAlias = Event
"""What `decode` returns a tuple of; an empty tuple for a frame that says nothing to anybody."""


@attrs.frozen(kw_only=True)
class Send:
    """A message of the user's that is to go out. `key` is the same on every resend; a server that reads it can tell a repetition."""

    type: str
    payload: Mapping[str, Any]
    id: str
    key: str
    timestamp: str


Intent: TypeAlias = Send
"""What `encode` is given."""
