"""Outgoing messages, in order, until their outcome is known.

One live deque, one writer. An entry's sequence, id, key and text are fixed when it is accepted; it
is WRITTEN at the moment it is handed out, before a byte moves, because from then on it cannot be
proved that it did not arrive. Failing or dropping an entry removes it in the same step, so it
cannot be sent later. Rule: every entry ends in exactly one state.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, Final

from ..failure import Failure, OutboxFullError
from .deadlines import Deadlines
from .doubt import Doubt
from .entries import NO_PINGS, Entry, EntryState
from .policies.losses import is_silence


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..telemetry.event import Event
    from .clock import Now
    from .policies.outbox import Outbox as OutboxPolicy


_POISON_DEATHS: Final = 3


BATCH_FRAMES: Final = 64  # entries handed out, and marked, at once
BATCH_BYTES: Final = 256 * 1024
MOST_UNSHOWN: Final = 4_096  # entries written whose ping is unanswered; they hold no room
NOT_SHOWN: Final = "nothing had shown that it left this machine"
SHOWN: Final = "it left this machine, and nothing confirms more"


class Outbox:
    """The queue of sends.

    `settled` collects entries whose outcome became known since it was last taken, `doubt` those
    whose outcome will stay unknown.
    """

    def __init__(
        self,
        policy: OutboxPolicy,
        settled: list[Entry],
        emit: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self._policy = policy
        self._settled = settled
        self.doubt = Doubt(emit)
        self.queued: deque[Entry] = deque()
        self.unconfirmed: deque[Entry] = deque()
        self.bytes = 0
        self.count = 0
        # what was written and holds no room any more: how many, and their bytes
        self.unshown = self._unshown_bytes = 0
        # While there are any, one entry is sent at a time, to find the one that kills the link.
        self._suspects: set[Entry] = set()
        self._coalesce: dict[str, Entry] = {}
        self.deadlines = Deadlines()  # of sends with a ttl, and of requests
        # entries up to this number may be sent: a durable store must have marked them first
        self.cleared = inf

    # ---- in ---------------------------------------------------------------------------------------------------

    def has_room(self, size: int, *, after: int = 0) -> bool:
        """Return whether an entry of `size` bytes fits now, or would fit once that many others have
        gone.
        """
        return (
            self.count - after < self._policy.max_messages
            and self.bytes + size <= self._policy.max_bytes
        )

    def make_room(self, entry: Entry) -> bool:
        """Apply the overflow policy; True if `entry` may be added.

        Raises OutboxFullError under `raise` (and `block`).
        """
        older = self._coalesce.get(entry.coalesce) if entry.coalesce is not None else None
        if older is not None and self.has_room(entry.size - older.size, after=1):
            self.drop(older, "coalesced")
        if self.has_room(entry.size):
            return True
        overflow = self._policy.overflow
        if overflow == "drop_oldest" and entry.size <= self._policy.max_bytes:
            # The entry that this one replaces is removed first: of one name only the latest is
            # kept.
            if older is not None:
                self.drop(older, "coalesced")
            while not self.has_room(entry.size):
                oldest = next(self._never_handed_out(), None)
                if oldest is None:
                    break
                self.drop(oldest, "overflow")
            else:
                return True
        if overflow == "coalesce":
            same = next(
                (each for each in self._never_handed_out() if each.type == entry.type), None
            )
            if same is not None and self.has_room(entry.size - same.size, after=1):
                self.drop(same, "coalesced")
                return True
        if overflow in {"drop_oldest", "drop_newest"}:
            entry.settle(EntryState.DROPPED, reason="overflow")
            self._settled.append(entry)
            return False
        raise OutboxFullError(
            Failure.of(
                "SYS_OUTBOX_FULL",
                f"outbox full: {self.count} of {self._policy.max_messages} messages, "
                f"{self.bytes} of {self._policy.max_bytes} bytes, {entry.size} more asked",
            )
        )

    def _never_handed_out(self) -> Iterator[Entry]:
        """Yield the queued entries that may be dropped, the oldest first."""
        return (entry for entry in self.queued if entry.state is EntryState.QUEUED)

    def add(self, entry: Entry) -> None:
        older = self._coalesce.get(entry.coalesce) if entry.coalesce is not None else None
        if older is not None:  # accepted while the store was busy with this one
            self.drop(older, "coalesced")
        self.queued.append(entry)
        self.count += 1
        self.bytes += entry.size
        if entry.coalesce is not None:
            self._coalesce[entry.coalesce] = entry
        if entry.expires is not None:
            self.deadlines.add(entry.expires.mono, entry)

    def hold(self, entry: Entry) -> None:
        """Reserve room for an entry: a store is about to accept it, or has."""
        self.count += 1
        self.bytes += entry.size

    def free(self, entry: Entry) -> None:
        """Release the reserved room."""
        self.count -= 1
        self.bytes -= entry.size

    # ---- out --------------------------------------------------------------------------------------------------

    def hand_out(self, now: Now, generation: int) -> Entry:
        entry = self.queued.popleft()
        if entry.coalesce is not None and self._coalesce.get(entry.coalesce) is entry:
            del self._coalesce[entry.coalesce]
        entry.write(now, generation)
        self.unconfirmed.append(entry)
        return entry

    @property
    def is_open(self) -> bool:
        """Return whether an entry has no outcome yet."""
        return bool(self.count or self.unshown)

    def written(self) -> list[Entry]:
        """Return what was handed out and is not settled, in order; some of it may wait to be handed
        out again.
        """
        return [entry for entry in self.unsettled() if entry.state is EntryState.WRITTEN]

    def unsettled(self) -> list[Entry]:
        """Return what was accepted and has no outcome, in order."""
        return sorted((*self.unconfirmed, *self.queued), key=lambda entry: entry.seq)

    @property
    def may_hand_out(self) -> bool:
        """Return whether there is an entry to send that may go before the previous one is
        confirmed.
        """
        if not self.queued:
            return False
        return not self._suspects or not self.unconfirmed

    # ---- outcomes ---------------------------------------------------------------------------------------------

    def confirm(self, entry: Entry, how: str) -> None:
        """The server has it: `applied` or `read`."""
        self._end(entry, EntryState.CONFIRMED, confirmation=how)

    def confirm_through(self, seq: int, generation: int) -> None:
        """A ping barrier: everything handed out on this connection up to `seq` was read."""
        unconfirmed = self.unconfirmed
        while unconfirmed and unconfirmed[0].seq <= seq and unconfirmed[0].generation == generation:
            self._end(unconfirmed[0], EntryState.CONFIRMED, confirmation="read")

    def drop(self, entry: Entry, reason: str) -> None:
        self._end(entry, EntryState.DROPPED, reason=reason)

    def withdraw(self, entry: Entry) -> bool:
        """Return True if `entry` was never handed out; then it is removed.

        An entry left to the next client is not withdrawn.
        """
        if entry.state is not EntryState.QUEUED or entry.is_settled:
            return False
        self._end(entry, EntryState.WITHDRAWN, reason="withdrawn")
        return True

    def kill(self, entry: Entry, failure: Failure) -> None:
        """The server refused this entry, or dies of it: it is set aside, the rest continues."""
        self._end(entry, EntryState.DEAD, reason="dead", failure=failure)

    def lose(self, entry: Entry, reason: str) -> None:
        """It was handed out, is unconfirmed, and may not be repeated: its outcome is unknown."""
        self._end(entry, EntryState.UNKNOWN, reason=reason)

    def release(self, keep: int) -> None:
        """Free the room of what has been written, except the last `keep`: nothing will confirm it.

        It stays here until a pong shows that it left this machine. Beyond a bound the oldest ends
        as UNKNOWN.
        """
        count = size = 0
        for entry in islice(reversed(self.unconfirmed), keep, None):
            if not entry.holds_room:
                break
            entry.holds_room = False
            count += 1
            size += entry.size
        self.count -= count
        self.bytes -= size
        self.unshown += count
        self._unshown_bytes += size
        while self.unshown > MOST_UNSHOWN or self._unshown_bytes > self._policy.max_bytes:
            self.lose(self.unconfirmed[0], NOT_SHOWN)

    def shown_through(self, seq: int, generation: int, now: Now) -> None:
        """A pong to a ping behind the entry `seq`: what was written up to it left this machine."""
        unconfirmed, keys, size = self.unconfirmed, list[str](), 0
        while unconfirmed:
            entry = unconfirmed[0]
            # an entry that holds room may be acknowledged yet
            if entry.seq > seq or entry.generation != generation or entry.holds_room:
                break
            unconfirmed.popleft()  # not `_end`: this is done for each send (P11)
            size += entry.size
            keys.append(entry.key)
            entry.settle(EntryState.WRITTEN, reason=SHOWN)
            self._settled.append(entry)
        if keys:
            self.unshown -= len(keys)
            self._unshown_bytes -= size
            if self._suspects:
                self._suspects.difference_update(self._settled)
            self.doubt.shown(keys, now)

    def lose_unshown(self) -> None:
        """This connection has no pings: nothing will ever show what left this machine."""
        while self.unshown:
            self.lose(self.unconfirmed[0], NO_PINGS)

    def end_expired(self, entry: Entry) -> None:
        """End entries that wait to be sent and whose ttl has ended: EXPIRED if never handed out,
        UNKNOWN otherwise.
        """
        if entry.state is EntryState.QUEUED:
            self._end(entry, EntryState.EXPIRED, reason="expired")
        elif entry.state is EntryState.WRITTEN and entry in self.queued:
            self._end(entry, EntryState.UNKNOWN, reason="expired before it could be repeated")

    def _end(
        self,
        entry: Entry,
        state: EntryState,
        *,
        confirmation: Any = None,
        reason: str = "",
        failure: Failure | None = None,
    ) -> None:
        if entry.is_settled:
            return
        queue = (
            self.unconfirmed
            if self.unconfirmed and entry.seq <= self.unconfirmed[-1].seq
            else self.queued
        )
        if queue and queue[0] is entry:
            queue.popleft()
        else:
            try:
                queue.remove(entry)
            except ValueError:
                (self.queued if queue is self.unconfirmed else self.unconfirmed).remove(entry)
        self._release_of(entry)
        if entry.coalesce is not None and self._coalesce.get(entry.coalesce) is entry:
            del self._coalesce[entry.coalesce]
        self._suspects.discard(entry)
        entry.settle(state, confirmation=confirmation, reason=reason, failure=failure)
        self._settled.append(entry)
        if state is EntryState.UNKNOWN:
            self.doubt.unknown(entry)

    def _release_of(self, entry: Entry) -> None:
        if entry.holds_room:
            self.free(entry)
        else:
            self.unshown -= 1
            self._unshown_bytes -= entry.size

    # ---- losses and joins -------------------------------------------------------------------------------------

    def link_lost(
        self,
        failure: Failure,
        generation: int,
        requests: Iterable[Entry] = (),
        *,
        has_slept: bool = False,
    ) -> Entry | None:
        """The link ended: find poison, drop what was volatile.

        `requests`: what was asked on it and is unanswered. `has_slept`: this machine did, so the
        link was lost to its silence.

        Returns the entry that is under suspicion, if one is; DEAD if it was set aside.
        """
        is_silent = is_silence(failure, has_slept=has_slept)
        suspect = None if is_silent else self._poison(failure, generation, requests)
        for entry in [e for e in self.queued if e.volatile and e.state is EntryState.QUEUED]:
            self.drop(entry, "not connected")
        return suspect

    def _poison(self, failure: Failure, generation: int, requests: Iterable[Entry]) -> Entry | None:
        code, by = failure.details.get("close_code"), failure.details.get("close_by")
        if by != "peer" or code not in {1007, 1009, 1011}:
            return None
        sends = [entry for entry in self.unconfirmed if entry.generation == generation]
        written = sorted((*sends, *requests), key=lambda entry: entry.seq)
        if not written:
            return None
        suspect = max(written, key=lambda entry: entry.size) if code == 1009 else written[0]
        suspect.deaths += 1
        if code != 1009 and suspect.deaths < _POISON_DEATHS:
            # Others may have been in flight with it: from here on one at a time, until all of these
            # are settled.
            self._suspects.update(sends)
            return suspect
        suspect.is_poison = True
        if not suspect.is_request:
            self.kill(suspect, failure)
        return suspect

    def requeue(self, now: Now, *, same_epoch: bool, dedupes: bool = True) -> None:
        """After a join: what was handed out and is unconfirmed is repeated first, or ends UNKNOWN.

        `dedupes`: does this server run a message once that arrives twice?
        """
        again: list[Entry] = []
        for entry in self.written():
            reason = self._unrepeatable(entry, now, same_epoch=same_epoch, dedupes=dedupes)
            if reason is None:
                if not entry.holds_room:
                    self._release_of(entry)
                    self.hold(entry)
                    entry.holds_room = True
                again.append(entry)
            else:
                self.lose(entry, reason)
        self.unconfirmed.clear()
        self.queued = deque((*again, *(e for e in self.queued if e.state is EntryState.QUEUED)))

    def _unrepeatable(
        self, entry: Entry, now: Now, *, same_epoch: bool, dedupes: bool
    ) -> str | None:
        if entry.volatile:
            return "volatile"
        if entry.is_expired(now):
            return "expired before it could be repeated"
        if self._policy.on_unknown == "resend":
            return None
        if not same_epoch:
            return "the server is another one"
        if not dedupes:
            return "the server is not known to run a message once that arrives twice"
        return None if entry.age(now) < self._policy.resend_within else "too old to be recognised"

    def end_all(self) -> list[Entry]:
        """The client ends: what was never handed out is DROPPED, the rest is UNKNOWN.

        Returns them in order.
        """
        remaining = self.unsettled()
        for entry in remaining:
            (self.drop if entry.state is EntryState.QUEUED else self.lose)(entry, "closed")
        return remaining

    def keep_all(self, *, keeps_written: bool) -> list[Entry]:
        """The client ends, and the store keeps what it has accepted for the next one: each entry
        keeps its state. Returns them in order.

        Not `keeps_written`: the next one could only say that the outcome is unknown.
        """
        remaining = self.unsettled()
        for entry in remaining:
            if entry.state is EntryState.WRITTEN and (entry.volatile or not keeps_written):
                self.lose(entry, "closed")
            elif entry.volatile:
                self.drop(entry, "closed")
            else:
                self._end(entry, entry.state, reason="kept")
        return remaining

    def to_mark(self) -> int | None:
        """Return the number through which entries must be marked before the next is handed out.

        None if it is marked already.
        """
        if not self.may_hand_out or self.queued[0].seq <= self.cleared:
            return None
        size, through = 0, 0
        for entry in islice(self.queued, BATCH_FRAMES):
            size += entry.size
            if through and size > BATCH_BYTES:
                break
            through = entry.seq
        return through

    def restore(self, entries: Iterable[Entry]) -> None:
        """Take over what an earlier client of the same store left unsettled, in order."""
        for entry in sorted(entries, key=lambda entry: entry.seq):
            (self.unconfirmed if entry.state is EntryState.WRITTEN else self.queued).append(entry)
            self.hold(entry)
            if entry.expires is not None:
                self.deadlines.add(entry.expires.mono, entry)
            if entry.coalesce is not None and entry.state is EntryState.QUEUED:
                self._coalesce[entry.coalesce] = entry
