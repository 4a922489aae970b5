"""The names of secrets, and what the value of a secret looks like beside its name.

The one list, for text and for data: fields, headers, options, elements, parameters of a query. A
name says as well what its value looks like (`Kind`), since `auth=none`, `pin: pip is pinned` and
`tokens: 512` hold no secret.

Rule: the name says that a secret may stand here, the value decides. A placeholder (`$TOKEN`,
`<token>`), a state (`none`, `disabled`), a sentence (`must be set`) and, behind a colon, a word of
the language are no secrets; masked, they would take away what the reader needs. A pattern of names
begins with a plain letter (what must precede it is checked by a lookbehind after that letter, or by
`_is_whole`), so that the engine tries few patterns at each position; every check reads a bounded
part of a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Final, NamedTuple, cast
from urllib.parse import parse_qsl


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


class Kind(Enum):
    """What the value behind a name looks like, where it is a secret."""

    ANY = "any text"
    COUNTED = "any text, but a number counts what has passed"
    OPAQUE = "letters and digits mixed: a word is a state or a method"
    SESSION = "long, letters and digits mixed, and no UUID, which the id of a session of ours is"
    DIGITS = "a few digits"
    KEY = "long, letters and digits thrown together: any other key is a name"


_FRAGMENTS: Final = (  # also at the end of a longer name: userPassword, X-Auth-Token
    "authorization", *(f"{word}[ ._-]?keys?" for word in _KEYS), f"-{''.join(f'(?<!{word}-)' for word in _NO_SECRETS)}(?<=[a-z0-9]-)key",
    "passw(?:or)?ds?", "pass[ _-]?phrases?", "passcode", "pass[ _-]?keys?", "key[ _-]?content", "snmp[ _-]?community", "community[ _-]?string", "p(?<=[_-]p)ass", "pwd", "secrets?",
    "token", "credentials?", "cookies?", "signature", "jwt", "bearer", "psk", "o(?<![a-z]o)tp", "t(?<![a-z]t)otp", "mnemonic",
    "seed[ _-]?phrase", "recovery[ _-]?(?:phrase|code)s?", "backup[ _-]?codes?", "conn(?:ection)?[_-]?str(?:ing)?", "client[_-]?assertion",
    "saml[_-]?(?:response|assertion)", "webhook[_-]?url", "auth(?:orization)?[_-]?code", "csrf", "xsrf", "auth[_-]?string",
    "auth[_-]?tok", "unseal[ _-]?keys?(?: \\d)?", "codes?[ _-](?:de|di|da)[ _-](?:v[ée]rification|verifica|s[ée]curit[ée]|confirmation|acc[eè]s)", "c[óo]digos?[ _-]de[ _-](?:verificaci[óo]n|verifica[çc][ãa]o|seguridad|seguran[çc]a|acceso|acesso|confirmaci[óo]n)",
    "codice[ _-]di[ _-](?:verifica|sicurezza|accesso)", "(?:bestätigungs|bestaetigungs|sicherheits|verifizierungs|zugangs|einmal)code", "код[ _](?:подтверждения|доступа)", "验证码", "驗證碼", "認証コード", "确认码",
    "(?:verification|security|confirmation|login|access|invite|invitation|activation|reset|pairing|unlock|sms|one[_ -]?time|two[_ -]?factor|2fa|mfa|device|user)[_ -]?code",
    "a(?<=[_-]a)uth", "p(?<=_p)at", "phpsessid", "jsessionid", "connect\\.sid", "s(?<=x[_-]s)ession", "t(?<=x[_-]t)icket",
    "s(?<=x[_-]s)ig", "code[_-]?verifier", "secret[_-]?string", "(?:client|private|tls|ssl)[_-]?key[_-]?data",
    # in other languages
    "passwor[td](?:e|er)?", "passord", "kennw(?:o|ö|oe)rt(?:er)?", "zugangsdaten", "contrase(?:ñ|n|nn)as?", "mots?[ _-]de[ _-]passe", "motdepasse",
    "wachtwoord(?:en)?", "l(?:ö|o)senord", "adgangskode", "salasana", "parola[ _]d['_ ]ordine", "palavra[ _-]passe", "(?:clave|palabra)[ _-]secreta",
    "api[ _-]?schl(?:ü|ue)ssel", "cl(?:é|e)[ _-](?:api|secr(?:è|e)te)", "kata[ _]sandi", "mật khẩu", "jelszó", "парол[ья]", "секрет", "токен",
    "密码", "密碼", "口令", "秘钥", "密钥", "令牌", "パスワード", "暗証番号", "비밀번호", "암호", "कूटशब्द", "पासवर्ड", "סיסמה", "סיסמא", "كلمة المرور", "كلمة السر", "รหัสผ่าน", "κωδικός",
)  # fmt: skip
_WHOLE: Final = {  # alone, or as a word of a longer name: db_pw, userPin, x-session-id
    Kind.ANY: words(
        "pw pws pwds? creds? hmac senhas? heslo jelszo has(?:ł|l)o (?:ş|s)ifre parola clave"
    ),
    Kind.COUNTED: words("pass"),
    Kind.OPAQUE: words("auth sid sig tokens session salt"),
    Kind.SESSION: words("session[_-]?id session[_-]?key sessid"),
    Kind.DIGITS: words("pin cvv cvc pin[_-]?code"),
    Kind.KEY: words("key code sign app[_-]?id"),
}
_TAIL: Final = (  # passwordHash, token_2, hmac_sha256
    r"(?:[_-]?\d{1,3}|[_-]?(?:values?|base|hash|old|new|digest|encrypted|enc|b64|base64|plain|raw|text|bytes|sha\d{1,3}|md5|v\d|hint|confirm(?:ation)?|again|repeat(?:ed)?|retype[d]?)|__?(?!\w))?"
)
_ABOUT: Final = (  # what a longer name says about a secret, which it does not hold: TOKEN_TTL
    r"url|uri|ttl|file|path|dir|len|length|min|max|name|id|ids|type|kind|count|limit|exp\w{0,8}|size|policy|field|header|prefix|suffix|endpoint|host|port|age|version"
    r"|alg\w{0,8}|region|arn|ref|reset|change\w?|required|enabled|format|regex|pattern|rules?|strength|column|index|idx|usage|used|rotation|interval|timeout|time|at|on"
    r"|date|status|state|error|errors|valid\w{0,8}|provider|manager|store|service|source|scheme|method|env|var|vars|label|hint|code|key|token|secret|pass\w{0,8}|auth|parser"
    r"|protected|based?|bucket|budget|pair|ring|chain|log|level|lookup|encoding|encryption|accessor|audience|issuer|scopes?|per"
)
_MORE: Final = rf"(?P<more>(?:_(?!(?:{_ABOUT})(?![a-z0-9]))[a-z0-9]{{1,20}}){{1,4}})?"
_END: Final = _TAIL + _MORE + r"(?:(?=[はがを是为為])|(?!\w|-(?!>)))"
_ALWAYS: Final = frozenset({Kind.SESSION, Kind.DIGITS, Kind.KEY})  # so in a longer name as well
_OTHER_KEYS: Final = re.compile(rf"(?:{'|'.join(_NO_SECRETS)})[ _-]?$")
_SENSITIVE: Final = frozenset({Kind.ANY, Kind.COUNTED})
_OPAQUE_PARTS: Final = ("tokens", "session")
_ALONE: Final = frozenset(
    {"auth", "sid", "sig"}
)  # a field of this name is a credential, also one of a header

HEADERS: Final = ("authorization", "cookie", "cookies")
"""Names whose values may hold blanks and quotes: the value extends to the end of the line."""
PHRASES: Final = words(
    "passw passphrase passcode pwd secret credential mnemonic seed recovery wachtwoord kennw contrase"
)
"""How names of secrets begin that may have several words."""
AMBIGUOUS: Final = frozenset(
    words("token tokens secret secrets credential credentials signature cookie cookies pass")
)
"""Names that are words of other things as well."""
CLUES: Final = (
    *words(
        "auth key secret pass pwd token credential cookie signature jwt bearer psk otp mnemonic phrase code connstr conn-str conn_str"
        " tion_str tionstr tion-str saml assertion webhook csrf xsrf sessid sessionid session_id session-id .sid x-s x_s x-t x_t _pat hmac"
        " cred pw cvv cvc senha clave kennw gangs salasana heslo hasl sifre parola wachtw losen schl pala contras"
        " jelsz community codi"
    ),
    *(f"{name}{sign}" for name in ("sid", "sig", "pin", "sign", "salt", "appid", "app_id", "app-id") for sign in "=:\"'"),
    "_session", "-session", "kata s", "kata_s", "pin ",
)  # fmt: skip
"""Every name contains one of these, in lower case."""
FOREIGN: Final = "ł|ş|ö|ñ|schlü|clé|mật|jelszó|парол|секрет|токен|密|口令|秘钥|令牌|パスワード|暗証|비밀|암호|कूटश|पासव|סיסמ|كلمة|รหัส|κωδικ|код|验证|驗證|認証|确认|código|vérif|sécur"
"""The same for names with letters beyond ASCII."""
ATTRIBUTE: Final = re.compile(
    r"(?:name|key|field|header|id|type|loc|(?:instance|data|schema|json)?_?path|param(?:eter)?|property(?:_?path)?|argument|attribute|column|variable)\\{0,3}['\"]?"
    r"\s{0,2}(?:[:=]|=>)\s{0,2}(?:[\[(][^\])]{0,40})?b?\\{0,3}['\"]?[\w.:/#-]{0,40}$",
    re.IGNORECASE,
)
"""What precedes a name that is itself a value: `<input name="…`, `{"key": "…`, `"loc": ["body", "…`."""


class Name(NamedTuple):
    """A name of a secret in a text: where it stands, and what its value looks like."""

    start: int
    end: int
    word: str
    kind: Kind


def _grouped(fragments: tuple[str, ...]) -> str:
    heads: dict[str, list[str]] = {}
    for fragment in fragments:
        if fragment.startswith("(?:"):
            head, tails = fragment[3:].split(")", 1)
            for word in head.split("|"):
                heads.setdefault(word[0], []).append(word[1:] + tails)
        else:
            heads.setdefault(fragment[0], []).append(fragment[1:])
    return "|".join(
        f"{head}(?:{'|'.join(sorted(tails, key=len, reverse=True))})"
        for head, tails in heads.items()
    )


@cache
def _pattern(flags: int) -> re.Pattern[str]:
    fragments = (*_FRAGMENTS, *(fragment for whole in _WHOLE.values() for fragment in whole))
    return re.compile(f"(?:{_grouped(fragments)}){_END}", flags)


@cache
def _wholes() -> re.Pattern[str]:
    kinds = (f"(?P<{kind.name}>{'|'.join(fragments)})" for kind, fragments in _WHOLE.items())
    return re.compile(f"(?:{'|'.join(kinds)}){_TAIL}")


def names_in(text: str, lowered: str) -> Iterator[Name]:
    """Return the names of secrets in the text.

    `lowered` is the text in lower case, or the text itself if it has letters beyond ASCII.
    """
    for found in _pattern(0 if lowered is not text else re.IGNORECASE).finditer(lowered):
        word, start = found.group().lower(), found.start()
        if found["more"]:  # API_KEY_PROD
            yield Name(start, found.end(), word, Kind.OPAQUE)
            continue
        whole = _wholes().fullmatch(word)
        if whole is None or (
            word in _LAST_PARTS and _is_compound(lowered[max(0, start - 8) : start])
        ):
            yield Name(start, found.end(), word, Kind.ANY)
        elif _is_whole(text, start):
            if word == "session" and text[start - 1 : start] not in ("_", "-"):
                continue  # laravel_session is a cookie's name, session alone is a word
            kind = Kind[str(whole.lastgroup)]
            if (
                kind is Kind.KEY
                and _OTHER_KEYS.search(lowered[max(0, start - 20) : start]) is not None
            ):
                continue
            is_header = text[max(0, start - 3) : start].lower().lstrip(" \n'\"") == "x-"
            is_part = text[start - 1 : start] in ("_", "-") and kind not in _ALWAYS
            yield Name(
                start,
                found.end(),
                word,
                Kind.ANY if is_part and (word not in _OPAQUE_PARTS or is_header) else kind,
            )


_LAST_PARTS: Final = ("pass", "pw")
_NO_COMPOUNDS: Final = words(
    "by com tres sur over under through high low band multi one two first second single"
)


def _is_compound(before: str) -> bool:
    """Return whether `pass` or `pw` ends a word made of two: storepass, rootpw, but not bypass."""
    return before[-3:].isalpha() and len(before) > 2 and not before.endswith(tuple(_NO_COMPOUNDS))


def _is_whole(text: str, start: int) -> bool:
    """Return whether a word begins here: behind no letter, or as userPin and DBPin write it."""
    before = text[start - 1 : start]
    return not before.isalnum() or (text[start].isupper() and not before.isupper())


def kind_of(name: str) -> Kind | None:
    """Return what the value of a field of this name looks like if it is a secret; None for any other field."""
    last = name.rpartition(".")[2][-100:]
    return next((one.kind for one in names_in(last, last) if one.end == len(last)), None)


def is_sensitive(name: str) -> bool:
    """Return whether a field of this name holds a secret (token, api_key, Authorization, …)."""
    return kind_of(name) in _SENSITIVE or name.lower() in _ALONE


# ---- values -----------------------------------------------------------------------------------------


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
_PARTS_OF_VALUE: Final = ("pw", "pass")  # a password may end so as well as a name
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
            and not word.endswith(_PARTS_OF_VALUE)
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
