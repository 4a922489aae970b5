"""Text as its reader sees it: without escapes, entities, percent-encoding and invisible characters.

Rule: linear; a character that is encoded several times over (`%253D`, `&amp;quot;`, `\\\\\\"`) is
decoded at once.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Final
from urllib.parse import unquote


_CODES: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
_ENCODED: Final = re.compile(
    rf"[{_CODES}]|%(?!20)[0-9a-fA-F]|&(?:#\w{{1,7}}|[a-zA-Z]{{2,8}});|\\[uxnrt0e\"'`/\\]"
)
_ANSI: Final = re.compile(
    r"(?:\x1b|\\{1,4}(?:x1b|u001b|033|e))(?:\[[0-9;?]{0,30}[ -/]{0,3}[@-~]|\]8;[^;\x1b]{0,60};|\\)|\x9b[0-9;?]{0,30}[@-~]",
    re.IGNORECASE,
)
_INVISIBLE: Final = re.compile(
    rf"[{_CODES}]|\\{{1,4}}(?:x0[0-8bcef]|u000[0-8bcef]|x7f|u200[b-f]|u202[a-e]|u206[0-9a-f]|u00ad|ufeff|0(?![0-9]))",
    re.IGNORECASE,
)
_PERCENT: Final = re.compile(r"(?:%(?:25){0,8}[0-9a-f]{2})++", re.IGNORECASE)
_MANY_PERCENTS: Final = re.compile(r"%(?:25)+(?=[0-9a-f]{2})", re.IGNORECASE)
_ENTITY: Final = re.compile(r"&(?:amp;){0,8}(#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]{2,8});", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\{1,32}(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'`/])|([nrt]))")
_FOREIGN: Final = re.compile(r"[\x80-\u2025\u2027-\U0010ffff]+")  # but for the mark of what was cut
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t"}
_LIKE_LATIN: Final = str.maketrans(  # letters of Cyrillic script that look like others
    "\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456\u0458\u0455\u0501\u04bb\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425",
    "aeopcxyijsdhABEKMHOPCTX",
)
_MIXED: Final = re.compile(
    r"[\u0430\u0435\u043e\u0440\u0441\u0445\u0443\u0456\u0458\u0455\u0501\u04bb\u0410\u0415\u041e\u0420\u0421\u0425\u0423\u0406\u0408\u0405](?:(?<=[A-Za-z].)|(?=[A-Za-z]))"
)


def decoded(text: str) -> str:
    """Return the text without one layer of encoding; the same object if it has none."""
    is_plain = text.isascii()
    if is_plain and "%" not in text and "&" not in text and "\\" not in text and text.isprintable():
        return text
    if _ENCODED.search(text) is not None:
        text = _INVISIBLE.sub("", _ANSI.sub("", text))
        if "%" in text:
            text = _PERCENT.sub(_from_percent, text)
        if "&" in text:
            text = _ENTITY.sub(lambda found: html.unescape(f"&{found[1]};"), text)
        if "\\" in text:
            text = _ESCAPE.sub(_from_escape, text)
    if not is_plain:
        if not unicodedata.is_normalized("NFKC", text):
            text = _FOREIGN.sub(_composed, unicodedata.normalize("NFC", text))
        text = _MIXED.sub(lambda found: found.group().translate(_LIKE_LATIN), text)
    return text


def _composed(found: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", found.group())


def _from_percent(found: re.Match[str]) -> str:
    return unquote(_MANY_PERCENTS.sub("%", found.group()))


def _from_escape(found: re.Match[str]) -> str:
    wide, narrow, mark, control = found.groups()
    if mark or control:
        return mark or _CONTROLS[control]
    point = chr(int(wide or narrow, 16))
    return point if point.isprintable() else ""
