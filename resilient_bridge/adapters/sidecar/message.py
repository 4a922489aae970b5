"""One JSON-RPC message: its original text, and its parsed fields.

Rule: a change of one member leaves the text of all others as it is: unknown fields, the order of
keys, and numbers that Python would write differently. Only line breaks between values become
spaces. Pure.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast


if TYPE_CHECKING:
    from collections.abc import Mapping

    Span: TypeAlias = tuple[int, int]


Key: TypeAlias = tuple[str, str | int | float]
"""An id as a look-up key: its type counts, so that 1 and "1" are two ids."""

_LONGEST_ID: Final = 1_000
_SPACE: Final = " \t\n\r"
_MOST_DIGITS: Final = 4_000  # of an integer; Python refuses to parse much longer ones
_DECODER: Final = json.JSONDecoder()
_PATIENT: Final = json.JSONDecoder(
    parse_int=lambda digits: int(digits) if len(digits) < _MOST_DIGITS else math.inf
)  # slower; reads an integer that is too long as infinity, while its text is kept
# a line break in JSON is between values, never inside a string
_LINE_BREAKS: Final = str.maketrans("\r\n", "  ")


class NotAMessage(ValueError):  # noqa: N818 -- says what the text is
    """A text that is no JSON-RPC message; its message says why."""


class Message:
    """A request, a notification or an answer.

    `text` has no line break; `fields` is its parsed content. `method` is that of a request or a
    notification, empty for an answer. `id` is as it was sent; None without one, and in the answer
    to an unreadable request. `params` are by name; empty where there are none, or a list.
    """

    # each is read several times for one message, so it is looked up once
    __slots__ = ("_spans", "fields", "id", "is_answer", "is_request", "method", "params", "text")

    def __init__(self, text: str, fields: dict[str, Any], spans: dict[str, Span]) -> None:
        self.text = text
        self.fields = fields
        self._spans = spans
        self.method: str = fields.get("method", "")
        self.id: Any = fields.get("id")
        self.params = object_of(fields.get("params"))
        self.is_answer = "method" not in fields
        self.is_request = "id" in fields and not self.is_answer

    def __repr__(self) -> str:
        """Return the kind and the id of the message only: its content may be secret."""
        kind = self.method or ("error" if "error" in self.fields else "result")
        return f"<Message {kind} id={self.fields.get('id')!r}>"

    @property
    def is_notification(self) -> bool:
        return not self.is_answer and not self.is_request

    @property
    def is_refusal(self) -> bool:
        """Whether it is an error answer; an `"error": null` that some servers send is no error."""
        return self.is_answer and self.fields.get("error") is not None

    @property
    def key(self) -> Key | None:
        """The id as a look-up key; None where there is none."""
        return key_of(self.id)

    @property
    def meta(self) -> Mapping[str, Any]:
        return object_of(self.params.get("_meta"))

    @property
    def result(self) -> Mapping[str, Any]:
        """The result of an answer; empty for any other message."""
        return object_of(self.fields.get("result"))

    @property
    def error(self) -> Mapping[str, Any]:
        """The error of an answer; empty for any other message."""
        return object_of(self.fields.get("error"))

    @property
    def name(self) -> str:
        """The name of a request's tool or prompt, or the URI of its resource; empty without one."""
        params = self.params
        name = params.get("name", params.get("uri", ""))
        return name if isinstance(name, str) else ""

    @property
    def progress_token(self) -> Any:
        """The progress token of a request; None if it asks for no progress."""
        return self.meta.get("progressToken")

    def with_id(self, id: object) -> Message:
        return self.with_member(("id",), id)

    def with_progress_token(self, token: object) -> Message:
        """Return the message with another progress token; unchanged if it has none.

        The token is in the `_meta` of a request, or in the params of a progress notification.
        """
        if "progressToken" in self.meta:
            return self.with_member(("params", "_meta", "progressToken"), token)
        if "progressToken" in self.params:
            return self.with_member(("params", "progressToken"), token)
        return self

    def with_request_id(self, id: object) -> Message:
        """Return a `notifications/cancelled` for another request."""
        return self.with_member(("params", "requestId"), id)

    def with_member(self, path: tuple[str, ...], value: object) -> Message:
        """Return the same message with one member replaced, or added to an existing object.

        The text of all others stays as it is.
        """
        *parents, last = path
        spans, opened = self._spans, 0
        for name in parents:
            opened, end = spans[name]
            spans = {
                key: (opened + a, opened + b)
                for key, (a, b) in _object(self.text[opened:end])[1].items()
            }
        written = json.dumps(value, separators=(",", ":"))
        if last in spans:
            begin, end = spans[last]
        else:
            begin = end = self.text.index("{", opened) + 1
            written = f"{json.dumps(last)}:{written}{',' if spans else ''}"
        text = self.text[:begin] + written + self.text[end:]
        moved = len(text) - len(self.text)
        shifted = {
            name: (
                a + moved if a >= end and (a, b) != (begin, end) else a,
                b + moved if b >= end else b,
            )
            for name, (a, b) in self._spans.items()
        }
        if not parents and last not in spans:
            shifted[last] = (
                begin + len(json.dumps(last)) + 1,
                begin + len(written) - (1 if spans else 0),
            )
        return Message(text, _with(self.fields, path, value), shifted)


def _with(fields: Mapping[str, Any], path: tuple[str, ...], value: object) -> dict[str, Any]:
    """Return the fields with one of them replaced; unchanged parts are shared."""
    first, *rest = path
    inner = _with(object_of(fields[first]), tuple(rest), value) if rest else value
    return {**fields, first: inner}


def parse(text: str | bytes) -> Message:
    """Return the message in a line or a body.

    Raises NotAMessage for anything else than one JSON-RPC 2.0 message.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise NotAMessage("not UTF-8") from error
    text = text.strip()
    try:
        fields, spans = _object(text)
    except (ValueError, RecursionError) as error:
        raise NotAMessage("not a JSON object") from error
    _check(fields)
    return Message(text.translate(_LINE_BREAKS), fields, spans)


def parse_line(line: bytes) -> list[Message]:
    """Return the messages of a line: one, or those of a batch (an array, as in MCP 2025-03-26).

    Raises NotAMessage.
    """
    if not line.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return [parse(line)]
    try:
        text = line.decode("utf-8-sig").strip()
        items = _items(text)
    except (ValueError, RecursionError) as error:
        raise NotAMessage("not a JSON array") from error
    if not items:
        raise NotAMessage("an empty array")
    return [parse(item) for item in items]


def request(id: object, method: str, params: Mapping[str, Any] | None = None) -> Message:
    return _built({"jsonrpc": "2.0", "id": id, "method": method} | _with_params(params))


def notification(method: str, params: Mapping[str, Any] | None = None) -> Message:
    return _built({"jsonrpc": "2.0", "method": method} | _with_params(params))


def result(id: object, value: Mapping[str, Any]) -> Message:
    return _built({"jsonrpc": "2.0", "id": id, "result": dict(value)})


def error(id: object, code: int, text: str, data: Mapping[str, Any] | None = None) -> Message:
    """Return an error answer."""
    fields: dict[str, Any] = {"code": code, "message": text}
    if data:
        fields["data"] = dict(data)
    return _built({"jsonrpc": "2.0", "id": id, "error": fields})


def object_of(value: object) -> Mapping[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """Return the value if it is a JSON array, else an empty one."""
    found: list[Any] = cast("Any", value) if isinstance(value, list) else []
    return found


def key_of(id: object) -> Key | None:
    """Return the look-up key of an id; None for a value that is no id."""
    if isinstance(id, bool) or not isinstance(id, str | int | float):
        return None
    if isinstance(id, float) and not math.isfinite(id):  # NaN and infinity are not in JSON
        return None
    return type(id).__name__, id


def _built(fields: dict[str, Any]) -> Message:
    return parse(json.dumps(fields, separators=(",", ":")))


def _with_params(params: Mapping[str, Any] | None) -> dict[str, Any]:
    return {} if params is None else {"params": dict(params)}


def _check(fields: dict[str, Any]) -> None:
    if fields.get("jsonrpc") != "2.0":
        raise NotAMessage('no "jsonrpc": "2.0"')
    found = fields.get("id")
    if "id" in fields and key_of(found) is None and not (found is None and "error" in fields):
        raise NotAMessage("an id that is neither text nor a number")
    if isinstance(found, str) and len(found) > _LONGEST_ID:
        raise NotAMessage(f"an id of more than {_LONGEST_ID} characters")
    if "method" in fields:
        if not isinstance(fields["method"], str) or not fields["method"]:
            raise NotAMessage("a method that is no name")
    elif "id" not in fields or not ("result" in fields or "error" in fields):
        raise NotAMessage("neither a request nor an answer")


def _object(text: str) -> tuple[dict[str, Any], dict[str, Span]]:
    """Parse a JSON object; return its members, and the span of each value in the text.

    Of two members with the same name the last counts. Raises ValueError.
    """
    try:
        return _members(text, _DECODER)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return _members(text, _PATIENT)


def _members(text: str, decoder: json.JSONDecoder) -> tuple[dict[str, Any], dict[str, Span]]:
    members: dict[str, Any] = {}
    spans: dict[str, Span] = {}
    at = _expect(text, 0, "{")
    while text[at : at + 1] != "}" or spans:
        name, at = decoder.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError("a name that is no text")  # noqa: TRY004 -- of a JSON text
        begin = _expect(text, at, ":")
        members[name], end = decoder.raw_decode(text, begin)
        spans[name] = (begin, end)
        at = _skip(text, end)
        if text[at : at + 1] == "}":
            break
        at = _expect(text, at, ",")
    _end(text, at + 1)
    return members, spans


def _items(text: str) -> list[str]:
    """Parse a JSON array; return the text of each item."""
    at, items = _expect(text, 0, "["), list[str]()
    while text[at : at + 1] != "]" or items:
        _, end = _PATIENT.raw_decode(text, at)
        items.append(text[at:end])
        at = _skip(text, end)
        if text[at : at + 1] == "]":
            break
        at = _expect(text, at, ",")
    _end(text, at + 1)
    return items


def _end(text: str, at: int) -> None:
    if _skip(text, at) != len(text):
        raise ValueError("more than one value")


def _expect(text: str, at: int, sign: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] != sign:
        raise ValueError(f"no {sign}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in _SPACE and at < len(text):
        at += 1
    return at
