"""When the next frame may be read: not while the inbox is full, unless a join or a request must be
completed.

Rule: reading never just stops silently: the link is paused, or it is dropped and the missed
messages are replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..failure import Failure


if TYPE_CHECKING:
    from .clock import Now
    from .inbox import Inbox
    from .link import AnyLink
    from .outbound import Outbound
    from .policies.inbox import Inbox as InboxPolicy


_UNREAD: Final = (
    "the inbox is full and nobody reads messages; a send-only client says receive=False"
)


class Reading:
    """The decision for one client. `is_paused`: reading is stopped because the inbox is full."""

    def __init__(self, policy: InboxPolicy) -> None:
        self.is_paused = False
        self._is_resync = policy.overflow == "resync"

    def may_connect(self, inbox: Inbox) -> bool:
        return not (inbox.is_overfull or (inbox.is_full and self._is_resync))

    def may_read(
        self, link: AnyLink, inbox: Inbox, outbound: Outbound, now: Now, *, is_iterating: bool
    ) -> bool:
        """Return whether the next frame of this link may be read.

        `is_iterating`: the application is reading messages.
        """
        if link.joining.is_open:
            # the join has to end even if the inbox is full; it holds what it brings within its own
            # bounds
            return True
        if self.is_paused:
            if not inbox.has_room:
                self._full(link, inbox, outbound, now, is_iterating=is_iterating)
                return False
            self.is_paused = False
            inbox.absorbs_replay = False
            link.resume(now)
        return not inbox.is_full or self._full(
            link, inbox, outbound, now, is_iterating=is_iterating
        )

    def _full(
        self, link: AnyLink, inbox: Inbox, outbound: Outbound, now: Now, *, is_iterating: bool
    ) -> bool:
        """The inbox is full: drop the link, keep reading for a waiting request, or stop reading."""
        if self._is_resync and not inbox.absorbs_replay:
            link.die(
                _inbox_full("the inbox is full: the link is dropped, what follows will be replayed")
            )
            return False
        if not is_iterating:
            outbound.inbox_full(_inbox_full(_UNREAD), now)
        elif outbound.open_requests:
            if not inbox.is_overfull:
                return True
            link.die(
                _inbox_full(
                    "the inbox is at twice its bound while a request waits: the link is dropped"
                )
            )
            return False
        if not self.is_paused:
            self.is_paused = True
            link.pause()
        return False


def _inbox_full(message: str) -> Failure:
    return Failure.of("SYS_INBOX_FULL", message)
