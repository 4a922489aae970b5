"""The share of calls that may be repeats, whatever is allowed to a single call.

Rule: numbers only. The tokens are kept in a registry by key, so that they survive a change of the
numbers.
"""

from __future__ import annotations

import attrs

from ...values.fields import Value, number, refuse, state_key


@attrs.frozen(kw_only=True, repr=False, eq=False)
class RetryBudget(Value):
    """At most `ratio` repeats per call, and `floor` more in any 10 s.

        budget = rb.RetryBudget(ratio=0.1, key="search")
        policy = rb.Policy(rb.Retry(attempts=4, budget=budget))

    Raises ConfigError that names a bad field.

    An outage then multiplies the load by about 1 + `ratio`, and not by `Retry.attempts`. The
    `floor` is for callers with few calls. `key` shares one budget between policies; without it, it
    belongs to what the Retry protects.
    """

    ratio: float = attrs.field(default=0.2, validator=number(least=0))
    floor: float = attrs.field(default=10, validator=number(least=0))
    key: str | None = attrs.field(default=None, validator=state_key)

    def __attrs_post_init__(self) -> None:
        """Refuse a budget that never allows a repeat: no retries is `Retry(attempts=1)`."""
        if self.ratio == self.floor == 0:
            refuse("RetryBudget.floor", "a number above 0, or a ratio above 0", self.floor)
