"""The events of alerts, public in `rb.events`: a threshold was exceeded, or was not exceeded for
one whole window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from .event import Event


if TYPE_CHECKING:
    from ..failure import Failure

__all__ = ["AlertChanged", "AlertLevel", "AlertRule"]

AlertLevel: TypeAlias = Literal["warning", "critical"]
"""How bad an alert is."""
AlertRule: TypeAlias = Literal[
    "error_rate", "reconnect_failures", "session_drops", "hook_failures", "failure"
]
"""What an alert is about: the threshold of that name, or one failure."""


class AlertChanged(Event):
    """`rb.telemetry.Alerts` has raised or cleared an alert of `level`; `value` is what it measured.

    `state` is "raised" when the value is above `threshold`; reported once until it is cleared or
    gets worse. For the rule `failure` one failure is enough, the one in this event: its severity is
    critical or fatal. It is "cleared" when the threshold was respected for one whole window;
    `remaining` is then `warning` if the warning still holds.
    """

    rule: AlertRule
    state: Literal["raised", "cleared"]
    level: AlertLevel
    value: float
    threshold: float
    failure: Failure | None = None
    remaining: Literal["", "warning"] = ""

    __state__ = "state"
    __words__: ClassVar = {"raised": "alert raised", "cleared": "alert cleared"}

    def __level__(self) -> str:
        return self.level if self.state == "raised" else "info"

    def __text__(self) -> str:
        if self.state == "cleared":
            return f"alert {self.rule} is over, {self.level}: {self.value:.3g}"
        why = "" if self.failure is None else f": {self.failure}"
        return (
            f"alert {self.rule}, {self.level}: {self.value:.3g} is above {self.threshold:.3g}{why}"
        )
