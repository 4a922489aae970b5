"""What options may say: each check names what it wanted. Rule: only names and numbers here, nothing heavy to import."""

from __future__ import annotations

import argparse
import math
import os
from typing import Final


__all__ = ["FAULTS", "PRESETS", "fault_plan", "positive", "preset_name", "seconds", "token_from"]

FAULTS: Final = (
    "cut",
    "half-open",
    "reset",
    "fin",
    "restart",
    "restart-lost",
    "expire",
    "truncate",
    "broken-buffer",
)
PRESETS: Final = ("default", "recursor", "openviber")
_LONGEST: Final = 86_400.0
_MOST: Final = 1_000


def positive(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a number above 0 expected, got {text!r}")
    return value


def seconds(text: str) -> float:
    """A duration above 0, a day at most."""
    value = positive(text)
    if value > _LONGEST:
        raise argparse.ArgumentTypeError(f"at most {_LONGEST:g} seconds expected, got {text!r}")
    return value


def fault_plan(text: str) -> int | tuple[str, ...]:
    """How many faults, or which, by name."""
    if text.strip().isdecimal():
        count = int(text)
        if count > _MOST:
            raise argparse.ArgumentTypeError(f"at most {_MOST} faults expected, got {text!r}")
        return count
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in FAULTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"a number, or names out of {', '.join(FAULTS)} expected, got {text!r}"
        )
    return names


def preset_name(text: str) -> str:
    """A preset by name."""
    if text not in PRESETS:
        raise argparse.ArgumentTypeError(f"one of {', '.join(PRESETS)} expected, got {text!r}")
    return text


def token_from(name: str | None) -> str | None:
    """The token in that environment variable; None without a name. Raises LookupError if it is not set or empty."""
    if name is None:
        return None
    token = os.environ.get(name, "")
    if not token:
        raise LookupError(f"--token-env: the environment variable {name} is not set")
    return token
