"""When a second request is raced against a slow first one, and how many of them there may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ...failure.source_text import shown
from ...failure.what import is_function
from ...values.fields import as_seconds, called, count, fits, optional, share, some_seconds
from ..layer import Layer


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ...values.fields import Seconds


@attrs.frozen(repr=False, eq=False)
class Hedge(Layer):
    """Send the request again while the first one is slow; the first success wins.

        policy = rb.Policy(rb.Retry(), rb.Timeout(30), rb.calls.Hedge(after=2))

        @policy(idempotent=True)      # both may run, at the same time
        async def read(url: str) -> str: ...

    A further request starts when `after` seconds have passed (a timedelta or "2s" will do), the
    next one when as many have passed again, `most` at most; None: after the time within which 95 %
    of the last 200 answers came, once there have been 20. At most `budget` of all requests are
    further ones. The others are cancelled: whether they ran, and what they cost, is unknown. A
    failure that a repeat cannot help ends the race; of others the last request's is waited for.

    With `to` the further requests go to that function instead, with the same arguments: another
    region, mirror or model. Only a success is an answer then: a failure there is never that of the
    call, and neither is told to the circuit or a limit.

    Only for async functions and streams (until their first item) that may run twice: ConfigError
    for any other, for a `to` of another kind or with other arguments, and for a bad field.
    """

    usual_position: ClassVar[int | None] = 7
    needs_permission: ClassVar[bool] = True
    only_innermost: ClassVar[bool] = True
    has_local_state: ClassVar[bool] = True

    after: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=optional(some_seconds),
    )
    most: int = attrs.field(default=1, validator=count, kw_only=True)
    budget: float = attrs.field(default=0.05, validator=share, kw_only=True)
    to: Callable[..., Awaitable[Any] | AsyncIterator[Any]] | None = attrs.field(
        default=None,
        validator=optional(
            fits(
                "an async function with the arguments of the call",
                lambda to: is_function(to) and not isinstance(to, type),
            )
        ),
        kw_only=True,
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            after: Seconds | None = None,
            *,
            most: int = 1,
            budget: float = 0.05,
            to: Callable[..., Awaitable[Any] | AsyncIterator[Any]] | None = None,
        ) -> None: ...

    def summary(self) -> str:
        """Return when further requests start, and how many."""
        when = "95 % of the answers come" if self.after is None else f"{self.after:g} s"
        further = "one request more" if self.most == 1 else f"up to {self.most} requests more"
        if self.to is not None:
            further = f"{further}, to {shown(self.to)},"
        return f"{further} after {when}, at most {self.budget:.4g} of all; the first success wins"

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        return called(self, *(() if self.after is None else (shown(self.after),)), after="")
