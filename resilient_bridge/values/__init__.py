"""Immutable values that policies are made of: schedules, rules, the vocabulary of "what".

Each name loads when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .backoff import Backoff as Backoff
    from .rule import Rule as Rule
    from .rule import Rules as Rules
    from .rule import most_specific as most_specific

_NAMES = {
    "backoff": "Backoff",
    "rule": "most_specific Rule Rules",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
