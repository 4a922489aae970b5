"""What a secret looks like in text: one table of shapes, and the search that masks them.

Rule: linear. No pattern reads on for something that may not come: what is unbounded in it always
matches, and what may fail is bounded. A shape is looked for only where one of its clues stands,
because most texts hold no secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from .secret_decoding import decoded
from .secret_fields import MASKED, UNMASKED, replaced, spans_by_name
from .secret_names import CLUES, FOREIGN, MASK, is_sensitive, kind_of, words
from .secret_tables import spans_in_sql
from .secret_tokens import tokens
from .secret_values import has_mix, is_secret


_Replace: TypeAlias = "str | Callable[[re.Match[str]], str]"


class Shape(NamedTuple):
    """One kind of secret: where one of the clues stands (in lower case), the pattern is replaced."""

    clues: frozenset[str]
    pattern: re.Pattern[str]
    mask: _Replace


def _unless_word(found: re.Match[str]) -> str:
    """Mask what follows the first group, unless it is a placeholder or a word of a sentence."""
    value = found.group()[len(found[1]) :]
    return f"{found[1]}{MASK}" if is_secret(value, is_bare=True) else found.group()


def _unless_name(found: re.Match[str]) -> str:
    value = found.group()[len(found[1]) :]
    is_name = is_sensitive(value) and not any(letter.isdigit() for letter in value)
    return found.group() if is_name or not is_secret(value) else f"{found[1]}{MASK}"


def _unless_harmless_field(found: re.Match[str]) -> str:
    value = found.group()[len(found[1]) :]
    kind = kind_of(found[2])
    return found.group() if kind is None or not is_secret(value.strip("'\""), kind) else f"{found[1]}{MASK}"


_STATUS: Final = re.compile(r"\d{1,5}|[A-Za-z]{1,3}\d{1,6}|[a-z_-]+|[A-Z]+(?:_[A-Z\d]+)+")


def _unless_status(found: re.Match[str]) -> str:
    """Mask OAuth's code, and no number or word that says what went wrong."""
    value = found.group()[len(found[1]) :]
    around = found.string[max(0, found.start() - 300) : found.end() + 300]
    is_oauth = any(
        name in around for name in ("state=", "grant_type=", "code_verifier=", "client_id=", "redirect_uri=")
    )
    is_plain = _STATUS.fullmatch(value) is not None or (not is_oauth and found[1][0] not in "?&;#")
    return (
        found.group()
        if is_plain and not (is_oauth and len(value) > 4 and has_mix(value))
        else f"{found[1]}{MASK}"
    )


_SETTINGS: Final = (
    r"authorization|api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|secret|passw(?:or)?d|passphrase|passcode|pwd|token|credentials?"
    r"|cookie|signature|jwt|otp|[_-](?:auth|pass)"
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
_PROGRAMS: Final = (
    r"(?:mysql(?:dump|admin|import|show|check)?|mariadb(?:-dump|-admin)?|sshpass|mongo(?:sh|dump|restore)?|(?:docker|podman|helm|nerdctl"
    r"|skopeo|buildah|oras|crane|az|oc|registry)\s[^\n]{0,80}?login|smbclient|ldap(?:search|add|modify|passwd|whoami)|redis-cli|sqlcmd|isql"
    r"|bcp|plink|pscp|mosquitto_(?:pub|sub|rr)|unzip|zip|7za?|htpasswd|lftp|sqlplus|ipmitool)"
)


def _row(
    clues: tuple[str, ...], pattern: str, mask: _Replace = rf"\1{MASK}", flags: int = re.IGNORECASE
) -> Shape:
    return Shape(frozenset(clues), re.compile(pattern, flags), mask)


@cache
def shapes() -> tuple[Shape, ...]:
    """Return the table, compiled with the first failure: most programs start long before it.

    Order matters.

    What marks where a secret ends (a url, a query) goes before what eats up to the next blank.
    """
    return (
        _row(
            ("-----begin",),
            r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?! \[redacted\])(?:[^-]|-(?!----END))*+"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
            rf"\1 {MASK}",
            flags=0,
        ),
        _row(("@",), r"[a-z][a-z0-9+.-]{0,20}+://[^\s'\"<>]*+", _without_user),
        _row(
            words("hook telegram.org/ hc-ping.com/ pagerduty.com/ .infura.io/ .alchemy.com/ ifttt.com/"),
            rf"(https?://(?:{_HOOKS})/)(?!\S{{0,200}}?\[redacted\])[^\s'\"<>?#]++",
        ),
        _row(("hook",), rf"(/(?:web)?hooks?/(?:[\w-]{{1,40}}/)?){UNMASKED}(?=[a-z_-]{{0,60}}\d)[\w-]{{16,}}"),
        # names that are secrets in a url only, where their value is not as short as a number
        _row(
            words("key= session= ticket= assertion= verifier= hash= samlresponse= auth="),
            rf"([?&;#](?:key|auth|session|ticket|assertion|(?:oauth|code)_verifier|samlresponse|hash)=){UNMASKED}[^&\s#'\"<>]{{3,}}+",
            _unless_word,
        ),
        # OAuth's code: beside a state or a grant any, elsewhere one that is no word or number
        _row(
            ("code=",),
            rf"((?:^|[?&;#\s])code=){UNMASKED}[^&\s#'\"<>]++(?:(?=[^\s]{{0,300}}(?:state|grant_type|session_state)=))?",
            _unless_status,
        ),
        _row(
            ("grant_type", "redirect_uri"),
            r"(['\"]code\\{0,3}['\"]\s{0,4}:\s{0,4}\\{0,3}['\"])[^'\"\\]{4,}+",
        ),
    )


@cache
def _later_shapes() -> tuple[Shape, ...]:
    """Return the rest of the table: what has no name beside it."""
    return (
        # Authentication schemes without the name of their header, and prose around something opaque.
        _row(
            ("bearer",),
            rf"\b(bearer\s{{1,4}}+){UNMASKED}(?![\w-]{{1,30}}=\s?[\"'\\])(?:[^\s'\",;\\]|\\(?![nrt]))+",
            _unless_word,
        ),
        _row(
            ("basic",),
            r"\b([Bb]asic\s{1,4})(?=[A-Z]?+[a-z+/_-]{0,200}[A-Z0-9=])[A-Za-z0-9+/=_-]{8,}",
            flags=0,
        ),
        _row(
            ("digest", "hawk", "hmac", "oauth"),
            rf"\b((?:digest|hawk|oauth|aws4-hmac-sha256|hmac(?:-sha\d{{1,3}})?)\s{{1,4}}+)(?=\w{{1,30}}=[^\r\n]{{0,300}}?\b(?:response|signature|oauth_signature|mac|hash|id)=){UNMASKED}[^\r\n]++",
        ),
        _row(
            ("negotiate", "ntlm", "apikey", "dpop", "shared", "privatetoken", "splunk", "genie"),
            r"\b((?i:negotiate|ntlm|apikey|dpop|shared(?:accesssignature|key\w{0,5})|privatetoken|splunk|geniekey)\s{1,4}+)"
            rf"{UNMASKED}{_OPAQUE}[^\s'\",;]{{6,}}+",
            flags=0,
        ),
        # password 'x': SQL's and others'
        _row(
            ("passw", "identified", "passphrase"),
            rf"\b((?:password|passwd|passphrase|identified\s{{1,4}}(?:with\s{{1,4}}+[\w'\"]{{1,60}}+\s{{1,4}}+)?(?:by|as))\s{{1,4}}+(?:is\s{{1,4}}+)?"
            rf"['\"]){UNMASKED}[^'\"]++",
            _unless_word,
        ),
        _row(("identified",), rf"\b(identified\s{{1,4}}+by\s{{1,4}}+){UNMASKED}[^\s'\";,]++", _unless_word),
        # .netrc; a Dockerfile's ENV; redis.conf
        _row(
            ("login", "env ", "arg ", "setx", "requirepass"),
            r"(\blogin\s{1,4}+\S{1,200}+\s{1,4}+password\s{1,4}+|\brequirepass\s{1,4}+"
            rf"|\b(?:(?-i:ENV|ARG)|setenv|setx)\s{{1,4}}+\w{{0,40}}?(?:{_SETTINGS})\s{{1,4}}+){UNMASKED}[^\s'\"]++",
            _unless_word,
        ),
        # Options of one letter: `-u user:password` of any command, the others of commands that have them.
        _row(
            ("-u", "--user", "--proxy-user", "--auth", " -a"),
            r"(?<![\w-])(-u\s{0,4}+|-U\s{1,4}+|--(?:(?:proxy-)?user|auth)(?:\s{1,4}+|=)|(?<=http )-a\s|(?<=https )-a\s|(?<=xh )-a\s)(['\"]?)"
            rf"(?!\d{{1,7}}:\d{{1,7}}\b|[\w+.-]{{1,20}}://|\\\\){UNMASKED}(?=[^\s:'\"]{{1,200}}[:%][^\s'\"])[^\s'\"]++",
            rf"\1\2{MASK}",
            flags=0,
        ),
        _row(
            (" -p", " -a", " -w", " -y"),
            rf"(\b{_PROGRAMS}\b(?:[^\n|&;\\]|\\(?!n)){{0,200}}?\s)(-pw\s{{1,4}}+|-[paPwy]\s{{1,4}}+|-p(?=[^\s-])|-[aw](?=[^\s-]))(['\"]?)"
            rf"{UNMASKED}(?!-)[^\s'\"]++",
            rf"\1\2\3{MASK}",
        ),
        _row(
            (" -p",),
            r"((?<![\w-])(?:-u|-U|--user(?:name)?|--login)[\s=]{1,4}+[^\n|&;]{1,120}?\s-p\s{1,4}+)(['\"]?)"
            rf"{UNMASKED}(?!\d{{1,5}}(?:\s|$)|\d{{1,5}}:|-)[^\s'\"]++",
            rf"\1\2{MASK}",
            flags=0,
        ),
        _row(("pass:",), rf"\b(pass:){UNMASKED}[^\s'\"]++", flags=0),
        _row(
            ("@",),
            r"(?<![\w/:.@%+-])(?!(?:mailto|sips?|xmpp|acct|im|ssh|npm|pkg|workspace|file|link|patch|jsr|git|node):)"
            rf"([A-Za-z][\w.+-]{{0,63}}+:){UNMASKED}[^\s:@/'\"]{{1,200}}+@(?=[A-Za-z0-9-]{{1,60}}+(?:\.[A-Za-z0-9]|:\d))(?!sha\d)",
            rf"\1{MASK}@",
            flags=0,
        ),
        # what is given to a command or a server without a name
        _row(
            ("auth ", "login ", "pass ", "requirepass", "identify "),
            rf"((?:^|[\n\r>:] {{0,4}}|\\[nr])(?:AUTH (?:PLAIN|LOGIN|XOAUTH2|CRAM-MD5) |PASS |AUTH (?:[\w.-]{{1,60}} )?|\w{{1,8}} LOGIN \S{{1,100}} |"
            rf"IDENTIFY )){UNMASKED}(?!LOGIN\b|PLAIN\b|[A-Z][A-Z-]+\b)[^\s'\"]++",
            _unless_word,
            flags=0,
        ),
        _row(("acl setuser",), rf"(\bacl setuser [^\n]{{0,200}}?[ ][>#]){UNMASKED}[^\s'\"]++"),
        _row(("/user:",), rf"(/user:\S{{1,100}}+ {{1,4}}){UNMASKED}(?!/)[^\s'\"]++", _unless_word),
        _row(
            ("-stdin", "sudo -s", "sudo -k", "chpasswd", "su -"),
            rf"(\b(?:echo|printf)\s+(?:-n\s+)?['\"]?(?:[\w.-]{{1,60}}:)?+){UNMASKED}[^\s'\"|:]++"
            r"(?=['\"]?[^\n|]{0,60}\|[^\n|]{0,120}?(?:-stdin|\bsudo -[Ssk]|\bchpasswd|\bsu -))",
        ),
        _row(("chpasswd",), rf"(\bchpasswd\s{{0,4}}<<<?\s{{0,4}}['\"]?[\w.-]{{1,60}}:){UNMASKED}[^\s'\"]++"),
        _row((" -k ",), rf"(\bopenssl [^\n|]{{0,200}}? -k )(?!\S{{0,200}}[/.]){UNMASKED}[^\s'\"]++", flags=0),
        _row(
            ("auth",),
            rf"((?:Basic|Digest|Ntlm|NTLM|Plain)Auth\w{{0,20}}\([^()\n]{{0,80}}?['\"],\s?['\"]){UNMASKED}[^'\"]++",
            flags=0,
        ),
        _row(
            ("ftp ", "scp ", "rsync "),
            rf"(\b(?:s?ftp|scp|lftp|rsync) [^\n|:@]{{0,100}}:){UNMASKED}[^\s@:/]{{1,100}}(?=@[\w.-]{{1,100}})",
        ),
        _row(
            ("user-secrets set", "http-basic."),
            rf"(\b(?:user-secrets set|http-basic\.\S{{1,100}}) \S{{1,100}} ['\"]?){UNMASKED}[^\s'\"]++",
        ),
        _row(
            ("htpasswd",),
            rf"(\bhtpasswd -\w{{0,6}}b\w{{0,6}} \S{{1,200}} \S{{1,100}} ['\"]?){UNMASKED}[^\s'\"]++",
        ),
        _row(
            ("add_user", "change_password", "authenticate_user"),
            rf"(\b(?:add_user|change_password|authenticate_user) \S{{1,100}} ['\"]?){UNMASKED}[^\s'\"]++",
        ),
        _row(
            (" -c ", " -a", " -x"),
            rf"(\bsnmp\w{{1,12}} [^\n|]{{0,200}}?-[cAX] ['\"]?){UNMASKED}[^\s'\"]++",
            flags=0,
        ),
        _row(("securestring",), rf"(securestring\s+(?:-string\s+)?['\"]){UNMASKED}[^'\"]++"),
        _row(
            ("secret", "password", "token", "credential", "apikey"),
            r"((?:[Ss]ecret|PASSWORD|[Pp]assword|[Tt]oken|[Cc]redential|[Aa]pi_?[Kk]ey)(?:[Ss]tring|[Ss]tr|[Bb]ytes|[Vv]alue)?\((?:\w{1,20}=)?b?['\"])"
            rf"{UNMASKED}[^'\"]++",
            _unless_name,
            flags=0,
        ),
        _row(
            (" set ", "setx "),
            rf"(\b(?:set|setx|put|add)\s+[\w./:@-]{{0,100}}?(?:{_SETTINGS})\s+['\"]?){UNMASKED}[^\s'\"=]++(?!\s*=)",
            _unless_word,
        ),
        _row(
            (" -b", "--cookie"),
            rf"(\bcurl\b[^\n|]{{0,300}}? (?:-b|--cookie)[ =]['\"]?){UNMASKED}[^\s'\"]+={UNMASKED}[^'\"\n]++",
            flags=0,
        ),
        _row(
            ('-p"', "-p'"),
            rf"(['\"]-p['\"],\s?['\"]){UNMASKED}(?!\d|[./-]|[^'\"]{{0,200}}[/:])[^'\"]++",
            _unless_word,
        ),
        _row(
            ("is your ", "as your "),
            r"\b()(?<![\d.])\d{4,8}(?= (?:is|as) your [\w -]{0,30}(?:code|pin|otp|passcode|password)\b)",
        ),
        _row(
            ("pin is", "code is"), r"(\b(?:pin|verification code|security code|one-time code) is:? )\d{4,8}\b"
        ),
        _row(
            ("password",), r"""(password[^\n]{0,40}\n\s{0,20}send(?:_user|line)?[ (]{1,3}["'])[^"'\n\\]++"""
        ),
        _row(
            (")/", "@tcp(", "@unix("),
            rf"([\w.-]{{1,60}}:){UNMASKED}[^\s@]{{1,200}}+(?=@(?:tcp|unix|udp)6?\()",
        ),
        _row(
            ("@",),
            rf"((?::thin:|:oci:|\bsqlplus\s)[\w.-]{{1,60}}/){UNMASKED}[^\s@]{{1,200}}(?=@)",
        ),
        _row(
            ('"kty', "'kty", "kty\\"),
            r"(\\{0,3}['\"](?:d|k|p|q|dp|dq|qi)\\{0,3}['\"]\s?:\s?\\{0,3}['\"])[\w-]{16,}+",
            flags=0,
        ),
        # pydantic: the value below the name of its field; a shortened one cannot be read as data
        _row(
            ("input_value=",),
            r"((?:^|\n)\s{0,8}([\w.\[\]-]{1,200})\n\s{1,8}[^\n]{0,1000}?, input_value=)(?:(?!, input_type=)[^\n])++",
            _unless_harmless_field,
        ),
        _row(("input_value=",), r"(\binput_value=)(?=[^\n]{0,80}?\.\.\.)[\[{(](?:(?!, input_type=)[^\n])++"),
        _row(("private-lines",), r"(private-lines: \d{1,4}\s{1,4})(?:[A-Za-z0-9+/=]{16,}\s{0,4})++"),
        # hashes of passwords, and the lines of a .pgpass
        _row(
            ("$",),
            r"()(?<![\w$])\$(?:2[abxy]?|1|5|6|7|y|gy|apr1|argon2(?:id|i|d)|scrypt|pbkdf2(?:-sha\d+)?|sha1|P|H|S|bcrypt-sha256)\$[\w./$=,+:-]{12,}",
            flags=0,
        ),
        _row(
            (":5432:", ":5433:", ":6432:", ":*:"),
            rf"((?:^|\n|\\n)[\w.*-]{{1,100}}+:(?:\d{{2,5}}|\*):[\w.*-]{{1,60}}+:[\w.*-]{{1,60}}+:){UNMASKED}(?=[^\s:]*[A-Za-z!@#$%])[^\s:]++(?=\s|$)",
            _unless_word,
        ),
    )


# ---- the search --------------------------------------------------------------------------------------------------


@cache
def _clues() -> tuple[str, ...]:
    """Return all clues of shapes."""
    return tuple({clue for shape in (*shapes(), *_later_shapes()) for clue in shape.clues})


_SIGNS: Final = "-_=:\"'/@$\\"


@cache
def _few_clues() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return clues of which at least one is in each text with a secret, by the rarest sign in them."""
    clues = {*CLUES, *_clues()}
    few = {clue for clue in clues if not any(other in clue for other in clues if other != clue)}
    groups: dict[str, list[str]] = {"": []}
    for clue in sorted(few):
        groups.setdefault(next((sign for sign in _SIGNS if sign in clue), ""), []).append(clue)
    return tuple((sign, tuple(group)) for sign, group in groups.items())


@cache
def _foreign() -> re.Pattern[str]:
    return re.compile(FOREIGN)


def _is_clued(lowered: str) -> bool:
    # `in` is faster than any pattern, and a loop than a generator
    for sign, clues in _few_clues():
        if sign in lowered:
            for clue in clues:
                if clue in lowered:
                    return True
    return False


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
    if _is_clued(lowered) or (not is_plain and _foreign().search(lowered) is not None):
        clues = [clue for clue in _clues() if clue in lowered]
        text = _replaced(text, clues, shapes())
        by_name = spans_by_name(text, text.lower() if is_plain else text)
        text = replaced(text, [*by_name, *spans_in_sql(text, lowered)])
        text = _replaced(text, clues, _later_shapes())
    return tokens().sub(MASK, text)


_LOOK_ALIKES: Final = {
    0x131: "i",
    0x17F: "s",
    0x212A: "k",
}  # letters beyond ASCII that a pattern takes for these


def _replaced(text: str, clues: list[str], these: tuple[Shape, ...]) -> str:
    for wanted, pattern, mask in these:
        if not wanted.isdisjoint(clues):
            text = pattern.sub(mask, text)
    return text
