"""The names of secrets: as a field, a header, an option, an element, a parameter of a query.

Rule: a pattern begins with a plain letter (what must precede it is checked by a lookbehind after
that letter), so that the engine tries few patterns at each position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final


MASK: Final = "[redacted]"
"""What stands in place of a secret."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, which is shorter to read than a tuple of them."""
    return tuple(text.split())


_KEYS: Final = words(
    "api access private secret subscription functions? account signing encryption decryption master service storage app"
    " application client auth admin license deploy ssh aes hmac session sas instrumentation integration ingest ingestion consumer"
    " security webhook bot root write publishable openai anthropic google gemini azure aws gcp stripe github gitlab slack sendgrid"
    " mailgun twilio datadog groq mistral cohere hf huggingface xai deepseek openrouter replicate nvidia linear notion supabase"
    " firebase algolia rapidapi goog shared shared[_-]?access"
)
_NO_SECRETS: Final = words(  # names that end in -key, as headers with a secret do
    "idempotency primary foreign sort partition cache surrogate public host websocket routing object message lookup group order"
    " range index map dict row column unique composite natural arrow hot answer shift ctrl control alt enter escape any registry"
    " translation dedup deduplication dedupe event item entity such unknown missing duplicate bad invalid wrong new old the a"
)
_FRAGMENTS: Final = (
    "authorization", *(f"{word}[ _-]?keys?" for word in _KEYS), f"-{''.join(f'(?<!{word}-)' for word in _NO_SECRETS)}(?<=[a-z0-9]-)key",
    "passw(?:or)?ds?", "passphrases?", "passcode", "p(?<=[_-]p)ass", "(?:user|db|root|admin|ftp|smtp|mail)_?pass", "pwd", "secrets?",
    "token", "credentials?", "cookies?", "signature", "jwt", "bearer", "psk", "o(?<![a-z]o)tp", "t(?<![a-z]t)otp", "mnemonic",
    "seed[ _-]?phrase", "recovery[ _-]?(?:phrase|code)s?", "backup[ _-]?codes?", "conn(?:ection)?[_-]?str(?:ing)?", "client[_-]?assertion",
    "saml[_-]?(?:response|assertion)", "webhook[_-]?url", "auth(?:orization)?[_-]?code", "verification[_-]?code", "csrf", "xsrf",
    "a(?<=[_-]a)uth", "p(?<=_p)at", "phpsessid", "jsessionid", "connect\\.sid", "s(?<=x[_-]s)ession", "t(?<=x[_-]t)icket",
    "s(?<=x[_-]s)ig",
)  # fmt: skip
_END: Final = r"(?:[_-]?\d{1,2}|[_-](?:value|base|hash|old|new))?(?!\w|-(?!>))"
_ALONE: Final = frozenset({"auth", "jwt", "pass", "sid"})  # as the name of a field, but not in prose

HEADERS: Final = ("authorization", "cookie", "cookies")
"""Names whose values may hold blanks and quotes: the value extends to the end of the line."""
PHRASES: Final = words("passw passphrase passcode pwd secret credential mnemonic seed recovery")
"""How names of secrets begin that may have several words."""
CLUES: Final = words(
    "auth key secret pass pwd token credential cookie signature jwt bearer psk otp mnemonic phrase code connstr conn-str conn_str"
    " tion_str tionstr tion-str saml assertion webhook csrf xsrf sessid sessionid .sid x-s x_s x-t x_t _pat"
)
"""Every name contains one of these, in lower case."""
ATTRIBUTE: Final = re.compile(
    r"(?:name|key|field|header|id)\\{0,3}['\"]?\s{0,2}[:=]\s{0,2}b?\\{0,3}['\"]$", re.IGNORECASE
)
"""What precedes a name that is itself a value: `<input name="…`, `{"key": "…`."""
QUERY: Final = (
    r"authorization|api[_-]?key|access[_-]?key|private[_-]?key|[a-z]-key|secret|passw(?:or)?d|passphrase|passcode|pwd|token|credentials?"
    r"|cookie|signature|jwt|otp|[_-](?:auth|pass)"
)
"""Names of parameters whose values are secrets, however short."""


def _grouped() -> str:
    heads: dict[str, list[str]] = {}
    for fragment in _FRAGMENTS:
        if fragment.startswith("(?:"):
            head, tails = fragment[3:].split(")", 1)
            for word in head.split("|"):
                heads.setdefault(word[0], []).append(word[1:] + tails)
        else:
            heads.setdefault(fragment[0], []).append(fragment[1:])
    return "|".join(
        f"{head}(?:{'|'.join(sorted(tails, key=len, reverse=True))})" for head, tails in heads.items()
    )


@cache
def _pattern(flags: int) -> re.Pattern[str]:
    return re.compile(f"(?:{_grouped()}){_END}", flags)


def names_in(text: str, lowered: str) -> Iterator[re.Match[str]]:
    """Return the positions of names of secrets.

    `lowered` is the text in lower case, or the text itself if it has letters beyond ASCII.
    """
    return _pattern(0 if lowered is not text else re.IGNORECASE).finditer(lowered)


def is_sensitive(name: str) -> bool:
    """Return whether a field of this name holds a secret (token, api_key, Authorization, …)."""
    last = name.rpartition(".")[2][-100:].lower()
    return last in _ALONE or any(found.end() == len(last) for found in _pattern(0).finditer(last))
