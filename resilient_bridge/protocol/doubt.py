"""What a loss leaves in doubt: the sends whose outcome is unknown, and those that left this machine
and may be unread.

The answer to a WebSocket ping shows that what was written before it left this machine and reached
the socket of the peer or of a proxy, and nothing more: a server that dies has not read all that its
system answered for. So the last of what was shown is named as well. Rule: one loss is reported
once, with exact numbers and a bounded list of keys.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from ..telemetry.events import OutboundInDoubt


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..telemetry.event import Event
    from .clock import Now
    from .entries import Entry


KEYS: Final = 1_000  # named of each group, the latest
_LAST: Final = 64  # entries that may be unread, however old they are
_RECENT: Final = 30.0  # seconds within which they may be unread, however many they are


class Doubt:
    """The doubts of one session, collected until they are reported.

    `waits`: a loss is not reported before the next join, because that decides what is sent again.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.waits = False
        self._emit = emit
        self._unknown = self._reached = 0
        self._unknown_keys: deque[str] = deque(maxlen=KEYS)
        self._reached_keys: tuple[str, ...] = ()
        # What this connection has shown to have left: its keys, and how many with each pong.
        self._shown: deque[str] = deque(maxlen=KEYS)
        self._pongs: deque[tuple[float, int]] = deque()
        self._shown_count = 0  # the sum of those counts

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to report."""
        return not (self._unknown or self._reached)

    def forget_shown(self) -> None:
        """The connection ended: what it has shown is no longer of interest."""
        self._shown.clear()
        self._pongs.clear()
        self._shown_count = 0

    def shown(self, keys: list[str], now: Now) -> None:
        """A pong shows that these entries left this machine."""
        self._shown.extend(keys)
        self._pongs.append((now.mono, len(keys)))
        self._shown_count += len(keys)
        pongs = self._pongs
        while now.mono - pongs[0][0] > _RECENT and self._shown_count - pongs[0][1] >= _LAST:
            self._shown_count -= pongs.popleft()[1]

    def unknown(self, entry: Entry) -> None:
        """This send has ended with an unknown outcome."""
        self._unknown += 1
        self._unknown_keys.append(entry.key)

    def lost(self, now: Now) -> None:
        """The connection was lost: what it has shown lately may be unread."""
        recent = sum(count for at, count in self._pongs if now.mono - at <= _RECENT)
        reached = max(recent, min(_LAST, self._shown_count))
        if reached:
            self._reached += reached
            self._reached_keys = (*self._reached_keys, *list(self._shown)[-reached:])[-KEYS:]
        self.forget_shown()

    def report(self, now: Now) -> None:
        """Report what is in doubt, if anything is."""
        if not self.is_empty:
            self._emit(
                OutboundInDoubt(
                    at=now.at,
                    unknown=self._unknown,
                    reached=self._reached,
                    unknown_keys=tuple(self._unknown_keys),
                    reached_keys=self._reached_keys,
                )
            )
            self._unknown_keys.clear()
            self._unknown, self._reached, self._reached_keys = 0, 0, ()
        self.waits = False
