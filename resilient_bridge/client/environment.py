"""Where a client gets the wall clock and randomness from: the machine, or whatever a test put in their place."""

from __future__ import annotations

import random
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import attrs


if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ENVIRONMENT", "Environment", "current_environment"]


@attrs.frozen
class Environment:
    """`wall` returns epoch seconds, `rng` makes ids and jitter. The monotonic clock is the running loop's."""

    wall: Callable[[], float]
    rng: random.Random


#: Set by a simulation for the code it runs; None means the machine's own.
ENVIRONMENT: ContextVar[Environment | None] = ContextVar("resilient_bridge_environment", default=None)


def current_environment() -> Environment:
    """The environment of this context."""
    # The one place where the wall clock comes in; everything below takes `now`.
    return ENVIRONMENT.get() or Environment(time.time, random.Random())  # noqa: TID251
