"""Text that is safe to show: no secret in it, one line, bounded.

Rule: every text of a `Failure` is redacted here, so that its readers need not do it. Redacting too
much is a blemish, too little is a leak. Every function takes any text and any object, never raises,
is idempotent, takes time linear in what it reads, and reads a bounded part of one value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, cast

from .secret_values import MASK, is_sensitive
from .vocabulary import CODES


LIMIT: Final = 500
READ: Final = 8_192
"""Characters of one text that are looked at: text from outside may be megabytes."""
_DEEP: Final = 6
_MANY: Final = 50
_LONGEST_NAME: Final = 200
_LARGEST: Final = 2**64
_WORK: Final = 65_536  # characters that all texts of one value may cost together
_NODE: Final = 32  # the least that an item costs
_NAMING: Final = ("name", "key", "field", "header")
_NAMED_BY: Final = ("value", "received")


# Controls, C1, separators that break lines, marks that reorder text, and lone surrogates, which no stream can encode.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def redact(text: str, *, limit: int = LIMIT) -> str:
    """Return text on one line, with secrets masked and control characters escaped.

    At most `limit` characters.
    """
    text = str.__str__(text)  # a subclass may have methods of its own
    if len(text) > READ:
        text = _without_last_word(text[:READ]) + "…"
    return _bounded_line(_masked(text), limit)


def _masked(text: str) -> str:
    return _search()(text)


@cache
def _search() -> Callable[[str], str]:
    from .secret_shapes import (
        masked,  # imported here: its patterns take 6 ms to compile
    )

    return masked


def _hides(name: str, value: object) -> bool:
    from .secret_values import hides  # as above

    return hides(name, value)


def holds_secret(body: bytes) -> bool:
    """Return whether a request's body holds what would be masked, in its first 64 KiB."""
    text = body[:_WORK].decode("utf-8", "replace")
    return _masked(text) != text


def redact_lines(text: str, *, limit: int) -> str:
    """Return multi-line text with secrets masked, including those that span lines.

    At most `limit` characters of each line.
    """
    return "\n".join(_bounded_line(line, limit) for line in _masked(str.__str__(text)).splitlines())


def redact_value(value: object) -> Any:
    """Return the value as plain bounded data with every text redacted.

    Plain are None, bool, numbers, text, tuples and dicts.

    Takes any object: one that cannot be read becomes the name of its class. All its texts together
    are read up to a bounded number of characters; the rest becomes `…`.
    """
    return _Walk().value(value, 0)


def text_of(error: BaseException) -> str:
    """Return the error's own text, redacted; empty if it has none.

    An error in its `__str__` is reported in the text, not raised.
    """
    return redact(raw_text(error)).strip()


def class_name(value: object) -> str:
    """Return the name of an object's class, whatever its metaclass says."""
    return cast("str", name_of(type(value)))


name_of: Final = type.__dict__["__name__"].__get__
"""The name of a class, whatever its metaclass says: Python's own function."""


def package_of(cls: type) -> str:
    """Return the top package in a class's `__module__`; empty if that is no text."""
    module = cast("object", cls.__module__)  # it may be any object
    return module.partition(".")[0] if isinstance(module, str) else ""


class _Walk:
    """One walk through a value of any size, cycles included.

    `remaining` is the number of characters it may still cost.
    """

    def __init__(self) -> None:
        self.remaining = _WORK

    def value(self, value: object, depth: int) -> Any:
        """Return the value as plain data.

        Uses `type()`, because an object's `__class__` may be wrong, or raise.
        """
        self.remaining -= _NODE
        if value is None or type(value) in (bool, float):
            return value
        try:
            return self._plain(value, depth)
        except Exception:  # noqa: BLE001 (a foreign object: its own methods may fail)
            return _nameless(value)

    def _plain(self, value: object, depth: int) -> Any:
        kind = type(value)
        if issubclass(kind, str):
            return self._line(cast("str", value))
        if issubclass(kind, bytes | bytearray):
            return self._line(
                bytes(cast("bytes", value)[:READ]).decode("utf-8", "backslashreplace")
            )
        if issubclass(kind, int):
            number = int.__int__(cast("int", value))
            # Python refuses to print thousands of digits.
            return number if abs(number) <= _LARGEST else f"integer of {number.bit_length()} bits"
        if issubclass(kind, float):
            return float.__float__(cast("float", value))
        if depth >= _DEEP or self.remaining <= 0:
            return "…"
        if issubclass(kind, Mapping):
            return self._mapping(cast("Mapping[object, object]", value), depth)
        if issubclass(kind, Sequence | AbstractSet):
            return self._items(cast("Iterable[object]", value), depth)
        return self._line(raw_text(value))

    def _line(self, text: str) -> str:
        text = str.__str__(text)
        if self.remaining <= 0 and text:
            return "…"
        self.remaining -= min(len(text), READ)
        return redact(text)

    def _mapping(self, value: Mapping[object, object], depth: int) -> dict[str, Any]:
        # {"field": "token", "received": …}: here the name of the secret is a value
        names_secret = any(_names_secret(value.get(name)) for name in _NAMING)
        plain: dict[str, Any] = {}
        for key, item in islice(value.items(), _MANY):
            if self.remaining <= 0:
                plain["…"] = "…"
                break
            name = _field(_name(key)[:_LONGEST_NAME])
            hidden = _hides(name, item) or (names_secret and name in _NAMED_BY)
            plain[name] = MASK if hidden and item is not None else self.value(item, depth + 1)
        return plain

    def _items(self, items: Iterable[object], depth: int) -> tuple[Any, ...]:
        # ("Authorization", …), ["--token", …], ["-u", "user:…"]: the item after a secret's name is a secret
        shown: list[Any] = []
        before: object = None
        for item in islice(items, _MANY):
            hidden = item is not None and (_names_secret(before) or _is_login(before, item))
            shown.append(MASK if hidden else self.value(item, depth + 1))
            before = item
        return tuple(shown)


def _names_secret(value: object) -> bool:
    # Not with `_field`, which caches its arguments: a value may be the secret itself.
    return (
        issubclass(type(value), str | bytes)
        and len(cast("str", value)) <= 100
        and is_sensitive(_name(value))
    )


def _is_login(option: object, value: object) -> bool:
    """Return whether these are two arguments of a command, `-u` and `user:password`."""
    return type(option) is str and option in _LOGINS and type(value) is str and ":" in value


_LOGINS: Final = frozenset({"-u", "-U", "--user", "--proxy-user"})


def _name(key: object) -> str:
    if issubclass(type(key), bytes):
        return bytes(cast("bytes", key)[:READ]).decode("utf-8", "replace")
    return raw_text(key)


@lru_cache(maxsize=256)  # the same few names, over and over
def _field(name: str) -> str:
    return redact(name, limit=100)


def raw_text(value: object) -> str:
    """Return an object's text, not redacted: to be stored, not shown.

    An error in its `__str__` is reported in the text, not raised.
    """
    if type(value) is str:
        return value
    try:
        return str.__str__(str(value))
    except Exception:  # noqa: BLE001 (an error whose text cannot be had is still an error to report)
        return _nameless(value)


def _nameless(value: object) -> str:
    return f"<{class_name(value)} without text>"


def _without_last_word(text: str) -> str:
    # A secret cut in two may not be recognised: the last word is dropped, unless it is the only one.
    words = text.rsplit(None, 1)
    return words[0] if len(words) == 2 else text


def _bounded_line(text: str, limit: int) -> str:
    if not text.isprintable():
        text = _UNSAFE.sub(_escape, text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    point = ord(character)
    return _NAMED.get(character) or (f"\\x{point:02x}" if point <= 0xFF else f"\\u{point:04x}")


# ---- the fields of a failure ----------------------------------------------------------------------------------------

# Our own texts are not searched for secrets, and are most of a failure's text.
_PLAIN = frozenset(text for row in CODES.values() for text in (row.summary, row.hint))


def as_line(text: str) -> str:
    return text if text in _PLAIN else redact(text)


def as_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the texts redacted, as many as a failure may hold."""
    remaining, shown = _WORK, list[str]()
    for text in islice(lines, _MANY):
        if remaining <= 0:
            break
        line = raw_text(text)
        remaining -= _NODE + min(len(line), READ)
        shown.append(as_line(line))
    return tuple(shown)


def as_details(details: Mapping[str, Any]) -> Mapping[str, Any]:
    found: object = _Walk().value(details, 0) if details else {}
    return MappingProxyType(
        cast("dict[str, Any]", found) if isinstance(found, dict) else {"unreadable": found}
    )
