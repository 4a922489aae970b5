"""What a secret looks like in text: one table of shapes, and the search that masks them.

Rule: linear. No pattern reads on for something that may not come: what is unbounded in it always
matches, and what may fail is bounded. A shape is looked for only where one of its clues stands,
because most texts hold no secret. More than was needed may be masked, less is a leak.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from .secret_names import ATTRIBUTE, CLUES, HEADERS, MASK, PHRASES, QUERY, names_in, words
from .secret_tokens import tokens


# A text that was cut may end in the middle of a mask: that is none to mask again.
_UNMASKED: Final = r"(?!\[(?:redacted\]|r?e?d?a?c?t?e?d?…))"
_MASKED: Final = re.compile(r"\[(?:redacted\]|r?e?d?a?c?t?e?d?…)")

_Replace: TypeAlias = "str | Callable[[re.Match[str]], str]"


class Shape(NamedTuple):
    """One kind of secret: where one of the clues stands (in lower case), the pattern is replaced."""

    clues: tuple[str, ...]
    pattern: re.Pattern[str]
    mask: _Replace


# ---- secrets by their name ---------------------------------------------------------------------------------------

_BEFORE: Final = 60  # characters before a name that say what it stands in
_SEPARATOR: Final = re.compile(
    r"\\{0,3}+['\"`]?+\]?+\s{0,4}+(?:[:=]{1,2}>?|->|%3[ad])(?:\s|\\[tnr]){0,4}+|\\{0,3}+['\"],\s{0,4}+(?=b?\\{0,3}['\"])",
    re.IGNORECASE,
)
_BLANKS: Final = re.compile(
    r"\s{1,4}+(?!-|(?:is|to|requires?|needs?|must|and|or|not|was|were|for|with|options?|arguments?|flags?|cannot|should"
    r"|given|missing|has|have|in|instead|if|when|from|by|of|on)\b)"
)
_QUOTE: Final = re.compile(r"[bfru]?(?:(\\{1,3}['\"])|(\"\"\"|'''|[\"'`]))", re.IGNORECASE)
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
_WORD: Final = re.compile(r"(?!wanted\b|\\{1,3}['\"])[^\s'\"]++(?:['\"]\w[^\s'\"]*+)*+")
_WORDS: Final = re.compile(  # of a password: up to the end of the clause, or to the next name
    r"(?!(?:wanted|must|should|cannot|does|required|missing|invalid|incorrect|expired|has|too|is|was|not|may)\b)"
    r"[^\s'\"]++(?:['\"]\w[^\s'\"]*+)*+(?:(?<![,;])[ \t]{1,4}+(?![\w.-]{1,40}+\s?[:=])[^\s'\"]++(?:['\"]\w[^\s'\"]*+)*+)*+"
)
# of a header: up to the end of the line, or to the end of the text that it stands in
_LINE: Final = re.compile(r"""(?:=\s?["'][^"'\r\n]*+["']|[^"'\r\n]|["'](?!\s{0,4}(?:[,}\])]|$)))++""")
_LINE_IN: Final = {
    '"': re.compile(r'(?:=\s?"[^"\r\n]*+"|\\"|[^"\r\n])++'),
    "'": re.compile(r"(?:=\s?'[^'\r\n]*+'|\\'|[^'\r\n])++"),
    "`": re.compile(r"[^`\r\n]++"),
}
_ELEMENT: Final = re.compile(r"(?:\s[^<>]{0,200}+)?(?:>|&gt;)(?:\s|\\[tnr]){0,20}+")
_NEXT_ELEMENT: Final = re.compile(
    r"\s{0,4}+</[\w:.-]{1,40}+>(?:\s|\\[tnr]){0,20}+<[\w:.-]{1,40}+(?:\s[^<>]{0,200}+)?>(?:\s|\\[tnr]){0,20}+"
)
_CONTENT: Final = re.compile(r"<!\[CDATA\[(?:[^\]]|\](?!\]>))*+|(?:[^<&]|&(?!lt;))*+")
_IN_ELEMENT: Final = re.compile(r"['\"][^<>]{0,120}>(?:\s|\\[tnr]){0,20}+")
_VALUE_BESIDE: Final = re.compile(
    r"\\{0,3}['\"][^<>{}]{0,120}?\b(?:value|received)\\{0,3}['\"]?\s{0,2}[:=]\s{0,2}(?=b?\\{0,3}['\"])",
    re.IGNORECASE,
)


def _by_name(text: str, lowered: str) -> str:
    """Mask the value after the name of a secret.

    After a sign, in quotes, in an element, after an option.
    """
    parts: list[str] = []
    at = 0
    for name in names_in(text, lowered):
        found = None if name.start() < at else _value(text, *name.span(), name.group().lower())
        if found is not None and found[0] < found[1]:
            parts += (text[at : found[0]], MASK)
            at = found[1]
    return "".join((*parts, text[at:]))


def _value(text: str, start: int, end: int, name: str) -> tuple[int, int] | None:
    """Return where the secret behind a name begins and ends, None where none stands."""
    before = text[max(0, start - _BEFORE) : start]
    run = before[len(before.rstrip(_NAME_LETTERS)) :]
    outside = before[: len(before) - len(run)]
    if ATTRIBUTE.search(outside) is not None:
        beside = _VALUE_BESIDE.match(text, end)
        if beside is not None:
            return _quoted(text, beside.end())
        return _content(text, _IN_ELEMENT, end)
    sign = _SEPARATOR.match(text, end)
    if sign is not None:
        return _after_sign(text, sign, outside[-1:], name)
    if run.startswith("-") or (not run and outside.endswith("-")):
        blanks = _BLANKS.match(text, end)
        return None if blanks is None else _quoted(text, blanks.end()) or _word(text, blanks.end())
    if outside.endswith(("<", "&lt;")):
        return _content(text, _ELEMENT, end)
    if outside.endswith(">"):
        return _content(text, _NEXT_ELEMENT, end)
    return None


_NAME_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:"


def _after_sign(text: str, sign: re.Match[str], outside: str, name: str) -> tuple[int, int] | None:
    at = sign.end()
    quoted = _quoted(text, at)
    if quoted is not None:
        return quoted
    if _MASKED.match(text, at):
        return None
    if text.startswith(("[", "{", "("), at):
        return _span(_BRACKETED, text, at)
    if name in HEADERS:
        return _span(_LINE_IN.get(outside, _LINE), text, at)
    if name.startswith(PHRASES) and ":" in sign.group():
        return _span(_WORDS, text, at)
    return _span(_WORD, text, at)


def _quoted(text: str, at: int) -> tuple[int, int] | None:
    mark = _QUOTE.match(text, at)
    if mark is None:
        return None
    begin = mark.end()
    if _MASKED.match(text, begin):
        return begin, begin
    pattern = _ESCAPED[mark[1][-1]] if mark[1] else _QUOTED[mark[2]]
    span = _span(pattern, text, begin)
    if mark[1] and span is not None:  # the backslashes of the closing mark stay
        stop = span[1]
        while stop > begin and text[stop - 1] == "\\":
            stop -= 1
        return begin, stop
    return span or (begin, begin)


def _word(text: str, at: int) -> tuple[int, int] | None:
    return None if _MASKED.match(text, at) else _span(_WORD, text, at)


def _content(text: str, opening: re.Pattern[str], at: int) -> tuple[int, int] | None:
    begin = opening.match(text, at)
    if begin is None or _MASKED.match(text, begin.end()):
        return None
    return _span(_CONTENT, text, begin.end())


def _span(pattern: re.Pattern[str], text: str, at: int) -> tuple[int, int] | None:
    found = pattern.match(text, at)
    return None if found is None else found.span()


# ---- secrets by their form ---------------------------------------------------------------------------------------


def _without_user(match: re.Match[str]) -> str:
    """Mask who stands before the host of each url in a run without blanks."""
    first, *urls = match.group().split("://")
    return "://".join((first, *map(_hidden_user, urls)))


_AUTHORITY: Final = re.compile(r"[^/?#]*+")
_USER_AND_PORT: Final = re.compile(r"[^/:@]{0,500}:(?!\d{1,5}(?:[/?#]|\b))")


def _hidden_user(url: str) -> str:
    if "@" not in url or _MASKED.match(url):
        return url
    user, mark, host = url[: _AUTHORITY.match(url).end()].rpartition("@")  # type: ignore[union-attr]
    if mark:
        return f"{MASK}@{host}{url[len(user) + len(host) + 1 :]}" if user else url
    if _USER_AND_PORT.match(url):
        return f"{MASK}@{url.partition('@')[2]}"
    return url


_OPAQUE: Final = r"(?=[a-z.~+/=_-]{0,200}[A-Z0-9])"
_HOOKS: Final = (
    r"hooks?\.slack(?:-gov)?\.com/[a-z]{1,20}|discord(?:app)?\.com/api(?:/v\d{1,3})?/webhooks|api\.telegram\.org(?:/file)?"
    r"|[\w.-]{0,100}webhook\.office\.com|outlook\.office(?:365)?\.com/webhook|hooks\.zapier\.com/hooks|maker\.ifttt\.com/trigger"
    r"|hooks?\.[\w.-]{1,80}|hc-ping\.com|open\.(?:feishu|larksuite)\.(?:cn|com)/open-apis/bot/v2/hook|events\.pagerduty\.com/integration"
    r"|webhook\.site|[\w.-]{0,60}\.(?:infura\.io|alchemy\.com)/(?:v\d|ws/v\d)"
)
_PROGRAMS: Final = (
    r"(?:mysql(?:dump|admin|import|show|check)?|mariadb(?:-dump|-admin)?|sshpass|mongo(?:sh|dump|restore)?|(?:docker|podman|helm|nerdctl"
    r"|skopeo|buildah|oras|crane|az|oc|registry)\s[^\n]{0,80}?login|smbclient|ldap(?:search|add|modify|passwd|whoami)|redis-cli|sqlcmd|isql"
    r"|bcp|plink|pscp|unzip|zip|7za?|htpasswd|lftp|sqlplus|ipmitool|snmp(?:get|walk))"
)


def _row(
    clues: tuple[str, ...], pattern: str, mask: _Replace = rf"\1{MASK}", flags: int = re.IGNORECASE
) -> Shape:
    return Shape(clues, re.compile(pattern, flags), mask)


@cache
def shapes() -> tuple[Shape, ...]:
    """Return the table, compiled with the first failure: most programs start long before it.

    Order matters.

    What marks where a secret ends (a url, a query) goes before what eats up to the next blank.
    """
    return (
        _row(
            ("-----begin",),
            r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?:[^-]|-(?!----END))*+"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
            rf"\1 {MASK}",
            flags=0,
        ),
        _row(("@",), r"[a-z][a-z0-9+.-]{0,20}+://[^\s'\"<>]*+", _without_user),
        _row(
            words("hook telegram hc-ping pagerduty infura alchemy ifttt"),
            rf"(https?://(?:{_HOOKS})/)(?!\S{{0,200}}?\[redacted\])[^\s'\"<>?#]++",
        ),
        _row(
            ("hook",), rf"(/(?:web)?hooks?/(?:[\w-]{{1,40}}/)?){_UNMASKED}(?=[a-z_-]{{0,60}}\d)[\w-]{{16,}}"
        ),
        _row(
            words("auth key secret pass pwd token credential cookie signature jwt otp pin= sid= sig= hmac="),
            rf"([?&;#](?:[\w.-]{{0,40}}?(?:{QUERY})|key|auth|pass|pin|sid|sig|hmac)=){_UNMASKED}[^&\s#'\"<>]++",
        ),
        # names that are secrets in a url only, where their value is not as short as a number
        _row(
            words("session= ticket= assertion= verifier= hash= samlresponse="),
            rf"([?&;#](?:session|ticket|assertion|(?:oauth|code)_verifier|samlresponse|hash)=){_UNMASKED}[^&\s#'\"<>]{{5,}}+",
        ),
        # ]code=){_UNMASKED}(?!\d{{1,4}}(?![^&\s#'\"<>]))[^&\s#'\"<>]++", rf"\1{MASK}")
        _row(("code=",), rf"([?&;#]code=){_UNMASKED}(?!\d{{1,4}}(?![^&\s#'\"<>]))[^&\s#'\"<>]++"),
    )


@cache
def _later_shapes() -> tuple[Shape, ...]:
    """Return the rest of the table: what has no name beside it."""
    return (
        # Authentication schemes without the name of their header, and prose around something opaque.
        _row(("bearer",), rf"\b(bearer)(\s{{1,4}}+){_UNMASKED}[^\s'\",;]+", rf"\1\2{MASK}"),
        _row(
            ("basic",),
            r"\b([Bb]asic\s{1,4})(?=[A-Z]?+[a-z+/_-]{0,200}[A-Z0-9=])[A-Za-z0-9+/=_-]{8,}",
            flags=0,
        ),
        _row(
            ("digest", "hawk", "hmac", "oauth"),
            rf"\b((?:digest|hawk|oauth|aws4-hmac-sha256|hmac(?:-sha\d{{1,3}})?)\s{{1,4}}+)(?=\w{{1,30}}=){_UNMASKED}[^\r\n]++",
        ),
        _row(
            ("negotiate", "ntlm", "apikey", "dpop", "shared", "privatetoken", "splunk", "genie"),
            r"\b((?i:negotiate|ntlm|apikey|dpop|shared(?:accesssignature|key\w{0,5})|privatetoken|splunk|geniekey)\s{1,4}+)"
            rf"{_UNMASKED}{_OPAQUE}[^\s'\",;]{{6,}}+",
            flags=0,
        ),
        # invalid token abc123…
        _row(
            ("token", "api key", "secret", "password"),
            r"\b(token|api key|secret|password)(\s{1,4}(?:is\s)?['\"]?)(?=[a-z.~+/=_-]{0,200}\d)[\w.~+/=-]{8,}",
            rf"\1\2{MASK}",
        ),
        # password 'x': SQL's and others'
        _row(
            ("passw", "identified", "passphrase"),
            rf"\b((?:password|passwd|passphrase|identified\s{{1,4}}by)\s{{1,4}}+(?:is\s{{1,4}}+)?)(['\"]){_UNMASKED}[^'\"]++",
            rf"\1\2{MASK}",
        ),
        # .netrc; a Dockerfile's ENV; redis.conf
        _row(
            ("login", "env ", "arg ", "setx", "requirepass"),
            r"(\blogin\s{1,4}+\S{1,200}+\s{1,4}+password\s{1,4}+|\brequirepass\s{1,4}+"
            rf"|\b(?:(?-i:ENV|ARG)|setenv|setx)\s{{1,4}}+\w{{0,40}}?(?:{QUERY})\s{{1,4}}+){_UNMASKED}[^\s'\"]++",
        ),
        # Options of one letter: `-u user:password` of any command, the others of commands that have them.
        _row(
            ("-u", "--user", "--proxy-user"),
            r"(?<![\w-])(-u\s{0,4}+|-U\s{1,4}+|--(?:proxy-)?user(?:\s{1,4}+|=))(['\"]?)"
            rf"(?!\d{{1,7}}:\d{{1,7}}\b|[\w+.-]{{1,20}}://|\\\\){_UNMASKED}(?=[^\s:'\"]{{1,200}}[:%][^\s'\"])[^\s'\"]++",
            rf"\1\2{MASK}",
            flags=0,
        ),
        _row(
            (" -p", " -a", " -w", " -y"),
            rf"(\b{_PROGRAMS}\b[^\n|&;]{{0,200}}?\s)(-pw\s{{1,4}}+|-[paPwy]\s{{1,4}}+|-p(?=[^\s-])|-[aw](?=[^\s-]))(['\"]?)"
            rf"{_UNMASKED}(?!-)[^\s'\"]++",
            rf"\1\2\3{MASK}",
        ),
        _row(
            (" -p",),
            r"((?<![\w-])(?:-u|-U|--user(?:name)?|--login)[\s=]{1,4}+[^\n|&;]{1,120}?\s-p\s{1,4}+)(['\"]?)"
            rf"{_UNMASKED}(?!\d{{1,5}}(?:\s|$)|\d{{1,5}}:|-)[^\s'\"]++",
            rf"\1\2{MASK}",
            flags=0,
        ),
        _row(("pass:",), rf"\b(pass:){_UNMASKED}[^\s'\"]++", flags=0),
        _row(
            ("@",),
            r"(?<![\w/:.@%+-])(?!(?:mailto|sips?|xmpp|acct|im|ssh|npm|pkg|workspace|file|link|patch|jsr|git|node):)"
            rf"([A-Za-z][\w.+-]{{0,63}}+:){_UNMASKED}[^\s:@/'\"]{{1,200}}+@(?=[A-Za-z0-9-]{{1,60}}+(?:\.[A-Za-z0-9]|:\d))(?!sha\d)",
            rf"\1{MASK}@",
            flags=0,
        ),
    )


# ---- the search --------------------------------------------------------------------------------------------------


@cache
def _clues() -> tuple[str, ...]:
    clues = {*CLUES, *(clue for shape in (*shapes(), *_later_shapes()) for clue in shape.clues)}
    return tuple(clue for clue in clues if not any(other in clue for other in clues if other != clue))


def _is_clued(lowered: str) -> bool:
    for clue in _clues():  # `in` is faster than any pattern, and a loop than a generator  # noqa: SIM110
        if clue in lowered:
            return True
    return False


def masked(text: str) -> str:
    """Return the text with every secret masked that a shape finds; takes linear time."""
    is_plain = text.isascii()
    lowered = text.lower() if is_plain else text.lower().translate(_LOOK_ALIKES)
    if _is_clued(lowered):
        text = _replaced(text, lowered, shapes())
        text = _by_name(text, text.lower() if is_plain else text)
        text = _replaced(text, lowered, _later_shapes())
    return tokens().sub(MASK, text)


_LOOK_ALIKES: Final = {0x131: "i", 0x17F: "s"}  # letters beyond ASCII that a pattern takes for these


def _replaced(text: str, lowered: str, these: tuple[Shape, ...]) -> str:
    for clues, pattern, mask in these:
        if any(clue in lowered for clue in clues):
            text = pattern.sub(mask, text)
    return text
