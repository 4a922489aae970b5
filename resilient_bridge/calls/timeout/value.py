"""How long one attempt of a call may take, and how long the whole call, repeats and waits included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ...failure.source_text import shown
from ...failure.teaching import taught
from ...values.fields import (
    LONGEST,
    Seconds,
    as_seconds,
    called,
    flag,
    is_number,
    optional,
    path_of,
    refuse,
    some_seconds,
    wants,
)
from ..layer import Layer


if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


def _as_steps(value: Seconds | tuple[Seconds, ...]) -> tuple[float, ...]:
    return tuple(map(as_seconds, value if isinstance(value, tuple) else (value,)))


@wants("seconds above 0, or a list of them, one an attempt")
def _check_steps(
    instance: object, attribute: attrs.Attribute[Any], value: tuple[object, ...]
) -> None:
    path, wanted = path_of(instance, attribute), f"seconds above 0, at most {LONGEST:.0f}"
    if not value:
        refuse(path, wanted, value)
    for index, step in enumerate(value):
        if not is_number(step) or not 0 < step <= LONGEST:
            refuse(path if len(value) == 1 else f"{path}[{index}]", wanted, step)


@attrs.frozen(repr=False, eq=False)
class Timeout(Layer):
    """Each attempt takes at most `seconds`, then fails with AttemptTimeoutError; it may have run.

        policy = rb.Policy(rb.Retry(attempts=3), rb.Timeout(10))

        @policy(idempotent=True)
        async def fetch(url: str) -> str: ...

    `seconds` may be a timedelta or a text, such as "10s".

    `Timeout.escalating(2, 5, 30)` gives the second and third attempt more; the last step is that of
    all later ones. A sync function cannot be stopped: with `thread=True` it runs in a thread that
    is left behind and reported, without it a Timeout on a sync function is refused. ConfigError
    names a bad field.

    The attempt of an async stream ends with its first item; `idle` then bounds the wait for each
    further one.
    """

    usual_position: ClassVar[int | None] = 6
    outside_retry: ClassVar[str] = (
        "Timeout outside of Retry: it bounds all attempts together, which is what Deadline is for; put it after Retry"
    )

    seconds: tuple[float, ...] = attrs.field(converter=_as_steps, validator=_check_steps)
    thread: bool = attrs.field(default=False, validator=flag, kw_only=True)
    idle: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=optional(some_seconds),
        kw_only=True,
    )

    @classmethod
    @taught
    def escalating(
        cls, *seconds: Seconds, thread: bool = False, idle: Seconds | None = None
    ) -> Self:
        """Return a timeout that grows from attempt to attempt, as listed."""
        return cls(seconds, thread=thread, idle=idle)

    def of(self, attempt: int) -> float:
        """Return the seconds that attempt number `attempt` (1, 2, 3 …) may take."""
        return self.seconds[min(attempt, len(self.seconds)) - 1]

    def summary(self) -> str:
        """Return how long an attempt may take."""
        idle = "" if self.idle is None else f"; a stream at most {self.idle:g} s between two items"
        return (
            "each attempt takes at most "
            + ", then ".join(f"{step:g} s" for step in self.seconds)
            + idle
        )

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        by = "Timeout" if len(self.seconds) == 1 else "Timeout.escalating"
        return called(self, *map(shown, self.seconds), by=by, seconds="")


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

    It bounds a block as well: `async with rb.Deadline(5):` cancels it after 5 s and raises
    DeadlineExceededError; `with rb.Deadline(5):` bounds the waits of the calls inside, of which
    none starts later. Of nested ones the shortest counts. One object may be entered by many tasks
    and threads at once, an async block in a task alone (else RuntimeError).
    """

    usual_position: ClassVar[int | None] = 0
    inside_retry: ClassVar[str] = (
        "Deadline inside of Retry: every attempt gets all of it, which is what Timeout is for; put it before Retry"
    )

    seconds: float = attrs.field(converter=as_seconds, validator=some_seconds)

    def __enter__(self) -> Self:
        """Begin a sync block. DeadlineExceededError if a deadline around it has passed already."""
        from .block import enter  # imported here: a value reads no clock

        enter(self, self.seconds, is_async=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the block; its error propagates."""
        from .block import leave

        leave(self, error)

    async def __aenter__(self) -> Self:
        """Begin an async block. DeadlineExceededError if a deadline around it has passed already."""
        from .block import enter

        enter(self, self.seconds, is_async=True)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the block. DeadlineExceededError in the place of its own cancellation."""
        from .block import leave

        leave(self, error)

    def summary(self) -> str:
        """Return how long the whole call may take."""
        return f"all attempts and waits together take at most {self.seconds:g} s"

    def __repr__(self) -> str:
        """Return the constructor's call."""
        return called(self, shown(self.seconds), seconds="")
