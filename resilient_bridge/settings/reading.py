"""The state of one reading: problems, warnings, the caller's names and the readers by class.

Rule: nothing is raised while reading. Each problem is noted with its path, and a function that
cannot read a value returns BAD.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias, cast

import attrs

from ..config.documents import joined
from ..failure import ConfigError, Problem, is_sensitive
from ..transports.references import UnreadableError, is_reference, read_secret


class Bad(Enum):
    """The marker returned in place of a value that could not be read."""

    BAD = "bad"


BAD: Final = Bad.BAD
MASKED: Final = "***"
_MOST_HINTS: Final = 50  # as many problems as one error reports
_PARTS: Final = re.compile(r"[.\[\]\"]+")
TableReader: TypeAlias = "Callable[[Any, str, Reading, Any], Any]"
Aliases: TypeAlias = "Callable[[dict[str, Any], str, Reading], dict[str, Entry]]"


@attrs.frozen
class Entry:
    """One setting: its key and its value, as written."""

    key: str
    value: Any


@attrs.define
class Reading:
    """One reading: `names` are the caller's functions and classes, `known` its tools and skills,
    `readers` those of single classes; `texts` are values of the environment as they were written,
    by path: where a text is wanted, `12345` is one.
    """

    names: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    known: Mapping[str, Iterable[str]] = attrs.field(factory=dict[str, Iterable[str]])
    readers: Mapping[type, TableReader] = attrs.field(factory=dict[type, Any])
    aliases: Mapping[type, Aliases] = attrs.field(factory=dict[type, Any])
    texts: Mapping[str, str] = attrs.field(factory=dict[str, str])
    problems: list[Problem] = attrs.field(factory=list[Problem])
    warnings: list[str] = attrs.field(factory=list[str])

    def fail(
        self, path: str, wanted: str, got: Any, *, hint: str = "", is_secret: bool = False
    ) -> Bad:
        """Note what was wanted and got at a path; return BAD. `got` is NOTHING if missing."""
        is_masked = is_secret or any(map(is_sensitive, _PARTS.split(path)))
        received = MASKED if is_masked and got is not None and not is_reference(got) else got
        if got is attrs.NOTHING:
            self.problems.append(Problem(path, f"wanted {wanted}, it is missing{hint}"))
        else:
            self.problems.append(
                Problem(path, f"wanted {wanted}, got {shortened(received)}{hint}", received)
            )
        return BAD

    def not_one_of(self, known: Iterable[str], path: str, got: Any) -> Bad:
        """Note a word that is none of the known ones, with the nearest of them; return BAD."""
        known = list(known)
        return self.fail(path, f"one of {', '.join(known)}", got, hint=self.near(got, known))

    def table(self, raw: Any, path: str, wanted: str) -> Mapping[str, Any] | None:
        """Return a table as it is; None, with a problem, for anything else."""
        if isinstance(raw, Mapping):
            return cast("Mapping[str, Any]", raw)
        self.fail(path, wanted, raw)
        return None

    def unknown(self, path: str, key: str, known: Iterable[str], of: str = "") -> None:
        """Note an unknown key, with the one that may be meant, also by a word of another library.

        `of` is the name of the class whose table it is.
        """
        known = sorted(known)
        is_asked = len(self.problems) + len(self.warnings) < _MOST_HINTS
        foreign = _foreign(of, key, known) if is_asked else ""
        hint = foreign or self.near(key, known) or f", wanted one of {', '.join(known)}"
        self.problems.append(Problem(joined(path, key), f"unknown key{hint}"))

    def near(self, text: object, known: Iterable[str]) -> str:
        """Return the hint of the function `near`; empty after 50 problems and warnings, because an
        error reports no more problems.
        """
        return near(text, known) if len(self.problems) + len(self.warnings) < _MOST_HINTS else ""

    def named(self, text: Any, path: str, wanted: str) -> Any:
        """Return the caller's object of this name, or BAD."""
        if isinstance(text, str):
            if text in self.names:
                return self.names[text]
            hint = self.near(text, self.names) or ", which names= does not have"
            return self.fail(path, f"{wanted}, by a name in names=", text, hint=hint)
        return text if callable(text) else self.fail(path, f"{wanted}, by a name in names=", text)


def resolved(raw: str, path: str, reading: Reading) -> Any:
    """Return the text itself, or the secret that it refers to; BAD if that cannot be read now."""
    if not is_reference(raw):
        return raw
    try:
        return read_secret(raw)
    except UnreadableError as error:
        return reading.fail(path, error.wanted, raw)


def violation_of(error: ConfigError) -> Mapping[str, Any]:
    """Return what a constructor or a validator refused: `field`, `constraint` and `received`."""
    return cast("Mapping[str, Any]", error.failure.details["violations"][0])


def _foreign(of: str, key: str, known: list[str]) -> str:
    """Return the hint for another library's word; the table is that of the constructors' errors."""
    from ..failure.mistakes import meaning_of

    meaning = meaning_of(of, key, known)
    if meaning.startswith("!"):
        return f", leave it out: {meaning[1:]}"
    own, _, constructor = meaning.partition(":")
    name = (
        own.rpartition(".")[2]
        if constructor
        else own.partition(".")[0].removesuffix("+1").partition("=")[0]
    )
    if name == "backoff" and meaning != name:
        return ', write backoff as in "exponential(1, cap=30)"'
    more = ", which counts the first call as well" if meaning.endswith("+1") else ""
    return f", did you mean {name}{more}?" if name in known or constructor else ""


def shortened(value: object) -> str:
    """Return a value as an error shows it: its repr, at most 100 characters of it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of more digits than Python prints
        text = f"a value of {type(value).__name__}"
    return text if len(text) <= 100 else text[:99] + "…"


def near(text: object, known: Iterable[str]) -> str:
    """Return `, did you mean …?` with the nearest of the known words; empty if none is near."""
    if not isinstance(text, str) or len(text) > 100:
        return ""
    words = {word.lower(): word for word in list(known)[:500]}
    found = difflib.get_close_matches(text.lower(), words, n=1)
    return f", did you mean {words[found[0]]}?" if found and words[found[0]] != text else ""
