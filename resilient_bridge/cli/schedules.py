"""A schedule as typed: a Backoff written as in code, or the name of a specification.

Rule: the text is parsed and never run.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import presets
from ..calls import Retry
from ..failure import ConfigError
from ..presets.bridge_policy import BridgePolicy
from ..values.backoff import SHAPES, Backoff, parse_schedule
from .options import PRESETS


def read_schedule(text: str) -> tuple[Backoff, Mapping[str, Backoff]]:
    """Return the schedule, and a preset's other schedules by the failures they apply to.

    Raises ValueError that says what was expected.
    """
    name = text.strip()
    preset: object = getattr(presets, name, None) if name in presets.__all__ else None
    if isinstance(preset, BridgePolicy):
        return _of_preset(preset)
    if name.isidentifier() and name not in SHAPES:
        raise ValueError(
            f"a Backoff, or one of {', '.join(sorted(PRESETS))} expected, got {name!r}"
        )
    try:
        return parse_schedule(name), {}
    except ConfigError as error:
        raise ValueError(error.failure.message) from None


def _of_preset(preset: BridgePolicy) -> tuple[Backoff, Mapping[str, Backoff]]:
    """Return the schedules of a preset's reconnects.

    Those of its retries instead, if it takes its reconnects from the default policy.
    """
    backoff: object = preset.reconnect.backoff
    rules = preset.reconnect.rules
    if preset != presets.default and backoff == presets.default.reconnect.backoff:
        retry = next(layer for layer in preset.calls.layers if isinstance(layer, Retry))
        backoff, rules = retry.backoff, retry.rules
    own = {str(what): rule.backoff for what, rule in rules.items()}
    others = {what: found for what, found in own.items() if isinstance(found, Backoff)}
    return backoff if isinstance(backoff, Backoff) else preset.reconnect.backoff, others
