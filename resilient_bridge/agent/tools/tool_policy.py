"""The policy and the time limit of a tool. Pure.

Rule: the most specific one applies: that of the tool, then that of its name, then the default. The
limit is taken out of the policy's layers, because `bounded` enforces it, around each attempt.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, cast

from attrs import evolve, frozen

from ...calls import Policy, Retry, Timeout
from ...calls.ports import calls_for
from ...failure import Kind, config_error
from ...presets.bridge_policy import BridgePolicy, calls_of
from ...values.fields import Seconds, read_seconds


if TYPE_CHECKING:
    from ...failure import Failure


DEFAULT_TIMEOUT: Final = 30.0
"""Seconds of a tool without a limit of its own."""
_DEFAULT: Final = "default"


@frozen
class Limit:
    """The time limit of a tool.

    Called with the number of an attempt, it returns the ends of that attempt's steps, in seconds.
    """

    timeout: Timeout
    is_once: bool

    def __call__(self, attempt: int) -> tuple[float, ...]:
        return self.timeout.seconds if self.is_once else (self.timeout.of(attempt),)


class Limits:
    """The settings of a toolbox: a policy, and policies and time limits by name."""

    def __init__(self, policy: Policy | BridgePolicy, timeouts: Mapping[str, Seconds]) -> None:
        """Check both. Raises ConfigError that names a wrong one."""
        self.calls = calls_of(policy, "Toolbox.policy")
        self.tools: Mapping[str, Policy] = policy.tools if isinstance(policy, BridgePolicy) else {}
        if not isinstance(cast("object", timeouts), Mapping):
            raise config_error("Toolbox.timeouts", "a mapping of name to seconds", timeouts)
        self.timeouts = {
            name: as_limit(f"Toolbox.timeouts[{name!r}]", value) for name, value in timeouts.items()
        }

    def of(
        self, name: str, *, timeout: Timeout | None, policy: Policy | BridgePolicy | None
    ) -> tuple[Policy, Limit]:
        """Return the policy of a tool without its time limit, and the limit.

        An escalating limit in a table of tools holds for one execution; in a policy it grows from
        attempt to attempt.
        """
        own = None if policy is None else calls_of(policy, "Toolbox.tool.policy")
        row, default = self.tools.get(name), self.tools.get(_DEFAULT)
        limits = (
            timeout,
            _limit_in(own),
            self.timeouts.get(name),
            _limit_in(row),
            self.timeouts.get(_DEFAULT),
            _limit_in(default),
            None if own is not None else _limit_in(self.calls),
        )
        limit = next((one for one in limits if one is not None), Timeout(DEFAULT_TIMEOUT))
        is_of_table = any(limit is one for one in (_limit_in(row), _limit_in(default)))
        return _without_limit(own or _replaced(self.calls, row or default)), Limit(
            limit, is_once=is_of_table
        )


def names_in(path: str, names: object) -> frozenset[str]:
    """Return names of tools as a set.

    Raises ConfigError for anything else, a single text included.
    """
    if isinstance(names, str) or not isinstance(names, Collection):
        raise config_error(path, "a collection of names", names)
    for name in cast("Collection[object]", names):
        if not isinstance(name, str) or not name:
            raise config_error(path, "names", name)
    return frozenset(cast("Collection[str]", names))


def as_limit(path: str, seconds: Seconds) -> Timeout:
    return Timeout(read_seconds(path, seconds))


def most_repeats(policy: Policy, failure: Failure, attempts: int) -> int:
    """Return how often the policy repeats such a failure at most.

    `attempts` is the number of calls that were made.
    """
    retry = next((layer for layer in policy.layers if isinstance(layer, Retry)), None)
    if retry is None or not failure.retryable:
        return 0
    try:
        # Its kind before its attempts were used up
        limit = calls_for(retry, evolve(failure, kind=Kind.TRANSIENT))
    except Exception:  # noqa: BLE001 -- a predicate of the user's
        return 0
    if limit is None:
        return 0
    most = limit - 1 if isinstance(limit, int) else max(0, attempts - 1)
    allowed = failure.details.get("max_retries")
    return min(most, allowed) if isinstance(allowed, int) else most


def _limit_in(policy: Policy | None) -> Timeout | None:
    if policy is None:
        return None
    return next((layer for layer in policy.layers if isinstance(layer, Timeout)), None)


def _replaced(policy: Policy, row: Policy | None) -> Policy:
    if row is None:
        return policy
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their author has been warned
        return policy.replace(row)


def _without_limit(policy: Policy) -> Policy:
    layers = [layer for layer in policy.layers if not isinstance(layer, Timeout)]
    if not layers:
        layers = [Retry(attempts=1, budget=None)]  # a policy of nothing but a limit: one call
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Policy(*layers, name=policy.name, state=policy.state)
