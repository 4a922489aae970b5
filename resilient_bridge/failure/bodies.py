"""The one reader of error bodies: of a response, of an SDK's error, of an event in a stream, of a text.

Rule: nothing in a body is trusted. It may be bytes in any encoding, a text, or decoded JSON of any
type and depth: what is read is bounded, and what is not understood is no error of ours. A body is
read once, into names, a number that is a status, the server's own words, and a wait.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final, cast

import attrs

from .provider_codes import name_key
from .retry_after import duration_of, seconds_in_field, wait_in_text
from .rpc import read_json


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


@attrs.frozen(kw_only=True)
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
