"""Durations as users give them: seconds or a timedelta."""

from __future__ import annotations

import math
from datetime import timedelta

from ..errors import config_error


def as_seconds(value: object, field: str) -> float | None:
    """`value` in seconds; None stays None. Raises ConfigError, naming `field`, for what is no duration."""
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, (int, float))
        or not math.isfinite(seconds)
        or seconds < 0
    ):
        raise config_error(field, "a number of seconds, not negative", value)
    return float(seconds)
