"""When a server that ended is started again: backoff and circuit breaker. No I/O, no clock.

Rule: a session that has answered a call has proven that the server works. A session that ends
before counts as a failure of the circuit, and the next start waits longer. So a crash loop opens
the circuit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...calls.ports import CircuitState
from ...failure import CircuitOpenError, Failure
from ...values.fields import LONGEST


if TYPE_CHECKING:
    import random

    from .options import Sidecar
    from .state import State
    from .upstream import Loss


_TRIES: Final = 6  # starts within the patience of a call, at least
_MOST_ASKED: Final = (
    120.0  # seconds of a Retry-After that are waited: a probe every two minutes harms nobody
)


class Restarts:
    """The starts of one server. Times are monotonic seconds, given by the caller."""

    def __init__(self, options: Sidecar, rng: random.Random) -> None:
        self._backoff = options.backoff
        self._rng = rng
        self._circuit = CircuitState(
            # A start keeps its permit until its session has answered or ended.
            "server",
            options.circuit.evolve(lease=LONGEST),
            rng,
            _ignore,
        )
        self._permit: int | None = None
        self._failed = 0  # for the backoff: ends in a row, from that of a session that worked
        self._previous: float | None = None
        self.attempts = 0  # starts and probes ever
        self.next_at: float | None = None  # when the next start is due; None while none is
        self._soon_at = 0.0  # when the next start is due if a call waits for it
        self._longest = options.patience / _TRIES
        self.is_failing = False  # the last session ended before it worked

    def begin(self, now: float) -> None:
        self.next_at = None
        self.attempts += 1
        try:
            self._permit = self._circuit.admit(now)
        except CircuitOpenError:
            self._permit = None

    def worked(self, now: float) -> None:
        self._failed, self._previous, self.is_failing = 0, None, False
        if self._permit is not None:
            self._circuit.succeeded(self._permit, now, 0.0)
            self._permit = None

    def ended(self, loss: Loss, now: float, *, has_worked: bool, is_away: bool = False) -> float:
        """Record that a session ended or was not opened; return when the next start is due.

        `is_away`: nothing listens at the address of a server that existed before. That is no
        failure of the circuit, so calls wait.
        """
        if has_worked:
            self.worked(now)
        elif self._permit is not None and is_away:
            self._circuit.released(self._permit, now, 0.0)
        elif self._permit is not None:
            self._circuit.failed(
                self._permit, now, 0.0, because=Failure.of("CONN_RESET", loss.reason)
            )
        self._permit = None
        self.is_failing = not has_worked
        self._failed = 1 if has_worked else self._failed + 1
        wait = self._backoff.next(self._failed, self._previous, self._rng)
        self._previous = wait
        asked = min(loss.retry_after or 0.0, _MOST_ASKED)
        least = max(asked, self._circuit.retry_after(now) or 0.0)
        self.next_at = now + max(wait, least)
        self._soon_at = now + max(min(wait, self._longest * self._rng.uniform(0.75, 1.0)), least)
        return self.next_at

    def due(self, state: State) -> float | None:
        """Return when the next start is due; None if none is.

        While a call waits, the backoff is limited to a part of `patience`.
        """
        if self.next_at is None or not state.is_awaited:
            return self.next_at
        return min(self.next_at, self._soon_at)

    def pause(self, tries: int) -> float:
        """Return the seconds until a request is repeated in a live session, after `tries` tries."""
        return self._backoff.next(tries, None, self._rng)

    def open_for(self, now: float) -> float | None:
        """Return for how many seconds calls are refused at once; None while they may wait."""
        if self._circuit.is_closed:
            return None
        if self._circuit.state == "half_open":
            return None  # one start is in progress, and its result decides
        return max(self._circuit.retry_after(now) or 0.0, 0.0) or None


def _ignore(*_: object) -> None:
    """Ignore a change of the circuit: its state is polled."""
