"""Durations and sizes as people write them: "30s", "500ms", "1h30m", "8MiB".

Rule: a number without a unit is in seconds or bytes.
"""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final


_UNITS: Final = {
    "d": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "min": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1_000),
    "us": Fraction(1, 1_000_000),
}
_SIZES: Final = {
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_NUMBER: Final = r"\d{1,15}(?:\.\d{1,15})?"
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*(us|ms|min|[dhms])", re.IGNORECASE | re.ASCII)
_PLAIN: Final = re.compile(_NUMBER, re.ASCII)
_SIZE: Final = re.compile(rf"({_NUMBER})\s*([kmg]i?b|b)?", re.IGNORECASE | re.ASCII)
_LONGEST: Final = 100  # characters

DURATION: Final = 'a duration such as 30, "30s", "500ms", "5m" or "1h30m"'
SIZE: Final = 'bytes, such as 65536, "100KB" or "8MiB"'


def read_duration(text: str) -> float:
    """Return the seconds of a text with a unit, as code gives one; a number alone is refused."""
    if _PLAIN.fullmatch(text.strip()):
        raise ValueError(DURATION)
    return float(_duration(text))


def read_seconds(text: str) -> float:
    """Return the seconds of a text; a number without a unit is seconds.

    ValueError says what was wanted.
    """
    return float(_duration(text))


def read_span(text: str) -> timedelta:
    """Return the duration of a text as a timedelta, exact to the microsecond."""
    try:
        return timedelta(microseconds=round(_duration(text) * 1_000_000))
    except OverflowError:
        raise ValueError(DURATION) from None


def write_span(span: timedelta) -> str:
    """Return the text that `read_span` reads back as an equal timedelta."""
    parts = ((span.days, "d"), (span.seconds, "s"), (span.microseconds, "us"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def _duration(text: str) -> Fraction:
    text = text.strip()
    if len(text) > _LONGEST:
        raise ValueError(DURATION)
    if _PLAIN.fullmatch(text):
        return Fraction(text)
    total, end, before = Fraction(0), 0, None
    while end < len(text):
        part = _PART.match(text, end)
        unit = None if part is None else _UNITS[part[2].lower()]
        if part is None or unit is None or (before is not None and unit >= before):
            # units must decrease, so "1m30m" is an error
            raise ValueError(DURATION)
        total += Fraction(part[1]) * unit
        end, before = part.end(), unit
    if before is None:
        raise ValueError(DURATION)
    return total


def read_bytes(text: str) -> int:
    """Return the whole bytes of a text: KB is 1,000, KiB 1,024. ValueError says what was wanted."""
    text = text.strip()
    found = None if len(text) > _LONGEST else _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(SIZE)
    size = Fraction(found[1]) * _SIZES[(found[2] or "b").lower()]
    if size.denominator != 1:
        raise ValueError(SIZE)
    return int(size)
