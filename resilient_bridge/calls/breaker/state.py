"""One circuit: its states, which calls it admits, and how outcomes change it. Pure.

A caller asks for a permit (`admit`) and returns it with the outcome of the call (`succeeded`,
`failed`, `released`; or `ended`, which finds out). The permit of a closed circuit is its era, a number that grows at every
change of state, so that the outcome of a call from an older era is recognised and dropped. The
permit of a probe is a negative number of its own with a lease: a probe that is lost or hangs loses
its permit when the lease ends, so nothing can keep the circuit half-open for ever.

`is_closed` and `tell_after` are plain attributes, read without the lock: a caller that sees
`is_closed` uses `era` as its permit, and a success that took less than `tell_after` seconds need
not be reported. Both may be stale by one step; the era catches that. `is_plain` and `is_silent`
mean that it is closed, and that no success need be reported, for a circuit without `slow_after`,
which does not track the calls under way.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakSet

import attrs

from ...locks import new_lock
from ...values.window import window_for
from ..decision import verdict_of
from ..rejections import CircuitOpenError


if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from datetime import timedelta
    from threading import Lock
    from typing import Literal, Protocol

    from ...failure import Failure
    from ..shared import State
    from .value import Breaker

    class UnderWay(Protocol):
        """A running call: when it started (monotonic seconds), and its permit."""

        @property
        def permit(self) -> int | None: ...
        @property
        def started(self) -> float: ...


_MAKING: Final = new_lock()
_LONGEST_HINT: Final = 1.0  # seconds: a probe may end at any time, long before its lease does
_NO_LEASES: Final[
    dict[int, float]
] = {}  # shared, and never written to: only a half-open circuit has leases


class CircuitState:
    """The circuit `key` with the numbers of its `settings`; times are monotonic seconds.

    `on_transition(circuit, previous, state, reason, now)` is called outside the lock, once per
    transition, in their order; `on_shadow(circuit, error)` for each call that a shadow would have
    rejected.
    """

    is_shared: ClassVar[bool] = False
    """Whether several processes decide about it together."""

    __slots__ = (
        "__weakref__",
        "_counted",
        "_is_telling",
        "_leases",
        "_lock",
        "_looked_at",
        "_next_overdue",
        "_on_shadow",
        "_on_transition",
        "_open_until",
        "_openings",
        "_probe",
        "_probes_passed",
        "_rng",
        "_untold",
        "_wait",
        "_window",
        "because",
        "era",
        "is_closed",
        "is_plain",
        "is_silent",
        "key",
        "overdue",
        "settings",
        "slow_after",
        "state",
        "tell_after",
        "under_way",
        "why",
    )

    def __init__(
        self,
        key: str,
        settings: Breaker,
        rng: random.Random,
        on_transition: Callable[[CircuitState, State, State, str, float], None],
        on_shadow: Callable[[CircuitState, CircuitOpenError], None] | None = None,
    ) -> None:
        self.key = key
        self.settings = settings
        self.state: State = "closed"
        self.era: int = 0
        self.why = ""  # the reason of the last opening or isolation
        self.because: Failure | None = None  # the failure that opened it, while that lasts
        self.is_closed = self.is_plain = self.is_silent = True
        self._lock: Lock | None = None  # made when it is first held: few circuits see a failure
        self._rng, self._on_transition, self._on_shadow = rng, on_transition, on_shadow
        self._untold: tuple[tuple[State, State, str, float], ...] = ()
        self._is_telling = False
        self._window = window_for(*_counts(settings), in_a_row=settings.in_a_row is not None)
        # Seconds: a call that took `slow_after` counts as a failure, a success that took `tell_after` is reported at all.
        self.slow_after = self.tell_after = inf
        # Only with `slow_after`: the calls under way, the oldest first.
        self.under_way: dict[UnderWay, None] | None = None
        # Under way and counted already: made with the first, because few circuits have one. Some never end.
        self.overdue: WeakSet[UnderWay] | None = None
        # In between none becomes overdue, so none is looked for: in a dict that is slow behind removed ones.
        self._looked_at, self._next_overdue = inf, -inf
        self._counted: int | None = 0  # the permit whose outcomes count
        self._openings = 0  # in a row: it ends when the circuit closes
        self._wait: float | None = None
        self._open_until = -inf
        self._probe = self._probes_passed = (
            0  # the permit of the latest one; how many have succeeded
        )
        self._leases: dict[int, float] = _NO_LEASES  # permit of a live probe: when its lease ends
        self._refresh()

    def _new_lock(self) -> Lock:
        """Make the lock; one, if several threads meet here."""
        with _MAKING:
            self._lock = self._lock or new_lock()
            return self._lock

    # ---- a call -------------------------------------------------------------------------------------------------

    def admit(self, now: float) -> int:
        """Return a permit, or raise CircuitOpenError with the seconds until the next try."""
        if self.is_closed:
            return self.era
        remaining = self._open_until - now
        if (
            remaining > 0
        ):  # true whatever another thread does now, and the usual answer in an outage
            if not self.settings.shadow:
                raise CircuitOpenError(self.key, "open", self.why, remaining, self.because)
            return self._reject("open", remaining)
        with self._lock or self._new_lock():
            if self.is_closed:
                return self.era
            is_due = self.state == "open" and now >= self._open_until
            if is_due:
                self._change("half_open", "reset_timeout_elapsed", now)
            permit = self._lease(now) if self.state == "half_open" else None
            state, hint = self.state, self._hint(now)
        if is_due:
            self._tell()
        return self._reject(state, hint) if permit is None else permit

    def _reject(self, state: State, hint: float | None, why: str | None = None) -> int:
        """Raise CircuitOpenError; a shadow reports it, and returns a permit that counts nowhere."""
        why = self.why if why is None else why
        if not self.settings.shadow or state == "isolated":
            # never out of a variable: the error's traceback would hold the frame that holds it
            raise CircuitOpenError(self.key, state, why, hint, self.because)
        if self._on_shadow is not None:
            self._on_shadow(self, CircuitOpenError(self.key, state, why, hint, self.because))
        return self.era  # of a circuit that is not closed

    def succeeded(self, permit: int, now: float, seconds: float) -> None:
        """The call ended well, after `seconds`; a slow one counts as a failure."""
        if seconds >= self.slow_after:
            self._count(permit, now, "slow_", None)
        elif permit < 0:
            self._probe_succeeded(permit, now)
        else:
            with self._lock or self._new_lock():
                if permit == self._counted:
                    is_calm = self._window.good(now)
                    if is_calm != (self.tell_after > -inf):
                        self._set_calm(is_calm)

    def failed(
        self,
        permit: int,
        now: float,
        seconds: float,
        critical: bool = False,
        because: Failure | None = None,
    ) -> None:
        """The call failed in a way that counts; `critical` opens the circuit at once."""
        self._count(permit, now, "slow_" if seconds >= self.slow_after else "", because, critical)

    def released(self, permit: int, now: float, seconds: float) -> None:
        """Release a call whose outcome says nothing (cancelled, ignored); slow counts as failed."""
        if seconds >= self.slow_after:
            self._count(permit, now, "slow_", None)
        elif permit < 0:
            with self._lock or self._new_lock():
                self._leases.pop(permit, None)

    def ended(  # noqa: PLR0917 -- how a call ended, and by whose numbers it counts
        self,
        permit: int,
        call: UnderWay,
        now: float,
        failure: Failure | None,
        breaker: Breaker,
        named: tuple[Any, ...],
    ) -> None:
        """The call ended in `failure`, or in an error that is none; `verdict_of` says if it counts."""
        seconds = now - call.started
        verdict = "neutral"
        try:
            if failure is not None:
                verdict = verdict_of(failure, breaker, named)
        except BaseException:  # an error in the user's predicate says nothing about the server
            self.released(permit, now, seconds)
            raise
        if verdict == "neutral":
            self.released(permit, now, seconds)
        else:
            self.failed(permit, now, seconds, critical=verdict == "critical", because=failure)

    # ---- calls that take long, of a timed circuit ---------------------------------------------------------------

    def began(self, call: UnderWay) -> None:
        """Track an admitted call, if calls of this circuit can be too slow."""
        if self.under_way is not None:
            self.under_way[call] = None

    def count_overdue(self, now: float) -> None:
        """Count each running call that has already taken too long, once."""
        if self._looked_at <= now < self._next_overdue:  # an earlier time is that of another clock
            return
        while self.under_way:
            with self._lock or self._new_lock():
                try:
                    oldest = next(iter(self.under_way), None)
                except RuntimeError:  # another thread has started a call in between
                    continue
                if oldest is None:
                    return
                if now - oldest.started < self.slow_after:
                    self._looked_at, self._next_overdue = now, oldest.started + self.slow_after
                    return
                self.under_way.pop(oldest, None)
                self.overdue = self.overdue or WeakSet()
                self.overdue.add(oldest)
            permit = oldest.permit
            if permit is not None:
                self.released(permit, now, now - oldest.started)

    def is_counted(self, call: UnderWay) -> bool:
        """Return whether a call that now ends was counted as overdue before; stop tracking it."""
        if not (self.under_way or self.overdue):
            return False
        with self._lock or self._new_lock():
            if self.overdue and call in self.overdue:
                self.overdue.remove(call)
                return True
            if self.under_way is not None:
                self.under_way.pop(call, None)
            return False

    # ---- by hand ------------------------------------------------------------------------------------------------

    def configure(self, settings: Breaker) -> None:
        """Replace the settings; state, outcomes in the window and running open time stay."""
        with self._lock or self._new_lock():
            if settings == self.settings:
                return
            if _counts(settings) != _counts(self.settings):
                in_a_row = settings.in_a_row is not None
                self._window = window_for(
                    *_counts(settings), in_a_row=in_a_row, before=self._window
                )
            self.settings = settings
            self._refresh()

    def reset(self, now: float) -> None:
        """Close it, forget what was counted, and let the open times start over."""
        self._set("closed", "manual_reset", now)

    def link_ready(self, now: float) -> None:
        """The link whose calls it guards is READY again: close it, unless it was set by hand."""
        if self.state in ("open", "half_open"):
            self._set("closed", "link_ready", now)

    def isolate(self, now: float) -> None:
        """Let nothing through until `reset`."""
        self._set("isolated", "isolated", now)

    def disable(self, now: float) -> None:
        """Let everything through and count nothing until `reset`."""
        self._set("disabled", "disabled", now)

    # ---- to look at ---------------------------------------------------------------------------------------------

    def retry_after(self, now: float) -> float | None:
        """Return the seconds until a call may be admitted; None if now, or if unknown."""
        with self._lock or self._new_lock():
            return self._hint(now)

    def rejects(self, moment: float) -> bool:
        """Return whether a call at that time is certainly rejected: open, or isolated."""
        is_open = self.state == "open" and moment < self._open_until and not self.settings.shadow
        return is_open or self.state == "isolated"

    def counts(self, now: float) -> tuple[int, int]:
        """Return (failed, seen) of the window; if not closed, of the calls that opened it."""
        with self._lock or self._new_lock():
            return self._window.counts(now if self.state == "closed" else None)

    # ---- with the lock held -------------------------------------------------------------------------------------

    def _lease(self, now: float) -> int | None:
        leases = self._leases
        for permit, ends in list(leases.items()):
            if ends <= now:
                del leases[permit]
        if len(leases) >= self._probe_limit():
            return None
        self._probe -= 1
        leases[self._probe] = now + self.settings.lease
        return self._probe

    def _probe_limit(self) -> int:
        """Return how many probes may run now, at least one.

        Probes that succeeded still count against `probes`, so that no more than `probes` calls
        decide one half-open period.
        """
        return max(1, self.settings.probes - self._probes_passed)

    def _end_lease(self, permit: int, now: float) -> bool:
        """End the lease; return whether it was still valid."""
        ends = self._leases.pop(permit, None)
        return ends is not None and now < ends

    def _hint(self, now: float) -> float | None:
        if self.state == "open":
            return max(0.0, self._open_until - now)
        if self.state == "half_open":
            ends = [end for end in self._leases.values() if end > now]
            if len(ends) >= self._probe_limit():
                return min(min(ends) - now, _LONGEST_HINT)
        return None

    def _change(self, state: State, reason: str, now: float) -> None:
        """Go to `state`; every permit from before is void."""
        transition: tuple[State, State, str, float] = (self.state, state, reason, now)
        self._untold = (*self._untold, transition)
        self.state = state
        self.era += 1
        self._leases = {} if state == "half_open" else _NO_LEASES
        self._probes_passed = 0
        if state != "open":
            self._open_until = -inf
        if state == "closed":
            self._window.clear()
            self._openings = 0
            self._wait = None
        if state in ("open", "isolated"):
            self.why = reason
        if state in ("closed", "isolated", "disabled"):
            self.because = None
        self._refresh()

    def _refresh(self) -> None:
        disabled = self.state == "disabled"
        closed = self.state == "closed"
        slow_after = self.settings.slow_after
        self.slow_after = inf if slow_after is None else slow_after
        if slow_after is None:
            self.under_way = None
        elif self.under_way is None:
            self.under_way = {}
        self._looked_at, self._next_overdue = inf, -inf
        self._counted = self.era if closed else None
        self.is_closed = disabled or closed
        self.is_plain = self.is_closed and self.under_way is None
        self._set_calm(disabled or (closed and self._window.is_quiet))

    def _set_calm(self, is_calm: bool) -> None:
        self.is_silent = is_calm and self.under_way is None
        self.tell_after = self.slow_after if is_calm else -inf

    def _open(self, reason: str, now: float, because: Failure | None) -> None:
        self._openings += 1
        self._wait = self.settings.open_for.next(self._openings, self._wait, self._rng)
        self._open_until = now + self._wait
        # Without its exception, whose frames would keep alive whatever the failed call worked on.
        self.because = None if because is None else attrs.evolve(because, cause=None, history=())
        self._change("open", reason, now)

    def _count(
        self,
        permit: int,
        now: float,
        prefix: str,
        because: Failure | None,
        is_critical: bool = False,
    ) -> None:
        with self._lock or self._new_lock():
            window = self._window
            if permit < 0:
                if not self._end_lease(permit, now):
                    return
                reason = prefix + window.probe_failed()
            elif permit != self._counted:
                return
            elif window.bad(now) or is_critical:
                reason = prefix + window.reason()
            else:
                if self.tell_after > -inf:
                    self._set_calm(False)
                return
            self._open("critical" if is_critical else reason, now, because)
        self._tell()

    def _probe_succeeded(self, permit: int, now: float) -> None:
        with self._lock or self._new_lock():
            if not self._end_lease(permit, now):
                return
            self._window.probe_succeeded()
            self._probes_passed += 1
            if self._probes_passed < self.settings.probes:
                return
            self._change("closed", "request_success", now)
        self._tell()

    def _set(
        self, state: Literal["closed", "isolated", "disabled"], reason: str, now: float
    ) -> None:
        with self._lock or self._new_lock():
            if state != self.state:
                self._change(state, reason, now)
            elif state == "closed":  # no transition, but calls under way belong to an old era now
                self.era += 1
                self._window.clear()
                self._refresh()
        self._tell()

    def _tell(self) -> None:
        """Report the queued transitions in order, in one thread, with those that others queue."""
        while True:
            with self._lock or self._new_lock():
                if self._is_telling or not self._untold:
                    return
                self._is_telling = True
                transition, *rest = self._untold
                self._untold = tuple(rest)
            try:
                self._on_transition(self, *transition)
            finally:
                self._is_telling = False


def _counts(settings: Breaker) -> tuple[int | timedelta, float, int]:
    """Return the settings that a window depends on."""
    return settings.window, settings.rate, settings.least
