"""The rows of the tables of shapes: what each consists of, and what decides whether its value is masked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from .secret_names import MASK
from .secret_values import has_mix, is_secret


Replace: TypeAlias = "str | Callable[[re.Match[str]], str]"


class Shape(NamedTuple):
    """One kind of secret: where one of the clues stands (in lower case), the pattern is replaced."""

    clues: frozenset[str]
    pattern: re.Pattern[str]
    mask: Replace


def unless_word(found: re.Match[str]) -> str:
    """Mask what follows the first group, unless it is a placeholder or a word of a sentence."""
    value = found.group()[len(found[1]) :]
    return f"{found[1]}{MASK}" if is_secret(value, is_bare=True) else found.group()


def unless_plain(found: re.Match[str]) -> str:
    """Mask what follows the first group where it mixes letters and digits, as hardly a word does."""
    value = found.group()[len(found[1]) :]
    return (
        f"{found[1]}{MASK}" if has_mix(value) and is_secret(value, is_bare=True) else found.group()
    )


def row(
    clues: tuple[str, ...], pattern: str, mask: Replace = rf"\1{MASK}", flags: int = re.IGNORECASE
) -> Shape:
    return Shape(frozenset(clues), re.compile(pattern, flags), mask)


SETTINGS: Final = (
    r"authorization|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret|passw(?:or)?d|passphrase|passcode|pwd|token|credentials?"
    r"|cookie|signature|jwt|otp|[_-](?:auth|pass)"
)
