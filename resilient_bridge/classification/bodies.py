"""The one reader of error bodies: of a response, of an SDK's error, of an event in a stream, of a text.

Rule: nothing in a body is trusted. It may be bytes in any encoding, a text, or decoded JSON of any
type and depth: what is read is bounded, and what is not understood is no error of ours. A body is
read once, into names, a number that is a status, the server's own words, and a wait.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import attrs

from .provider_codes import name_key
from .retry_after import wait_in_text


_LARGEST: Final = 65_536  # bytes or characters that are parsed
_READ: Final = 4_096  # characters of words
_MOST_OBJECTS: Final = 40
_MOST_ITEMS: Final = 8  # of a list
_MOST_NAMES: Final = 40
_MOST_TEXTS: Final = 3  # bodies inside bodies, as text
_WORDS: Final = ("message", "msg", "Message", "error_message", "status_msg", "error", "detail", "description")
_MORE_WORDS: Final = ("error_description", "reason", "title", "raw", "code")
_NAMES: Final = ("error_code", "code", "Code", "type", "__type", "error_type", "status", "reason", "error")
_NUMBERS: Final = (
    "code",
    "status",
    "http_status",
    "http_status_code",
    "status_code",
    "statusCode",
    "error_code",
)
_QUOTAS: Final = ("quotaId", "quota_limit")
_WAITS: Final = ("retry_after", "retryAfter", "retry_after_seconds", "retryAfterSeconds", "estimated_time")
_INNER: Final = (
    *("error", "Error", "errors", "response", "message", "detail", "details", "innererror", "extensions"),
    *("base_resp", "metadata", "parameters", "violations"),
)
_DELAY: Final = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,9})?)s")
_STATUS: Final = re.compile(r"[45][0-9]{2}")
_PAGE: Final = re.compile(r"<title>([^<]{1,200})", re.IGNORECASE)
_XML: Final = re.compile(r"<(Code|Message)>([^<]{1,2000})")
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


@attrs.frozen(kw_only=True)
class ErrorBody:
    """What an error body says. `words` are all of its texts in lower case, `message` the server's own."""

    names: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    number: int | None = None
    message: str = ""
    words: str = ""
    wait: float | None = None
    decides: bool = False
    """Its names say more than the status: AWS answers 400 to nearly everything, Google names each case."""

    @property
    def waits(self) -> float | None:
        """The wait in a field, or else in the words."""
        return wait_in_text(self.words) if self.wait is None else self.wait

    @property
    def is_daily(self) -> bool:
        """Whether the limit that it names is one of a day."""
        return any("perday" in name_key(name) for name in self.quotas)


EMPTY: Final = ErrorBody()


def read_json(body: object) -> object:
    """Return a bounded body parsed as JSON, None if it is not JSON."""
    if not isinstance(body, (bytes, bytearray, str)) or not 0 < len(body) <= _LARGEST:
        return None
    try:
        return cast("object", json.loads(body))
    except (ValueError, RecursionError):
        return None


def read_body(body: object, headers: object = None) -> ErrorBody:
    """Return what a body says: bytes, a text, or decoded JSON; `headers` may name an AWS error."""
    if body is None or body in (b"", ""):
        return _with_amazon(EMPTY, headers)
    document = read_json(body) if isinstance(body, (bytes, bytearray, str)) else body
    if isinstance(document, (Mapping, list, tuple)):
        reading = _Reading()
        reading.all_of(cast("object", document))
        return _with_amazon(reading.content(), headers)
    return _with_amazon(_of_text(_text_of(document if isinstance(document, str) else body)), headers)


def _with_amazon(content: ErrorBody, headers: object) -> ErrorBody:
    get = getattr(headers, "get", None)
    try:
        name = (get("x-amzn-errortype") or get("x-amzn-ErrorType")) if callable(get) else None
    except Exception:  # noqa: BLE001 (websockets raises when a header came twice)
        return content
    if not isinstance(name, str):
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
        parts = dict(_XML.findall(text))
        page = _PAGE.search(text)
        message = parts.get("Message") or (page[1].strip() if page else "")
        names = (parts["Code"],) if "Code" in parts else ()
        return ErrorBody(names=names, message=message, words=message.lower())
    message = "" if text.startswith(("{", "[")) else text
    return ErrorBody(message=message, words=text.lower())


@attrs.define
class _Reading:
    """One walk over a document: breadth first, without recursion, over a bounded number of objects."""

    names: list[str] = attrs.field(factory=list[str])
    quotas: list[str] = attrs.field(factory=list[str])
    number: int | None = None
    message: str = ""
    words: list[str] = attrs.field(factory=list[str])
    wait: float | None = None
    decides: bool = False
    texts: int = 0

    def all_of(self, document: object) -> None:
        pending, seen = [document], 0
        while pending and seen < _MOST_OBJECTS:
            seen += 1
            item = pending.pop(0)
            if isinstance(item, Mapping):
                pending += self._read(cast("Mapping[object, Any]", item))
            elif isinstance(item, (list, tuple)):
                pending += list(cast("Sequence[object]", item)[:_MOST_ITEMS])

    def content(self) -> ErrorBody:
        return ErrorBody(
            names=tuple(self.names[:_MOST_NAMES]),
            quotas=tuple(self.quotas[:_MOST_NAMES]),
            number=self.number,
            message=self.message,
            words="\n".join(self.words)[:_READ].lower(),
            wait=self.wait,
            decides=self.decides,
        )

    def _read(self, fields: Mapping[object, Any]) -> Iterator[object]:
        self._name(fields)
        self._number(fields)
        self._wait(fields)
        yield from self._say(fields)
        for key in _INNER:
            value: object = fields.get(key)
            if value is not None and not isinstance(value, str) and isinstance(value, (Mapping, list, tuple)):
                yield cast("object", value)
        if len(fields) <= 2:  # Bedrock's events: {"throttlingException": {"message": …}}
            for name, inner in fields.items():
                if isinstance(name, str) and name.endswith("Exception") and isinstance(inner, Mapping):
                    self.names.append(name)
                    self.decides = True
                    yield cast("object", inner)

    def _name(self, fields: Mapping[object, Any]) -> None:
        for key in _NAMES:
            value: object = fields.get(key)
            if isinstance(value, str) and value and " " not in value[:200]:
                self.names.append(value[:200])
        self.quotas += [fields[key][:200] for key in _QUOTAS if isinstance(fields.get(key), str)]
        status: object = fields.get("status")
        of_google = isinstance(fields.get("code"), int) and isinstance(status, str) and status in _CANONICAL
        self.decides = self.decides or of_google or isinstance(fields.get("__type"), str)

    def _number(self, fields: Mapping[object, Any]) -> None:
        for key in _NUMBERS if self.number is None else ():
            value: Any = fields.get(key)
            if isinstance(value, str) and _STATUS.fullmatch(value):
                value = int(value)
            if isinstance(value, int) and 400 <= value <= 599:
                self.number = int(value)
                return

    def _wait(self, fields: Mapping[object, Any]) -> None:
        for key in _WAITS if self.wait is None else ():
            self.wait = seconds_of(fields.get(key))
            if self.wait is not None:
                return
        delay: object = fields.get("retryDelay")
        match = _DELAY.fullmatch(delay[:40]) if isinstance(delay, str) else None
        if match is not None:
            self.wait = float(match[1])

    def _say(self, fields: Mapping[object, Any]) -> Iterator[object]:
        own = ""
        for key in (*_WORDS, *_MORE_WORDS):
            value: object = fields.get(key)
            if not isinstance(value, str) or not value.strip():
                continue
            text = value[:_LARGEST]
            self.words.append(text[:_READ])
            inside = self._inside(text)
            if inside is not None:
                yield inside
            elif not own and (key in _WORDS or key in {"error_description", "reason", "title"}):
                own = text.strip()
        title: object = fields.get("title")
        if isinstance(title, str) and own and own != title.strip():
            own = f"{title.strip()[:80]}: {own}"
        path: object = fields.get("loc")  # of FastAPI
        if own and isinstance(path, (list, tuple)):
            parts = cast("Sequence[object]", path)[:8]
            own = f"{'.'.join(part[:40] if isinstance(part, str) else repr(part)[:40] for part in parts)}: {own}"
        self.message = self.message or own[:_READ]

    def _inside(self, text: str) -> object:
        """Return the body that a router put into a text, None for an ordinary text."""
        if self.texts >= _MOST_TEXTS or "{" not in text:
            return None
        self.texts += 1
        found = document_in(text)
        return None if found is None else found[1]


def seconds_of(value: object) -> float | None:
    """Return a number of seconds in a field, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return min(seconds, _LONGEST_WAIT) if math.isfinite(seconds) and seconds >= 0 else None


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
