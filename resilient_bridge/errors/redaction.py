"""Text that is safe to show: no secret in it, one line, bounded.

Rule: whatever enters a `Failure` passes here, so that no reader of one has to think of it. Redacting more than was
needed is a blemish, less is a leak. Every function is idempotent and takes time linear in its input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from typing import Any, Final, cast


MASK: Final = "[redacted]"
LIMIT: Final = 500
_READ: Final = 8_192  # characters looked at: text from outside may be megabytes
_DEEP: Final = 6
_MANY: Final = 50
_LARGEST: Final = 2**64
_NAMING: Final = ("name", "key", "field", "header")
_NAMED_BY: Final = ("value", "received")

_NAME = (
    r"[\w-]{0,40}?(?:authorization|api[_-]?key|access[_-]?key|private[_-]?key|secret|passw(?:or)?d|passphrase|pwd"
    r"|token|credentials?|cookie|signature)"
)
_SENSITIVE = re.compile(_NAME, re.IGNORECASE)
_UNMASKED = rf"(?!{re.escape(MASK)})"


# Order matters: what marks where a secret ends (a url, a query) goes before what eats up to the next space.
@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    # Compiled with the first failure and not at import: most programs start long before their first failure.
    return (
        (
            re.compile(
                r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
            ),
            rf"\1 {MASK}",
        ),
        (re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://)[^/\s'\"?#]{1,2000}@", re.IGNORECASE), rf"\1{MASK}@"),
        (
            re.compile(
                r"\b([a-z][a-z0-9+.-]{0,20}://)[^\s'\"/:@]{0,500}:(?!\d{1,5}(?:[/?#]|\b))[^\s'\"@]{0,2000}@",
                re.IGNORECASE,
            ),
            rf"\1{MASK}@",
        ),
        (
            re.compile(rf"([?&;](?:{_NAME}|key|auth|sig|code)=){_UNMASKED}[^&\s#'\"]+", re.IGNORECASE),
            rf"\1{MASK}",
        ),
        (  # a header whose value may hold spaces: up to the end of the line or of the quotes
            re.compile(
                rf"(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie)(\\{{0,3}}+['\"]?+\s{{0,4}}+[:=]\s{{0,4}}+b?+\\{{0,3}}+['\"]?+)"
                rf"{_UNMASKED}[^\r\n'\"]+",
                re.IGNORECASE,
            ),
            rf"\1\2{MASK}",
        ),
        (  # name: "value", name='value', ('name', b'value')
            re.compile(
                rf"(?<![\w-])({_NAME})(\\{{0,3}}+['\"]?+\s{{0,4}}+[:=]\s{{0,4}}+b?+|['\"],\s{{0,4}}+b?+)(\\{{0,3}}+['\"]){_UNMASKED}[^'\"]+",
                re.IGNORECASE,
            ),
            rf"\1\2\3{MASK}",
        ),
        (  # name: value, name=value; but our own `token: wanted a string` stays readable
            re.compile(
                rf"(?<![\w-])({_NAME})(\\{{0,3}}+['\"]?+\s{{0,4}}+[:=]\s{{0,4}}+){_UNMASKED}(?!wanted\b|\\{{1,3}}['\"])[^\s'\"]+",
                re.IGNORECASE,
            ),
            rf"\1\2{MASK}",
        ),
        (re.compile(rf"\b(bearer)(\s{{1,4}}+){_UNMASKED}[^\s'\",;]+", re.IGNORECASE), rf"\1\2{MASK}"),
        (re.compile(r"\b([Bb]asic\s{1,4})(?=[a-z+/=_-]*[A-Z0-9])[A-Za-z0-9+/=_-]{8,}"), rf"\1{MASK}"),
        (  # invalid token abc123…: prose around something opaque
            re.compile(
                r"\b(token|api key|secret|password)(\s{1,4}(?:is\s)?['\"]?)(?=[a-z.~+/=_-]*\d)[\w.~+/=-]{8,}",
                re.IGNORECASE,
            ),
            rf"\1\2{MASK}",
        ),
        (re.compile(r"\bsk-[\w-]{3,}"), MASK),
        (re.compile(r"\beyJ[\w-]{6,}\.[\w-]+(?:\.[\w-]*)?"), MASK),
        (
            re.compile(
                r"\b(?:gh[pousr]_\w{16,}|github_pat_\w{16,}|xox[abprs]-[\w-]{8,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,})"
            ),
            MASK,
        ),
    )


# Looking for a secret costs more than the rest of a failure, and most texts hold none: one pass over the lower-cased text
# tells which can. It must let through all that the patterns could match; a text with letters beyond ASCII, whose case is
# another matter, always goes through.
@cache
def _suspicion() -> re.Pattern[str]:
    # Plain alternatives only: a class or a flag at the front would cost the engine its table of first letters.
    return re.compile(
        "auth|api[ _-]?key|access[_-]?key|private[ _-]?key|secret|passw|passphrase|pwd|token|credential|cookie|signature"
        "|bearer|basic|sk-|eyj|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|xox|akia|aiza|key=|sig=|code="
    )


def _may_hold_secret(text: str) -> bool:
    if not text.isascii() or ("@" in text and "://" in text):
        return True
    return _suspicion().search(text.lower()) is not None


# Controls, C1, separators that break lines, marks that reorder text, and lone surrogates, which no stream can encode.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def redact(text: str, *, limit: int = LIMIT) -> str:
    """Return text on one line with secrets masked, control characters escaped and at most `limit` characters."""
    if len(text) > _READ:
        text = _without_last_word(text[:_READ]) + "…"
    if _may_hold_secret(text):
        for pattern, mask in _patterns():
            text = pattern.sub(mask, text)
    if not text.isprintable():
        text = _UNSAFE.sub(_escape, text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _without_last_word(text: str) -> str:
    # A secret cut in two may no longer look like one: the last word is dropped, unless it is all there is.
    words = text.rsplit(None, 1)
    return words[0] if len(words) == 2 else text


def redact_lines(text: str, *, limit: int) -> str:
    """Return text of many lines, each redacted on its own, at most `limit` characters of each; a key goes over several."""
    if "PRIVATE KEY-----" in text:
        pattern, mask = _patterns()[0]
        text = pattern.sub(mask, text)
    return "\n".join(redact(line, limit=limit) for line in text.splitlines())


def redact_value(value: object, depth: int = 0) -> Any:
    """Return the value as plain bounded data (None, bool, numbers, text, tuples, dicts) with every text redacted."""
    if type(value) is str:
        return redact(value)
    match value:
        case int() if abs(value) > _LARGEST:
            return f"integer of {value.bit_length()} bits"  # Python refuses to print thousands of digits
        case None | bool() | int() | float():
            return value
        case str():
            return redact(str(value))
        case bytes() | bytearray():
            return redact(bytes(value[:_READ]).decode("utf-8", "backslashreplace"))
        case _ if depth >= _DEEP:
            return "…"
        case Mapping():
            return _redact_mapping(cast("Mapping[object, object]", value), depth)
        case Sequence() | AbstractSet():
            return _redact_items(list(cast("Sequence[object]", value))[:_MANY], depth)
        case _:
            return redact(_text(value))


def redact_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a failure as plain bounded data with every text redacted."""
    return _redact_mapping(cast("Mapping[object, object]", details), 0) if details else {}


def text_of(error: BaseException) -> str:
    """Return the error's own text, redacted; empty if it has none. A failing `__str__` is named, never raised."""
    return redact(_text(error)).strip()


def _redact_mapping(value: Mapping[object, object], depth: int) -> dict[str, Any]:
    # {"field": "token", "received": …}: the name of the secret is itself a value
    names_secret = any(_names_secret(value.get(name)) for name in _NAMING)
    plain: dict[str, Any] = {}
    for key, item in list(value.items())[:_MANY]:
        name, hidden = _field(_name(key))
        hidden = hidden or (names_secret and name in _NAMED_BY)
        plain[name] = MASK if hidden and item is not None else redact_value(item, depth + 1)
    return plain


def _redact_items(items: list[object], depth: int) -> tuple[Any, ...]:
    # ("Authorization", …), ["--token", …]: what follows the name of a secret is one
    shown: list[Any] = []
    before: object = None
    for item in items:
        hidden = item is not None and _names_secret(before)
        shown.append(MASK if hidden else redact_value(item, depth + 1))
        before = item
    return tuple(shown)


def _names_secret(value: object) -> bool:
    # Not by way of `_field`, which remembers what it was asked: a value may be the secret itself.
    return isinstance(value, str | bytes) and len(value) <= 100 and is_sensitive(_name(value))


def _name(key: object) -> str:
    return key[:_READ].decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


@lru_cache(maxsize=256)  # the same few names, over and over
def _field(name: str) -> tuple[str, bool]:
    shown = redact(name, limit=100)
    return shown, is_sensitive(shown)


def is_sensitive(name: str) -> bool:
    """Return True when a field of this name holds a secret (token, api_key, Authorization, …)."""
    return _SENSITIVE.fullmatch(name.rpartition(".")[2][-100:]) is not None


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 (an error whose text cannot be had is still an error to report)
        return f"<{type(value).__name__} without text>"


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    point = ord(character)
    return _NAMED.get(character) or (f"\\x{point:02x}" if point <= 0xFF else f"\\u{point:04x}")
