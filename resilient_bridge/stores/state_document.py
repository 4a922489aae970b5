"""What a state file holds: one JSON document with a checksum around a value, to and from bytes.

Rule: what is read is what was written, or it is called invalid. The checksum covers the version, the time and the value, so no bit
that matters can change unnoticed; a value that would come back as another one is refused before it is written. Does no I/O.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, cast

import attrs

from ..errors import config_error
from ..protocol.strict_json import decoder


__all__ = ["FORMAT", "Document", "InvalidDocumentError", "instant", "read_document", "write_document"]

FORMAT: Final = "resilient_bridge.state.1"
"""The name of the format, in every document; the number is that of the envelope, not of what is in it."""
_KEYS: Final = {"format", "version", "saved_at", "lost", "sha256"}
_DEEPEST: Final = 100  # as for messages: far below what the interpreter can take, because values are walked deeper in the stack
_SHOWN: Final = 40


@attrs.frozen(kw_only=True)
class Document:
    """What a state file says: the version of what its value means, when it was saved (None: that cannot be read), and what was lost
    before it. A document without a value says that there is none any more, and why.
    """

    version: int
    saved_at: datetime | None
    value: Any = None
    has_value: bool = True
    lost: str = ""


class InvalidDocumentError(ValueError):
    """Bytes that are no document: `str()` says why.

    `is_foreign`: they are JSON, and of another program. `document`: what they say all the same, if it is only the envelope that
    does not fit.
    """

    def __init__(self, reason: str, *, is_foreign: bool = False, document: Document | None = None) -> None:
        super().__init__(reason)
        self.is_foreign = is_foreign
        self.document = document


def write_document(document: Document) -> bytes:
    """Return the document as bytes: one line of ASCII. Raises ConfigError for a value that JSON cannot hold; tuples become lists."""
    if problem := _problem(document.value):
        raise config_error(*problem)
    body: dict[str, object] = {
        "format": FORMAT,
        "version": document.version,
        "saved_at": document.saved_at and instant(document.saved_at),
        "lost": document.lost,
    }
    if document.has_value:
        body["value"] = document.value
    try:
        body["sha256"] = _checksum(body)
        return f"{_encode(body)}\n".encode()
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; little stack left
        raise config_error("value", "what JSON can hold", f"{type(error).__name__}: {error}") from error


def read_document(data: bytes) -> Document:
    """Return the document in `data`. Raises InvalidDocumentError, and nothing else, for what is none."""
    if not data.strip():
        raise InvalidDocumentError("wanted a state document, got an empty file")
    try:
        read: object = _read(data.decode())
    except (ValueError, RecursionError) as error:
        told = "nested too deeply" if isinstance(error, RecursionError) else str(error).partition(":")[0]
        raise InvalidDocumentError(f"wanted a state document, got no JSON: {told[:80]}") from None
    body = cast("dict[str, object]", read) if type(read) is dict else {}
    if body.get("format") != FORMAT:
        raise InvalidDocumentError("wanted a state document, got other JSON", is_foreign=True)
    value, version, lost = body.get("value"), body.get("version"), body.get("lost")
    if type(version) is not int:
        raise InvalidDocumentError("wanted a state document with a version, got one without")
    if problem := _problem(value):
        raise InvalidDocumentError(f"{problem[0]}: wanted {problem[1]}, got {problem[2]}")
    document = Document(
        version=version,
        saved_at=_moment(body.get("saved_at")),
        value=value,
        has_value="value" in body,
        lost=lost if isinstance(lost, str) else "",
    )
    is_whole = body.keys() - {"value"} == _KEYS and body["sha256"] == _checksum(body)
    if not is_whole or document.saved_at is None:
        raise InvalidDocumentError("wanted a checksum that fits the contents, got another", document=document)
    return document


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
    """Of all that a document says but the checksum, however it is laid out."""
    said = {name: part for name, part in body.items() if name != "sha256"}
    return sha256(_canonical(said).encode()).hexdigest()


def _problem(value: object) -> tuple[str, str, str] | None:
    """What JSON cannot hold in the value, or not keep: where, what was wanted, what was got; never the thing itself."""
    ahead: list[tuple[object, tuple[object, ...]]] = [(value, ())]
    while ahead:
        part, path = ahead.pop()
        if len(path) > _DEEPEST:
            return "value", f"at most {_DEEPEST} levels", "more, or a value that holds itself"
        if isinstance(part, dict):
            for key, inner in cast("dict[object, object]", part).items():
                if not isinstance(key, str) or not _is_text(key):
                    return _place(path), "keys that are text", _kind(key)
                ahead.append((inner, (*path, key)))
        elif isinstance(part, list | tuple):
            ahead += [(inner, (*path, number)) for number, inner in enumerate(cast("list[object]", part))]
        elif not _is_plain(part):
            return _place(path), "what JSON can hold", _kind(part)
    return None


def _is_plain(part: object) -> bool:
    if isinstance(part, str):
        return _is_text(part)
    return part is None or isinstance(part, int) or (isinstance(part, float) and math.isfinite(part))


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


def _place(path: tuple[object, ...]) -> str:
    return "value" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}"[:_SHOWN] for step in path)
