"""Secrets near their names, in calls, assertions and sentences of any tool: what is quoted, and given to something.

Rule: linear. A bounded window around a name is read; a value that has a name of its own is not taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .secret_names import AMBIGUOUS, Kind, Name, kind_of
from .secret_values import has_mix, is_opaque, is_secret


_BEFORE: Final = 100
_AFTER: Final = 160
_QUOTED: Final = re.compile(
    r"(?<!\w)b?(?:\"([^\"\s]{4,200})\"|'([^'\s]{4,200})'|`([^`\s]{4,200})`|(?<=[-\s])\[([^\[\]\s'\"]{4,200})\])"
)
_CLUE: Final = re.compile(r"\d|\(['\"]|(?:enters?|entered|types|typed|with) ['\"]|, ['\"]")
_BEFORE_VALUE: Final = re.compile(  # what precedes a value that is given: `send_keys(`, `with `, `"value": `, `$1 = 0x55 `
    r"(?:(?P<verb>\b(?:fill|type|send_?keys|set_?value|enter|press_sequentially|clear)\w{0,12}\((?:[^()\n]{0,60},\s?)?|\b(?:enter(?:s|ed)?|types|typed|with)\s)"
    r"|(?:[(,]|\s[-\u2013\u2014]|\]|0x[0-9a-f]{1,16}|\$\d{1,3}\s=)\s{0,4}|\b(?:value|values|data|input|got|given|found|received|actual|text|content|was|is|args?)['\"]?\s{0,2}[:=]?\s{0,2}[\[(]?)$",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"\w \w{2,20}: b?$")  # the end of a sentence: `is not an instance of int: `
_REPORTED: Final = re.compile(r"\b(?:given|got|received|actual):\s([^\s'\",;()]{6,200}+)", re.IGNORECASE)
_NO_SECRETS: Final = re.compile(r"[#./~@<${\\-]|.*(?:[/\\=&?<>]|\.(?:\w{1,4}$|\w+\.))|.*\(")
_WORD: Final = re.compile(
    r"(?:(?<=[\s'\"`(])|^)((?!-)[A-Za-z0-9!#$%^&*+~_-]{6,60})(?=[\s'\"`),;.!?]|$)(?!\.\w)", re.MULTILINE
)
_CHANGES: Final = re.compile(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d")
_VERB: Final = re.compile(
    r"\b(?:is|was|got|entered|typed|tried|used|sent|but)\s[\s'\"`(]{0,3}$", re.IGNORECASE
)
_KEBAB: Final = re.compile(r"[a-z]+\d?-")
_OWN: Final = re.compile(
    r"[\w)\]]['\"]?\s?[:=]\s?[\[(]?$|\b(?:users?|account|host|name|named|id|file|object|kind|type|table|pod|service)\s$",
    re.IGNORECASE,
)
_HEX: Final = re.compile(r"[0-9a-f-]+|[0-9A-F-]+|[A-Z]{2,8}-?\d{2,8}[A-Z]?")
_TECHNICAL: Final = re.compile(
    r"^0x|sha\d|md5|base\d\d|utf-?\d|oauth|[ikl]\d{1,2}n\b|k8s|x509|ed25519|ipv\d|http\d|pkcs|p12|aes|rsa\d|x86|amd64|arm|win\d|log4j|web3|auth0|b64|ec2|s3|h2|\dfa|x64|v\d|\d(?:st|nd|rd|th|ms|s|kb|mb|gb|m|h|d|x)\b|[A-Z]+_|[a-z]+_[a-z]+",
    re.IGNORECASE,
)
_OF_ANOTHER: Final = re.compile(
    r"(?:\b(?:users?|username|login|host|hostname|id|req|request|trace|span|session|pod|container|node|server|db|database|table|role|account|client|build|job|task|run|commit"
    r"|version|release|file|module|function|class|line|column|port|from|on|at|by|in|package|image|branch|tag|device|plugin|bucket|topic|queue|cluster|region|zone|schema"
    r"|index|constraint|field|property|parameter|variable|method|type|service|namespace|named|called|error|code|status|ssid|domain|realm)|[:=/\\])[\s'\"`(#]{0,3}$",
    re.IGNORECASE,
)


def near(text: str, name: Name) -> Iterator[tuple[int, int]]:
    """Return what is given near the name of a secret: `find("password").send_keys("…")`, `fill in "Password" with "…"`."""
    if name.kind is not Kind.ANY and name.kind is not Kind.KEY:
        return
    start, end = _window(text, name)
    if _CLUE.search(text, start, end) is None:
        return
    for quoted in _QUOTED.finditer(text, start, end):
        span = quoted.span(quoted.lastindex or 0)
        if not quoted.start() <= name.start < quoted.end() and _is_value(text, start, quoted, name):
            yield span
    if name.kind is Kind.KEY:
        return
    reported = _REPORTED.search(text, name.end, end)
    if (
        reported is not None
        and (reported[1].isdecimal() or has_mix(reported[1]))
        and is_secret(reported[1], is_bare=True)
    ):
        yield reported.span(1)
    if not _is_ambiguous(text, name):
        yield from (
            span for span in _thrown_together(text, start, end) if not span[0] <= name.start < span[1]
        )


def _window(text: str, name: Name) -> tuple[int, int]:
    """Return the part of the text around a name: its line, the one before, the one behind, bounded.

    It ends at a mask: so what is masked once is read no further when it is masked again.
    """
    first, last = max(0, name.start - _BEFORE), min(len(text), name.end + _AFTER)
    start = text.rfind("\n", first, name.start)
    start = text.rfind("\n", first, start) + 1 if start >= 0 else 0
    line = text.find("\n", name.end, last)
    end = text.find("\n", line + 1, last) if line >= 0 else -1
    mask = text.find("[redacted]", name.end, last)
    return (
        max(first, start, text.rfind("[redacted]", first, name.start)),
        min(last, *(at for at in (end, mask) if at >= 0), last),
    )


def _is_ambiguous(text: str, name: Name) -> bool:
    """Return whether the name is a word of other things as well, and stands alone: token, but not auth_token."""
    before = text[name.start - 1 : name.start]
    return name.word in AMBIGUOUS and not (before.isalnum() or before in ("_", "-"))


def _is_value(text: str, start: int, quoted: re.Match[str], name: Name) -> bool:
    """Return whether a text in quotes is given as the value of a secret, and not as a name, a path, a user."""
    value, at = quoted[quoted.lastindex or 0], quoted.start()
    if not has_mix(value):
        return not _is_ambiguous(text, name) and _is_entered(text, max(start, at - 80), at, value)
    if name.kind is Kind.KEY:
        return is_secret(value, Kind.KEY) and (
            _ends_sentence(text, start, at) or not _is_own(text, start, at)
        )
    if not is_secret(value, is_bare=True) or kind_of(value) is not None:
        return False
    if _NO_SECRETS.match(value) is not None:
        is_long = len(value) >= 24 and "/" not in value and " " not in value and is_opaque(value)
        return is_long and _BEFORE_VALUE.search(text, max(start, at - 60), at) is not None
    is_stated = _BEFORE_VALUE.search(text, max(start, at - 60), at) is not None or _ends_sentence(
        text, start, at
    )
    if _is_ambiguous(text, name):
        return (
            (is_stated or not _is_own(text, start, at)) and is_opaque(value) and _KEBAB.match(value) is None
        )
    is_other = _is_technical(value) or _OF_ANOTHER.search(text, max(start, at - 40), at) is not None
    return is_stated or not is_other


def _is_entered(text: str, start: int, at: int, value: str) -> bool:
    """Return whether a word is entered into a field: `fill("#password", "…")`, `"Password" with "…"`."""
    if text[at - 1 : at] not in ("(", " "):
        return False
    opening = _BEFORE_VALUE.search(text, start, at)
    return (
        opening is not None
        and bool(opening["verb"])
        and _NO_SECRETS.match(value) is None
        and is_secret(value, is_bare=True)
    )


def _ends_sentence(text: str, start: int, at: int) -> bool:
    return text[at - 2 : at] in (": ", " b") and _SENTENCE.search(text, max(start, at - 30), at) is not None


def _is_own(text: str, start: int, at: int) -> bool:
    return _OWN.search(text, max(start, at - 40), at) is not None


def _thrown_together(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return the words of a line that mix letters and digits as a password does, and belong to nothing else."""
    for word in _WORD.finditer(text, start, end):
        changes = len(_CHANGES.findall(word[1]))
        before = max(0, word.start() - 30), word.start(1)
        is_stated = changes > 1 or (changes == 1 and _VERB.search(text, *before) is not None)
        if is_stated and _is_password(word[1]) and _OF_ANOTHER.search(text, *before) is None:
            yield word.span(1)


def _is_password(value: str) -> bool:
    is_name = _KEBAB.match(value) is not None or _is_technical(value) or kind_of(value) is not None
    return not is_name and is_secret(value, is_bare=True)


def _is_technical(value: str) -> bool:
    return _HEX.fullmatch(value) is not None or _TECHNICAL.search(value) is not None
