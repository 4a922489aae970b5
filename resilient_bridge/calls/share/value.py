"""Which calls are one, and for how long an answer is as good as a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ...values.fields import as_seconds, called, count, function, seconds
from ..layer import Layer


if TYPE_CHECKING:
    from ...values.fields import Seconds


@attrs.frozen(repr=False, eq=False)
class Share(Layer):
    """Calls of one key that come together make one call, and each gets a copy of its answer.

        by_tenant = rb.calls.Share(key=lambda tenant, query: (tenant, query), stale_for=300)

        @rb.Policy(rb.Deadline(30), by_tenant, rb.Retry())(idempotent=True)
        async def search(tenant: str, query: str) -> list[str]: ...

    `key` gets the call's arguments and returns what can be hashed. It has to name everything that
    the answer depends on, a tenant or a user too: the call runs in a context of its own, in which
    the callers' context variables are not set.

    The call goes on when the caller that started it is cancelled, and is cancelled with its last
    caller. Each caller has its own deadline; the call has the longest of them. An answer may be
    given again for `fresh_for` seconds, and while calls fail in a way that passes, for `stale_for`
    seconds: `current_answer()` and an event say so. The `most` answers used last are cached.

    Only for async functions that may run twice and whose answers can be copied: ConfigError for any
    other, and for a bad field.
    """

    usual_position: ClassVar[int | None] = 1
    never_inside_retry: ClassVar[str] = (
        "Share outside of Retry: inside, each caller would repeat the call for itself"
    )
    only_inside_fallback: ClassVar[str] = (
        "Share inside of Fallback: outside, the answer of a rung would be cached as the function's"
    )
    needs_permission: ClassVar[bool] = True
    has_local_state: ClassVar[bool] = True

    key: Callable[..., Any] = attrs.field(
        validator=function("a function of the call's arguments that returns what names its answer")
    )
    stale_for: float = attrs.field(
        default=0.0, converter=as_seconds, validator=seconds(), kw_only=True
    )
    fresh_for: float = attrs.field(
        default=0.0, converter=as_seconds, validator=seconds(), kw_only=True
    )
    most: int = attrs.field(default=1024, validator=count, kw_only=True)

    if TYPE_CHECKING:

        def __init__(
            self,
            key: Callable[..., Any],
            *,
            stale_for: Seconds = 0.0,
            fresh_for: Seconds = 0.0,
            most: int = 1024,
        ) -> None: ...

    def summary(self) -> str:
        """Return what is shared, and how old an answer may be."""
        fresh = f"; an answer is given again for {self.fresh_for:g} s" if self.fresh_for else ""
        stale = f"; one of up to {self.stale_for:g} s in an outage" if self.stale_for else ""
        return f"calls of one key at the same time make one{fresh}{stale}"

    def __repr__(self) -> str:
        """Return the constructor's call, with what differs from its defaults."""
        return called(self)
