"""Adaptive limits that the processes of many machines share: changed here first, then proposed.

No process can hold a limit that is a network away. So each has a copy, the store has a version, and
a change is a proposal: it is written if the version is still the one that the copy was made of. If
not, the copy is replaced by what the others wrote, what happened here since is done again, and
proposed again. A call that would get a place starts when the proposal with its place was written.

Rule: nothing here waits or sends. While the store does not answer, the limit goes on in this process
alone, from what it knew last and without the places of the others; what it learns meanwhile is
dropped when the store has something else.
"""

from __future__ import annotations

from bisect import insort
from copy import copy
from math import inf
from typing import TYPE_CHECKING, Any, Final

from ..shared import PRESENT, LimitProposal
from .machine import FORGOTTEN_AFTER, Ticket
from .shared_limits import SharedLimit, SharedLimits


if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Hashable

    from ..shared import (
        LimitDirectory,
        Question,
        RemoteLimitLine,
        RemoteLimitState,
        RemoteLimitView,
    )
    from .state import Limit
    from .value import AdaptiveLimit


_NOTHING: Final = Ticket(0.0)  # of a change that is not that of a call
_ADMITTED: Final = "admitted"


class _Drawn:
    """A random number that is drawn once, because a change may be made several times."""

    def __init__(self, rng: random.Random) -> None:
        self.number = rng.random()

    def random(self) -> float:
        return self.number


class RemoteLimit(SharedLimit):
    """One limit: a copy, and what happened here that the store does not have yet."""

    __slots__ = ("_changes", "_count", "has_changed", "is_known", "line", "looks_at", "used_at")

    def __init__(
        self,
        key: Hashable,
        at_once: float,
        now: float,
        settings: AdaptiveLimit,
        line: Callable[[RemoteLimit], RemoteLimitLine],
    ) -> None:
        super().__init__(key, at_once, now, settings)
        self.is_known = True  # whether this process knows what was learnt
        self.has_changed = False  # whether its share is another than that proposed last
        self.looks_at = -inf  # when to look what others have changed
        self.used_at = now  # when a call of this process has last looked
        # The changes that are not written yet: a method's name, its arguments, and the call as it was
        # before; or a permit, with the call that gets it.
        self._changes: list[tuple[str, Ticket, tuple[Any, ...]]] = []
        self._count = 0  # of all changes
        self.line: RemoteLimitLine = line(self)

    def _is_shared(self, now: float) -> bool:
        return self.line.is_up and now < self.refused_at + FORGOTTEN_AFTER

    # ---- what happens here ----------------------------------------------------------------------

    def _note(self, name: str, ticket: Ticket, *arguments: Any) -> None:
        self._changes.append((name, ticket, arguments))
        self._count += 1
        self.has_changed = True

    def succeeded(self, ticket: Ticket, now: float, *, is_stream: bool = False) -> None:
        """Count a call that the server took."""
        if self._is_shared(now):
            self._note("_succeeded", copy(ticket), now, is_stream)
        super().succeeded(ticket, now, is_stream=is_stream)

    def _succeeded(self, ticket: Ticket, now: float, is_stream: bool) -> None:
        streams = list(self._streams)  # the call itself is in it
        super().succeeded(ticket, now, is_stream=is_stream)
        self._streams = streams

    def refuse(
        self,
        ticket: Ticket,
        now: float,
        retry_after: float | None,
        rng: random.Random,
        is_shared: bool = False,
    ) -> None:
        """Count a refusal."""
        drawn: Any = _Drawn(rng)
        if self.line.is_up:
            self._note("_refuse", copy(ticket), now, retry_after, drawn, is_shared)
        super().refuse(ticket, now, retry_after, drawn, is_shared)

    def _refuse(self, ticket: Ticket, *arguments: Any) -> None:
        super().refuse(ticket, *arguments)

    def make_room(self, now: float) -> None:
        """Run fewer at once for a while."""
        if self._is_shared(now):
            self._note("_make_room", _NOTHING, now)
        super().make_room(now)

    def _make_room(self, _: Ticket, now: float) -> None:
        super().make_room(now)

    def heard(self, wait: float, now: float) -> None:
        """Shut the door for so long."""
        if self._is_shared(now):
            self._note("_heard", _NOTHING, wait, now)
        super().heard(wait, now)

    def _heard(self, _: Ticket, wait: float, now: float) -> None:
        super().heard(wait, now)

    def join(self, ticket: Ticket, now: float) -> None:
        """Put a call into the queue."""
        super().join(ticket, now)
        self.has_changed |= self.queue[0] is ticket

    def leave(self, ticket: Ticket, now: float) -> None:
        """Take a call out of the queue, or give back a place that it got in the same instant."""
        self.has_changed |= bool(self.queue) and self.queue[0] is ticket
        super().leave(ticket, now)

    def released(self, ticket: Ticket, now: float) -> None:
        """Give back a place."""
        self.has_changed |= ticket.has_permit
        super().released(ticket, now)

    def began_with_calls(self, number: int) -> None:
        """Note that so many calls are in flight that began before there was a limit."""
        self.has_changed = True
        super().began_with_calls(number)

    def earlier_ended(self, now: float) -> None:
        """Count the end of a call of this process that began before there was a limit."""
        self.has_changed = True
        super().earlier_ended(now)

    def _admit(self, ticket: Ticket, now: float, over: list[Ticket]) -> None:
        super()._admit(ticket, now, over)
        if self._is_shared(now):  # it starts when this was written
            over.pop()
            ticket.ended = ""
            self._note(_ADMITTED, ticket)
            if ticket.wake is not None:
                ticket.wake()  # it watches the time until then

    # ---- proposing ------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Ask what the limit is; nothing is known of it."""
        self.is_known = False
        self.has_changed = True
        self.end(now)

    def end(self, now: float) -> None:
        """Propose what was changed here; or look what others have changed, if it is time to."""
        seconds = max(0.0, self.refused_at + FORGOTTEN_AFTER - now)  # none: it is forgotten
        is_looking = bool(self.queue) and self.line.asked_at is None and now >= self.looks_at
        if not (self.has_changed or (is_looking and seconds)):
            return
        ahead = self.line.ahead
        self.has_changed = ahead is None
        proposal = None
        if ahead is not None:
            learnt = self._changes and self.is_known and seconds
            proposal = LimitProposal(
                number=self._count,
                numbers=self.numbers(ahead) if learnt else None,
                share=self.share(now, ahead),
                seconds=seconds,
            )
        self.line.propose(proposal)

    @property
    def is_lost(self) -> bool:
        """Whether it waits for an answer that will not come."""
        return not self.line.is_up and (bool(self._changes) or not self.is_known)

    def learn(self, view: RemoteLimitView | None, number: int | None, now: float) -> list[Ticket]:
        """Take an answer; return the calls that may start."""
        self.looks_at = self.look_at(now)
        running, earlier = self.running - self.other_running, self.earlier - self.other_earlier
        if view is None:
            if not self.is_known:
                self.refused_at = -inf  # so nothing is limited
            self.is_known = True
            starting = self._written(len(self._changes))
            self.see_none()
            self.recount(running, earlier, now)
            return starting
        starting = []
        if number is not None:
            starting = self._written(len(self._changes) - (self._count - number))
        if view.numbers:
            # what was proposed since then is not made of these numbers
            self.has_changed |= bool(self._changes)
            running -= self._take_back()
            self._replace(view.numbers, view.ahead)
        elif view.numbers is not None:
            self._is_nowhere(now)
        self.see(view.others, now + view.ahead, view.ahead)
        self.recount(running + self.other_running, earlier + self.other_earlier, now)
        if view.numbers:
            self._repeat()
        return starting

    def _written(self, number: int) -> list[Ticket]:
        """Drop so many changes, and return the calls that may start by them."""
        done, self._changes = self._changes[: max(0, number)], self._changes[max(0, number) :]
        starting = [call for name, call, _ in done if name is _ADMITTED and call.has_permit]
        return self._ended(starting, "admitted")

    def _take_back(self) -> int:
        """Put the calls into the queue again whose permits were not written; return how many."""
        tickets = [call for name, call, _ in self._changes if name is _ADMITTED and call.has_permit]
        self._changes = [each for each in self._changes if each[0] is not _ADMITTED]
        for ticket in tickets:
            ticket.has_permit = False
            insort(self.queue, ticket)
        return len(tickets)

    def _replace(self, numbers: tuple[float, ...], ahead: float) -> None:
        try:
            self.take(numbers, ahead)
        except (OverflowError, ValueError):  # not ours: begun anew
            if self.is_known:
                self._note("_again", _NOTHING)
            return
        self.is_known = True

    def _again(self, _: Ticket) -> None:
        """Change nothing, so that it is written."""

    def _is_nowhere(self, now: float) -> None:
        """The store has no such limit: it has lost it, or it is forgotten."""
        if not self.is_known:
            self.is_known, self.refused_at = True, -inf
        elif self._is_shared(now):
            self._note("_again", _NOTHING)

    def _repeat(self) -> None:
        """Make the changes again that the store does not have."""
        for name, ticket, arguments in self._changes:
            again = copy(ticket)
            before = self.running
            self.running = before + int(again.has_permit)
            getattr(self, name)(again, *arguments)
            self.running = before

    # ---- waiting --------------------------------------------------------------------------------

    def is_watched_by(self, ticket: Ticket) -> bool:
        """Return whether this waiting call has to watch the time: for an answer, too."""
        return ticket.has_permit or super().is_watched_by(ticket)

    def next_at(self, now: float) -> float:
        """Return when to look again, at the latest."""
        at, asked_at = super().next_at(now), self.line.asked_at
        return at if asked_at is None else min(at, asked_at + self.line.patience)

    def _has_to_wait(self) -> bool:
        return super()._has_to_wait() or not self.is_known


class RemoteLimits(SharedLimits):
    """The limits of one owner, or of one name, that all processes with the same store share."""

    __slots__ = ("directory",)

    def __init__(self, key: str, settings: AdaptiveLimit, store: RemoteLimitState) -> None:
        super().__init__(key, settings, store)
        # Now, when a policy is put around a function: a call has no time for what it imports.
        self.directory: LimitDirectory = store.limits()

    def _is_limited(self) -> bool:
        return self.directory.is_limited()

    def ask(self) -> Question[bool] | None:
        """Ask which limits are in force, if this process does not know."""
        return self.directory.ask() if self.is_common else None

    def _meet(self, key: Hashable, now: float) -> None:
        limit = self.by_key.get(key)
        is_new = limit is None or limit.is_unused(now)
        if is_new and self.directory.has(self.shared_name(key)):
            self._adopt(key, now)

    def _adopt(self, key: Hashable, now: float) -> None:
        limit: Any = self._new(key, 1, now)
        self._count_earlier(limit)
        self.by_key[key] = limit
        limit.look(now)

    def _new(self, key: Hashable, at_once: float, now: float) -> Limit:
        if not self.is_common:
            return super()._new(key, at_once, now)
        name = self.shared_name(key)

        def line(limit: RemoteLimit) -> RemoteLimitLine:
            def learn(view: RemoteLimitView | None, number: int | None) -> None:
                self._learn(limit, view, number)

            return self.directory.line(name, learn)

        return RemoteLimit(key, at_once, now, self.settings, line)

    def _learn(self, limit: RemoteLimit, view: RemoteLimitView | None, number: int | None) -> None:
        now = self.clock()
        with self._lock:
            starting = limit.learn(view, number, now)
        self._wake(limit, starting, now)
        if now - limit.used_at <= PRESENT:  # not for calls whose loop is blocked
            self._advance(limit, now)
        elif limit.has_changed:
            with self._held(limit, now):
                pass

    def enter(self, limit: Limit, ticket: Ticket, now: float) -> bool:
        """Return whether a call need not wait: it does, because the store is asked first."""
        return not isinstance(limit, RemoteLimit) and super().enter(limit, ticket, now)

    def advance(self, limit: Limit, now: float, asking: Ticket | None = None) -> float:
        """Wake the calls whose wait is over; return when to do that again."""
        if not isinstance(limit, RemoteLimit):
            return super().advance(limit, now, asking)
        limit.used_at = now
        if limit.is_lost:
            self._learn(limit, None, None)
        return self._advance(limit, now, asking)

    def _advance(self, limit: RemoteLimit, now: float, asking: Ticket | None = None) -> float:
        at = super().advance(limit, now, asking)
        asked_at = limit.line.asked_at
        if asked_at is not None and now - asked_at >= limit.line.patience:
            limit.line.late()
        return at

    def _report(self) -> None:
        """Do nothing: the store emits what happens to it."""
