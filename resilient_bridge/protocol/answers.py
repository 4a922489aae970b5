"""What a server of frames of its own says about messages of ours, by id, by number, or by sending them back: matched and settled.

Rule: matching settles; it never invents. What is about nothing of ours is counted, or goes to the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .entries import EntryState
from .facts import Event, Reply
from .frames import Body


if TYPE_CHECKING:
    from ..errors import Failure
    from .clock import Now
    from .entries import Entry
    from .facts import Acked, Refused
    from .outbound import Outbound
    from .policies.dialect import Dialect


class Answers:
    """For one connection: settles what was sent, as far as the server speaks of it."""

    def __init__(self, outbound: Outbound, dialect: Dialect) -> None:
        self._out = outbound
        self._echo = dialect.echo

    def replied(self, reply: Reply, now: Now) -> bool:
        """An answer. True if it is used up by that: the answer to a request is, and one that answers nothing of ours is not."""
        entry = self._find(reply.to)
        if entry is None:
            return False
        if reply.duplicate:
            self._out.dedupe.shown()
        body = Body(Event(raw=reply.raw, type=reply.type, payload=reply.payload))
        if not entry.is_request:
            self._confirm(entry, "read" if reply.duplicate else "applied")
            return True
        return self._out.answered_request(entry, reply.type, body, now, is_error=False)

    def answered(self, event: Event, now: Now) -> bool:
        """An event with the id of a message of ours is its answer."""
        if event.id is None or self._find(event.id) is None:  # as nearly always: nothing is made for it
            return False
        return self.replied(Reply(to=event.id, raw=event.raw, type=event.type, payload=event.payload), now)

    def acked(self, fact: Acked, generation: int) -> bool:
        """Acknowledgements: True if one was about a send of ours. What is beyond that, or comes twice, changes nothing."""
        found = False
        for name in fact.ids:
            entry = self._find(name)
            if entry is not None and not entry.is_request:
                self._confirm(entry, "applied")
                found = True
            else:
                self._out.stray_acks += 1
        if fact.echo is not None:
            found = self.echoed(fact.echo) or found
        if fact.through is not None:
            found = bool(self._out.outbox.unconfirmed) or found
            self._out.outbox.confirm_through(fact.through, generation)
        return found

    def refused(self, fact: Refused, failure: Failure, generation: int, now: Now) -> bool:
        """A refusal: of the message that it names, or of the only one of its type that waits. True if it is used up by that."""
        entry = None if fact.to is None else self._find(fact.to)
        if entry is None:
            return fact.to is None and self._out.refused(fact.type, failure, generation, now)
        if entry.is_settled:
            return False
        if entry.is_request:
            self._out.end_request(entry, EntryState.DEAD, failure)
        else:
            self._out.outbox.kill(entry, failure)
            self._out.quarantined(entry, "refused", failure, now)
        return True

    def echoed(self, echo: str) -> bool:
        """The server has sent a message of ours back, or acknowledged it: the oldest with this content has arrived. False if there is none."""
        if self._echo is None:
            return False
        for entry in self._out.outbox.written():
            if self._echo(entry.frame) == echo:
                self._confirm(entry, "applied")
                return True
        return False

    def _find(self, name: str | int) -> Entry | None:
        entry = self._out.known.by_name(name)
        return None if entry is None or entry.state is EntryState.QUEUED else entry

    def _confirm(self, entry: Entry, how: str) -> None:
        if not entry.is_settled:
            self._out.outbox.confirm(entry, how)
