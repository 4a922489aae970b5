"""When two calls are the same call: a digest of a name and its arguments. Pure.

Equal are: mappings whatever the order of their keys, numbers by their value (1, 1.0 and
Decimal("1.00"), and no boolean), texts in Unicode's composed form (NFC), lists and tuples, times of
one instant. Rule: what cannot be compared by value is refused. Its `repr` often holds an address,
which is another one after a restart, and then the same call would not be recognised.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, cast
from unicodedata import normalize
from uuid import UUID

import attrs


if TYPE_CHECKING:
    from collections.abc import Callable


_LENGTH: Final = 32  # hexadecimal digits of a digest: 128 bits
_DEEPEST: Final = 100  # levels


class NotComparableError(ValueError):
    """A value that cannot be compared: `path` says where it is, `got` what it is."""

    def __init__(self, path: str, got: str) -> None:
        super().__init__(f"{path}: {got}")
        self.path = path
        self.got = got


def digest_of(*parts: object) -> str:
    """Return a digest that is equal for equal parts. Raises NotComparableError."""
    written = json.dumps([_written(part, "", 0) for part in parts], separators=(",", ":"))
    return sha256(written.encode()).hexdigest()[:_LENGTH]


def _written(value: Any, path: str, depth: int) -> Any:
    """Return a value as lists of texts that are equal for equal values."""
    if depth > _DEEPEST:
        raise NotComparableError(path, "a value that is nested too deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _written(value.value, path, depth + 1)
    if isinstance(value, str):
        return normalize("NFC", value)
    if isinstance(value, int | float | Decimal):
        return ["number", *_number(value)]
    if isinstance(value, Mapping):
        return ["map", *_pairs(cast("Mapping[object, object]", value), path, depth)]
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return ["list", *(_written(one, f"{path}[{n}]", depth + 1) for n, one in enumerate(items))]
    if isinstance(value, AbstractSet):
        unordered = cast("AbstractSet[object]", value)
        members = (_written(one, path, depth + 1) for one in unordered)
        return ["set", *sorted(members, key=json.dumps)]
    for kinds, write in _PLAIN:
        if isinstance(value, kinds):
            return [kinds[0].__name__, write(value)]
    return _object(value, path, depth)


def _number(value: float | Decimal) -> tuple[Any, ...]:
    # `str`, not `repr`: numpy's floats are a subclass. A Decimal of an int is exact.
    exact = Decimal(int(value)) if isinstance(value, int) else Decimal(str(value))
    if not exact.is_finite():
        return (str(exact),)
    sign, digits, exponent = exact.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    if not short:
        return (0,)
    return sign, short, cast("int", exponent) + len(text) - len(short)


def _pairs(value: Mapping[object, object], path: str, depth: int) -> list[Any]:
    pairs = [
        [
            _written(key, path, depth + 1),
            _written(item, f"{path}.{key}" if path else str(key), depth + 1),
        ]
        for key, item in value.items()
    ]
    return sorted(pairs, key=lambda pair: json.dumps(pair[0]))


def _instant(value: datetime) -> str:
    return (value.astimezone(UTC) if value.tzinfo is not None else value).isoformat()


_PLAIN: Final[tuple[tuple[tuple[type, ...], Callable[[Any], str]], ...]] = (
    ((datetime,), _instant),
    ((date, time), lambda value: cast("str", value.isoformat())),
    ((timedelta,), lambda value: repr(value.total_seconds())),
    ((bytes, bytearray, memoryview), lambda value: bytes(value).hex()),
    ((PurePath, UUID), str),
)


def _object(value: Any, path: str, depth: int) -> Any:
    """Return the fields of a record, by the name of its class. Raises NotComparableError."""
    kind = cast("Any", type(value))
    fields: Any = None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    elif attrs.has(kind):
        fields = {each.name: getattr(value, each.name) for each in attrs.fields(kind)}
    elif callable(dump := getattr(value, "model_dump", None)):  # pydantic
        fields = dump()
    if fields is None:
        raise NotComparableError(path, f"an object of {kind.__qualname__}")
    return [kind.__qualname__, *_pairs(fields, path, depth)]
