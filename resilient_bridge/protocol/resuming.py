"""The join of a session with a server that a dialect's functions speak to: accept, greet, ask,
receive, end in exactly one verdict.

What arrives meanwhile is held (`Replaying`); `recovery` judges it once. Rule: nothing reaches the
consumer before the verdict, except what provably continues where we stopped when more has arrived
than may be held.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from ..failure import ConfigError, Failure
from ..telemetry.events import BridgeState, Joined, Resumed, Verdict
from .border import resume_of
from .facts import Auth, Moved
from .frames import Body, message_from
from .join import Join
from .merge import Item
from .recovery import Hole, in_order, judge
from .rejoin import Rejoin
from .replaying import Replaying


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from .clock import Now
    from .expectations import Expectations
    from .fact_wire import FactWire
    from .facts import Hello, Record, Replayed
    from .join import LinkParts
    from .positioned import Positioned
    from .recovery import Incoming, Over, Recovery


_WORST_FIRST: Final = (Verdict.GAP, Verdict.UNKNOWN, Verdict.RECOVERED)


class Resuming(Join):
    """The join of one connection.

    `is_backfilled`: the user's own function fetches what was missed, and says when it is done.
    """

    def __init__(
        self,
        parts: LinkParts,
        wire: FactWire,
        positioned: Positioned | None,
        die: Callable[[Failure], None],
        greeting: Expectations | None,
    ) -> None:
        super().__init__(parts, die, greeting)
        self._wire, self._is_backfilled = wire, parts.is_backfilled
        self._token: str | None = None
        self._is_dying = False
        self.has_introduced = False  # has the server received our token?
        self._over: Over | None = None
        self._ask_ping: str | None = None
        self._quiet_at: float | None = None
        self._ends_at: float | None = None
        self._latest = inf  # when the replay ends, even if more of it keeps arriving
        self._stands_still_at = inf  # when it ends, if all that arrives is live
        self._asked_since = False  # was anything asked since the server named another log?
        # Without positions it is judged by the state before this connection, which may be the
        # first.
        self._rejoin = Rejoin(parts.inbound.watermark, parts.replay)
        self._replaying = None if positioned is None else Replaying(positioned, parts.replay)

    # ---- accepted ----------------------------------------------------------------------------------------------

    def record(self) -> Record:
        return self._in.watermark.record(self._dialect.positions)

    def open(self, token: str | None, now: Now) -> None:
        """The transport is connected.

        Where the dialect has no message to join with, acceptance is the join: from here on the
        server may have sent something.
        """
        self._in.watermark.asked_to_join = True
        self._token = token
        self._wait_from(now)
        if self._dialect.login == "first":
            self._authenticate()
        if not self._dialect.waits_for_hello:
            self.authenticated(now)

    def _authenticate(self) -> bool:
        """Authenticate; return False if the dialect has nothing to send without a token."""
        number = self._wire.number()
        self.has_introduced = self._token is not None
        return self._wire.express(
            Auth(token=self._token, record=self.record(), id=self._wire.ids(), number=number)
        )

    def on_challenge(self, now: Now) -> None:
        """The server requires authentication before it accepts us."""
        if self.state is BridgeState.AUTHENTICATING:
            self._wait_from(now)
            if not self._authenticate():
                text = "the server asks who we are, and there is no token"
                self._die(Failure.of("AUTH_FORBIDDEN", text, suggestions=("give token=",)))

    def on_hello(self, hello: Hello, now: Now) -> None:
        """The server has accepted us, and may name what it keeps for us."""
        if self._replaying is not None and self.is_open:
            self._replaying.greet(hello, self._in.watermark.accepted)
            self._asked_another_log(self._replaying, now)
        elif self._replaying is not None:
            self._replaying.positioned.greeted(hello)
        if self.state is BridgeState.AUTHENTICATING and self._dialect.waits_for_hello:
            self.authenticated(now)
        elif self.is_open:
            self._advance(now)

    def authenticated(self, now: Now) -> None:
        """Accepted: now the user may greet the server, and then the join begins."""
        if self._dialect.pings:
            self._wire.start_heartbeat(now)
        self._accepted(now)

    def join(self, now: Now) -> None:
        has_asked = self._ask()
        self.deadline = None
        replaying = self._replaying
        if replaying is None:
            self._resolve(now, "nothing")
            return
        policy = replaying.policy
        if self._rejoin.first and not (
            has_asked and (not policy.per_channel or replaying.channels)
        ):
            self._resolve(now, "nothing")
            return
        replaying.has_asked = has_asked
        self._move("joined", "joined", now)
        if policy.ends == "barrier":
            self._ask_ping = self._wire.ping("ask", now)
        self.awaits_backfill = self._is_backfilled
        if self._dialect.resume is not None and not has_asked and not self.record().positions:
            self._over = "nothing"  # nothing was requested, so nothing will be answered
        self._latest = now.mono + self._policy.max_seconds
        self._stands_still_at = now.mono + self._policy.timeout
        self._asked_another_log(replaying, now)
        self._came(now)
        self._advance(now)

    def _asked_another_log(self, replaying: Replaying, now: Now) -> None:
        """Where the server has named another log since we asked, what it answers is no replay of
        ours: live events do not prolong the wait.
        """
        is_asked_in_vain = replaying.is_contradicted and not self._asked_since
        if is_asked_in_vain and self._waits_for_quiet and self.state is BridgeState.REPLAYING:
            self._latest = min(self._latest, now.mono + replaying.policy.quiet)

    def _ask(self) -> bool:
        """Have the dialect send its request; return False if it has none."""
        if self._dialect.resume is None:
            return False
        try:
            asked = resume_of(self._dialect.resume, self.record())
        except ConfigError as error:
            self._die(error.failure)
            return False
        self._wire.control.extend(asked.frames)
        if self._replaying is not None:
            self._replaying.channels = tuple(asked.channels)
            # what this join asks, it asks of the log that the server has named
            self._asked_since = bool(asked.frames) and self._replaying.is_contradicted
        # whatever the greeting has stated since
        return bool(asked.frames) or self._in.watermark.asks_in_url

    def _lacks(self, now: Now) -> Failure:
        text = f"the server did not accept this connection within {self.waits(now):.3g} s, in the words of this dialect"
        return Failure.of("CONN_TIMEOUT", text)

    def forget_session(self) -> None:
        if self._replaying is not None and not self._replaying.others:
            self._replaying.forget("new_session")

    # ---- what is received
    # --------------------------------------------------------------------------------------

    def hold(self, heard: Incoming, now: Now) -> None:
        self._came(now)
        if self._replaying is None:
            event = heard.event
            self._rejoin.hold(Item(message_from(event.type, Body(event)), heard.text))
            is_full = self._rejoin.overflowed
        else:
            self._replaying.hold(heard)
            if self._replaying.goes_on(heard):
                self._stands_still_at = now.mono + self._policy.timeout
            is_full = self._replaying.is_full
        if is_full:
            self._overflow(now)
        elif self.state is BridgeState.REPLAYING:
            self._advance(now)

    def _overflow(self, now: Now) -> None:
        replaying = self._replaying
        if self.state is not BridgeState.REPLAYING or replaying is None:
            text = "more arrived before the join than the side buffer may hold"
            self._die(Failure.of("SYS_INBOX_FULL", text))
        elif self.awaits_backfill:
            self.backfill_ended(now, "side_buffer_full")
        elif not replaying.release(now):
            self._resolve(now, "overflow")

    def unreadable(self) -> None:
        """A part of what came could not be read: perhaps an event of the replay."""
        if self._replaying is not None:
            self._replaying.has_unreadable = True

    def begin_backfill(self) -> None:
        if self._replaying is not None:
            self._replaying.backfilled.clear()

    def backfilled(self, heard: Incoming, now: Now) -> bool:
        """The backfill has fetched an event. Returns whether that was the last that is needed."""
        if self._replaying is None or not self.awaits_backfill:
            return True
        self._came(now)
        self._replaying.backfilled.append(heard)
        return self._replaying.is_bridged

    def backfill_ended(self, now: Now, lost: str = "") -> None:
        """The backfill has ended; `lost`: why it could not fetch everything, if so."""
        if self.awaits_backfill and self._replaying is not None:
            self.awaits_backfill, self._replaying.lost_backfill = False, lost
            self._over = "backfill"
            self._advance(now)

    def on_replayed(self, fact: Replayed, now: Now) -> None:
        if self._replaying is not None:
            self._replaying.state(fact)
            self._advance(now)

    def on_pong(self, ping: str, now: Now) -> None:
        """Handle the answer to a ping of ours.

        The ping after the request ends the replay of a server that answers in order.
        """
        if ping == self._ask_ping and self.is_open:
            self._over = "barrier"
            self._advance(now)

    def _came(self, now: Now) -> None:
        policy = self._dialect.positions
        if policy is not None:
            self._quiet_at = now.mono + policy.quiet
            self._ends_at = min(now.mono + self._policy.timeout, self._latest)

    def receiving(self, since: float, now: Now) -> None:
        """Bytes of a data frame arrived: what is waited for may come behind it."""
        del since
        self._came(now)
        if self.deadline is not None:
            self.deadline = max(self.deadline, now.mono + self._timeout)

    # ---- when it is over ---------------------------------------------------------------------------------------

    @property
    def replay_deadline(self) -> float | None:
        """Return when the replay has taken too long (monotonic), or when it has been quiet for long
        enough.
        """
        if self.state is not BridgeState.REPLAYING or not self.is_open:
            return None
        if self._waits_for_quiet and self._quiet_at is not None and not self.awaits_backfill:
            return min(self._quiet_at, self._stands_still_at, self._latest)
        return self._ends_at

    @property
    def _waits_for_quiet(self) -> bool:
        policy = self._dialect.positions
        return policy is not None and policy.ends in {"quiet", "anchor"}

    def timed_out(self, now: Now) -> None:
        """The deadline has passed: what has arrived by now decides."""
        if self.awaits_backfill:
            self.backfill_ended(now, "backfill_timeout")
        elif self.state is BridgeState.REPLAYING:
            self._resolve(now, "quiet" if self._waits_for_quiet else "timeout")

    def _advance(self, now: Now) -> None:
        if self.is_open and self.state is BridgeState.REPLAYING and not self.awaits_backfill:
            over = self._over or (
                self._replaying.over() if self._replaying is not None else "nothing"
            )
            if over is not None:
                self._resolve(now, over)

    # ---- the verdict -------------------------------------------------------------------------------------------

    def _resolve(self, now: Now, over: Over) -> None:
        if not self.is_open or self._asks_again(over):
            return
        self.is_open, self.deadline = False, None
        is_other = False
        if self._replaying is None:
            self._without_positions(now)
        else:
            is_other = self._with_positions(self._replaying, over, now)
        self._in.watermark.joined, self._in.watermark.replaces = True, False
        self._flush(now, "merged", same_epoch=not is_other, new_session=is_other)

    def _asks_again(self, over: Over) -> bool:
        """Where live events come between those of a replay, request one without an end once more
        before anything of it counts.
        """
        replaying = self._replaying
        if replaying is None or self._rejoin.first or self._is_dying:
            return self._is_dying
        if not (over in {"timeout", "overflow"} and replaying.policy.interleaves):
            return False
        if replaying.positioned.was_asked_again():
            replaying.positioned.is_frozen = True
            return False
        self._is_dying = True
        self._die(
            Failure.of(
                "CONN_TIMEOUT", "the end of the replay did not come: it is asked for once more"
            )
        )
        return True

    def _with_positions(self, replaying: Replaying, over: Over, now: Now) -> bool:
        """Deliver what was received.

        Returns whether the server's log, or a channel's, is another one.
        """
        positioned, policy = replaying.positioned, replaying.policy
        evidence = replaying.evidence(over)
        is_other = bool(replaying.others)
        if self._rejoin.first:
            positioned.bookmark.epochs.update(replaying.epochs)
            if replaying.has_lost_start:
                positioned.report(Hole(Verdict.GAP, "position_gone"))
            self._first(in_order(evidence.heard, policy), positioned, now)
        else:
            recovery = judge(evidence, policy)
            since = self._in.last_timestamp
            replayed = positioned.deliver(recovery, replaying.epochs, now) + replaying.released
            self._report_recovery(recovery, replayed, since, now)
            is_other |= any(finding.is_other for finding in recovery.findings.values())
            # A server that continues a session names it before the events that were missed in it.
            if over in {"barrier", "backfill"} or (over == "stated" and policy.proof != "session"):
                positioned.is_sure()
        positioned.finish()
        positioned.bookmark.gone = ""
        return is_other

    def _first(self, heard: Sequence[Incoming], positioned: Positioned, now: Now) -> None:
        for each in heard:
            if each.is_marker and each.event.position is not None:
                positioned.moved(Moved(position=each.event.position, channel=each.event.channel))
                continue
            failure = positioned.live(each.event, each.text, now)
            if failure is not None:
                self._die(failure)
                break  # the events behind the hole come again
        self._emit(Joined(at=now.at, session_id=self._in.watermark.session_id))

    def _without_positions(self, now: Now) -> None:
        """What was missed is unknown.

        An event that is recognized by its id is not delivered twice.
        """
        self._rejoin.no_replay = True
        outcome = self._rejoin.resolve()
        since = self._in.last_timestamp
        self._in.merge(outcome, now)
        self._report(outcome, since, now)

    def _report_recovery(
        self, recovery: Recovery, replayed: int, since: datetime | None, now: Now
    ) -> None:
        findings = recovery.findings
        worst = min(findings.values(), key=lambda finding: _WORST_FIRST.index(finding.verdict))
        self._emit(
            Resumed(
                at=now.at,
                session_id=self._in.watermark.session_id,
                verdict=worst.verdict,
                reason=worst.reason,
                proof=worst.proof,
                replayed=replayed,
                since=since,
                channels={
                    name: found.verdict for name, found in findings.items() if name is not None
                },
            )
        )
