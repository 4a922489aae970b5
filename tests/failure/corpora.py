"""The corpora of redaction: texts with a secret, which stands between « and », and harmless diagnostics.

Two of them were there while the redactor was written (`secrets`, `harmless`), with every fifth text held back (`_held`),
one pair came later (`_later`). The eight rounds (ROUNDS) measure what the rules do with texts that they have not seen:
each round was written before it was run, was run once, and only then read to mend the rules.
Their author is that of the rules, and knew them from the second round on: the numbers are an upper bound for texts of others.

Rule: a text is never changed, and none is taken out, because it leaks: a round names the texts that still do.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final, NamedTuple


_FOLDER: Final = Path(__file__).parent / "secrets"
_SECRET: Final = re.compile("«(.*?)»", re.DOTALL)


class Text(NamedTuple):
    """One text of a corpus, the tool it comes from, the secrets in it, and the text without them."""

    source: str
    text: str
    secrets: tuple[str, ...] = ()
    outside: str = ""


class Round(NamedTuple):
    """What one round measured at first sight, in per cent, and the texts (by source) that leak or are damaged today."""

    about: str
    masked: float
    undamaged: float
    leaking: frozenset[str] = frozenset()
    damaged: frozenset[str] = frozenset()


ROUNDS: Final = {
    "first": Round("formats and libraries, before any change", 93.0, 98.7),
    "second": Round(
        "files of settings, network devices, tests of browsers, languages",
        78.6,
        98.7,
        leaking=frozenset({"postfix sasl_passwd", "teradata"}),
    ),
    "third": Round("services, prompts, clouds", 82.5, 96.2, leaking=frozenset({"codecov", "ably"})),
    "fourth": Round(
        "what Python, Node, Go and Java print", 92.7, 98.5, leaking=frozenset({"erlang"})
    ),
    "fifth": Round(
        "validators, tools of attackers, databases' commands",
        81.3,
        95.3,
        leaking=frozenset({"int()", "hashcat", "qemu", "zookeeper jaas"}),
    ),
    "sixth": Round("the kinds of the first round again", 96.2, 95.1),
    "seventh": Round(
        "mail, shops, games, devices, sentences",
        80.6,
        90.3,
        leaking=frozenset({"exim", "lftp", "wireguard ui"}),
        damaged=frozenset({"compiler pass"}),
    ),
    "eighth": Round("the kinds of the first round a third time", 96.9, 97.0),
}


def texts(name: str) -> list[Text]:
    """Return the texts of one file, without their marks."""
    rows = json.loads((_FOLDER / f"{name}.json").read_text("utf-8"))
    return [
        Text(
            row["source"],
            re.sub("[«»]", "", row["text"]),
            tuple(_SECRET.findall(row["text"])),
            _SECRET.sub("\n", row["text"]),
        )
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


def parts_of(one: Text, shown: str) -> list[str]:
    """Return parts of six characters of its secrets that stand in what is shown; a shorter secret is a word."""
    plain, outside = (re.sub(r"\\+x00|\0", "", text) for text in (shown, one.outside))
    found: list[str] = []
    for secret in (secret.replace("\0", "").strip() for secret in one.secrets):
        if len(secret) < 6:
            found += [secret] if _stands_in(plain, secret) else []
            continue
        parts = (secret[start : start + 6] for start in range(len(secret) - 5))
        found += [part for part in parts if part in plain and part not in outside]
    return found
