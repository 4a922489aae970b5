"""The names of a store's keys in Redis, the commands on them, and how rows are written as text.

All keys of one store begin with the same `{prefix:name}`, so a cluster keeps them in one slot and a
script may use them together. Rule: a row is one JSON array in ASCII, so any message and any session
name is read back unchanged.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import quote

from ..rows import AnswerRow, EntryRow, MarkRow, OutcomeRow


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Row = TypeVar("Row", bound="tuple[Any, ...]")

FORMAT: Final = "1"
#: Milliseconds after its last use until a position's messages expire; the position does not.
TAIL_TTL: Final = 24 * 3600 * 1000

_PARTS: Final = ("owner", "head", "outbox", "handed", "sessions", "records", "outcomes")
_AT_ONCE: Final = 500  # values of one command; Lua's `unpack` takes less than 8,000


class Keys:
    """The names of one store's keys; `fixed`: those of every store, in the order of KEYS."""

    def __init__(self, prefix: str, name: str) -> None:
        # A brace would end the hash tag; a colon in the name would let two stores share their keys.
        self.tag = f"{{{_quoted(prefix, ':/@+')}:{_quoted(name, '/@+')}}}"
        self.fixed = tuple(f"{self.tag}:{part}" for part in _PARTS)
        (
            self.owner,
            self.head,
            self.outbox,
            self.handed,
            self.sessions,
            self.records,
            self.outcomes,
        ) = self.fixed

    def lists(self, session: str) -> tuple[str, str]:
        """The two sorted sets of a session: the messages taken, and the answers used up."""
        name = _quoted(session, "/@+")
        return f"{self.tag}:tail:{name}", f"{self.tag}:answers:{name}"


def _quoted(text: str, safe: str) -> str:
    return quote(text, safe=safe, errors="surrogatepass")


def field_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def name_of(field: bytes) -> str:
    """The name in a hash field. Raises ValueError."""
    return field.decode("utf-8", "surrogatepass")


# ---- commands ------------------------------------------------------------------------------------------------------


class RedisCommands:
    """Redis commands, each on one key, that one script runs; `args` encodes them for the script."""

    def __init__(self, names: Keys) -> None:
        self.names = names
        self.keys = list(names.fixed)
        self.args: list[str | bytes] = []
        self._slots = {key: index for index, key in enumerate(self.keys, 1)}

    def slot(self, key: str) -> int:
        """Return the number of a key among the script's keys; add it to them if it is new."""
        slot = self._slots.get(key)
        if slot is None:
            self.keys.append(key)
            slot = self._slots[key] = len(self.keys)
        return slot

    def add(self, command: str, key: str, *values: str | bytes | float) -> None:
        """Add one command. Numbers are written as Python writes them."""
        texts = (value if isinstance(value, (str, bytes)) else repr(value) for value in values)
        self.args += [command, str(self.slot(key)), str(len(values)), *texts]

    def many(self, command: str, key: str, values: Sequence[str | bytes | float]) -> None:
        """Add a command with any number of values, as several commands; none without values."""
        for start in range(0, len(values), _AT_ONCE):
            self.add(command, key, *values[start : start + _AT_ONCE])


# ---- rows ----------------------------------------------------------------------------------------------------------


class NumberedOutcome(NamedTuple):
    """An outcome and its number, by which the sorted set orders outcomes."""

    n: int
    row: OutcomeRow


class NumberedRecord(NamedTuple):
    """A session record and its number: records are listed in the order of their first saving."""

    n: int
    record: str


_NUMBER: Final = (int, float)
_TEXT_OR_NONE: Final = (str, type(None))
_FIELDS: Final[dict[type[Any], tuple[Any, ...]]] = {
    EntryRow: (int, str, str, str, str, (*_NUMBER, type(None)), _TEXT_OR_NONE, _NUMBER),
    OutcomeRow: (int, str, str, str, str, _TEXT_OR_NONE, str, _NUMBER),
    MarkRow: (int, _TEXT_OR_NONE, _TEXT_OR_NONE, str, _TEXT_OR_NONE, _NUMBER, int),
    AnswerRow: (int, str, str),
    NumberedOutcome: (int, list),
    NumberedRecord: (int, str),
}


def row_text(row: Iterable[Any]) -> str:
    return json.dumps(list(row), separators=(",", ":"))


def read_row(kind: type[Row], text: bytes) -> Row:
    """Parse a row. Raises ValueError if the text is no row of this kind."""
    row = _checked(kind, json.loads(text))
    if isinstance(row, NumberedOutcome):
        return cast("Row", row._replace(row=_checked(OutcomeRow, row.row)))
    return row


def _checked(kind: type[Row], values: Any) -> Row:
    fields = _FIELDS[kind]
    if values.__class__ is not list or len(values) != len(fields):
        raise ValueError("not a row")
    if not all(isinstance(value, field) for value, field in zip(values, fields, strict=True)):
        raise ValueError(f"not a row of the kind {kind.__name__}")
    return kind(*values)
