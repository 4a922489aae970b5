"""The position of a reader of server-sent events, and the decision after a loss: what to request,
what to drop, what cannot be known. Pure.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal

import attrs

from ..failure import Failure
from ..telemetry.events import Verdict
from .messages import Gap
from .reconnection import Reconnection
from .server_sent import DIGITS, EventStreamParser


if TYPE_CHECKING:
    import random
    from typing import TypeAlias

    from .clock import Now
    from .policies.reconnect import Reconnect
    from .reconnection import Decision
    from .server_sent import ServerSentEvent

    Meeting: TypeAlias = Literal["next", "duplicate", "jump"]


_REMEMBERED: Final = 1_000
_STEPS: Final = 2  # ids in a row that each grew by one: then the ids are treated as a count
# not allowed in a header value
_UNSENDABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


class Position:
    """The position of a reader in one stream, across all its connections: what it can request, and
    what cannot be known.

    The stream can resume at an id if the id came last, stands for one event only, and fits into a
    header. Ids are evidence too: after a resume, events that were delivered before are recognized
    by id, type and data and are duplicates until the first new one; and ids that counted up by one
    and then skip a number show a hole. The last 1,000 ids are remembered.
    """

    def __init__(self, last_event_id: str | None = None) -> None:
        self.last_event_id = last_event_id or ""
        self.duplicates = 0
        self._is_exact = bool(last_event_id)
        self._connection = 0
        self._catches_up = False  # since the resume no new event with an id has come
        self._repeats = False  # one id for several events
        # hash of an id → hash of its event, number of its connection
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._number = _number(self.last_event_id)
        self._steps: int | None = 0  # None: the ids do not count

    @property
    def header(self) -> bytes | None:
        """The value of `Last-Event-ID`; None if there is no id, or if a header cannot hold it."""
        text = self.last_event_id.strip(" \t")
        return None if not text or _UNSENDABLE.search(text) else text.encode()

    def connected(self) -> None:
        self._connection += 1
        self._catches_up = True

    def lost(self) -> str | None:
        """Return why events may be missing after this loss; None if the stream can resume at its
        id, or nothing had been received.
        """
        if self._connection == 0:
            return None
        if not self._is_exact or self.header is None:
            return "no_event_id"
        return "repeated_event_id" if self._repeats else None

    def meet(self, event: ServerSentEvent) -> Meeting:
        """Compare `event` with those before it: it is the next one, one that was delivered already,
        or one beyond a hole.
        """
        if not event.has_id:
            return "next"
        key, looks = hash(event.id), hash((event.type, event.data))
        known = self._seen.pop(key, None)
        self._seen[key] = looks, self._connection
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        if known is not None and known[1] == self._connection:
            self._repeats = True
        elif known is not None and self._catches_up and not self._repeats and known[0] == looks:
            self.duplicates += 1
            return "duplicate"
        resumes, self._catches_up = self._catches_up, False
        # An id that now stands for another event: the server counts from the start again.
        is_reused = resumes and known is not None and not self._repeats
        return "jump" if self._jumps(event.id, resumes=resumes) or is_reused else "next"

    def _jumps(self, event_id: str, *, resumes: bool) -> bool:
        before, self._number = self._number, _number(event_id)
        if self._steps is None:
            return False
        if before is not None and self._number == before + 1:
            self._steps += 1
            return False
        jumps = resumes and self._steps >= _STEPS
        self._steps = 0 if resumes or before is None else None
        return jumps

    def delivered(self, event: ServerSentEvent) -> None:
        self.last_event_id, self._is_exact = event.id, event.has_id

    def marked(self, checkpoint: str) -> None:
        """The server gave an id to this position in the stream, without an event."""
        self.last_event_id, self._is_exact = checkpoint, bool(checkpoint)


def _number(event_id: str) -> int | None:
    is_count = event_id.isascii() and event_id.isdigit() and len(event_id) <= DIGITS
    return int(event_id) if is_count else None


def refusal(status: int, content_type: str) -> Failure | None:
    """Return the failure of an answer that is neither an error nor an event stream, None for a
    stream. Its status makes it final.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if status == 200 and kind == "text/event-stream":
        return None
    hint = (
        "give the client follow_redirects=True, or the final url"
        if 300 <= status < 400
        else "check the url"
    )
    return Failure.of(
        "PROTO_INVALID_FRAME",
        f"answer is no event stream: wanted 200 with text/event-stream, got {status} with {kind[:80] or 'no content type'}",
        details={"http_status": status},
        suggestions=(hint,),
    )


class EventStream:
    """One stream over all its connections.

    Each event comes once, gaps at their position. It decides what follows a loss.

    `gap` is to be reported before the next event, and is None again after `gap_reported`. The
    reconnect policy is that of every link (`Reconnection`); the first event of a connection is its
    proof of health, as a pong is elsewhere.
    """

    def __init__(
        self,
        policy: Reconnect,
        rng: random.Random,
        *,
        last_event_id: str | None,
        max_event_bytes: int,
        can_refresh: bool = False,
    ) -> None:
        self.position = Position(last_event_id)
        self.reconnection = Reconnection(
            policy, rng, superseded=(), can_refresh=can_refresh, is_remade=False
        )
        self.gap: Gap | None = None
        self.held: ServerSentEvent | None = None  # the event behind a gap that it revealed itself
        self._policy = policy
        self._parser = EventStreamParser(
            last_event_id=self.position.last_event_id, max_event_bytes=max_event_bytes
        )

    def opened(self, now: Now) -> None:
        self._parser.restart(self.position.last_event_id)
        self.position.connected()
        self.reconnection.connected()
        self.reconnection.ready(now)

    def receive(self, data: bytes) -> None:
        """Take the next bytes; only when `take` has no event left."""
        self._parser.receive(data)

    def take(self) -> ServerSentEvent | None:
        """Return the next event, which now counts as read; None: report the gap, or read on.

        Raises ProtocolError for an event that is too big.
        """
        while self.gap is None:
            event, self.held = self.held, None
            if event is None:
                event = self._parser.next_event()
                if event is None:
                    if self._parser.checkpoint is not None:
                        self.position.marked(self._parser.checkpoint)
                    return None
                self.reconnection.pong()
                meeting = self.position.meet(event)
                if meeting == "duplicate":
                    continue
                if meeting == "jump":
                    self.held, self.gap = event, _unknown("event_id_jump")
                    return None
            self.position.delivered(event)
            return event
        return None

    def gap_reported(self) -> None:
        self.gap = None

    def lost(self, failure: Failure, now: Now, *, is_ours: bool = False) -> Decision:
        """Handle the end of a connection, or of an attempt to make one.

        `is_ours`: this client aborted it, which is no reason to give up.

        The wait is the policy's, or the server's `retry:` if that is longer. One beyond
        `max_retry_after` ends it, as a Retry-After does.
        """
        missing = self.position.lost()
        if missing is not None:
            self.gap = _unknown(missing)
        retry = (self._parser.retry or 0) / 1000
        if retry > self._policy.max_retry_after:
            failure = attrs.evolve(failure, retry_after=retry)
        decision = self.reconnection.lost(failure, now)
        # There is no session here that could be replaced: a peer that says the session is gone has
        # refused.
        is_final = not decision.retry or decision.new_session
        return decision._replace(
            retry=is_ours or not is_final,
            wait=max(decision.wait, min(retry, self._policy.max_retry_after)),
            # The table of losses describes WebSocket upgrades, which this is not.
            reason=decision.reason.replace("upgrade_rejected", "rejected"),
        )


def _unknown(reason: str) -> Gap:
    return Gap(Verdict.UNKNOWN, None, None, reason)
