"""The content of a state file: one JSON document with a checksum around a value, to and from bytes.

Rule: what is read is what was written, or it is invalid. The checksum covers the version, the time
and the value, so no relevant bit can change unnoticed. A value that would be read back as another
one is refused before it is written. Does no I/O.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ...config.strict_json import decoder
from ...failure import config_error


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


FORMAT: Final = "resilient_bridge.state.1"
"""The name of the format, in every document; its number is that of the envelope."""
_FLAT_FORMAT: Final = "resilient_bridge.flat.1"
# the key of a flat document's envelope, beside the fields of its value
_BESIDE: Final = "resilient_bridge"
_KEYS: Final = {"format", "version", "saved_at", "lost", "sha256"}
# as for messages: far below the interpreter's limit, because other code walks values with less
# stack left
_DEEPEST: Final = 100
_SHOWN: Final = 40
# the end of what we write: all but white space is covered by the checksum
_LAST_CHECKSUM: Final = re.compile(rb'"sha256":"([0-9a-f]{64})"\}{1,2}\s*\Z')
_END: Final = 100  # bytes, and more than that end has


@attrs.frozen(kw_only=True)
class Document:
    """The content of a state file; without a value it says that there is none any more, and why.

    `version` is that of the value; `saved_at` None: unreadable; `lost`: what was lost before;
    `is_adopted`: another program wrote it, and `saved_at` is the time of its last backup.
    """

    version: int
    saved_at: datetime | None
    value: Any = None
    has_value: bool = True
    lost: str = ""
    is_adopted: bool = False

    def is_newer(self, other: Document) -> bool:
        """Return whether both have a time of one meaning, and this one's is later."""
        if (
            self.saved_at is None
            or other.saved_at is None
            or self.is_adopted is not other.is_adopted
        ):
            return False
        return self.saved_at > other.saved_at


class InvalidDocumentError(ValueError):
    """Bytes that are no valid document: `str()` says why.

    `is_foreign`: they are JSON of another program. `document`: their content, if only the envelope
    does not fit.
    """

    def __init__(
        self, reason: str, *, is_foreign: bool = False, document: Document | None = None
    ) -> None:
        super().__init__(reason)
        self.is_foreign = is_foreign
        self.document = document


def write_document(document: Document) -> bytes:
    """Return the document as bytes: one line of ASCII.

    Raises ConfigError for a value that JSON cannot hold; tuples become lists.
    """
    if problem := _problem(document.value):
        raise config_error(*problem)
    body = _envelope(FORMAT, document)
    if document.has_value:
        body["value"] = document.value
    return _signed(body, body)


def write_flat(document: Document) -> bytes:
    """Return the document as bytes, the fields of its value, an object, beside its envelope."""
    if not document.has_value:
        return write_document(document)
    if problem := _problem(document.value):
        raise config_error(*problem)
    envelope = _envelope(_FLAT_FORMAT, document)
    return _signed({**document.value, _BESIDE: envelope}, envelope)


def _envelope(form: str, document: Document) -> dict[str, object]:
    return {
        "format": form,
        "version": document.version,
        "saved_at": document.saved_at and instant(document.saved_at),
        "lost": document.lost,
    }


def encoded(fields: dict[str, object], values: Iterable[object]) -> str:
    """Return fields as JSON, one line of ASCII; `values` are those of the user in it.

    Raises ConfigError for a value that JSON cannot hold.
    """
    for value in values:
        if problem := _problem(value):
            raise config_error(*problem)
    try:
        return _encode(fields)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; no stack left
        raise config_error(
            "value", "what JSON can hold", f"{type(error).__name__}: {error}"
        ) from error


def _signed(body: dict[str, object], envelope: dict[str, object]) -> bytes:
    """Put the checksum of the whole body into its envelope, and return the body as bytes."""
    try:
        envelope["sha256"] = _checksum(body)  # of everything but itself, which is not there yet
        return f"{_encode(body)}\n".encode()
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; no stack left
        raise config_error(
            "value", "what JSON can hold", f"{type(error).__name__}: {error}"
        ) from error


def read_document(data: bytes) -> Document:
    """Return the document in `data`. Raises InvalidDocumentError, and nothing else, without one."""
    body = read_json(data)
    if body.get("format") != FORMAT:
        raise InvalidDocumentError("wanted a state document, got other JSON", is_foreign=True)
    envelope = {name: part for name, part in body.items() if name != "value"}
    unsigned = {name: part for name, part in body.items() if name != "sha256"}
    return _checked(envelope, unsigned, body.get("value"), has_value="value" in body)


def read_flat(data: bytes) -> Document:
    """Return the document in `data`, written by `write_flat` or `write_document`.

    Raises InvalidDocumentError for what is none.
    """
    body = read_json(data)
    beside = body.get(_BESIDE)
    envelope = cast("dict[str, object]", beside) if type(beside) is dict else {}
    if envelope.get("format") != _FLAT_FORMAT:
        return read_document(data)
    value = {name: part for name, part in body.items() if name != _BESIDE}
    unsigned = {name: part for name, part in envelope.items() if name != "sha256"}
    return _checked(envelope, {**value, _BESIDE: unsigned}, value, has_value=True)


def read_json(data: bytes) -> dict[str, object]:
    """Return the fields of the JSON object in `data`; an empty dict for other JSON.

    Raises InvalidDocumentError for what is no JSON.
    """
    if not data.strip():
        raise InvalidDocumentError("wanted a state document, got an empty file")
    try:
        read: object = _read(data.decode())
    except (ValueError, RecursionError) as error:
        text = (
            "nested too deeply"
            if isinstance(error, RecursionError)
            else str(error).partition(":")[0]
        )
        raise InvalidDocumentError(f"wanted a state document, got no JSON: {text[:80]}") from None
    return cast("dict[str, object]", read) if type(read) is dict else {}


def _checked(
    envelope: dict[str, object], unsigned: dict[str, object], value: object, *, has_value: bool
) -> Document:
    """Return the document of this envelope and value; the checksum covers `unsigned`."""
    version, lost = envelope.get("version"), envelope.get("lost")
    if type(version) is not int:
        raise InvalidDocumentError("wanted a state document with a version, got one without")
    if problem := _problem(value):
        raise InvalidDocumentError(f"{problem[0]}: wanted {problem[1]}, got {problem[2]}")
    document = Document(
        version=version,
        saved_at=_moment(envelope.get("saved_at")),
        value=value,
        has_value=has_value,
        lost=lost if isinstance(lost, str) else "",
    )
    is_whole = envelope.keys() == _KEYS and envelope["sha256"] == _checksum(unsigned)
    if not is_whole or document.saved_at is None:
        raise InvalidDocumentError(
            "wanted a checksum that fits the contents, got another", document=document
        )
    return document


def identity_of(data: bytes) -> str:
    """Return what identifies a document: its checksum, or that of the bytes of another program."""
    found = _LAST_CHECKSUM.search(data, max(len(data) - _END, 0))
    return found[1].decode() if found else sha256(data).hexdigest()


@attrs.frozen(kw_only=True)
class Form:
    """The layout of a state file: its bytes, and what its backup has behind its name."""

    write: Callable[[Document], bytes]
    read: Callable[[bytes], Document]
    backup: str


ENVELOPE: Final = Form(write=write_document, read=read_document, backup=".backup")
"""The value as one field of the envelope: any JSON value can be stored so."""


def instant(moment: datetime) -> str:
    """Return an instant as `2026-03-20T14:32:00.250Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _moment(stamp: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(stamp)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


# ---- strict JSON -----------------------------------------------------------------------------------------------------


_read: Final = decoder(
    constant="{} instead of a number",
    infinite="a number that is not finite",
    twice="a key that is there twice",
).decode
_encode: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_canonical: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True).encode


def _checksum(body: dict[str, object]) -> str:
    """Return the checksum of the whole document without itself, independent of order."""
    return sha256(_canonical(body).encode()).hexdigest()


def _problem(value: object) -> tuple[str, str, str] | None:
    """Return what JSON cannot hold or preserve in the value: where, what was wanted, what was got.

    The value itself is never in it.
    """
    ahead: list[tuple[object, tuple[object, ...]]] = [(value, ())]
    while ahead:
        part, path = ahead.pop()
        if len(path) > _DEEPEST:
            return "value", f"at most {_DEEPEST} levels", "more, or a value that holds itself"
        if isinstance(part, dict):
            for key, inner in cast("dict[object, object]", part).items():
                if not isinstance(key, str) or not (key.isascii() or _is_text(key)):
                    return _dotted(path), "keys that are text", _kind(key)
                ahead.append((inner, (*path, key)))
        elif isinstance(part, list | tuple):
            ahead += [
                (inner, (*path, number)) for number, inner in enumerate(cast("list[object]", part))
            ]
        # a text of ASCII, the most frequent part of all, without a call
        elif not (isinstance(part, str) and part.isascii()) and not _is_plain(part):
            return _dotted(path), "what JSON can hold", _kind(part)
    return None


def _is_plain(part: object) -> bool:
    if isinstance(part, str):
        return _is_text(part)
    return (
        part is None or isinstance(part, int) or (isinstance(part, float) and math.isfinite(part))
    )


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _kind(part: object) -> str:
    if isinstance(part, float):
        return "a number that is not finite"
    if isinstance(part, str):
        return "a lone surrogate"
    return f"an object of type {type(part).__name__}"


def _dotted(path: tuple[object, ...]) -> str:
    return "value" + "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}"[:_SHOWN] for step in path
    )
