"""Immutable values that policies are made of: schedules, rules, the vocabulary of "what". Each name loads when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .backoff import Backoff
    from .rule import Rule, Rules, most_specific
    from .what import matches, names_class

__all__ = ["Backoff", "Rule", "Rules", "matches", "most_specific", "names_class"]

_HOMES = {
    "Backoff": "backoff",
    "Rule": "rule",
    "Rules": "rule",
    "matches": "what",
    "most_specific": "rule",
    "names_class": "what",
}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
