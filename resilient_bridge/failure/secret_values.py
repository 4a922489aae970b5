"""What the value of a secret looks like, beside its name.

Rule: the name says that a secret may stand here, the value decides. A placeholder (`$TOKEN`,
`<token>`), a state (`none`, `disabled`), a sentence (`must be set`) and, behind a colon, a word of
the language are no secrets; masked, they would take away what the reader needs. Every check reads
a bounded part of a value.
"""

from __future__ import annotations

import re
from typing import Final, cast
from urllib.parse import parse_qsl

from .secret_names import Kind, is_sensitive, kind_of, words


LONG: Final = 400
"""Characters of the longest value that is judged.

A longer one is masked unread: so whatever is read more than once is short, and the search linear.
"""
_EDGES: Final = " \t\r\n.,;:!?()[]{}<>\"'`\\"

_NO_VALUE: Final = re.compile(  # no letter, a mask, a reference, a placeholder
    r"(?:[^\w@#$%^&+-]{0,3}|[|>][+-]?\d?\s{0,4}(?:\\[nrt].{0,400})?|[*•xX.…·_-]{2,400}|\[(?-i:[A-Z_ ]){1,20}\]|\[(?:redacted\]|r?e?d?a?c?t?e?d?…).{0,400}"
    r"|<[^<>\n]{0,100}>|\$?\{{1,2}[\w .:-]{0,60}\}{1,2}|\$\(?[A-Z_][A-Z0-9_]{1,60}\)?|%\(?\w{0,40}\)?[sdrv]|\$\d{1,2}|\?"
    r"|(?:env|file|vault|ref|secretref|ssm|op|keyring|cmd):[\w./:@ -]{1,200}|(?:os\.environ|process\.env|var\.|secrets\.|env\.|self\.|config\.)[\w.\[\]'\"()]{0,80}"
    r"|(?:your|my|the|some|insert|enter|put|replace|example|dummy)[ _-]?[a-z_ -]{0,30}(?:key|token|secret|password|here|credentials?)|changeme"
    r"|(?:os\.)?(?:getenv|environ|env|config|lookup|prompt|input|getpass)\b[(.\[].{0,200}|[A-Za-z_][\w.]{0,60}\(\))",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\(?[A-Z_][A-Z0-9_]{1,60}\)?|\$\{[^{}]{0,80}\}")
_SCHEMES: Final = frozenset(words("basic bearer digest token"))
_STATES: Final = frozenset(
    words(
        "none null nil undefined nan true false yes no on off n/a na empty blank missing required invalid disabled enabled hidden masked"
        " redacted filtered removed set unset optional unknown sensitive default basic bearer digest ntlm negotiate oauth oauth2 kerberos"
        " sigv4 apikey api_key saml oidc mtls anonymous string str int integer bytes boolean bool object array list dict text nonetype"
        " undefined include omit same-origin password token secret ok fail failed valid expired revoked absent present given wrong obligatoire requis"
        " requise erforderlich ungültig falsch obligatorio requerido inválido inválida obrigatório incorrecta incorrecto"
    )
)
_WORDS: Final = _STATES | frozenset(
    words(
        "the and or not is are was were be been has have had must should shall could would can cannot can't may might will won't do does"
        " did doesn't didn't don't isn't wasn't needs need expects expected got wanted received provided found see use check try set please"
        " contains contain too at least only this that these those it its you your we our they when if for from in into of to with without"
        " by as than then there here again both either neither no such access permission denied forbidden unauthorized authentication"
        " authorization malformed incorrect unexpected unsupported unable error errors failure exception exceeded mismatch mismatched"
        " disabled end eof eol newline illegal bad number unbound undeclared uninitialized unavailable unresolved inaccessible unreachable unparseable unreadable unused nullable readonly"
        " mandatory deprecated inactive locked suspended rejected accepted verified unverified authenticated unauthenticated loaded stored saved sent sending received receiving pending ready refreshed rotating issued generated generating validated validating validation identifier keyword operator literal symbol punctuator field fields value"
        " values type types length minimum maximum min max characters chars reading writing parsing loading fetching checking refreshing"
        " rotated rotating deleted created updated changed removed renamed added used unused declared defined retrying skipped ignored"
        " ignoring using login user username email name id file path environment variable option flag argument header body query cookie"
        " signature credentials credential key keys tokens passwords uppercase lowercase digit digits letters special champ"
        " campo feld pflichtfeld wert valeur valor mot le la el il der die das ein eine est es ist non nicht kein keine muss doit debe deve"
        " fehlt manquant manquante falta faltando erforderlich должен неверный обязательно обязателен не 必须 不能 必須 错误 错誤 無効"
        " before after while during because since until where which who what why how all any each every some many more most other another"
        " via syntax prefix requires require accepts accept takes take minimum maximum scheme header yaml json toml scanner parser lexer compiler unclosed unterminated unmatched stray trailing leading"
    )
)
_SENTENCE: Final = frozenset(
    words(
        "is are was must should shall cannot can't may not isn't doesn't does has have needs need required invalid incorrect missing expired"
        " too at least minimum maximum please enter wrong expected allowed accepted valid contain contains mandatory empty blank match"
        " matches provided found field string value failed unable denied known after ist muss darf fehlt ungültig est doit n'est pas debe no"
        " es deve não должен requis obligatoire obligatorio trop"
    )
)
_NOUNS: Final = frozenset(words("field string value"))
_LONG_SENTENCE: Final = _SENTENCE | frozenset(
    words("would could will might a an the to of for by with be been in on at you your we it")
)
_TYPE: Final = re.compile(r"[\[<(|,?=/]")
_LAST_PARTS: Final = ("pw", "pass")  # a password may end so as well as a name
_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_KEBAB: Final = re.compile(r"[A-Za-z]{3,}-[a-z]{3,}")
_KEY: Final = re.compile(r"[\w+=.~/:-]{0,40}?[A-Za-z0-9+/=]{12,}[\w+=.~/:-]{0,200}")
_NUMBERED: Final = re.compile(r"[A-Za-z_. /-]+\d{1,3}")  # the pin of a chip: GPIO17
_DIGITS: Final = re.compile(r"\d{3,12}")
_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d|\d{1,2}:\d\d|v?\d+(?:\.\d+)+\b|\d+(?:ms|s|m|h|d|kb|mb|gb|b|px|%)?$",
    re.IGNORECASE,
)
_PIECES: Final = re.compile(r"[A-Za-z0-9+=]+")
_CHANGES: Final = re.compile(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d")
_CASES: Final = re.compile(r"(?<=[a-z])[A-Z]|\d")


def is_secret(value: str, kind: Kind = Kind.ANY, *, is_bare: bool = False) -> bool:
    """Return whether the value beside a name of this kind is a secret.

    `is_bare` says that only a colon or a blank stands between them, as in a sentence.
    """
    if len(value) > LONG:
        return True
    value = value.strip()
    word = value.strip(_EDGES).lower()
    if (
        word in _STATES
        or _NO_VALUE.fullmatch(value) is not None
        or _NO_VALUE.fullmatch(word) is not None
    ):
        return False
    scheme, _, rest = value.partition(" ")
    if scheme.lower() in _SCHEMES and _NO_VALUE.fullmatch(rest.strip()) is not None:
        return False
    if " " in value and _is_sentence(word):
        return False
    if kind is Kind.DIGITS:
        is_mix = not is_bare and has_mix(value) and _NUMBERED.fullmatch(value) is None
        return is_mix or _DIGITS.fullmatch(word) is not None
    if kind is Kind.KEY:
        return (
            _KEY.fullmatch(value.strip(_EDGES)) is not None
            and _KEBAB.match(value.strip(_EDGES)) is None
            and is_opaque(value)
            and _UUID.search(word) is None
        )
    if kind is Kind.SESSION:
        return len(word) >= 16 and is_opaque(value) and _UUID.search(word) is None
    if kind is Kind.OPAQUE:
        return (
            has_mix(value)
            or len(word) >= 24
            or (not is_bare and value.isalpha() and value.isupper())
        )
    if kind is Kind.COUNTED and (_TIME.match(word) is not None or (is_bare and not has_mix(value))):
        return False
    return not is_bare or not is_word(value)


def is_word(value: str) -> bool:
    """Return whether the value begins like a sentence, or names a field, and is no secret alone."""
    first = value.split(None, 1)[0] if value.strip() else ""
    word = first.strip(_EDGES).lower()
    return (
        word in _WORDS
        or _TYPE.split(word, maxsplit=1)[0] in _WORDS
        or not word
        or _REFERENCE.fullmatch(first.strip(_EDGES)) is not None
        or (
            is_sensitive(first.strip(_EDGES))
            and not any(letter.isdigit() for letter in word)
            and not word.endswith(_LAST_PARTS)
        )
    )


def _is_sentence(value: str) -> bool:
    beginning = value.split(None, 8)[:8]
    known = _SENTENCE - _NOUNS if len(beginning) < 4 else _LONG_SENTENCE
    return any(word.strip(_EDGES) in known for word in beginning) and not any(
        map(is_opaque, beginning)
    )


def has_mix(value: str) -> bool:
    """Return whether the value mixes letters and digits, as hardly a word does."""
    value = value.strip(_EDGES)
    return (
        len(value) >= 4
        and any(letter.isdigit() for letter in value)
        and any(letter.isalpha() for letter in value)
        and _TIME.match(value) is None
    )


def is_opaque(value: str) -> bool:
    """Return whether the value is no word, number, name, version or date: letters and digits thrown together."""
    value = value[:LONG].strip(_EDGES)
    if _TIME.match(value) is not None:
        return False
    for found in _PIECES.finditer(value):
        piece = found.group()
        changes = len(_CHANGES.findall(piece))
        if changes >= 3 or (changes and len(piece) >= 8):
            return True
        if len(piece) >= 20 and len(_CASES.findall(piece)) >= 4:
            return True
    return False


def hides(name: str, value: object) -> bool:
    """Return whether the value of a field of this name is a secret: that of data, of any type."""
    kind = kind_of(name)
    if kind is None or kind is Kind.SESSION or value is None or type(value) is bool:
        return False  # in data a session's id is a fact of ours
    if issubclass(type(value), str):
        return is_secret(str.__str__(cast("str", value)), kind)
    if type(value) in (list, tuple):
        items = cast("list[object]", value)[:50]
        return (
            any(not issubclass(type(item), str) or hides(name, item) for item in items)
            if kind in _STRICT
            else any(type(item) is str and is_secret(item, kind) for item in items)
        )
    if kind is Kind.DIGITS and type(value) is int:
        return is_secret(str(value), kind)
    return kind in _STRICT


_STRICT: Final = frozenset({Kind.ANY, Kind.COUNTED})


def sends_secret(query: str) -> bool:
    """Return whether a parameter of a URL's query is a secret by its name and value."""
    if "=" not in query:
        return False
    try:
        parameters = parse_qsl(query[:_MOST_QUERY])
    except ValueError:  # more parameters than Python reads
        return True
    return any(is_sensitive(name) and is_secret(value) for name, value in parameters)


_MOST_QUERY: Final = 8_192
