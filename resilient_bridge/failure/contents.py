"""What an answer says, read once and before any verdict: its body, the names in it, and how long to wait.

The one reader of error bodies: of a response, of an SDK's error, of an event in a stream, of a text;
and of the wait that a server asks for, in a body, a text or its headers.

Rule: nothing in an answer is trusted. A body may be bytes in any encoding, a text, or decoded JSON of
any type and depth: what is read is bounded, and what is not understood is no error of ours. A body is
read once, into names, a number that is a status, the server's own words, and a wait.

`Retry-After` is seconds or a date, `retry-after-ms` milliseconds. The forms that servers send are read
strictly: seconds, fractions of them (SDKs and servers use both), HTTP dates, and those of
`email.utils`. `float()` would accept "nan", "1e309" and other scripts' digits. A date counts from the
server's own `Date`, so that a wrong clock here does no harm. The policy sets the cap.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, Final, cast

import attrs


_LARGEST: Final = 65_536  # bytes or characters that are parsed
_READ: Final = 4_096  # characters of words
_MOST_OBJECTS: Final = 40
_MOST_ITEMS: Final = 8  # of a list
_MOST_NAMES: Final = 40
_MOST_TEXTS: Final = 3  # bodies inside bodies, as text
_SAYS: Final = (  # keys in lower case, without punctuation; the first of them that has words is the server's own
    *(
        "message",
        "msg",
        "errormessage",
        "errormsg",
        "errmsg",
        "statusmsg",
        "statusmessage",
        "error",
        "errors",
        "detail",
    ),
    *(
        "details",
        "description",
        "errordescription",
        "faultstring",
        "errorsummary",
        "errortext",
        "exception",
        "info",
        "note",
        "information",
    ),
    *("reason", "title", "result", "text", "cause"),
)
_MORE_WORDS: Final = ("raw", "code")
_WORDED: Final = (*_SAYS, *_MORE_WORDS)
_FILLERS: Final = frozenset(
    [
        "error",
        "errors",
        "notok",
        "fail",
        "failed",
        "failure",
        "false",
        "null",
        "none",
        "err",
        "exception",
        "object",
        "httpexception",
        "apierror",
    ]
)
_NAMES: Final = (
    *(
        "errorcode",
        "code",
        "errcode",
        "type",
        "errortype",
        "status",
        "reason",
        "error",
        "messagetype",
        "event",
    ),
    *(
        "exceptioncode",
        "exception",
        "kind",
        "title",
        "name",
        "message",
        "msg",
        "info",
        "errorname",
        "subtype",
        "tag",
        "category",
    ),
)
_NUMBERS: Final = (
    "code",
    "status",
    "httpstatus",
    "httpstatuscode",
    "statuscode",
    "errorcode",
    "httpcode",
)
_QUOTAS: Final = ("quotaid", "quotalimit")
_ECHOES: Final = frozenset(  # what a request shown, and what a model wrote: not the server's words
    [
        "input",
        "prompt",
        "prompts",
        "messages",
        "choices",
        "request",
        "body",
        "headers",
        "failedgeneration",
        "ctx",
        "arguments",
        "content",
        "usage",
        "user",
        "users",
        "output",
        "outputs",
        "items",
        "properties",
        "query",
        "flaggedinput",
        "headers",
    ]
)
_WAIT: Final = re.compile(
    r"(?:retry|backoff|resets?|wait|cooldown|delay|estimated|available|quotareset|secondsto|secondsuntil|timeto|nextretry)"
    r"(?:time)?(?:to|until)?(?:retry|wait|reset|delay)?(?:after|in|delay|time|for)?"
    r"(?:seconds|secs|sec|s|ms|millis|milliseconds|minutes|mins)?"
)
_NO_WAIT: Final = frozenset(
    ("resets", "reset", "available", "estimated", "resettime", "delay", "retries", "availables")
)
_TRANSIENT: Final = ("istransient", "transient")
_IDENTIFIER: Final = re.compile(r"[A-Za-z#][\w.:/#-]{2,199}")
_STATUS: Final = re.compile(r"[45][0-9]{2}")
_PAGE: Final = re.compile(r"<title>([^<]{1,200})", re.IGNORECASE)
_XML: Final = re.compile(r"<(?:\w{1,20}:)?(\w{2,40})(?:\s[^<>]{0,200})?>([^<]{1,2000})")
_XML_NAME: Final = re.compile(
    r"\b(?:exceptioncode|errorcode|code|type|reason)=[\"']([^\"'<>]{1,200})", re.IGNORECASE
)
_XML_NAMES: Final = frozenset(
    [
        "code",
        "errorcode",
        "faultcode",
        "exceptioncode",
        "subcode",
        "status",
        "type",
        "value",
        "reason",
    ]
)
_XML_WORDS: Final = frozenset(
    [
        "message",
        "errormessage",
        "faultstring",
        "exceptiontext",
        "description",
        "reason",
        "detail",
        "details",
        "text",
        "msg",
        "title",
        "error",
        "value",
        "summary",
    ]
)
_HEADING: Final = re.compile(
    r"<(?:h[1-3]|p|body|pre)[^<>]{0,200}>\s{0,40}([^<]{1,500})", re.IGNORECASE
)
# The words by which Google tells one failure from another, beside a number.
_CANONICAL: Final = frozenset(
    [
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
    ]
)
_LONGEST_WAIT: Final = 1e10
_MOMENTS: Final = 1e8  # from here on a number is a time, not a wait
_MOST_FIELDS: Final = 64  # of an object
_ORDER: Final = {
    key: order
    for order, key in enumerate(
        (
            "error",
            "errors",
            "response",
            "message",
            "detail",
            "details",
            "innererror",
            "extensions",
        )
    )
}
"""Which parts are read first."""


@attrs.frozen(kw_only=True, slots=False)  # a cached property needs a dict
class ErrorBody:
    """What an error body says. `words` are all of its texts in lower case, `message` the server's own."""

    names: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    number: int | None = None
    message: str = ""
    words: str = ""
    wait: float | None = None
    passing: bool = False
    """It says that it passes by itself: `is_transient`."""
    decides: bool = False
    """Its names say more than the status: AWS answers 400 to nearly everything, Google names each case."""

    @cached_property
    def waits(self) -> float | None:
        """The wait in a field, or else in the words."""
        return wait_in_text(self.words) if self.wait is None else self.wait

    @property
    def is_daily(self) -> bool:
        """Whether the limit that it names is one of a day."""
        return any("perday" in name_key(name) for name in self.quotas)


EMPTY: Final = ErrorBody()


def read_body(body: object, headers: object = None) -> ErrorBody:
    """Return what a body says: bytes, a text, or decoded JSON; `headers` may name an AWS error."""
    content = EMPTY
    if not (body is None or body in (b"", "")):
        document = read_json(body) if isinstance(body, (bytes, bytearray, str)) else body
        if isinstance(document, (Mapping, list, tuple)):
            content = _Reading().content(cast("object", document))
        else:
            content = _of_text(_text_of(document if isinstance(document, str) else body))
    return _with_amazon(content, headers)


def is_page(body: object, headers: object = None) -> bool:
    """Return whether an answer is a page for a browser: by its type, or by how its body begins."""
    start = _text_of(body).lstrip()[:200].lower()
    kind = _header(headers, "content-type", "Content-Type") or ""
    return start.startswith("<!doctype html") or "<html" in start or "text/html" in kind.lower()


def _header(headers: object, *names: str) -> str | None:
    """Return a header under the first of its spellings that is there; None if it cannot be read."""
    get = getattr(headers, "get", None)
    try:
        found = (
            next((each for name in names if (each := get(name))), None) if callable(get) else None
        )
    except Exception:  # noqa: BLE001 (websockets raises when a header came twice)
        return None
    return found if isinstance(found, str) else None


def _with_amazon(content: ErrorBody, headers: object) -> ErrorBody:
    name = _header(headers, "x-amzn-errortype", "x-amzn-ErrorType")
    if name is None:
        return content
    return attrs.evolve(content, names=(name.partition(":")[0], *content.names), decides=True)


def _text_of(body: object) -> str:
    if isinstance(body, str):
        return body[:_READ]
    if not isinstance(body, (bytes, bytearray)):
        return ""
    start = bytes(body[:_READ])
    zeros = start[:64].count(0)
    wide = (
        "utf-16"
        if start[:2] in (b"\xff\xfe", b"\xfe\xff")
        else "utf-16-le"
        if start[1:2] == b"\0"
        else "utf-16-be"
    )
    return start.decode(wide if zeros > 8 or wide == "utf-16" else "utf-8", "replace")


def _of_text(text: str) -> ErrorBody:
    text = text.replace("\0", "").strip()
    if text.startswith("<"):
        return _of_page(text)
    message = "" if text.startswith(("{", "[")) else text
    return ErrorBody(message=message, words=text.lower())


def _of_page(text: str) -> ErrorBody:
    page = _PAGE.search(text)
    if page is not None or "<html" in text[:200].lower():
        shown = [match[1].strip() for match in _HEADING.finditer(text)][:_MOST_ITEMS]
        shown = [page[1].strip(), *shown] if page is not None else shown
        message = next((words for words in shown if words), "")
        return ErrorBody(message=message, words="\n".join(shown).lower())
    parts = [(match[1].lower(), match[2].strip()) for match in _XML.finditer(text)][:_MOST_NAMES]
    names = [value for key, value in parts if key in _XML_NAMES and _IDENTIFIER.fullmatch(value)]
    names += [match[1] for match in _XML_NAME.finditer(text)][:_MOST_ITEMS]
    shown = [value for key, value in parts if key in _XML_WORDS and value and value not in names]
    if not shown:
        shown = [value for _, value in parts if " " in value]
    return ErrorBody(
        names=tuple(names), message=shown[0] if shown else "", words="\n".join(shown).lower()
    )


@attrs.define
class _Reading:
    """One walk over a document: breadth first, without recursion, over a bounded number of objects."""

    names: list[str] = attrs.field(factory=list[str])
    quotas: list[str] = attrs.field(factory=list[str])
    number: int | None = None
    message: str = ""
    filler: str = ""
    words: list[str] = attrs.field(factory=list[str])
    wait: float | None = None
    passing: bool = False
    decides: bool = False
    texts: int = 0

    def content(self, document: object) -> ErrorBody:
        """Return what the document says."""
        pending, seen = [document], 0
        while pending and seen < _MOST_OBJECTS:
            seen += 1
            item = pending.pop(0)
            if isinstance(item, Mapping):
                pending += self._read(cast("Mapping[object, Any]", item))
            elif isinstance(item, (list, tuple)):
                pending += list(cast("Sequence[object]", item)[:_MOST_ITEMS])
        return ErrorBody(
            names=tuple(self.names[:_MOST_NAMES]),
            quotas=tuple(self.quotas[:_MOST_NAMES]),
            number=self.number,
            message=self.message or self.filler,
            words="\n".join(self.words)[:_READ].lower(),
            wait=self.wait,
            passing=self.passing,
            decides=self.decides,
        )

    def _read(self, mapping: Mapping[object, Any]) -> Iterator[object]:
        # By their names in lower case and without punctuation: errorCode is error_code.
        fields: dict[str, Any] = {}
        for name, inner in islice(mapping.items(), _MOST_FIELDS):
            if isinstance(name, str) and not (inner is None or inner == ""):
                fields.setdefault("".join(filter(str.isalnum, name[:60].lower())), inner)
        self._name(mapping, fields)
        if self.number is None and not fields.keys().isdisjoint(_NUMBERS):
            self._number(fields)
        if self.wait is None and any(map(_WAIT.fullmatch, fields)):
            self._wait(fields)
        yield from self._say(mapping, fields)
        for key in sorted(fields, key=lambda key: _ORDER.get(key, len(_ORDER))):
            value: object = fields[key]
            if key not in _ECHOES and isinstance(value, (Mapping, list, tuple)):
                yield cast("object", value)
        if len(mapping) <= 2:  # Bedrock's events: {"throttlingException": {"message": …}}
            for name, inner in mapping.items():
                if (
                    isinstance(name, str)
                    and name.endswith("Exception")
                    and isinstance(inner, Mapping)
                ):
                    self.names.append(name)
                    self.decides = True

    def _name(self, mapping: Mapping[object, Any], fields: Mapping[str, Any]) -> None:
        for key in _NAMES:
            value: object = fields.get(key)
            if not isinstance(value, str) or not value or " " in value[:200]:
                continue
            self.names.append(value[:200])
        self.quotas += [fields[key][:200] for key in _QUOTAS if isinstance(fields.get(key), str)]
        status: object = fields.get("status")
        of_google = (
            isinstance(fields.get("code"), int) and isinstance(status, str) and status in _CANONICAL
        )
        self.decides = self.decides or of_google or isinstance(mapping.get("__type"), str)
        self.passing = self.passing or any(fields.get(key) is True for key in _TRANSIENT)

    def _number(self, fields: Mapping[str, Any]) -> None:
        for key in _NUMBERS:
            value: Any = fields.get(key)
            if isinstance(value, str) and _STATUS.fullmatch(value):
                value = int(value)
            if isinstance(value, int) and 400 <= value <= 599:
                self.number = int(value)
                return

    def _wait(self, fields: Mapping[str, Any]) -> None:
        for key, value in fields.items():
            if len(key) > 40 or key in _NO_WAIT or not _WAIT.fullmatch(key):
                continue
            self.wait = _seconds_in(key, value)
            if self.wait is not None:
                return

    def _say(self, mapping: Mapping[object, Any], fields: Mapping[str, Any]) -> Iterator[object]:
        own = ""
        for key in [key for key in _WORDED if key in fields]:
            value: object = fields[key]
            for text in (value[:_LARGEST],) if isinstance(value, str) else _texts_in(value):
                if not text.strip():
                    continue
                self.words.append(text[:_READ])
                inside = self._inside(text) if "{" in text and self.texts < _MOST_TEXTS else None
                if inside is not None:
                    yield inside
                elif key in _MORE_WORDS:
                    pass
                elif text.strip().lower() in _FILLERS or _IDENTIFIER.fullmatch(text.strip()):
                    self.filler = self.filler or text.strip()[:_READ]
                else:
                    own = own or text.strip()
        has_lists = any(isinstance(each, list) for each in mapping.values())
        for key, text in _of_validation(mapping) if has_lists and not (own or self.filler) else ():
            self.words.append(f"{key} {text}"[:_READ])
            own = own or f"{key}: {text}"
        name: object = fields.get("error")
        if (
            isinstance(name, str)
            and own
            and isinstance(fields.get("errordescription"), str)
            and name not in own
        ):
            own = f"{name.strip()[:80]}: {own}"  # of OAuth
        title: object = fields.get("title")
        if isinstance(title, str) and own and own != title.strip():
            own = f"{title.strip()[:80]}: {own}"
        path: object = mapping.get("loc")  # of FastAPI
        if own and isinstance(path, (list, tuple)):
            parts = cast("Sequence[object]", path)[:8]
            own = f"{'.'.join(part[:40] if isinstance(part, str) else repr(part)[:40] for part in parts)}: {own}"
        self.message = self.message or own[:_READ]

    def _inside(self, text: str) -> object:
        """Return the body that a router put into a text, None for an ordinary text."""
        self.texts += 1
        found = document_in(text)
        return None if found is None else found[1]


def _of_validation(mapping: Mapping[object, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a validation says of each field: {"prompt": ["is too long"]}."""
    for key, value in islice(mapping.items(), _MOST_ITEMS):
        if isinstance(key, str) and isinstance(value, list) and key.lower() not in _SAYS:
            for text in _texts_in(cast("object", value)):
                if " " in text:
                    yield key[:60], text


def _texts_in(value: object) -> Iterator[str]:
    """Yield the texts of a list."""
    if isinstance(value, (list, tuple)):
        for item in cast("Sequence[object]", value)[:_MOST_ITEMS]:
            if isinstance(item, str) and item.strip():
                yield item[:_LARGEST]


def _seconds_in(key: str, value: object) -> float | None:
    """Return the seconds in a field that is a wait by its name: 30, "30", "53s", or 500 in retry_after_ms."""
    if isinstance(value, str) and (duration := duration_of(value)) is not None:
        return duration
    seconds = seconds_of(value)
    if seconds is None or (key.startswith(("reset", "available", "timeto")) and seconds > _MOMENTS):
        return None
    if key.endswith(("ms", "millis", "milliseconds")):
        return seconds / 1000
    return seconds * 60 if key.endswith(("minutes", "mins")) else seconds


def seconds_of(value: object) -> float | None:
    """Return a number of seconds in a field, also as a text, bounded; None for anything else."""
    seconds = seconds_in_field(value)
    return None if seconds is None else min(seconds, _LONGEST_WAIT)


# ---- a body in a text ----------------------------------------------------------------------------------------------

_TEXT_READ: Final = 16_384
_START: Final = re.compile(r"[\[{][\[{\s]{0,20}[\"']")
_TOKEN: Final = re.compile(
    r"[^'\"NTF]+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|None|True|False|[NTF]", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_WORD_OF: Final = {"None": "null", "True": "true", "False": "false"}
_DECODER: Final = json.JSONDecoder()


def document_in(text: str) -> tuple[str, object] | None:
    """Return the words before a body in a text, and the body: JSON, or as Python prints it."""
    text = text[:_TEXT_READ]
    start = _START.search(text)
    if start is None:
        return None
    before, rest = text[: start.start()], text[start.start() :]
    for written in (rest, None):
        try:
            document, _ = _DECODER.raw_decode(_as_json(rest) if written is None else written)
        except (ValueError, RecursionError):
            continue
        return before, cast("object", document)
    return None


def _as_json(text: str) -> str:
    """Return what Python prints of a document as JSON, up to the first quote that is never closed."""
    parts: list[str] = []
    at = 0
    while (token := _TOKEN.match(text, at)) is not None and at < len(text):
        word, at = token.group(), token.end()
        if word[0] in "'\"":
            parts.append(json.dumps(_ESCAPE.sub(_unescaped, word[1:-1])))
        else:
            parts.append(_WORD_OF.get(word, word))
    return "".join(parts)


def _unescaped(match: re.Match[str]) -> str:
    if match[3] is not None:
        return _ESCAPED.get(match[3], match[3])
    return chr(int(match[1] or match[2], 16))


# ---- what else is read of an answer ----


def read_json(body: object) -> object:
    """Return a bounded body parsed as JSON, None if it is not JSON."""
    if not isinstance(body, (bytes, bytearray, str)) or not 0 < len(body) <= _LARGEST:
        return None
    try:
        return cast("object", json.loads(body))
    except (ValueError, RecursionError):
        return None


def body_of(answer: Any) -> bytes | None:
    """Return a body that is in memory already; requests' `content` would read the network.

    Of a stream that is the part that HTTPTransport has read.
    """
    held: dict[str, Any] = getattr(answer, "__dict__", {})
    body: object = held.get("_content", held.get("_body", held.get("body")))
    if body is None and isinstance(extensions := held.get("extensions"), dict):
        body = cast("dict[str, Any]", extensions).get("rb.body")
    return body if isinstance(body, bytes) else None


_ENDS: Final = ("exception", "error")
_LONGEST_NAME: Final = 200


def name_key(name: str) -> str:
    """Return the form of a name by which the table knows it: `x#RateLimit_Error:y` is ratelimit."""
    name = name[:_LONGEST_NAME].rpartition("#")[2].partition(":")[0]
    key = "".join(filter(str.isalnum, name.lower()))
    for end in _ENDS:
        key = key.removesuffix(end) or key
    return key


# ---- how long the server asks to wait ----


_LONGEST_JOINED = 1_000  # characters
_LONGEST = 1e10  # seconds; beyond it the number means no more than "never"
_DIGITS = re.compile(r"[0-9]{1,10}(?:\.[0-9]{1,9})?")
_MANY_DIGITS = re.compile(r"[0-9]{11,4096}")
_MILLISECONDS = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,9})?")
_MOMENT = re.compile(
    r"[0-9]{10}(?:\.[0-9]{1,9})?"
)  # Unix time; fewer digits are seconds from now, or nothing
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_DATES = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) (?P<month>[a-z]{{3}}) (?P<year>[0-9]{{4}}) {_CLOCK}(?: (?:GMT|UTC|Z|[+-]0000))?",
        rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-(?P<month>[a-z]{{3}})-(?P<year>[0-9]{{2}}) {_CLOCK} (?:GMT|UTC)",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ 0-9][0-9]) {_CLOCK} (?P<year>[0-9]{{4}})",
    )
)


def parse_retry_after(value: str, now_wall: float) -> float | None:
    """Return the seconds to wait for a `Retry-After` value, None if it is not valid.

    Seconds, with a fraction or without, or one of the three HTTP date forms, which are all UTC. A
    date in the past is 0. `now_wall` is Unix time. The result is finite and never negative; it is
    not capped to anything sensible.
    """
    seconds = _delta(value)
    if seconds is not None:
        return seconds
    at = parse_http_date(value, now_wall)
    return None if at is None else max(0.0, at - now_wall)


def parse_http_date(value: str, now_wall: float) -> float | None:
    """Return the Unix time of an HTTP date, None if it is none.

    `now_wall` decides the century of two-digit years.
    """
    text = value.strip(" \t")
    match = next((found for form in _DATES if (found := form.fullmatch(text))), None)
    if match is None or (month := _MONTHS.get(match["month"].lower())) is None:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:
        year = _century(year, now_wall)
    second = int(match["second"])
    try:
        at = datetime(
            year, month, int(match["day"]), int(match["hour"]), int(match["minute"]), tzinfo=UTC
        )
    except ValueError:
        return None
    return at.timestamp() + second if second <= 60 else None


def wait_from_headers(headers: object, now_wall: float | None) -> tuple[float | None, float | None]:
    """Return (seconds to wait, Unix time to wait for) of an answer's headers, each None if missing.

    `retry-after-ms` wins over `Retry-After`; of several the longest counts. The second value is
    only set when a date was given and neither the answer's `Date` nor `now_wall` tells what time it
    is.
    """
    for value in _values(headers, "retry-after-ms"):
        if _MILLISECONDS.fullmatch(value):
            return min(float(value) / 1000, _LONGEST), None
    asked = _values(headers, "retry-after")
    if not asked:
        return None, None
    now = _server_time(headers, now_wall)
    waits: list[float] = []
    dates: list[float] = []
    for value in _each(asked):
        wait = _delta(value) if now is None else parse_retry_after(value, now)
        if wait is not None:
            waits.append(wait)
        elif (at := parse_http_date(value, 0.0)) is not None:
            dates.append(at)
    return max(waits, default=None), None if waits else max(dates, default=None)


_DURATION = (
    r"(?:(?P<days>[0-9]{1,4}(?:\.[0-9]{1,3})?) ?d(?:ays?)?(?![a-z])(?:,? (?:and )?)?)?"
    r"(?:(?P<hours>[0-9]{1,4}(?:\.[0-9]{1,3})?) ?h(?:(?:ou)?rs?)?(?![a-z])(?:,? (?:and )?)?)?"
    r"(?:(?P<minutes>[0-9]{1,6}(?:\.[0-9]{1,3})?) ?m(?:in(?:ute)?s?)?(?!s)\b(?:,? (?:and )?)?|(?P<joined>[0-9]{1,6})m(?=[0-9]))?"
    r"(?:(?P<number>[0-9]{1,10}(?:\.[0-9]{1,9})?) ?(?P<unit>ms|milliseconds?|s|secs?|seconds?)\b)?"
)
_WHOLE = re.compile(_DURATION)
_TEXT = re.compile(
    r"(?:try|available|retry(?:ing)?|retries|wait(?:ing)?|resets?|refresh(?:es|ed)?|renew(?:s|ed)?|cool(?:ing)?[- ]?down|resume[sd]?|come back"
    r"|unblocked|retryafter|reset_after|retry_after|retrydelay)"
    r"(?:[ :=~\"'_-]{1,3}(?:your|this|the|request|again|available|in|after|for|about|approximately|another|at least|time|until|next|delay|seconds?"
    r"|is|be|will)){0,5}[ :=~\"'(]{0,4}" + _DURATION
)
_BARE = re.compile(
    r"\bretry[-_ ]?after(?:[-_ ]?(?:in[-_ ])?sec(?:ond)?s?)?[\"']?[ :=]{1,3}[\"']?([0-9]{1,6}(?:\.[0-9]{1,9})?)(?![0-9.:/]| ?[a-z-])"
)
_CHINESE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(毫秒|秒|分|小时|天)钟?(?:之|以)?后")
_CHINESE_UNITS = {"毫秒": 0.001, "秒": 1, "分": 60, "小时": 3_600, "天": 86_400}


def seconds_in_field(value: object) -> float | None:
    """Return the seconds in a field: a number, or a text of one ("30", "53s"); None for anything else."""
    if isinstance(value, str):
        return float(value) if _DIGITS.fullmatch(value) else duration_of(value)
    return finite_seconds(value)


def finite_seconds(value: object) -> float | None:
    """Return a number of seconds that stands in a field as a number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def wait_in_text(text: str) -> float | None:
    """Return the seconds that a text in lower case asks to wait: "try again in 9m38.016s".

    None if it says none.
    """
    for match in _TEXT.finditer(text):
        seconds = _seconds_of(match)
        if seconds is not None:
            return seconds
    if (bare := _BARE.search(text)) is not None:
        return float(bare[1])
    if (chinese := _CHINESE.search(text)) is not None:
        return float(chinese[1]) * _CHINESE_UNITS[chinese[2]]
    return None


def duration_of(text: str) -> float | None:
    """Return the seconds of a duration with its units, as "53s" or "1h2m3.5s"; None for another text."""
    match = _WHOLE.fullmatch(text[:40].strip().lower())
    return None if match is None else _seconds_of(match)


def _seconds_of(match: re.Match[str]) -> float | None:
    parts = (match["days"], match["hours"], match["minutes"] or match["joined"], match["number"])
    if not any(parts):
        return None
    days, hours, minutes, number = (float(part or 0) for part in parts)
    seconds = number / (1000 if (match["unit"] or "").startswith("m") else 1)
    return min(days * 86_400 + hours * 3_600 + minutes * 60 + seconds, _LONGEST)


def reset_from_headers(
    headers: object, now_wall: float | None
) -> tuple[float | None, float | None]:
    """Return (seconds to wait, Unix time to wait for) of a limit that is used up, each None if not told.

    A limit is used up if `x-ratelimit-remaining` is 0; `x-ratelimit-reset` is a Unix time then.
    """
    if not any(value == "0" for value in _values(headers, "x-ratelimit-remaining")):
        return None, None
    for value in _values(headers, "x-ratelimit-reset"):
        if _MOMENT.fullmatch(value):
            now = _server_time(headers, now_wall)
            return (None, float(value)) if now is None else (max(0.0, float(value) - now), None)
    return None, None


_QUOTA_HEADERS: Final = (
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("ratelimit-remaining", "ratelimit-reset"),
)
_ITEM: Final = re.compile(r"[^,]{1,200}")
_FIELD: Final = re.compile(r"(?:^|[;,\s])(r|t|remaining|reset)=([0-9]{1,10})(?![0-9.])")


def quota_wait(headers: object, now_wall: float) -> float | None:
    """Return the seconds until a quota has something left, None if the headers do not say so.

    Of a quota that has nothing left: `x-ratelimit-remaining: 0` with its reset, in seconds, as a
    duration or a Unix time, also as providers write it for requests and tokens, and the `RateLimit`
    of the IETF's draft, in both its forms. Of several the longest counts.
    """
    waits: list[float] = []
    for remaining, reset in _QUOTA_HEADERS:
        if any(value == "0" for value in _values(headers, remaining)):
            waits += [
                wait
                for value in _values(headers, reset)
                if (wait := _reset_in(value, headers, now_wall)) is not None
            ]
    for value in _values(headers, "ratelimit"):
        items = _ITEM.findall(value[:_LONGEST_JOINED]) if ";" in value else [value]
        for item in items:
            fields = dict(_FIELD.findall(item[:_LONGEST_JOINED]))
            used_up = fields.get("r", fields.get("remaining")) == "0"
            until = fields.get("t", fields.get("reset"))
            if used_up and until is not None:
                waits.append(float(until))
    return max(waits, default=None)


def _reset_in(value: str, headers: object, now_wall: float) -> float | None:
    if _MOMENT.fullmatch(value):
        return max(0.0, float(value) - (_server_time(headers, now_wall) or now_wall))
    return seconds_in_field(value)


def is_used_up(headers: object) -> bool:
    """Return whether the headers say that the limit is used up, or when to come back."""
    return any(value == "0" for value in _values(headers, "x-ratelimit-remaining")) or bool(
        _values(headers, "retry-after")
    )


def _server_time(headers: object, now_wall: float | None) -> float | None:
    for value in _values(headers, "date"):
        at = parse_http_date(value, now_wall or 0.0)
        if at is not None:
            return at
    return now_wall


def _delta(value: str) -> float | None:
    text = value.strip(" \t")
    if _DIGITS.fullmatch(text):
        return min(float(text), _LONGEST)
    return _LONGEST if _MANY_DIGITS.fullmatch(text) else None


def _century(year: int, now_wall: float) -> int:
    # RFC 9110 §5.6.7: a year that seems more than 50 years ahead is the most recent past one with these digits
    now = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(max(now_wall, 0.0), 1e11))).year
    full = now - now % 100 + year
    return full - 100 if full > now + 50 else full


def _each(values: Iterable[str]) -> Iterable[str]:
    """Yield each value, of two headers that a proxy joined (`120, 240`) both.

    A date has a comma of its own, and `1,5` is no list.
    """
    for value in values:
        parts = value.split(", ") if len(value) <= _LONGEST_JOINED else []
        is_list = bool(parts) and all(_delta(part) is not None for part in parts)
        yield from parts if is_list else [value]


def _values(headers: object, name: str) -> list[str]:
    """Return all values of a header; httpx, requests and websockets differ on duplicates."""
    for method in ("get_all", "get_list"):
        read = getattr(headers, method, None)
        if callable(read):
            # email's headers return None if there is none
            found = cast("Iterable[Any] | None", read(name))
            return [value.strip() for value in found or () if isinstance(value, str)]
    get = cast("Callable[[str], Any] | None", getattr(headers, "get", None))
    value = get(name) if callable(get) else None
    if value is None and type(headers) is dict:  # of an SDK: names in any case
        pairs = cast("dict[object, object]", headers).items()
        value = next(
            (value for key, value in pairs if isinstance(key, str) and key.lower() == name), None
        )
    return [value.strip()] if isinstance(value, str) else []
