"""When to try again: schedule, exhaustion, credentials, and the cap on early losses.

Pure decisions.

Two counters, because they answer different questions. `attempt` is the position in the schedule; it
starts over only after a link that was READY for `stable_after` seconds and answered one ping, or,
if the schedule has jitter, for as long as its next wait, so accept-then-close never becomes a
storm. `failed` counts attempts in a row that never became READY; it decides when the user is
informed, or the client gives up.

Answers to a dial that come from something else than the server (511), or may do so after a link
that has proved its URL and credentials, do not use up `attempts` (`_elsewhere`). The latter are
counted by themselves (`_portals`), and are the end after a while.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from ..failure import Failure
from ..values.backoff import Backoff
from ..values.rule import most_specific
from .policies.losses import (
    LossAction,
    is_network_login,
    is_no_handshake,
    is_superseded,
    may_be_a_portal,
    meaning,
    reason_of,
    wants_slow_start,
)


if TYPE_CHECKING:
    import random

    from ..values.rule import Rule
    from .clock import Now
    from .policies.reconnect import Reconnect


_SLOW_START: Final = 5.0
_LASTED: Final = 1.0  # seconds: a link that ended earlier was accepted and closed
_REMEMBERED: Final = 16
_SIGN_IN: Final = "something else than the server may have answered, such as a captive portal: sign in to the network"


class Decision(NamedTuple):
    """The decision after a loss: wait and try, or give up with `failure`."""

    retry: bool
    wait: float
    attempt: int
    reason: str
    failure: Failure
    is_capped: bool = False
    suspended: bool = False
    new_session: bool = False
    reuse_address: bool = False


class Reconnection:
    """The memory of a client's losses.

    `can_refresh`: are credentials requested again on each attempt? `is_remade`: is the client
    object created again, too?
    """

    def __init__(
        self,
        policy: Reconnect,
        rng: random.Random,
        *,
        superseded: tuple[int, ...],
        can_refresh: bool,
        is_remade: bool = True,
        has_pings: bool = True,
    ) -> None:
        self._policy = policy
        self._is_remade = is_remade
        self._has_pings = has_pings
        self._rng = rng
        self._superseded = superseded
        self._can_refresh = can_refresh
        self.attempt = 0
        self.failed = 0
        self.last_loss: Failure | None = None  # why the link is not READY; None once it is again
        self._previous: float | None = None
        self._refreshed = False
        self._ever_ready = False
        self._connected = False
        self._ready_at: Now | None = None
        self._ponged = False
        self._down_since: Now | None = None
        self._had_hint = False  # how long to wait, in this outage
        self._tokens = self._most_tokens = float(policy.connect_burst)
        self._tokens_at: float | None = None
        self._rule_counts: dict[int, int] = {}
        self._failures: deque[Failure] = deque(maxlen=_REMEMBERED)  # of this outage
        # Where the last dial went, and where links have been READY. Set by who dials, if it can vary.
        self.target = ""
        self._proven: deque[str] = deque(maxlen=_REMEMBERED)
        self.sends_in_clear = False
        """Whether the next dial would show credentials to whatever answers it (ws://, http://)."""
        self.is_doubtful = False
        """Whether an answer in this outage may have come from something else than the server."""
        self._elsewhere = 0  # of the `failed` attempts, those with such an answer
        self._portals = 0  # such answers that would be final otherwise
        self._portal_since: Now | None = None

    def connected(self) -> None:
        self._connected = True

    def entered(self) -> None:
        """The user has been given a client: `first_connect` no longer applies."""
        self._ever_ready = True
        if self.target not in self._proven:
            self._proven.append(self.target)
        self._portals, self._portal_since, self.is_doubtful = 0, None, False

    def ready(self, now: Now, *, proves_credentials: bool = True) -> None:
        """The link is READY.

        `proves_credentials`: it has shown that they were accepted, so a later refusal is the first
        again.
        """
        self._ready_at = now
        self.entered()
        self._down_since = None
        self._refreshed = self._refreshed and not proves_credentials
        self.failed = self._elsewhere = 0
        self.last_loss = None

    def pong(self) -> None:
        self._ponged = True

    def suspends_at(self) -> float | None:
        """Return when the outage will outlive the session's grace (monotonic)."""
        return None if self._down_since is None else self._down_since.mono + self._policy.grace

    def lost(
        self, failure: Failure, now: Now, *, poison: str | None = None, ghost: bool = False
    ) -> Decision:
        """A connection, or an attempt to make one, ended.

        `poison`: the type of a message of ours that is under suspicion; the link is tried again
        without it, or with it alone.

        `ghost`: an earlier connection of ours ended without the server's knowledge, so it may be
        what superseded us: a join that was still on its way. Then the client joins once more; any
        other takeover is final.
        """
        rule = most_specific(self._policy.rules, failure)
        action = self._action(
            failure, is_ruled=rule is not None, is_suspect=poison is not None, ghost=ghost
        )
        is_elsewhere = is_network_login(failure)
        if action is LossAction.FAIL and self._may_be_a_portal(failure, now):
            is_elsewhere = True
            failure = attrs.evolve(failure, suggestions=(*failure.suggestions, _SIGN_IN))
            action = self._action_for_a_portal(now)
        elif is_elsewhere and self.sends_in_clear and rule is None:
            action = LossAction.FAIL
        self.is_doubtful |= is_elsewhere or is_no_handshake(failure)
        self.last_loss = failure
        reason = reason_of(failure) if poison is None else f"poison({poison})"
        if reason == "connection_lost" and not self._connected:
            reason = "connect_failed"
        lasted = 0.0 if self._ready_at is None else now.mono - self._ready_at.mono
        down_since, died_young = self._book(now, is_elsewhere=is_elsewhere)
        self._failures.append(failure)
        # How long something else than the server asks to wait says nothing about the server.
        hint = None if is_elsewhere else _hint(failure, now)
        final = self._final(action, failure, reason, rule, hint)
        if final is not None:
            return final
        self.attempt += 1
        wait = self._wait(failure, rule, hint, lasted)
        cap = self._rate_cap(now.mono) if died_young else 0.0
        out = self._policy.attempts is not None and self.failed >= self._policy.attempts
        return Decision(
            True,
            max(wait, cap),
            self.attempt,
            reason,
            failure,
            is_capped=cap > wait,
            suspended=out or now.since(down_since) >= self._policy.grace,
            new_session=action is LossAction.NEW_SESSION,
            reuse_address=self.attempt in self._policy.reuse_address_on
            and failure.code == "CONN_TIMEOUT",
        )

    def _action(
        self, failure: Failure, *, is_ruled: bool, is_suspect: bool, ghost: bool
    ) -> LossAction:
        if is_ruled or (ghost and is_superseded(failure, self._superseded)):
            return LossAction.RECONNECT
        action = meaning(
            failure,
            self._superseded,
            poisoned=is_suspect,
            was_open=self._connected,
            is_remade=self._is_remade,
        )
        if action is LossAction.REFRESH:
            if self._refreshed or not self._can_refresh:
                action = LossAction.FAIL
            self._refreshed = True
        if not self._ever_ready and self._policy.first_connect == "raise":
            return LossAction.FAIL
        return action

    def _may_be_a_portal(self, failure: Failure, now: Now) -> bool:
        """Return whether a lasting failure is the answer to a dial that may not be the server's.

        A link that was READY at this address has proved the URL and the credentials.
        """
        if self._connected or self.target not in self._proven or self.sends_in_clear:
            return False
        certificates = self._policy.retry_certificates
        return may_be_a_portal(failure, now.wall, certificates=certificates)

    def _action_for_a_portal(self, now: Now) -> LossAction:
        """Count one; the end is when they have come for `grace`, and at least `attempts` times."""
        self._portals += 1
        self._portal_since = self._portal_since or now
        is_late = now.since(self._portal_since) >= self._policy.grace
        is_over = is_late and self._portals >= (self._policy.attempts or 0)
        return LossAction.FAIL if is_over else LossAction.RECONNECT

    def _book(self, now: Now, *, is_elsewhere: bool) -> tuple[Now, bool]:
        """Count this loss.

        Returns since when the link is down, and whether the connection was lost early.
        """
        was_ready, stable = self._ready_at is not None, self._is_stable(now)
        died_young = self._connected and not stable
        self._connected, self._ready_at, self._ponged = False, None, False
        if stable:
            self.attempt, self._previous = 0, None
            self._rule_counts.clear()
            self._tokens = self._most_tokens = float(self._policy.connect_burst)
        if self._down_since is None:
            self._down_since = now
            self._had_hint = False
            self._failures.clear()
        elif not was_ready:
            self.failed += 1
            self._elsewhere += is_elsewhere
        return self._down_since, died_young

    def _final(
        self,
        action: LossAction,
        failure: Failure,
        reason: str,
        rule: Rule | None,
        hint: float | None,
    ) -> Decision | None:
        if action is LossAction.FAIL:
            return Decision(False, 0.0, self.attempt, reason, failure)
        if hint is not None and hint > self._policy.max_retry_after:
            final = attrs.evolve(failure, retry_after=hint, stopped="retry_after")
            return Decision(False, 0.0, self.attempt, reason, final)
        if self._is_exhausted(rule):
            return Decision(False, 0.0, self.attempt, "exhausted", self._exhausted(failure))
        return None

    def _is_stable(self, now: Now) -> bool:
        return (
            self._ready_at is not None
            and (self._ponged or not self._has_pings)
            and now.mono - self._ready_at.mono >= self._policy.stable_after
        )

    def _is_exhausted(self, rule: Rule | None) -> bool:
        attempts = self._policy.attempts
        limit = rule.attempts if rule is not None else None
        if limit is not None:
            count = self._rule_counts[id(rule)] = self._rule_counts.get(id(rule), 0) + 1
            if count > limit:
                return True
        return (
            self._policy.on_exhausted == "raise"
            and attempts is not None
            and self.failed - self._elsewhere >= attempts
        )

    def _exhausted(self, failure: Failure) -> Failure:
        return Failure.of(
            "CONN_RECONNECT_EXHAUSTED",
            f"gave up after {self.failed} connection attempts; the last one: {failure.message}",
            cause=failure.cause,
            history=tuple(self._failures),
            stopped="attempts",
        )

    def _wait(
        self, failure: Failure, rule: Rule | None, hint: float | None, lasted: float
    ) -> float:
        backoff = (
            rule.backoff
            if rule is not None and isinstance(rule.backoff, Backoff)
            else self._policy.backoff
        )
        wait = backoff.next(self.attempt, self._previous, self._rng)
        if backoff.is_random and lasted >= max(wait, _LASTED):
            # The schedule asks for no more than this between two connections: a server that is
            # restarted every few seconds is no storm. A specification's delays stay exact.
            self.attempt, wait = 1, backoff.next(1, None, self._rng)
        self._previous = wait
        if hint is not None:
            # The first hint of an outage is the server's plan for us, and kept as it is. A server
            # that repeats the same hint has no plan, so our own jitter is added. A schedule without
            # jitter keeps its waits.
            if not backoff.is_random:
                wait = max(wait, hint)
            else:
                wait = hint if hint > 0 and not self._had_hint else hint + wait
            self._had_hint = True
        elif wants_slow_start(failure):
            wait = max(wait, _SLOW_START * self._rng.uniform(1.0, 1.5))
        return wait

    def _rate_cap(self, mono: float) -> float:
        """Charge one connection that was lost early; return how long until the next may be made.

        Refused attempts cost nothing.
        """
        per_second = self._policy.connects_per_minute / 60
        if self._tokens_at is not None:
            self._tokens = min(
                self._most_tokens, self._tokens + (mono - self._tokens_at) * per_second
            )
        self._tokens_at = mono
        self._tokens -= 1
        if self._tokens >= 1:
            return 0.0
        self._most_tokens = 1.0  # the burst is spent; only a stable link gives it back
        return (1 - self._tokens) / per_second


def _hint(failure: Failure, now: Now) -> float | None:
    """Return how long the server asked to wait: seconds, or until a moment of the wall clock."""
    moment = failure.details.get("retry_at")
    # checked before the seconds: those count from when the failure was classified
    if isinstance(moment, (int, float)):
        return max(0.0, moment - now.wall)
    return failure.retry_after
