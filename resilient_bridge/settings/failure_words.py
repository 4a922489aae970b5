"""Failures as settings write them: "transient", "UPSTREAM", "CONN_RESET", 429, "5xx",
"openai:RateLimitError", "/quota/i".

Rule: the text is compared and never imported: a class is one of the caller's names, a builtin
exception, or "package:Class".
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from ..failure import CODES, Category, Failure, Kind, is_known_code, number_in
from ..failure.what import WORDS, Named, is_code, is_what, named
from .reading import Reading


_NUMBER: Final = re.compile(r"-?\d{1,9}", re.ASCII)
_HUNDRED: Final = re.compile(r"([1-5])xx", re.IGNORECASE)
_PATTERN: Final = re.compile(r"/(.{1,500})/([aimsx]{0,5})", re.DOTALL)
_FLAGS: Final = {
    "a": re.ASCII,
    "i": re.IGNORECASE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "x": re.VERBOSE,
}
WANTED: Final = (
    'a failure: "transient", a category such as "UPSTREAM", a code such as "CONN_RESET", a number such as 429, "5xx", '
    '"package:Class", "/pattern/" of its message, a builtin exception or one of names='
)


@attrs.frozen
class StatusRange:
    """A condition: the failure has an HTTP status of this class; `hundred` is 5 for 5xx."""

    hundred: int

    def __call__(self, failure: Failure) -> bool:
        status = number_in(failure, "http_status")
        return status is not None and status // 100 == self.hundred


def read_what(raw: Any, path: str, reading: Reading) -> Any:
    """Return the failure condition that a setting describes; BAD after a problem."""
    if isinstance(raw, str) and not isinstance(raw, Kind | Category):
        found = _of_text(raw.strip(), reading)
        if found is None:
            words = (*WORDS, *Kind, *Category, *CODES, *reading.names)
            return reading.fail(path, WANTED, raw, hint=reading.near(raw, words))
        return found
    if isinstance(raw, Mapping):
        table = cast("Mapping[str, Any]", raw)
        message = table.get("message")
        found = _pattern(message, 0) if isinstance(message, str) and len(table) == 1 else None
        return found or reading.fail(path, "{message = a regular expression}", raw)
    return raw if is_what(raw) else reading.fail(path, WANTED, raw)


def _of_text(text: str, reading: Reading) -> Any:
    if text in WORDS:
        return WORDS[text]
    if text.lower() in set(Kind):
        return Kind(text.lower())
    if text.upper() in set(Category):
        return Category(text.upper())
    if _NUMBER.fullmatch(text):
        return int(text)
    if hundred := _HUNDRED.fullmatch(text):
        return StatusRange(int(hundred[1]))
    if pattern := _PATTERN.fullmatch(text):
        return _pattern(pattern[1], sum(_FLAGS[letter] for letter in set(pattern[2])))
    return _of_name(text, reading)


def _of_name(text: str, reading: Reading) -> Any:
    if is_code(text):
        return text if is_known_code(text) else None
    package, colon, name = text.partition(":")
    if colon:
        return named(package, name) if package.isidentifier() and name.isidentifier() else None
    if text in reading.names:
        return reading.names[text] if is_what(reading.names[text]) else None
    found: Any = getattr(builtins, text, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found
    return text.upper() if is_known_code(text.upper()) else None


def _pattern(text: str, flags: int) -> Any:
    try:
        return re.compile(text, flags) if 0 < len(text) <= 500 else None
    except (
        re.error,
        ValueError,
        OverflowError,
        RecursionError,
    ):  # ValueError: flags that exclude each other
        return None


def write_what(what: Any, names: Mapping[str, Any]) -> Any:
    """Return text that `read_what` reads back as equal; None if there is none."""
    named = next((name for name, value in names.items() if value is what), None)
    if named is not None:
        return named
    if isinstance(what, Kind | Category):
        written: Any = what.value
    elif isinstance(what, Named):
        written = f"{what.package}:{what.name}"
    elif isinstance(what, re.Pattern):
        pattern = cast("re.Pattern[str]", what)
        letters = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
        written = f"/{pattern.pattern}/{letters}"
    elif isinstance(what, StatusRange):
        written = f"{what.hundred}xx"
    elif isinstance(what, type):
        written = what.__name__
    else:
        written = what
    if not isinstance(written, str | int):
        return None
    return written if read_what(written, "", Reading(names=names)) == what else None
