"""What a secret looks like in text: one table of shapes, and the search that masks them.

A text is searched as its reader sees it: without escapes, entities, percent-encoding and invisible
characters, each decoded at once however often it was encoded (`%253D`, `&amp;quot;`, `\\\\\\"`). Some
are read as what they are: a manifest of Kubernetes, base64.

Rule: linear. No pattern reads on for something that may not come: what is unbounded in it always
matches, and what may fail is bounded. A shape is looked for only where one of its clues stands,
because most texts hold no secret.
"""

from __future__ import annotations

import html
import re
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final
from urllib.parse import unquote

from .secret_commands import SETTINGS, Shape, command_shapes, row, tokens, unless_word
from .secret_fields import MASKED, UNMASKED, replaced, spans_by_name
from .secret_near import spans_in_sql
from .secret_values import CLUES, FOREIGN, MASK, has_mix, is_secret, kind_of, words


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


# ---- texts that are read as what they are -----------------------------------------------------------


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


def _spans_in_manifest(text: str, lowered: str) -> Iterator[Span]:
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


def _spans_in_base64(text: str, masked: Callable[[str], str]) -> Iterator[Span]:
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


# ---- shapes -----------------------------------------------------------------------------------------


def _unless_harmless_field(found: re.Match[str]) -> str:
    value = found.group()[len(found[1]) :]
    if value.startswith("{") and "[type=missing" in found[1]:
        return found.group()  # what the field is missing in
    kind = kind_of(_INDEX.sub("", found[2]))
    return (
        found.group()
        if kind is None or not is_secret(value.strip("'\""), kind)
        else f"{found[1]}{MASK}"
    )


_INDEX: Final = re.compile(r"(?:\.\d{1,9}|\[\d{1,9}\])+$")
_STATUS: Final = re.compile(r"\d{1,5}|[A-Za-z]{1,3}\d{1,6}|[a-z_-]+|[A-Z]+(?:_[A-Z\d]+)+")


def _unless_status(found: re.Match[str]) -> str:
    """Mask OAuth's code, and no number or word that says what went wrong."""
    value = found.group()[len(found[1]) :]
    around = found.string[max(0, found.start() - 300) : found.end() + 300]
    is_oauth = any(
        name in around
        for name in ("state=", "grant_type=", "code_verifier=", "client_id=", "redirect_uri=")
    )
    is_plain = _STATUS.fullmatch(value) is not None or (not is_oauth and found[1][0] not in "?&;#")
    return (
        found.group()
        if is_plain and not (is_oauth and len(value) > 4 and has_mix(value))
        else f"{found[1]}{MASK}"
    )


# ---- secrets by their form ---------------------------------------------------------------------------------------


def _without_user(match: re.Match[str]) -> str:
    """Mask who stands before the host of each url in a run without blanks."""
    first, *urls = match.group().split("://")
    return "://".join((first, *map(_hidden_user, urls)))


_AUTHORITY: Final = re.compile(r"[^/?#]*+")
_USER: Final = re.compile(r"[a-z][a-z._-]{0,15}")  # `git@`: a name alone, and no token
_USER_AND_PORT: Final = re.compile(r"[^/:@]{0,500}:(?!\d{1,5}(?:[/?#]|\b))")


def _hidden_user(url: str) -> str:
    if "@" not in url or MASKED.match(url):
        return url
    user, mark, host = url[: _AUTHORITY.match(url).end()].rpartition("@")  # type: ignore[union-attr]
    if mark:
        is_name = not user or _USER.fullmatch(user) is not None
        return url if is_name else f"{MASK}@{host}{url[len(user) + len(host) + 1 :]}"
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


@cache
def shapes() -> tuple[Shape, ...]:
    """Return the table, compiled with the first failure: most programs start long before it.

    Order matters.

    What marks where a secret ends (a url, a query) goes before what eats up to the next blank.
    """
    return (
        row(
            ("-----begin",),
            r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?! \[redacted\])(?:[^-]|-(?!----END))*+"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
            rf"\1 {MASK}",
            flags=0,
        ),
        row(("@",), r"[a-z][a-z0-9+.-]{0,20}+://[^\s'\"<>]*+", _without_user),
        row(
            words(
                "hook telegram.org/ hc-ping.com/ pagerduty.com/ .infura.io/ .alchemy.com/ ifttt.com/"
            ),
            rf"(https?://(?:{_HOOKS})/)(?!\S{{0,200}}?\[redacted\])[^\s'\"<>?#]++",
        ),
        row(
            ("hook",),
            rf"(/(?:web)?hooks?/(?:[\w-]{{1,40}}/)?){UNMASKED}(?=[a-z_-]{{0,60}}\d)[\w-]{{16,}}",
        ),
        # names that are secrets in a url only, where their value is not as short as a number
        row(
            words("key= session= ticket= assertion= verifier= hash= samlresponse= auth="),
            rf"([?&;#](?:key|auth|session|ticket|assertion|(?:oauth|code)_verifier|samlresponse|hash)=){UNMASKED}[^&\s#'\"<>]{{3,}}+",
            unless_word,
        ),
        # OAuth's code: beside a state or a grant any, elsewhere one that is no word or number
        row(
            ("code=",),
            rf"((?:^|[?&;#\s])code=){UNMASKED}[^&\s#'\"<>]++(?:(?=[^\s]{{0,300}}(?:state|grant_type|session_state)=))?",
            _unless_status,
        ),
        row(
            ("grant_type", "redirect_uri"),
            r"(['\"]code\\{0,3}['\"]\s{0,4}:\s{0,4}\\{0,3}['\"])[^'\"\\]{4,}+",
        ),
    )


@cache
def _later_shapes() -> tuple[Shape, ...]:
    """Return the rest of the table: what has no name beside it."""
    return (
        # Authentication schemes without the name of their header, and prose around something opaque.
        row(
            ("bearer",),
            rf"\b(bearer\s{{1,4}}+){UNMASKED}(?![\w-]{{1,30}}=\s?[\"'\\])(?:[^\s'\",;\\]|\\(?![nrt]))+",
            unless_word,
        ),
        row(
            ("basic",),
            r"\b([Bb]asic\s{1,4})(?=[A-Z]?+[a-z+/_-]{0,200}[A-Z0-9=])[A-Za-z0-9+/=_-]{8,}",
            flags=0,
        ),
        row(
            ("digest", "hawk", "hmac", "oauth"),
            rf"\b((?:digest|hawk|oauth|aws4-hmac-sha256|hmac(?:-sha\d{{1,3}})?)\s{{1,4}}+)(?=\w{{1,30}}=[^\r\n]{{0,300}}?\b(?:response|signature|oauth_signature|mac|hash|id)=){UNMASKED}[^\r\n]++",
        ),
        row(
            ("negotiate", "ntlm", "apikey", "dpop", "shared", "privatetoken", "splunk", "genie"),
            r"\b((?i:negotiate|ntlm|apikey|dpop|shared(?:accesssignature|key\w{0,5})|privatetoken|splunk|geniekey)\s{1,4}+)"
            rf"{UNMASKED}{_OPAQUE}[^\s'\",;]{{6,}}+",
            flags=0,
        ),
        # password 'x': SQL's and others'
        row(
            ("passw", "identified", "passphrase"),
            rf"\b((?:password|passwd|passphrase|identified\s{{1,4}}(?:with\s{{1,4}}+[\w'\"]{{1,60}}+\s{{1,4}}+)?(?:by|as))\s{{1,4}}+(?:is\s{{1,4}}+)?"
            rf"['\"]){UNMASKED}[^'\"]++",
            unless_word,
        ),
        row(
            ("identified",),
            rf"\b(identified\s{{1,4}}+by\s{{1,4}}+){UNMASKED}[^\s'\";,]++",
            unless_word,
        ),
        # .netrc; a Dockerfile's ENV; redis.conf
        row(
            ("login", "env ", "arg ", "setx", "requirepass"),
            r"(\blogin\s{1,4}+\S{1,200}+\s{1,4}+password\s{1,4}+|\brequirepass\s{1,4}+"
            rf"|\b(?:(?-i:ENV|ARG)|setenv|setx)\s{{1,4}}+\w{{0,40}}?(?:{SETTINGS})\s{{1,4}}+){UNMASKED}[^\s'\"]++",
            unless_word,
        ),
        *command_shapes(),
        row(
            ('"kty', "'kty", "kty\\"),
            r"(\\{0,3}['\"](?:d|k|p|q|dp|dq|qi)\\{0,3}['\"]\s?:\s?\\{0,3}['\"])[\w-]{16,}+",
            flags=0,
        ),
        # pydantic: the value below the name of its field; a shortened one cannot be read as data
        row(
            ("input_value=",),
            r"((?:^|\n)\s{0,8}([\w.\[\]-]{1,200})\n\s{1,8}[^\n]{0,1000}?, input_value=)(?:(?!, input_type=)[^\n])++",
            _unless_harmless_field,
        ),
        row(
            ("input_value=",),
            r"(\binput_value=)(?=[^\n]{0,80}?\.\.\.)[\[{(](?:(?!, input_type=)[^\n])++",
        ),
        row(("private-lines",), r"(private-lines: \d{1,4}\s{1,4})(?:[A-Za-z0-9+/=]{16,}\s{0,4})++"),
        # hashes of passwords, and the lines of a .pgpass
        row(
            ("$", "{ssha", "{sha", "{md5", "{smd5", "{crypt", "{argon", "{bcrypt", "{pbkdf"),
            r"()(?:\{(?:S?SHA\d{0,3}|S?MD5|CRYPT|ARGON2\w{0,2}|BCRYPT|PBKDF2[\w-]{0,12})\}[\w./$=,+:-]{8,}|\bSCRAM-SHA-\d+\$\d+:\S{12,}|(?<![\w$])\$(?:2[abxy]?|1|5|6|7|y|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2(?:-sha\d+)?|sha1|P|H|S|bcrypt-sha256)\$[\w./$=,+:-]{12,})",
            flags=0,
        ),
        row(
            (":5432:", ":5433:", ":6432:", ":*:"),
            rf"((?:(?<![\w.:*/@-])|(?<=\\n))[\w.*-]{{1,100}}+:(?:\d{{2,5}}|\*):[\w.*-]{{1,60}}+:[\w.*-]{{1,60}}+:){UNMASKED}(?=[^\s:]*[A-Za-z!@#$%])[^\s:]++(?=\s|$)",
            unless_word,
        ),
    )


# ---- the search --------------------------------------------------------------------------------------------------


_SIGNS: Final = "-_=:\"'/@$\\({|>!"


@cache
def _table() -> tuple[Shape, ...]:
    return (*shapes(), *_later_shapes())


@cache
def _rows_of_clues() -> dict[str, tuple[int, ...]]:
    rows: dict[str, tuple[int, ...]] = dict.fromkeys(CLUES, ())
    for number, shape in enumerate(_table()):
        for clue in shape.clues:
            rows[clue] = (*rows.get(clue, ()), number)
    return rows


@cache
def _longer() -> dict[str, tuple[str, ...]]:
    """Return the shortest clues, of which one is in each text with a secret, each with the longer ones that hold it."""
    longer: dict[str, list[str]] = {}
    for clue in sorted(_rows_of_clues(), key=len):
        short = next((other for other in longer if other in clue), None)
        if short is None:
            longer[clue] = []
        else:
            longer[short].append(clue)
    return {clue: tuple(others) for clue, others in longer.items()}


@cache
def _clues() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the shortest clues by the rarest sign in them."""
    groups: dict[str, list[str]] = {}
    for clue in _longer():
        groups.setdefault(next((sign for sign in _SIGNS if sign in clue), ""), []).append(clue)
    return tuple((sign, tuple(group)) for sign, group in groups.items())


def _rows(lowered: str) -> list[int] | None:
    """Return the rows of the table of which a clue stands in the text, in order; None where no clue stands."""
    found: list[str] = []
    for sign, clues in _clues():  # `in` is faster than any pattern, and a loop than a generator
        if sign in lowered:
            for clue in clues:
                if clue in lowered:
                    found.append(clue)  # noqa: PERF401
    if not found:
        return None
    longer, rows = _longer(), _rows_of_clues()
    found += [other for clue in found for other in longer[clue] if other in lowered]
    return sorted({row for clue in found for row in rows[clue]})


@cache
def _foreign() -> re.Pattern[str]:
    return re.compile(FOREIGN)


_LAYERS: Final = 3


def masked(text: str) -> str:
    """Return the text with every secret masked that a name or a shape finds; takes linear time.

    Where more is found once the text is decoded (percent-encoded, escaped, with invisible
    characters), the decoded text is returned, masked.
    """
    shown = plain = _searched(text)
    for _ in range(_LAYERS):
        before, plain = plain, decoded(plain)
        if plain is before or plain == before:
            break
        found = _searched(plain)
        if found != plain:
            shown = plain = found
    return shown


def _searched(text: str) -> str:
    is_plain = text.isascii()
    lowered = text.lower() if is_plain else text.lower().translate(_LOOK_ALIKES)
    rows = _rows(lowered)
    if rows is not None or (not is_plain and _foreign().search(lowered) is not None):
        rows, first = rows or [], len(shapes())
        text = _replaced(text, (number for number in rows if number < first))
        by_name = spans_by_name(text, text.lower() if is_plain else text)
        text = replaced(
            text, [*by_name, *spans_in_sql(text, lowered), *_spans_in_manifest(text, lowered)]
        )
        text = _replaced(text, (number for number in rows if number >= first))
    text = tokens().sub(MASK, text)
    return text if text == lowered else replaced(text, [*_spans_in_base64(text, masked)])


_LOOK_ALIKES: Final = {
    0x131: "i",
    0x17F: "s",
    0x212A: "k",
}  # letters beyond ASCII that a pattern takes for these


def _replaced(text: str, rows: Iterable[int]) -> str:
    table = _table()
    for number in rows:
        text = table[number].pattern.sub(table[number].mask, text)
    return text
