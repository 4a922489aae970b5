"""What a bridge does about a lost connection.

When it tries again, how often, and what it does when nothing helps.

Rule: numbers only. Which losses are worth another attempt is decided by the failure's
classification, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from ...values.backoff import Backoff
from ...values.fields import (
    Value,
    as_seconds,
    as_tuple,
    count,
    flag,
    instance_of,
    is_count,
    number,
    optional,
    refuse,
    seconds,
    short_seconds,
    tuple_of,
    word,
)
from ...values.rule import Rules, as_rules, check_rules, most_specific


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...values.rule import Rule


# Chosen by bench/reconnect_storms.py; docs/strategies/backoff.md has the numbers. A server that was
# restarted is found at once, and after that the clients of a long outage are spread.
_BACKOFF: Final = Backoff.steps(0.5, 1, then=Backoff.decorrelated(1), jitter="full")


def _for_links(
    instance: object, attribute: attrs.Attribute[Any], value: Mapping[Any, Rule]
) -> None:
    for what, rule in value.items():
        path = f"{type(instance).__name__}.{attribute.name}[{what!r}]"
        # url, token and headers are evaluated again on each attempt; a second way to refresh would
        # only compete with it.
        if rule.before is not None:
            refuse(f"{path}.before", "None (give the client a token callable)", rule.before)
        # Other schedules take the attempt of a call, and a link has none.
        if rule.backoff is not None and not isinstance(rule.backoff, Backoff):
            refuse(f"{path}.backoff", "a Backoff", rule.backoff)


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Reconnect(Value):
    """How to come back after a loss.

        reconnect = rb.bridge.Reconnect(backoff=rb.Backoff.steps(1, 2, 5), attempts=None)
        policy = rb.presets.default.evolve(reconnect=reconnect)

    Durations are seconds, timedeltas or texts ("10s"); ConfigError names a bad field.

    `backoff` waits before each attempt, delay n before attempt n; `rules` give a sort of failure
    its own schedule or count. After `attempts` failed attempts (None: no end), or when the outage
    passes `grace` (the bridge keeps a session 5 minutes), `on_exhausted` decides: "suspend" reports
    it to the user and keeps trying, "raise" gives up. `first_connect="raise"` fails at once when
    the very first attempt does. One attempt, from DNS to the upgrade, takes at most
    `connect_timeout`. The count starts over after `stable_after` seconds of being ready, or, if
    `backoff` has jitter, after as many seconds as the next wait would have, at least one.
    Connections that are accepted and lost before that are limited: `connect_burst`, then
    `connects_per_minute`; a wait that this makes longer than the schedule's has the reason
    `rate_capped`. A server's Retry-After is a lower bound of the wait; if `backoff` has jitter, the
    first of an outage is the wait, and later ones are added to it. One above `max_retry_after` ends
    the client, with the hint. Attempts in `reuse_address_on` use the address resolved before
    instead of asking DNS again (the second).

    A dial of a link that was READY before, with the same URL and credentials, may be answered by a
    captive portal or a proxy: an HTTP status that is final otherwise (401 stays final), or a
    redirect elsewhere. Such answers do not count as failed attempts. They end the client, with the
    last one, when they have come for `grace` and at least `attempts` times, whatever `on_exhausted`
    says. `retry_certificates` says whether a foreign certificate (and a peer that speaks no TLS) is
    such an answer too; a pinned, an expired or a revoked one never is. A token goes over an unencrypted link only to this machine, unless
    `allow_plaintext_credentials`.
    """

    backoff: Backoff = attrs.field(default=_BACKOFF, validator=instance_of(Backoff))
    rules: Mapping[Any, Rule] = attrs.field(
        default=Rules(), converter=as_rules, validator=(check_rules, _for_links)
    )
    attempts: int | None = attrs.field(default=5, validator=optional(count))
    on_exhausted: Literal["suspend", "raise"] = attrs.field(default="suspend", validator=word)
    first_connect: Literal["retry", "raise"] = attrs.field(default="retry", validator=word)
    grace: float = attrs.field(default=300.0, converter=as_seconds, validator=seconds())
    connect_timeout: float = attrs.field(
        default=10.0, converter=as_seconds, validator=short_seconds
    )
    stable_after: float = attrs.field(default=30.0, converter=as_seconds, validator=seconds())
    connect_burst: int = attrs.field(default=3, validator=count)
    connects_per_minute: float = attrs.field(default=4, validator=number(least=0, above=True))
    max_retry_after: float = attrs.field(
        default=86_400.0, converter=as_seconds, validator=seconds()
    )
    reuse_address_on: tuple[int, ...] = attrs.field(
        default=(),
        converter=as_tuple,
        validator=tuple_of("an attempt number of at least 1", is_count),
    )
    retry_certificates: bool = attrs.field(default=True, validator=flag)
    allow_plaintext_credentials: bool = attrs.field(default=False, validator=flag)

    def process_exception(self, error: Exception, /) -> Exception | None:
        """Return None for a failed connection that is worth another attempt, else `error`.

        websockets calls it.

        For those who keep its own loop: `connect(uri,
        process_exception=reconnect.process_exception, reconnect_delays=reconnect.backoff.waits)`.
        Unlike its default, a bad certificate ends the loop, and 408, 425 and 429 do not.
        Credentials that were refused end it, too: the loop has no others to try; and so does a
        programming error (a ValueError, a TypeError). A failure in `rules` is tried again.
        """
        from ...failure import classify
        from .losses import LossAction, meaning

        failure = classify(error)
        if most_specific(self.rules, failure) is not None:
            return None
        return (
            None
            if meaning(failure, ()) in (LossAction.RECONNECT, LossAction.NEW_SESSION)
            else error
        )
