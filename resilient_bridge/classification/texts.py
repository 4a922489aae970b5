"""What a text says went wrong: the last resort, for errors that are nothing but their text (C1).

Rule: a pattern counts as whole words only, an errno's name only in capitals, and a number only where the text says that it is
a status: "processed 429 rows" is no rate limit. What no pattern knows is not known to pass. Nothing proves that it did not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

import attrs

from ..errors import Category, Executed, Kind, code_info
from .finding import Finding, short_of
from .hints import hints
from .statuses import status_finding


_LONGEST: Final = 8_192  # characters looked at


def _said(code: str, *, kind: Kind | None = None, hint: str = "", once: bool = False) -> Finding:
    return Finding(
        code=code,
        category=Category.UPSTREAM,
        kind=kind,
        executed=Executed.MAYBE,
        suggestions=hints(hint),
        details={"max_retries": 1} if once else {},
    )


_REFUSED = _said("CONN_REFUSED", hint="ECONNREFUSED")
_RESET = _said("CONN_RESET", hint="ECONNRESET")
_TIMEOUT = _said("CONN_TIMEOUT", hint="ETIMEDOUT")
_DNS = _said("CONN_DNS_FAILED")
_BUSY = _said("CONN_RESOURCE_EXHAUSTED")
_PORT = _said("CONN_RESOURCE_EXHAUSTED", hint="EADDRINUSE")
_SPAWN = _said("CONN_UNREACHABLE", hint="SPAWN")
_SLOW_START = _said("CONN_UNREACHABLE", hint="SLOW_START")
_LIMITED = _said("SYS_RATE_LIMITED")
_FINAL = _said("SYS_UPSTREAM_REJECTED")
_FORBIDDEN = attrs.evolve(_FINAL, code="AUTH_FORBIDDEN", category=Category.UPSTREAM)
_CORRUPT = _said("PROTO_INVALID_MESSAGE", kind=Kind.CORRUPTION)
_PARTIAL = _said("SYS_UPSTREAM_REJECTED", kind=Kind.PARTIAL)
_QUOTA = attrs.evolve(_FINAL, suggestions=("raise the limit or add credit",))
_MEMORY = attrs.evolve(_said("SYS_UNAVAILABLE", once=True), suggestions=("ask for less at once",))

_SYMBOLS: Mapping[str, Finding] = {  # in capitals only
    **dict.fromkeys(("ECONNREFUSED",), _REFUSED),
    **dict.fromkeys(("ECONNRESET", "EPIPE", "ECONNABORTED"), _RESET),
    **dict.fromkeys(("ETIMEDOUT", "ESOCKETTIMEDOUT"), _TIMEOUT),
    **dict.fromkeys(("ENOTFOUND", "EAI_AGAIN"), _DNS),
    **dict.fromkeys(("EBUSY", "EAGAIN", "LOCKED", "EMFILE"), _BUSY),
    "EADDRINUSE": _PORT,
    **{name: _said("SYS_UPSTREAM_REJECTED", hint=name) for name in ("ENOENT", "EACCES", "EPERM")},
}
_PHRASES: Mapping[str, Finding] = {  # in any case
    **dict.fromkeys(("connection refused",), _REFUSED),
    **dict.fromkeys(("connection reset by peer", "socket hang up", "broken pipe"), _RESET),
    **dict.fromkeys(
        ("network timeout", "connection timed out", "operation timed out", "request timed out"), _TIMEOUT
    ),
    **dict.fromkeys(("name or service not known", "temporary failure in name resolution"), _DNS),
    **dict.fromkeys(("database is locked", "resource busy", "resource temporarily unavailable"), _BUSY),
    **dict.fromkeys(("address already in use", "port already bound"), _PORT),
    "failed to start daemon": _SPAWN,
    "daemon started but not responding": _SLOW_START,
    **dict.fromkeys(("429 too many requests", "too many requests", "rate limit", "rate limited"), _LIMITED),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "quota exceeded"), _LIMITED),
    **dict.fromkeys(("404 not found", "invalid argument", "syntax error", "command not found"), _FINAL),
    "no such file or directory": _said("SYS_UPSTREAM_REJECTED", hint="ENOENT"),
    "permission denied": _said("SYS_UPSTREAM_REJECTED", hint="EACCES"),
    "403 forbidden": _FORBIDDEN,
    **dict.fromkeys(
        ("unexpected token", "invalid json", "schema validation failed", "state mismatch"), _CORRUPT
    ),
    "operation incomplete": _PARTIAL,
    **dict.fromkeys(("out of memory", "cannot allocate memory"), _MEMORY),
    **dict.fromkeys(
        ("insufficient_quota", "billing_hard_limit_reached", "credit balance is too low"), _QUOTA
    ),
}
_NUMBERED = (  # where a text says that a number is a status
    r"http(?:/\d(?:\.\d)?)? [45]\d\d",
    r"status(?: code)?[ :=]{1,3}[45]\d\d",
    r"error code[ :=]{1,3}[45]\d\d",
    r"returned error: [45]\d\d",
    r"502 bad gateway",
    r"503 service (?:temporarily )?unavailable",
    r"504 gateway time-?out",
    r"500 internal server error",
    r"408 request timeout",
    r"401 unauthorized",
)
_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_STATUS = re.compile(r"[45]\d\d(?!\d)")


@cache
def _patterns() -> re.Pattern[str]:
    # Plain alternatives, grouped by first letter: the engine then looks at few of them at each place.
    heads: dict[str, list[str]] = {}
    words = [re.escape(word) for word in (*_PHRASES, *(symbol.lower() for symbol in _SYMBOLS))]
    for word in sorted((*words, *_NUMBERED), key=len, reverse=True):
        heads.setdefault(word[0], []).append(word[1:])
    return re.compile("|".join(f"{head}(?:{'|'.join(tails)})" for head, tails in heads.items()))


def text_finding(text: str) -> Finding | None:
    """Return what a text says, None when no pattern of it is known.

    The first pattern in the text counts, but an exhausted quota anywhere in it makes it final: providers put it behind "429".
    """
    if len(text) > _LONGEST:
        text = text[:_LONGEST]
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose lower case is longer: then only as written
        lowered = text
    match = _patterns().search(lowered)
    return None if match is None else _judged(text, lowered, match)


def _judged(text: str, lowered: str, match: re.Match[str]) -> Finding | None:
    first: Finding | None = None
    for hit in (match, *_patterns().finditer(lowered, match.end())):
        found = _meant(text, hit)
        if found is not None and found.suggestions == _QUOTA.suggestions:
            first = found
            break
        first = first or found
    if first is None:
        return None
    message = first.message or code_info(first.code).summary
    return attrs.evolve(first, message=message + short_of(text))


def _meant(text: str, match: re.Match[str]) -> Finding | None:
    start, end = match.span()
    if text[start - 1 : start] in _WORD or text[end : end + 1] in _WORD:
        return None
    words = match.group()
    return _PHRASES.get(words) or _SYMBOLS.get(text[start:end]) or _status(words)


def _status(words: str) -> Finding | None:
    number = _STATUS.search(words)
    if number is None:
        return None
    said = status_finding(int(number.group()))
    return attrs.evolve(said, category=Category.UPSTREAM, executed=Executed.MAYBE)
