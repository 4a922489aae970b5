"""What users pass to adapters, made into what adapters use: each refusal names the argument that it is about."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import attrs

from ..errors import Failure, config_error, error_for
from ..pipeline.policy import Policy
from ..policies.breaker import Breaker
from ..policies.bulkhead import Bulkhead
from ..policies.rate_limit import RateLimit
from ..policies.retry import Retry
from ..presets.bridge_policy import calls_of as _calls_of


if TYPE_CHECKING:
    from ..errors import BridgeError
    from ..policies.layer import Layer

__all__ = ["calls_of", "check_flag", "keyed", "plaintext_refused"]


def calls_of(policy: object, path: str) -> Policy:
    """Return the policy for calls: the one given, that of a BridgePolicy, or without one the recommended."""
    if policy is None:
        from ..pipeline.recommended import resilient

        return resilient
    return _calls_of(policy, path)


def check_flag(path: str, given: object) -> None:
    """Raise the ConfigError for what is neither True nor False."""
    if not isinstance(given, bool):
        raise config_error(path, "True or False", given)


def plaintext_refused(scheme: str, origin: str, whose: str) -> BridgeError:
    """Return the error for credentials that would cross a network in clear text (threat 42); `whose` argument allows it."""
    return error_for(
        Failure.of(
            "CONN_INSECURE",
            f"credentials over plaintext refused: wanted {scheme}://, got {origin}",
            suggestions=(f"use {scheme}://, or the argument allow_plaintext_credentials of {whose}",),
        )
    )


def keyed(policy: Policy, key: str) -> Policy:
    """Return the policy with `key` for the state of every layer that names none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever made the policy has been warned
        return Policy(*(_layer(layer, key) for layer in policy.layers), name=policy.name, state=policy.state)


def _layer(layer: Layer, key: str) -> Layer:
    if isinstance(layer, Breaker | Bulkhead | RateLimit):
        return attrs.evolve(layer, key=key) if layer.key is None else layer
    if isinstance(layer, Retry) and layer.budget is not None and layer.budget.key is None:
        return attrs.evolve(layer, budget=attrs.evolve(layer.budget, key=key))
    return layer
