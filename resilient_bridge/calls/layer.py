"""The base of the policy values that a Policy is composed of."""

from __future__ import annotations

from typing import ClassVar

from ..values.fields import Value


__all__ = ["Layer"]


class Layer(Value):
    """One layer of a Policy: Retry, Breaker, Timeout, Deadline, Bulkhead, RateLimit, Fallback, or a Policy itself."""

    __slots__ = ()

    conditions_in: ClassVar[tuple[str, ...]] = ()
    """The fields that may hold conditions about a failure."""
    usual_place: ClassVar[int | None] = None
    """Where it stands in the order that makes sense, outermost first; None for what is taken apart, a Policy."""
