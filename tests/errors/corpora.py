"""The two corpora of redaction: texts with a secret, which stands between « and », and harmless diagnostics.

Rule: the files that end in `_held` hold every fifth text. They measure; nobody looks at them to write a pattern.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, NamedTuple


_FOLDER: Final = Path(__file__).parent / "corpus"
_SECRET: Final = re.compile("«(.*?)»", re.DOTALL)


class Text(NamedTuple):
    """One text of a corpus, the tool it comes from, and the secrets in it."""

    source: str
    text: str
    secrets: tuple[str, ...] = ()


def texts(name: str) -> list[Text]:
    """Return the texts of one file, without their marks."""
    rows = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    return [
        Text(row["source"], re.sub("[«»]", "", row["text"]), tuple(_SECRET.findall(row["text"])))
        for row in rows
    ]


def shows(shown: str, secrets: tuple[str, ...]) -> bool:
    """Return whether a secret is in what is shown, which may have escaped its controls."""
    plain = re.sub(r"\\+x00", "", shown)
    return any(_stands_in(plain, secret.replace("\0", "").strip()) for secret in secrets)


def _stands_in(text: str, secret: str) -> bool:
    """Return whether the secret is in the text; a short one is looked for as a word of its own."""
    if len(secret) >= 6:
        return secret in text
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(secret)}(?![A-Za-z0-9])", text) is not None
