"""What was accepted and not yet read, in order, with markers for gaps.

Rule: bounded by count and by bytes.

A replay may exceed the bound by the size of one answer: it was already in memory, and cutting it
would lose messages.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .messages import Gap


if TYPE_CHECKING:
    from .messages import Message
    from .policies.inbox import Inbox as InboxPolicy
    from .watermark import Watermark


class Inbox:
    """A queue of (message, size, the watermark it counts for) and gap markers."""

    def __init__(self, policy: InboxPolicy) -> None:
        self._max_messages = policy.max_messages
        self._max_bytes = policy.max_bytes
        self._items: deque[tuple[Message, int, Watermark | None] | Gap] = deque()
        self.bytes = 0
        self.absorbs_replay = False

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        return len(self._items) >= self._max_messages or self.bytes >= self._max_bytes

    @property
    def is_overfull(self) -> bool:
        return len(self._items) >= 2 * self._max_messages or self.bytes >= 2 * self._max_bytes

    @property
    def has_room(self) -> bool:
        """Return whether reading may resume after a pause: at three quarters, so that it does not
        switch too often.
        """
        return (
            4 * len(self._items) <= 3 * self._max_messages and 4 * self.bytes <= 3 * self._max_bytes
        )

    def put(self, message: Message, size: int, watermark: Watermark | None) -> None:
        self._items.append((message, size, watermark))
        self.bytes += size

    def absorb(self) -> None:
        """A replay was added: until there is room again, a full inbox is no reason to drop the link
        and request the replay again.
        """
        self.absorbs_replay = self.is_full

    def put_gap(self, gap: Gap) -> None:
        self._items.append(gap)

    def peek_gap(self) -> Gap | None:
        return self._items[0] if self._items and isinstance(self._items[0], Gap) else None

    def pass_gap(self) -> None:
        self._items.popleft()

    def take(self) -> tuple[Message, Watermark | None] | None:
        """Return the next message and its position; None if there is none, or if a gap comes first."""
        if not self._items:
            return None
        item = self._items[0]
        if isinstance(item, Gap):
            return None
        self._items.popleft()
        self.bytes -= item[1]
        return item[0], item[2]
