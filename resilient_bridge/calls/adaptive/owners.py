"""Where the adaptive limits of an owner are found: its own, those of a name, or those that processes share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..registry import InUse, Sort
from ..shared import RemoteLimitState, shares_limits
from .state import Limits


if TYPE_CHECKING:
    from ..registry import States
    from ..shared import SharedLimitState, Store
    from .value import AdaptiveLimit


def _shared(
    store: SharedLimitState | RemoteLimitState, key: str, settings: AdaptiveLimit
) -> Limits:
    # imported here: most processes share nothing
    if isinstance(store, RemoteLimitState):
        from .remote_limits import RemoteLimits

        return RemoteLimits(key, settings, store)
    from .shared_limits import SharedLimits

    return SharedLimits(key, settings, store)


_OF_OWNERS: Final = InUse[Limits]()
NAMED: Final = Sort[Limits, "AdaptiveLimit"]("adaptive limit", Limits, shared=_shared)
"""Those with a name, which several policies share."""


def limits_of(states: States, settings: AdaptiveLimit, store: Store | None = None) -> Limits:
    """Return the limits of an owner, or those of the name in the settings, with these numbers."""
    name = settings.key if isinstance(settings.key, str) else None
    if shares_limits(store):
        # a client's limits are those of its origin or SDK, which is their owner's name
        return states.shared(
            NAMED, settings, store, name or (states.name if states.limited_by else None)
        )
    if name is not None:
        return states.state(NAMED, settings)

    def make() -> Limits:
        return Limits(states.name, settings)

    def of_all() -> Limits:
        return _OF_OWNERS.of(states.name, make)

    limits = states.owned("adaptive limit", of_all if states.shares_pause else make)
    limits.configure(settings)
    return limits
