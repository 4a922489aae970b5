"""The events of alerts, public in `rb.events`: a threshold was exceeded, or was not exceeded for
one whole window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from .event import Event


if TYPE_CHECKING:
    from ..errors import Failure

__all__ = ["AlertCleared", "AlertLevel", "AlertRaised", "AlertRule"]

AlertLevel: TypeAlias = Literal["warning", "critical"]
"""How bad an alert is."""
AlertRule: TypeAlias = Literal[
    "error_rate", "reconnect_failures", "session_drops", "hook_failures", "failure"
]
"""What an alert is about: the threshold of that name, or one failure."""


class AlertRaised(Event):
    """`rb.telemetry.Alerts` found `value` above `threshold`; reported once until it is cleared or gets worse.

    For the rule `failure` one failure is enough, the one in this event: its severity is critical or
    fatal.
    """

    rule: AlertRule
    level: AlertLevel
    value: float
    threshold: float
    failure: Failure | None = None


class AlertCleared(Event):
    """An alert of `level` is over: its threshold was respected for one whole window.

    `remaining` is `warning` if the warning still holds.
    """

    rule: AlertRule
    level: AlertLevel
    value: float
    remaining: Literal["", "warning"] = ""
