"""Secrets beside their names in a text: in JSON, a `repr`, YAML, a query, a header, an element, an option.

Rule: linear. Every look around a name is bounded; what is unbounded in a pattern always matches.
The name says where to look, `is_secret` says whether what stands there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .secret_near import Nearby, Tables
from .secret_values import (
    AMBIGUOUS,
    ATTRIBUTE,
    HEADERS,
    LONG,
    MASK,
    PHRASES,
    Kind,
    Name,
    has_mix,
    is_opaque,
    is_secret,
    is_sensitive,
    is_word,
    names_in,
)


Span = tuple[int, int]

# A text that was cut may end in the middle of a mask: that is none to mask again.
UNMASKED: Final = r"(?!\[(?:redacted\]|r?e?d?a?c?t?e?d?…))"
MASKED: Final = re.compile(r"\[(?:redacted\]|r?e?d?a?c?t?e?d?…)")

_RUN: Final = re.compile(r"[A-Za-z0-9+/=]{12}")  # in the value of a key
_AHEAD: Final = 120
_BEFORE: Final = 80  # characters before a name that say what it stands in
_SEPARATOR: Final = re.compile(
    r"\\{0,15}+['\"`]?+(?::[\w:\"\\]{1,60}(?=\]\s?=>))?+[\])]?+\*{0,2}+(?:\s[\[(][\w ]{1,20}[\])])?+\s{0,40}+(?:[!~]?[:=]{1,3}[>~]?|->|%3[ad]|\.{4,80}+|(?<=\s)\.(?=\s\"))"
    r"(?:\s|\\[tnr]){0,40}+(?:![\w!:/.-]{1,40}+[ ]{1,4}+)?",
    re.IGNORECASE,
)
_TYPED: Final = re.compile(
    r"\s?:\s?[A-Za-z][\w.\[\]|<>?]{0,40}+\s{1,4}+=\s{1,4}+"
)  # token: str = "…"
_PLACEHOLDER: Final = re.compile(r"<[\w .:/-]{1,60}+>")
_PAIR: Final = re.compile(
    r"\\{0,15}+['\"]\s{0,4}+,\s{0,4}+(?=b?\\{0,15}['\"])|,\s{0,4}+(?=<{0,2}\"|')"
)
_QUOTE: Final = re.compile(
    r"(?:\(?[A-Z][a-z]{1,15}-[A-Z]\w{1,30}\s{1,4}(?:-\w{1,20}\s{1,4})?|string\(\d{1,6}\)\s|(?!(?:os\.)?(?:getenv|environ|env|config|lookup|prompt|input|getpass)\b)[A-Za-z_][\w.]{0,30}\(|<<)?[@&]?[bfruhn]?"
    r"(?:(\\{1,15}['\"])|(\"\"\"|'''|[\"'`]))",
    re.IGNORECASE,
)
_QUOTED: Final = {
    '"': re.compile(r'(?:[^"\\]|\\.|"")*+', re.DOTALL),
    "'": re.compile(r"(?:[^'\\]|\\.|'')*+", re.DOTALL),
    "`": re.compile(r"[^`]*+"),
    '"""': re.compile(r'(?:[^"]|"(?!""))*+'),
    "'''": re.compile(r"(?:[^']|'(?!''))*+"),
}
_ESCAPED: Final = {'"': re.compile(r'[^"]*+'), "'": re.compile(r"[^']*+")}
_BRACKETED: Final = re.compile(
    r"""[\[({](?:"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?|[^\])}"'\r\n])*+[\])}]*+""", re.DOTALL
)
_ITEM: Final = re.compile(
    r"""(?:"((?:[^"\\]|\\.)*+)"?|'((?:[^'\\]|\\.)*+)'?|([^\s,\[\](){}"':=]++))(\s{0,4}+[:=])?""",
    re.DOTALL,
)
_QUOTES: Final = re.compile("[\"']")
_LARGEST: Final = 1_000  # characters of a list or a dict that is judged item by item
_LONGEST_WORD: Final = 16
_CHANGE: Final = re.compile(r"['\"]\s{0,4}[=-]>\s{0,4}(?=['\"])")  # Terraform: "old" -> "new"
_MARKED: Final = re.compile(r"\[([^\]\r\n]{1,400})\]")
_LETTER: Final = r"(?:[^\s'\"\\]|\\(?![nrt]))"  # a line break may have been escaped
_WORD: Final = re.compile(rf"(?!\\{{1,3}}['\"]){_LETTER}++(?:(?<![,;:{{\[(])['\"]\w{_LETTER}*+)*+")
_IN_CALL: Final = re.compile(
    r"(?:[^\s'\",()\[\]{}\\]|\\(?![nrt]))++"
)  # Login(user=bob, password=…)
_IN_QUERY: Final = re.compile(r"[^&\s#'\"<>]++")
_IN_DSN: Final = re.compile(r"\{[^}\r\n]*+\}?|[^;'\"\r\n&<>]++(?=;)|[^;\s'\"&<>]++")
_WORDS: Final = re.compile(  # of a password: up to the end of the clause, or to the next name
    rf"{_LETTER}++(?:['\"]\w{_LETTER}*+)*+"
    rf"(?:(?<![,;])[ \t]{{1,4}}+(?![\w.-]{{1,40}}+\s?[:=]){_LETTER}++(?:['\"]\w{_LETTER}*+)*+)*+"
)
# of a header: up to the end of the line, or to the end of the text that it stands in
_LINE: Final = re.compile(
    r"""(?:=\s?["'][^"'\r\n]*+["']|[^"'\r\n\\]|\\(?![rn])|["'](?!\s{0,4}(?:[,}\])]|$)))++"""
)
_LINE_IN: Final = {
    '"': re.compile(r'(?:=\s?"[^"\r\n]*+"|\\(?![rn])"?|[^"\r\n\\])++'),
    "'": re.compile(r"(?:=\s?'[^'\r\n]*+'|\\(?![rn])'?|[^'\r\n\\])++"),
    "`": re.compile(r"[^`\r\n]++"),
}
_SCHEME: Final = re.compile(
    r"\s{0,4}+(?:bearer|basic|token|digest|apikey|negotiate)\s{1,4}+", re.IGNORECASE
)
_FURTHER: Final = re.compile(r",\s{0,4}+((?:[^\s'\",;()<>:=\\]|\\(?![nrt])){4,100}+)(?=[\s,;.]|$)")
_ENCRYPTED: Final = re.compile(r"\{[\w-]{2,16}+\}(?=[\w$+/=])")  # {AES}…, {bcrypt}…
_ITEM_NAME: Final = re.compile(
    r"(?:name|key|id|description|type):[ ]", re.IGNORECASE
)  # of a list of names and values
_ITEM_VALUE: Final = re.compile(r"value:[ ]{1,4}['\"]?", re.IGNORECASE)
_NEXT_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,60}=[^=\s]\S*|[a-z]{1,20}_[a-z_]{1,40}=")
_COMPARISONS: Final = frozenset({"==", "===", "~=", "!="})
_VERSION: Final = re.compile(r"v?\d{1,4}(?:\.\d{1,6}){1,4}[a-z]{0,5}\d{0,4}")
_SCHEMES: Final = frozenset({"bearer", "basic", "token", "digest", "apikey", "negotiate"})
_FOLDED: Final = re.compile(r"(?:\r?\n|\\r?\\n)[ \t]{1,40}+(?!\[)((?:[^\s\\]|\\(?![rn]))++)")
_ELEMENT: Final = re.compile(
    r"(?:\s[^<>]{0,200}+)?(?:>|&gt;)(?:\s|\\[tnr]){0,20}+(?:<(?:\w{1,20}:)?(?:value|text|content|string|data|plain\w{0,10})(?:\s[^<>]{0,200}+)?>\s{0,20}+)?",
    re.IGNORECASE,
)
_ATTRIBUTE_VALUE: Final = re.compile(r"\s[^<>]{0,200}?\bvalue\s?=\s?(?=['\"])")
_NEXT_ELEMENT: Final = re.compile(
    r"\s{0,4}+</[\w:.-]{1,40}+>(?:\s|\\[tnr]){0,20}+(?:<[\w:.-]{1,40}+(?:\s[^<>]{0,200}+)?>(?:\s|\\[tnr]){0,20}+){1,2}+"
)
_CONTENT: Final = re.compile(r"<!\[CDATA\[(?:[^\]]|\](?!\]>))*+|(?:[^<&]|&(?!lt;))*+")
_IN_ELEMENT: Final = re.compile(r"['\"][^<>]{0,120}(?<!/)>(?:\s|\\[tnr]){0,20}+")
_VALUES: Final = r"(?:value|content|default|received|input|actual|data|(?:invalid|rejected|current|bad|got|data)_?value)"
_VALUE_BESIDE: Final = re.compile(
    rf"[\w.]{{0,20}}\\{{0,3}}['\"]?[\])]?[^<>{{}}]{{0,300}}?{_VALUES}\\{{0,3}}['\"]?\s{{0,2}}(?:[:=]|=>)\s{{0,2}}(?=b?\\{{0,3}}['\"])",
    re.IGNORECASE,
)
_BARE_BESIDE: Final = re.compile(
    r"[,;]\s{0,4}(?:value|default)\s{0,2}[:=]\s{0,2}([^\s'\",;{}\[\]]{1,400})"
)
_VALUE_BEFORE: Final = re.compile(
    rf"{_VALUES}\\{{0,3}}['\"]?\s{{0,2}}(?:[:=]|=>)\s{{0,2}}b?(\\{{0,3}}['\"])((?:(?!\1).){{1,200}})\1(?=[^<>{{}}]{{0,300}}$)",
    re.IGNORECASE,
)
_VALUE_LINE: Final = re.compile(r"['\"]?[ \t]{0,4}\r?\n[ \t-]{1,40}+value:[ \t]{1,4}+")
_PART: Final = re.compile(
    r"\\?['\"](?:;[^\r\n]{0,200}+)?\r?\n(?:[\w-]{1,40}+:[^\r\n]{0,200}+\r?\n){0,5}+\r?\n"
)
_BODY: Final = re.compile(r"(?:[^\r\n]|\r?\n(?!\r?\n?--))++")
_BLOCK: Final = re.compile(r"\\?['\"]?\s{0,4}+:[ \t]*+(?:[|>][+-]?\d?[ \t]*+)?\r?\n")
_INDENTED: Final = re.compile(r"([ \t]*+)(- )?+([^\r\n]*+)(?:\r?\n|$)")
_REJECTED: Final = re.compile(
    r"['\"`]?\s?:?\s(?:(?:rejected|invalid|received|got|given|actual|provided|unknown)(?:\s(?:value|choice|literal|input))?|input):?\s(?:but\s)?(?=[\['\"`])"
)
_REPORTED: Final = re.compile(  # "password" with value "…", password must be longer: got "…"
    r"['\"`]?[^\n'\"=;{}\[\](),]{0,60}?[\s:,](?:with\svalue|but\sgot|got|received|(?:\[|\b)input_value=)(?:\s?:)?\s?(?=['\"]|(?<=d )\w)"
)
_PROSE: Final = re.compile(
    r"(?:[はがを是为為]\s{0,4}|\)?(?:(?:\s{1,4}|(?=['\u2019]))(?:['\u2019]s|is|was|were|est|es|ist|lautet|è|é|has|been|provided|given|used|value|sent|received|supplied|code|number|entered|with)\b){0,3}:?\s{1,4})(['\"`]?)",
    re.IGNORECASE,
)
_IS: Final = re.compile(r"['\u2019]s\s|\s(?:is|was|est|es|ist|lautet|è|é):?\s|[はが是为為]")
_OWNED: Final = re.compile(
    r"s?\s(?:(?:for|of)\s[^\n:=]{1,80}?|(?:\w{1,10}\s)?(?:in(?:correct|v[aá]lid)[aoe]?|wrong|erron[ée]e?|falsch|ungültig|errat[ao]|неверный|entered|used|sent|rejected|refused))\s?[:=]\s{1,4}+"
)  # password for bob: …
_BARE: Final = re.compile(r"(?:[^\s'\"`,;()<>\\]|\\(?![nrt]))++")
_BLANKS: Final = re.compile(r"\s{1,4}+(?!-)")
_SETTING: Final = re.compile(
    r"[ \t]{1,4}+(?:--?[\w-]{1,20}+[ ])?"
)  # the line of a file of settings: bindpw …
_CELL: Final = re.compile(
    r"[ \t*`]{0,20}+[|│][ \t`]{0,20}+([^\s|│`]{4,200}+)[ \t`]{0,20}+(?:[|│]|\r?\n|$)"
)
_LAST_WORD: Final = re.compile(r"[^\s'\"\\]++")
_LINE_END: Final = re.compile(r"['\"]?[ \t;]{0,20}+(?:\r?\n|\\r?\\?n|$)")
_ALIGNED: Final = re.compile(r"(?:[ ]{2,60}+|\t{1,20}+)([^\s'\"]++)[ \t]{0,20}+(?:\r?\n|$)")
_ADJECTIVE: Final = re.compile(
    r"(?:\b|(?<=\\[nrt]))(?:unexpected|invalid|illegal|unknown|missing|expected|expecting|required|unsupported|undefined|duplicate|next|current|first|last|previous|stray|bad"
    r"|unrecognized|unterminated|such|no|the|a|an|each|any|this|that|syntax|lexer|valid|wrong|empty|set)\s{1,3}['\"`]?$",
    re.IGNORECASE,
)
_PASSWORDS: Final = ("passw", "passphrase", "passcode", "pwd", "kennw", "contrase")
_IN_URLS: Final = frozenset({"sid", "sig", "auth"})  # in a query always a secret
_NUMBERS: Final = re.compile(r"code|pin$|otp$|код|验证码|驗證碼|認証コード|确认码|c[óo]digo|codice")
_LETTERS: Final = re.compile(r"[\w.:-]*+\Z")


def spans_by_name(text: str, lowered: str) -> list[Span]:
    """Return where the secrets stand that have a name beside them, in order."""
    found: list[Span] = []
    tables, nearby, at = Tables(text), Nearby(text), 0
    for name in names_in(text, lowered):
        found += tables.column(name)
        if name.start < at or (
            name.kind is Kind.KEY and _RUN.search(text, name.start, name.end + _AHEAD) is None
        ):
            continue
        for begin, end in (*_values(text, name), *nearby.values(name)):
            if begin < end:
                found.append((begin, end))
                at = max(at, end)
    return found


def _values(text: str, name: Name) -> Iterator[Span]:
    """Return where the secrets behind one name begin and end."""
    before = text[max(0, name.start - _BEFORE) : name.start]
    run = before[_tail(before) :]
    outside = before[: len(before) - len(run)]
    if "=" in before or ":" in before:
        beside = _beside(text, name, before)
        if beside is not None:
            yield beside
            return
    block = _BLOCK.match(text, name.end)
    if block is not None:
        yield from _block(text, name, block)
    rejected = _REJECTED.match(text, name.end)
    if rejected is not None:
        marked = _MARKED.match(text, rejected.end())
        span = _quoted(text, rejected.end()) if marked is None else marked.span(1)
        yield from _judged(text, span, name.kind)
        return
    reported = _REPORTED.match(text, name.end)
    if reported is not None:
        span = _quoted(text, reported.end()) or _span(_BARE, text, reported.end())
        if span is not None and (name.word not in AMBIGUOUS or has_mix(text[slice(*span)][:LONG])):
            yield from _judged(text, span, name.kind, is_bare=True)
            return
    owned = _OWNED.match(text, name.end)
    if owned is not None:
        span = _quoted(text, owned.end()) or _span(_BARE, text, owned.end())
        value = "" if span is None else text[slice(*span)][:LONG]
        if is_opaque(value) or (name.word not in AMBIGUOUS and has_mix(value)):
            yield from _judged(text, span, name.kind, is_bare=True)
        return
    sign = _TYPED.match(text, name.end) or _SEPARATOR.match(text, name.end)
    if sign is not None:
        yield from _after_sign(text, sign, outside, run, name)
        return
    pair = _PAIR.match(text, name.end)
    if pair is not None and _is_pair(outside):
        yield from _second(text, pair.end(), run, name)
        return
    yield from _without_sign(text, outside, run, name)


def _tail(before: str) -> int:
    at = len(before)
    while at and (before[at - 1].isalnum() or before[at - 1] in "_-.:"):
        at -= 1
    return at


def _judged(text: str, span: Span | None, kind: Kind, *, is_bare: bool = False) -> Iterator[Span]:
    if span is not None and is_secret(text[span[0] : span[1]], kind, is_bare=is_bare):
        yield span


# ---- a name that is itself a value: {"name": "token", "value": …} -------------------------------------------------


def _beside(text: str, name: Name, before: str) -> Span | None:
    if ATTRIBUTE.search(before) is None:
        return None
    bare = _BARE_BESIDE.match(text, name.end)
    if bare is not None:
        return next(_judged(text, bare.span(1), name.kind), None)
    after = _VALUE_BESIDE.match(text, name.end)
    if after is not None:
        return next(_judged(text, _quoted(text, after.end()), name.kind), None)
    part = _PART.match(text, name.end)
    if part is not None:
        return _span(_BODY, text, part.end())
    line = _VALUE_LINE.match(text, name.end)
    if line is not None:
        return next(
            _judged(text, _quoted(text, line.end()) or _span(_WORD, text, line.end()), name.kind),
            None,
        )
    at = max(0, name.start - 400)
    window = text[at : name.start]
    at += max(window.rfind("{"), window.rfind("<")) + 1
    earlier = _VALUE_BEFORE.search(text[at : name.start])
    if earlier is not None:
        is_one = is_secret(earlier[2], name.kind)
        return (at + earlier.start(2), at + earlier.end(2)) if is_one else None
    if "<input" in before:
        return None
    return _content(text, _IN_ELEMENT, name.end, name.kind)


# ---- a sign between the name and its value -------------------------------------------------------------------------


def _after_sign(
    text: str, sign: re.Match[str], outside: str, run: str, name: Name
) -> Iterator[Span]:
    at, kind, mark = sign.end(), name.kind, outside[-1:]
    between = sign.group()
    is_bare = ":" in between and "=" not in between
    if mark and mark in "\"'`" and mark not in between and text.startswith(mark, at):
        return  # the sign is the end of a text in quotes: expect "Password:"
    is_vague = (
        is_bare and not run and name.word in AMBIGUOUS and _ADJECTIVE.search(outside) is not None
    )
    quoted = _quoted(text, at)
    if quoted is not None:
        value = text[slice(*quoted)][:LONG]
        if name.word in AMBIGUOUS and value.startswith(" ") and not has_mix(value):
            return  # a token of a model: ' the'
        if not is_vague or is_opaque(text[slice(*quoted)]) or _is_long(quoted):
            yield from _judged(text, quoted, kind)
        change = _CHANGE.match(text, quoted[1])
        if change is not None:
            yield from _judged(text, _quoted(text, change.end()), kind)
        return
    if (
        MASKED.match(text, at)
        or _PLACEHOLDER.match(text, at)
        or (name.word == "pwd" and text[at] == "/")
    ):
        return  # pwd=/root is the working directory
    if text.startswith(("[", "{", "("), at) and _ENCRYPTED.match(text, at) is None:
        yield from _bracketed(text, at, kind)
        return
    if name.word in HEADERS:
        span = _span(_LINE_IN.get(mark, _LINE), text, at)
        if span is not None and (not is_vague or is_opaque(text[slice(*span)]) or _is_long(span)):
            yield from _header(text, span)
        return
    if mark in ("?", "&", "#"):
        kind = Kind.ANY if name.word in _IN_URLS else kind
        yield from _judged(text, _span(_IN_QUERY, text, at), kind)
    elif outside.rstrip().endswith(";"):
        yield from _judged(text, _span(_IN_DSN, text, at), kind, is_bare=is_bare)
    else:
        yield from _in_words(text, sign, outside, run, name, is_vague=is_vague)


def _in_words(
    text: str, sign: re.Match[str], outside: str, run: str, name: Name, *, is_vague: bool
) -> Iterator[Span]:
    """Return a value without quotes: a word, of a password the words up to the end of the clause."""
    at, between = sign.end(), sign.group()
    is_bare = ":" in between and "=" not in between
    is_below = "\n" in between or "\\n" in between
    if is_bare and name.word.startswith(PHRASES) and not is_below:
        span = _span(_WORDS, text, at)
    else:
        span = _span(_IN_CALL if _is_argument(outside) else _WORD, text, at)
    value = "" if span is None else text[slice(*span)]
    if span is not None and value.endswith((",", ";")) and len(value) > 1:
        span, value = (span[0], span[1] - 1), value[:-1]  # of the list that it stands in
    is_word_like = value.isalpha() and value.islower() and len(value) < _LONGEST_WORD
    in_prose = bool(outside.rpartition("\n")[2].strip(" \t-")) and between[-1:].isspace()
    if is_bare and is_word_like and in_prose and not run and name.word in AMBIGUOUS:
        return  # `refreshing token: attempt 2`
    if between.strip() in _COMPARISONS and _VERSION.fullmatch(value):
        return  # a package of that version
    if not is_bare and between[-1:].isspace() and _NEXT_NAME.fullmatch(value):
        return  # `token= total=1`: nothing stands there
    if is_bare and name.word == "signature" and len(value) < 8:
        return  # of music, of a function
    is_count = is_bare and name.word == "token" and value.isdecimal() and len(value) < 4
    is_doubtful = (
        is_count or (is_vague and not is_opaque(value)) or (is_below and not has_mix(value))
    )
    if is_doubtful and len(value) <= LONG:
        return
    yield from _judged(text, span, name.kind, is_bare=is_bare)
    if span is not None and name.word.endswith("s"):
        yield from _further(text, span[1], name.kind)


def _further(text: str, at: int, kind: Kind) -> Iterator[Span]:
    """Return the other items of a list without brackets: `recovery codes: …, …`."""
    for _ in range(50):
        item = _FURTHER.match(text, at)
        if item is None or not has_mix(item[1]):
            return
        yield from _judged(text, item.span(1), kind)
        at = item.end()


def _is_argument(outside: str) -> bool:
    return outside.endswith("(") or (outside.endswith(", ") and "(" in outside)


def _header(text: str, span: Span) -> Iterator[Span]:
    value = text[slice(*span)]
    scheme = _SCHEME.match(value)
    if (
        scheme is None and value.strip().lower() in _SCHEMES
    ):  # the value was folded to the next line
        folded = _FOLDED.match(text, span[1])
        if folded is not None:
            yield folded.span(1)
        return
    is_attribute = value.lower().startswith("samesite=") and len(value) <= LONG
    is_prose = scheme is None and ", " in value and "=" not in value and not has_mix(value)
    if (
        not is_attribute
        and not is_prose
        and is_secret(value if scheme is None else value[scheme.end() :])
    ):
        yield span


def _bracketed(text: str, at: int, kind: Kind) -> Iterator[Span]:
    """Return the whole of a list or a dict, where one of its items is a secret."""
    span = _span(_BRACKETED, text, at)
    if span is None:
        return
    whole = text[span[0] : min(span[1], span[0] + _LARGEST)]
    if span[1] - span[0] > len(whole):
        yield span
        return
    if not _QUOTES.search(whole) and not is_secret(whole):  # `(known after apply)`
        return
    for found in _ITEM.finditer(whole):
        value = found[1] or found[2] or found[3] or ""
        if (
            not found[4]
            and is_secret(value, kind, is_bare=found[3] is not None)
            and not value.isdecimal()
        ):
            yield span
            return


def _block(text: str, name: Name, opening: re.Match[str]) -> Iterator[Span]:
    """Return the lines that YAML writes behind a name: a block, a list, or a value on its own line."""
    start = text.rfind("\n", max(0, name.start - 200), name.start) + 1
    margin = len(text[start : name.start]) - len(text[start : name.start].lstrip(" \t-"))
    is_text = opening.group().rstrip()[-1:] in "|>" or any(mark in opening.group() for mark in "|>")
    at = opening.end()
    for _ in range(200):
        line = _INDENTED.match(text, at)
        if (
            line is None
            or at >= len(text)
            or (line[3] and len(line[1]) <= (margin if is_text else margin - 1))
        ):
            return
        item = _ITEM_VALUE.match(line[3])
        if item is not None:
            yield from _judged(text, (line.start(3) + item.end(), line.end(3)), name.kind)
        elif line[3] and (is_text or (line[2] and ":" not in line[3])):
            yield from _judged(text, line.span(3), Kind.ANY if is_text else name.kind)
        elif line[3] and _ITEM_NAME.match(line[3]) is None:
            return
        at = line.end()


# ---- two items, an option, an element, a sentence ------------------------------------------------------------------


def _is_pair(outside: str) -> bool:
    """Return whether the name is the whole of an item, and no value of another name."""
    opening = outside.rstrip("\"'\\b ")
    return outside.endswith(('"', "'", "{", "(", "[")) and not opening.endswith((":", "=", ">"))


def _second(text: str, at: int, run: str, name: Name) -> Iterator[Span]:
    span = _quoted(text, at)
    if span is None or (is_word(text[slice(*span)]) and not _is_long(span)):
        return
    is_option = run.startswith("-") or run.lower().startswith("x-")
    closed = text[span[1] : span[1] + 4].lstrip("\\\"'> ")[:1]
    if is_option or _is_long(span) or is_opaque(text[slice(*span)]) or closed in (")", "]", "}"):
        yield from _judged(text, span, name.kind)


def _without_sign(text: str, outside: str, run: str, name: Name) -> Iterator[Span]:
    end = name.end
    if run.startswith("-") or (not run and outside.endswith("-")):
        blanks = _BLANKS.match(text, end)
        if blanks is not None:
            span = _quoted(text, blanks.end()) or _span(_WORD, text, blanks.end())
            value = "" if span is None else text[slice(*span)]
            yield from _judged(
                text, span, name.kind, is_bare=not (value.islower() and is_sensitive(value))
            )
        return
    if outside.endswith(("<", "&lt;")):
        attribute = _ATTRIBUTE_VALUE.match(text, end)
        if attribute is not None:
            yield from _judged(text, _quoted(text, attribute.end()), name.kind)
            return
        yield from _optional(_content(text, _ELEMENT, end, name.kind))
        return
    if outside.endswith(">"):
        yield from _optional(_content(text, _NEXT_ELEMENT, end, name.kind))
        return
    cell = _CELL.match(text, end)
    if cell is not None and outside.rstrip(" \t*`").endswith(("|", "│")) and has_mix(cell[1]):
        yield from _judged(text, cell.span(1), name.kind, is_bare=True)
        return
    setting = _SETTING.match(text, end)
    if setting is not None and outside.rpartition("\n")[2].strip(" \t")[-1:] in ("", ":"):
        span = _quoted(text, setting.end()) or _span(_LAST_WORD, text, setting.end())
        value = "" if span is None else text[slice(*span)][:LONG]
        is_whole = span is not None and _LINE_END.match(text, span[1]) is not None
        if is_whole and (text[setting.end() : setting.end() + 1] in "'\"" or has_mix(value)):
            yield from _judged(text, span, name.kind, is_bare=True)
            return
    aligned = _ALIGNED.match(text, end)
    if aligned is not None and (
        not outside or outside.rstrip(" \t").endswith("\n") or not outside.strip()
    ):
        yield from _judged(text, aligned.span(1), name.kind, is_bare=True)
        return
    yield from _in_prose(text, name)


def _in_prose(text: str, name: Name) -> Iterator[Span]:
    """Return a secret that a sentence names: `the password is hunter2`, `invalid token 8f3a9c2b1d`."""
    opening = _PROSE.match(text, name.end)
    span = None if opening is None else _span(_BARE, text, opening.end())
    if opening is None or span is None or name.kind is Kind.KEY:
        return
    value = text[slice(*span)].rstrip(".:!?")
    is_number = (
        _NUMBERS.search(name.word) is not None and value.isdecimal() and 4 <= len(value) <= 10
    )
    is_loose = name.word.startswith(_PASSWORDS) or _IS.search(opening.group()) is not None
    if is_number or is_opaque(value) or (is_loose and has_mix(value)):
        yield from _judged(text, (span[0], span[0] + len(value)), Kind.ANY)


def _is_long(span: Span) -> bool:
    return span[1] - span[0] > LONG


def _optional(span: Span | None) -> Iterator[Span]:
    if span is not None:
        yield span


# ---- where a value ends ----------------------------------------------------------------------------------------------


def _quoted(text: str, at: int) -> Span | None:
    mark = _QUOTE.match(text, at)
    if mark is None:
        return None
    begin = mark.end()
    if MASKED.match(text, begin):
        return begin, begin
    pattern = _ESCAPED[mark[1][-1]] if mark[1] else _QUOTED[mark[2]]
    span = _span(pattern, text, begin)
    if mark[1] and span is not None:  # the backslashes of the closing mark stay
        stop = span[1]
        while stop > begin and text[stop - 1] == "\\":
            stop -= 1
        return begin, stop
    return span or (begin, begin)


def _content(text: str, opening: re.Pattern[str], at: int, kind: Kind) -> Span | None:
    begin = opening.match(text, at)
    if begin is None or MASKED.match(text, begin.end()):
        return None
    span = _span(_CONTENT, text, begin.end())
    if span is None:
        return None
    if not _is_long(span) and not (
        text.startswith(("</", "&lt;/", "]]>"), span[1]) or span[1] == len(text)
    ):
        return None
    value = text[slice(*span)]
    return (
        span
        if is_secret(value, kind) and (span[1] < len(text) or _is_long(span) or not is_word(value))
        else None
    )


def _span(pattern: re.Pattern[str], text: str, at: int) -> Span | None:
    found = pattern.match(text, at)
    return None if found is None else found.span()


def replaced(text: str, spans: list[Span]) -> str:
    """Return the text with these spans masked, and each other place where such a value stands again."""
    if not spans:
        return text
    parts, at = list[str](), 0
    for begin, end in sorted([*spans, *_again(text, spans)]):
        if end <= at:
            continue
        if begin >= at:
            parts += (text[at:begin], MASK)
        at = end
    return "".join((*parts, text[at:]))


_MOST_AGAIN: Final = 16


def _again(text: str, spans: list[Span]) -> Iterator[Span]:
    """Find values that were masked once, and are no short words, elsewhere in the text."""
    values = {text[begin:end] for begin, end in spans[:_MOST_AGAIN] if 6 <= end - begin <= 200}
    for value in values:
        if not has_mix(value) or "\n" in value:
            continue
        at = text.find(value)
        while at >= 0:
            yield at, at + len(value)
            at = text.find(value, at + len(value))
