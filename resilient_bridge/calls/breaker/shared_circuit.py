"""A circuit that several processes share.

This process's local circuit follows the state that the store decides.

Rule: while the store answers, nothing is decided locally. Calls are admitted by the last view
received, their outcomes are reported to the store, and the local window only records them. When the
store becomes unreachable, the local circuit therefore continues from the shared state. When the
store is back, its state replaces what this process decided alone.

Under virtual time the local circuit is used alone as well, because the store has a clock of its
own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs

from ...failure import Failure
from ...world import REAL
from ..waits import AnswerWait, is_real_time, waited_for
from .guard import BreakerGuard, circuit_of
from .state import CircuitState
from .value import rules_of


if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from typing import Literal

    from ..frame import CallFrame
    from ..guards import Wait
    from ..rejections import CircuitOpenError
    from ..shared import CircuitAnswer, CircuitView, Ending, Question, SharedState, State
    from .value import Breaker


class Permit(int):
    """The permit of the local circuit.

    With the era and probe number by which the store knows the call.
    """

    era: int
    probe: int

    @classmethod
    def of(cls, local: int, era: int, probe: int = 0) -> Permit:
        """Return the permit of a call admitted in this shared era, as this probe (0: not a probe)."""
        permit = cls(local)
        permit.era, permit.probe = era, probe
        return permit


class SharedCircuit(CircuitState):
    """The circuit `key`, shared by all processes that use the same key with the same `store`."""

    __slots__ = ("_failure", "_line", "store", "view")

    is_shared = True

    def __init__(
        self,
        key: str,
        settings: Breaker,
        rng: random.Random,
        on_transition: Callable[[CircuitState, State, State, str, float], None],
        store: SharedState,
        *,
        on_shadow: Callable[[CircuitState, CircuitOpenError], None] | None = None,
    ) -> None:
        super().__init__(key, settings, rng, on_transition, on_shadow)
        self.store = store
        self.view: CircuitView | None = None
        self._failure: Failure | None = None  # the last view reported
        self._line = store.circuit(key, rules_of(settings), _learner(self))

    # ---- a call -------------------------------------------------------------------------------------------------

    def admit(self, now: float) -> int:
        """Return a permit, or raise CircuitOpenError.

        Blocks while the store is asked, if it has to be.
        """
        found = self.try_admit(now)
        return found if isinstance(found, int) else self.settle(waited_for(found), now)

    def try_admit(self, now: float) -> int | Question[CircuitAnswer]:
        """Decide by the last view.

        Returns a permit, raises CircuitOpenError, or returns a question whose answer goes to
        `settle`.

        The store is asked when no views arrive for this circuit, when this process's own failures
        may have opened it, and for the permit of a probe.
        """
        line, view = self._line, self.view
        if not (line.is_up and is_real_time()):
            return super().admit(now)
        line.use()
        if view is None or not line.is_watched:
            return line.ask()
        unanswered = line.unanswered
        if unanswered >= view.margin:
            return line.ask()
        if self.is_closed:
            return Permit.of(self.era, view.era)
        remaining = self._open_until - now
        if remaining > 0 or self.state == "isolated":
            return self._reject(self.state, remaining if remaining > 0 else None)
        if self.state == "half_open" and not view.free:
            return self._reject("half_open", view.hint)
        return line.ask()

    def settle(self, answer: CircuitAnswer | None, now: float) -> int:
        """Return the permit, or raise CircuitOpenError, by the store's answer.

        Without an answer the local circuit decides.
        """
        if answer is None:
            return super().admit(now)
        view, probe = answer
        if probe:
            return Permit.of(self._local_permit(now), view.era, probe)
        if view.state in ("closed", "disabled"):
            return Permit.of(self.era, view.era)
        hints: dict[str, float] = {"open": view.remaining, "half_open": view.hint}
        return self._reject(view.state, hints.get(view.state), view.why)

    def succeeded(self, permit: int, now: float, seconds: float) -> None:
        if not self._is_led():
            super().succeeded(permit, now, seconds)
        elif seconds >= self.slow_after:
            self._tell_of(permit, now, "slow", "")
        elif isinstance(permit, Permit):
            view = self.view
            if permit.probe or view is None or not view.is_quiet or self._line.unanswered:
                self._tell_of(permit, now, "succeeded", "")

    def failed(
        self,
        permit: int,
        now: float,
        seconds: float,
        critical: bool = False,
        because: Failure | None = None,
    ) -> None:
        if not self._is_led():
            super().failed(permit, now, seconds, critical, because)
            return
        if because is not None:
            self._failure = attrs.evolve(because, cause=None, history=())
        ending: Ending = (
            "critical" if critical else "slow" if seconds >= self.slow_after else "failed"
        )
        self._tell_of(permit, now, ending, "" if because is None else because.code)

    def released(self, permit: int, now: float, seconds: float) -> None:
        if not self._is_led():
            super().released(permit, now, seconds)
        elif seconds >= self.slow_after:
            self._tell_of(permit, now, "slow", "")
        elif isinstance(permit, Permit) and permit.probe:
            self._tell_of(permit, now, "released", "")

    # ---- by hand ------------------------------------------------------------------------------------------------

    def configure(self, settings: Breaker) -> None:
        """Replace the settings, locally and in what is reported to the store from now on."""
        super().configure(settings)
        self._line.configure(rules_of(settings))

    def _set(
        self, state: Literal["closed", "isolated", "disabled"], reason: str, now: float
    ) -> None:
        """Set the state in the store, for all processes.

        This process alone uses it if the store does not confirm it.
        """
        if not (is_real_time() and waited_for(self._line.put(state)) is not None):
            super()._set(state, reason, now)

    def link_ready(self, now: float) -> None:
        """Leave it to its probes: one link of one process says nothing about those of the others."""

    # ---- to look at ---------------------------------------------------------------------------------------------

    def retry_after(self, now: float) -> float | None:
        view = self.view
        if self.state == "half_open" and view is not None and self._is_led():
            return view.hint or None
        return super().retry_after(now)

    def counts(self, now: float) -> tuple[int, int]:
        """Return how many of how many calls failed, in all processes."""
        view = self.view
        return (
            (view.failed, view.seen) if view is not None and self._is_led() else super().counts(now)
        )

    # ---- views from the store -----------------------------------------------------------------------------------

    def learn(self, view: CircuitView) -> None:
        """Apply a view; the store calls this in a thread of its own."""
        before = self.view
        is_new = before is not None and view.era != before.era
        now = REAL.monotonic()
        with self._lock or self._new_lock():
            if view.state != self.state:
                self._change(view.state, view.reason or "shared_state", now)
            elif is_new:  # it left this state and came back: calls under way belong to an old era
                self._change_back()
            if view.state == "open":
                self._open_until = now + view.remaining
            if view.state != "closed":
                self.why = view.why
            self._openings, self._wait = view.openings, view.wait
            if view.state in ("open", "half_open"):
                self.because = self._reason(view.because)
            self.view = view
        self._tell()

    def _change_back(self) -> None:
        self.era += 1
        if self.state == "closed":
            self._window.clear()
        elif self.state == "half_open":
            self._leases = {}
        self._refresh()

    def _reason(self, code: str) -> Failure | None:
        """Return the failure with this code.

        The one this process saw last, or else one from the table of codes.
        """
        for known in (self.because, self._failure):
            if known is not None and known.code == code:
                return known
        try:
            return Failure.of(code) if code else None
        except ValueError:
            return None

    # ---- inside -------------------------------------------------------------------------------------------------

    def _is_led(self) -> bool:
        """Return whether the store decides for this circuit now."""
        return self._line.is_up and is_real_time()

    def _local_permit(self, now: float) -> int:
        """Return a local permit for a probe that the store admitted, if it becomes unreachable."""
        with self._lock or self._new_lock():
            lease = self._lease(now) if self.state == "half_open" else None
            return self.era if lease is None else lease

    def _tell_of(self, permit: int, now: float, ending: Ending, code: str) -> None:
        """Report a call's outcome to the store and record it locally.

        A call that was admitted locally is not reported.
        """
        if not isinstance(permit, Permit) or self.state == "disabled":
            return
        with self._lock or self._new_lock():
            if permit < 0:
                self._leases.pop(int(permit), None)
            elif permit == self._counted:
                if ending == "succeeded":
                    self._window.good(now)
                else:
                    self._window.bad(now)
                self._set_calm(self._window.is_quiet)
        self._line.tell(permit.era, permit.probe, ending, code)


def _learner(circuit: SharedCircuit) -> Callable[[CircuitView], None]:
    """Return a callback that passes views to the circuit through a weak reference."""
    from weakref import ref

    found: Any = ref(circuit)

    def learn(view: CircuitView) -> None:
        if (one := found()) is not None:
            one.learn(view)

    return learn


# ---- the layer -------------------------------------------------------------------------------------------------------


class SharedBreakerGuard(BreakerGuard):
    """Asks the shared circuit before the call and reports the outcome after it.

    The call waits for the store only when the last view is not enough: no view for seconds, own
    failures that may have opened the circuit, or the permit of a probe.
    """

    __slots__ = ()

    may_wait = True

    def enter(self, attempt: CallFrame) -> Wait | None:
        now, shared = attempt.world.monotonic(), cast("SharedCircuit", circuit_of(attempt))
        shared.count_overdue(now)
        found = self.asked(attempt, shared.try_admit, now)
        if isinstance(found, int):
            self.admitted(attempt, found)
            return None
        return AnswerWait(found, partial(self._settle, attempt), attempt.remaining)

    def _settle(self, attempt: CallFrame, answer: CircuitAnswer | None) -> None:
        now, shared = attempt.world.monotonic(), cast("SharedCircuit", circuit_of(attempt))
        self.admitted(attempt, self.asked(attempt, shared.settle, answer, now))

    def under_way(self, circuit: CircuitState) -> int:
        view = cast("SharedCircuit", circuit).view
        return circuit.era if view is None else Permit.of(circuit.era, view.era)
