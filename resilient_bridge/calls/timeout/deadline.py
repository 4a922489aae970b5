"""How long a call may take in total, repeats and waits included."""

from __future__ import annotations

from typing import ClassVar

import attrs

from ...failure.source_text import shown
from ...values.fields import as_seconds, called, some_seconds
from ..layer import Layer


@attrs.frozen(repr=False, eq=False)
class Deadline(Layer):
    """All attempts and waits together take at most `seconds`, then DeadlineExceededError.

        policy = rb.Policy(rb.Deadline(30), rb.Retry(attempts=4))

        @policy(idempotent=True)
        async def fetch(url: str) -> str: ...

    `seconds` may be a timedelta or a text, such as "10s".

    No wait starts that could not end before it. Policies inside inherit what is left, and the
    callee reads it from `current_attempt().remaining`. A sync call is not interrupted: its attempts
    and waits are bounded. ConfigError names a bad field.
    """

    usual_position: ClassVar[int | None] = 0
    inside_retry: ClassVar[str] = (
        "Deadline inside of Retry: every attempt gets all of it, which is what Timeout is for; put it before Retry"
    )

    seconds: float = attrs.field(converter=as_seconds, validator=some_seconds)

    def summary(self) -> str:
        """Return how long the whole call may take."""
        return f"all attempts and waits together take at most {self.seconds:g} s"

    def __repr__(self) -> str:
        """Return the constructor's call."""
        return called(self, shown(self.seconds), seconds="")
