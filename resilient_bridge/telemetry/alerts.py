"""`rb.telemetry.Alerts`: thresholds evaluated in this process from events, and reported as events.

Rule: no thread and no timer. Rules are checked when an event is counted, and by `active()`; an idle
process clears an alert only by `active()`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakSet

from ..failure import Severity, config_error
from ..failure.teaching import taught
from ..locks import new_lock
from ..world import current_world
from .alert_state import AlertState
from .hub import emit, listen
from .metrics import CALLS, DROPS, ERRORS, HOOKS, RECONNECTS, Measures
from .work_events import AlertChanged


if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from ..failure import Failure
    from .alert_state import Change
    from .event import Event
    from .work_events import AlertLevel, AlertRule

    Thresholds = tuple[float, float] | None
    """The values above which a warning and a critical alert are raised; None: never."""


_ALARMING: Final = (Severity.CRITICAL, Severity.FATAL)
_NOTICED: Final = (Severity.ERROR, *_ALARMING)
_LONGEST_WINDOW: Final = 86_400
_NOT_MADE: Final = ("rejected", "cancelled")  # says nothing about the server
_in_use: Final[WeakSet[Alerts]] = WeakSet()


class Alerts:
    """Raises an alert when something fails too often, inside `with rb.telemetry.Alerts():`.

        with rb.telemetry.Alerts(error_rate=(0.05, 0.2), notify=print) as alerts:
            print(alerts.active())      # {}

    Each threshold is a pair, warning and critical; a value strictly above it raises an alert. None
    switches a rule off.

    - `error_rate`: the share of calls that failed, from `least_calls` calls on. Rejected and
      cancelled calls do not count.
    - `reconnect_failures`: failed connection attempts per minute.
    - `session_drops`: established connections that were lost, per minute.
    - `hook_failures`: hook events that were not valid, per minute.

    `window` is in seconds. A failure of severity critical or fatal raises an alert at once, once
    for each code.

    An alert is the event AlertChanged, "raised", a line of the log, and an entry of `active()`. The
    event "cleared" follows after one whole window below the threshold. `notify` is called with each failure of
    severity error or worse, in the thread where it happened; it must be quick. Raises ConfigError
    for wrong arguments.
    """

    @taught
    def __init__(
        self,
        *,
        error_rate: Thresholds = (0.05, 0.15),
        reconnect_failures: Thresholds = (10, 50),
        session_drops: Thresholds = (5, 20),
        hook_failures: Thresholds = (20, 100),
        window: float | timedelta = 60.0,
        least_calls: int = 20,
        notify: Callable[[Failure], object] | None = None,
    ) -> None:
        """Start with nothing counted."""
        seconds = window.total_seconds() if isinstance(window, timedelta) else window
        if type(seconds) not in (int, float) or not 1 <= seconds <= _LONGEST_WINDOW:
            raise config_error("Alerts.window", f"seconds from 1 to {_LONGEST_WINDOW}", window)
        if type(least_calls) is not int or least_calls < 1:
            raise config_error("Alerts.least_calls", "a whole number of at least 1", least_calls)
        if notify is not None and not callable(notify):
            raise config_error("Alerts.notify", "a callable that takes a Failure", notify)
        self._window = float(seconds)
        self._notify = notify
        self._lock = new_lock()
        self._measures = Measures()
        self._rules: dict[AlertRule, AlertState] = {}
        pairs: dict[AlertRule, Thresholds] = {
            "error_rate": error_rate,
            "reconnect_failures": reconnect_failures,
            "session_drops": session_drops,
            "hook_failures": hook_failures,
        }
        for rule, pair in pairs.items():
            if pair is not None:
                self._rules[rule] = self._state(rule, pair, least_calls)
        self._failures: dict[str, AlertState] = {}
        self._counted: set[AlertRule] = set()  # since the last check
        self._look_at = 0.0  # from this time on, rules without new counts are checked, too
        self._listening: AbstractContextManager[None] | None = None

    def _state(self, rule: AlertRule, pair: object, least: int) -> AlertState:
        is_share = rule == "error_rate"
        most = 1.0 if is_share else float("inf")
        numbers: Any = pair
        if (
            type(numbers) not in (tuple, list)
            or len(numbers) != 2
            or not all(isinstance(n, int | float) and 0 <= n <= most for n in numbers)
            or numbers[0] > numbers[1]
        ):
            raise config_error(
                f"Alerts.{rule}", "two numbers, warning and critical, or None", numbers
            )
        return AlertState(
            numbers[0],
            numbers[1],
            window=self._window,
            is_share=is_share,
            least=least if is_share else 0,
        )

    def __repr__(self) -> str:
        """Return the active alerts on one line."""
        standing = ", ".join(f"{rule} {level}" for rule, level in self._standing()) or "none"
        return f"<Alerts {standing}>"

    def __enter__(self) -> Self:
        """Start listening. ConfigError if it listens already."""
        if self._listening is not None:
            raise config_error("Alerts", "to be entered once at a time", "a second time")
        self._listening = listen(self._hear)
        self._listening.__enter__()
        _in_use.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening; active alerts are not cleared by that."""
        listening, self._listening = self._listening, None
        _in_use.discard(self)
        if listening is not None:
            listening.__exit__(kind, error, trace)

    def active(self) -> dict[AlertRule, AlertLevel]:
        """Check now, and return the active alerts by rule.

        `failure` is critical as long as one code is active.
        """
        self._look(current_world().monotonic())
        return dict(self._standing())

    def _standing(self) -> list[tuple[AlertRule, AlertLevel]]:
        standing: list[tuple[AlertRule, AlertLevel]] = []
        with self._lock:
            for rule, state in self._rules.items():
                if state.level:
                    standing.append((rule, state.level))
            if any(state.level for state in self._failures.values()):
                standing.append(("failure", "critical"))
        return standing

    def _hear(self, event: Event) -> None:
        now = current_world().monotonic()
        noticed: list[Failure] = []
        failure: Failure | None = getattr(event, "failure", None)
        with self._lock:
            for found in self._measures.of(event):
                if found.instrument is ERRORS and failure is not None:
                    noticed.append(failure)
                self._add(found.instrument, found.labels, now)
            is_due = bool(self._counted) or now >= self._look_at
        alarming = [one for one in noticed if one.severity in _ALARMING]
        if alarming or is_due:
            self._look(now, alarming, everything=now >= self._look_at)
        if self._notify is not None:
            for one in noticed:
                if one.severity in _NOTICED:
                    self._notify(one)

    def _add(self, instrument: object, labels: tuple[str, ...], now: float) -> None:
        if instrument is CALLS:
            if labels[1] not in _NOT_MADE:
                self._count("error_rate", now, bad=labels[1] == "failed")
        elif instrument is RECONNECTS:
            self._count("reconnect_failures", now, bad=labels[1] == "failed")
        elif instrument is DROPS:
            self._count("session_drops", now)
        elif instrument is HOOKS:
            self._count("hook_failures", now)

    def _count(self, rule: AlertRule, now: float, *, bad: bool = True) -> None:
        state = self._rules.get(rule)
        if state is not None:
            state.add(now, bad=bad)
            self._counted.add(rule)

    def _look(
        self, now: float, alarming: list[Failure] | None = None, *, everything: bool = True
    ) -> None:
        """Check the rules and emit the changes, outside of the lock, because a listener may call
        `active()`.
        """
        news: list[AlertChanged] = []
        with self._lock:
            if everything:
                self._look_at = now + self._window / 60
            looked_at: tuple[AlertRule, ...] = (
                tuple(self._rules) if everything else tuple(self._counted)
            )
            self._counted.clear()
            news += [
                _event(rule, change, None)
                for rule in looked_at
                if (change := self._rules[rule].look(now)) is not None
            ]
            causes = {one.code: one for one in alarming or ()}
            for code in causes:
                state = self._failures.setdefault(
                    code, AlertState(0, 0, window=self._window, is_share=False)
                )
                state.add(now, bad=1)
            for code, state in list(self._failures.items()):
                if (change := state.look(now)) is not None:
                    news.append(_event("failure", change, causes.get(code)))
                if not state.level:
                    del self._failures[code]
        for event in news:
            emit(event)


def _event(rule: AlertRule, change: Change, failure: Failure | None) -> AlertChanged:
    is_raised = bool(change.after) and (change.after == "critical" or not change.before)
    return AlertChanged(
        rule=rule,
        state="raised" if is_raised else "cleared",
        level=(change.after if is_raised else change.before) or "warning",
        value=change.value,
        threshold=change.threshold,
        failure=failure if is_raised else None,
        remaining="warning" if change.after and not is_raised else "",
    )


def standing_alerts() -> list[tuple[str, str]]:
    """Check, and return the active alerts of every Alerts of this process."""
    return sorted({pair for alerts in list(_in_use) for pair in alerts.active().items()})
