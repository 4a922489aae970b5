"""Secrets that are found by reading a text as what it is: a manifest of Kubernetes, base64.

Rule: linear. What is read is bounded, and read only where a word of it stands in the text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import Final

from .secret_values import is_secret


Span = tuple[int, int]

# ---- Kubernetes: each value of a Secret ------------------------------------------------------------------------------

_MANIFEST: Final = re.compile(r"\bkind\\{0,3}['\"]?\s{0,4}:\s{0,4}\\{0,3}['\"]?Secret\b")
_DATA: Final = re.compile(
    r"(?:^|\n)([ ]{0,40})(?:data|stringData):[ \t]*\r?\n|\b(?:data|stringData)\\{0,3}['\"]\s{0,4}:\s{0,4}\{"
)
_ENTRY: Final = re.compile(r"([ ]{1,40})[^\s:][^\n:]{0,200}:[ ]([^\n]*+)(?:\n|$)")
_MEMBER: Final = re.compile(
    r"\s{0,40}\\{0,3}['\"][^'\"\\]{1,200}\\{0,3}['\"]\s{0,4}:\s{0,4}\\{0,3}['\"]([^'\"\\]*+)\\{0,3}['\"]\s{0,4},?"
)


def spans_in_manifest(text: str, lowered: str) -> Iterator[Span]:
    """Return what stands under `data:` and `stringData:` of a Secret, whatever its names are."""
    if "kind" not in lowered or _MANIFEST.search(text) is None:
        return
    for block in _DATA.finditer(text):
        at, margin = block.end(), block[1]
        pattern, group = (_MEMBER, 1) if margin is None else (_ENTRY, 2)
        while (entry := pattern.match(text, at)) is not None:
            if margin is not None and len(entry[1]) <= len(margin):
                break
            if is_secret(entry[group]):
                yield entry.span(group)
            at = entry.end()


# ---- base64 of a text with a secret ----------------------------------------------------------------------------------

_BASE64: Final = re.compile(r"(?<![\w+/.-])[A-Za-z0-9+/_-]{16,}+={0,2}(?![\w+/=-])")
_LEAST: Final = 16
_LARGEST: Final = 4_000
_MOST: Final = 20


def spans_in_base64(text: str, masked: Callable[[str], str]) -> Iterator[Span]:
    """Return each run of base64 that holds a secret once it is decoded: `user:password`, JSON, a form."""
    if max(map(len, text.split()), default=0) < _LEAST:
        return
    for count, run in enumerate(_BASE64.finditer(text)):
        if count == _MOST:
            return
        plain = _plain(run.group()[:_LARGEST])
        if plain is not None and ("\0" in plain.strip("\0") or masked(plain) != plain):
            yield run.span()


def _plain(encoded: str) -> str | None:
    """Return the text in base64; None where it is none, which is printable."""
    if encoded.isalpha() and (encoded.islower() or encoded.isupper()):
        return None
    standard = encoded.replace("-", "+").replace("_", "/").rstrip("=")
    if len(standard) % 4 == 1:
        return None
    try:
        plain = b64decode(standard + "=" * (-len(standard) % 4)).decode("ascii")
    except ValueError:
        return None
    return plain if re.sub(r"[\0\r\n\t]", "", plain).isprintable() else None
