"""What a store's keys in Redis are called, and how rows are written in them.

All keys of one store begin with the same `{prefix:name}`, so on a cluster they are in one slot and a script may use them together.
Rule: a row is one JSON array in ASCII, so whatever a message or a session's name holds, it is read back as it was.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, TypeVar, cast
from urllib.parse import quote

from ...protocol import EntryState
from ..rows import AnswerRow, EntryRow, MarkRow, OutcomeRow


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Row = TypeVar("Row", bound="tuple[Any, ...]")

FORMAT: Final = "1"
#: Milliseconds that the messages behind a position are kept after they were last in use; the position itself stays.
TAIL_TTL: Final = 24 * 3600 * 1000

_AT_ONCE: Final = 500  # values of one command; Lua's `unpack` takes less than 8,000


class Keys:
    """The names of the keys of one store. Those in `fixed` come first in every script, in this order."""

    def __init__(self, prefix: str, name: str) -> None:
        # A brace would end the hash tag; a colon in the name would make two stores of one.
        self.tag = f"{{{_quoted(prefix, ':/@+')}:{_quoted(name, '/@+')}}}"
        self.owner, self.head, self.outbox, self.handed, self.sessions, self.records, self.outcomes = (
            f"{self.tag}:{part}"
            for part in ("owner", "head", "outbox", "handed", "sessions", "records", "outcomes")
        )

    @property
    def fixed(self) -> tuple[str, ...]:
        """The keys that every store has; the lists of each session come after them."""
        return (
            self.owner,
            self.head,
            self.outbox,
            self.handed,
            self.sessions,
            self.records,
            self.outcomes,
        )

    def lists(self, session: str) -> tuple[str, str]:
        """The two lists behind a position: messages taken, answers used up."""
        name = _quoted(session, "/@+")
        return f"{self.tag}:tail:{name}", f"{self.tag}:answers:{name}"


def _quoted(text: str, safe: str) -> str:
    return quote(text, safe=safe, errors="surrogatepass")


def name_of(text: str) -> bytes:
    """A name (of a session, of a record) as the field of a hash."""
    return text.encode("utf-8", "surrogatepass")


def text_name(field: bytes) -> str:
    """The name that a field says. Raises ValueError."""
    return field.decode("utf-8", "surrogatepass")


# ---- commands ------------------------------------------------------------------------------------------------------


class RedisCommands:
    """Redis commands to be run by one script, each on one key. `args` is how the script reads them."""

    def __init__(self, keys: Keys) -> None:
        self.keys = list(keys.fixed)
        self.args: list[str | bytes] = []
        self._slots = {key: index for index, key in enumerate(self.keys, 1)}

    def __bool__(self) -> bool:
        """Is there any?"""
        return bool(self.args)

    def slot(self, key: str) -> int:
        """The number of a key, which is named to the script from here on."""
        slot = self._slots.get(key)
        if slot is None:
            self.keys.append(key)
            slot = self._slots[key] = len(self.keys)
        return slot

    def add(self, command: str, key: str, *values: str | bytes | float) -> None:
        """One command; numbers as Python writes them."""
        slot = self.slot(key)
        texts = (value if isinstance(value, (str, bytes)) else repr(value) for value in values)
        self.args += [command, str(slot), str(len(values)), *texts]

    def many(self, command: str, key: str, values: Sequence[str | bytes | float]) -> None:
        """One command with any number of values (an even one per pair), in parts; nothing if there are none."""
        for start in range(0, len(values), _AT_ONCE):
            self.add(command, key, *values[start : start + _AT_ONCE])


# ---- rows ----------------------------------------------------------------------------------------------------------


class Numbered(NamedTuple):
    """An outcome, and its place among them."""

    n: int
    row: OutcomeRow


_NUMBER: Final = (int, float)
_TEXT_OR_NONE: Final = (str, type(None))
_FIELDS: Final[dict[type[Any], tuple[Any, ...]]] = {
    EntryRow: (int, str, str, str, str, (*_NUMBER, type(None)), _TEXT_OR_NONE, _NUMBER),
    OutcomeRow: (int, str, str, str, str, _TEXT_OR_NONE, str, _NUMBER),
    MarkRow: (int, _TEXT_OR_NONE, _TEXT_OR_NONE, str, _TEXT_OR_NONE, _NUMBER, int),
    AnswerRow: (int, str, str),
}


def row_text(row: Iterable[Any]) -> str:
    """A row as the text that stands for it."""
    return json.dumps(list(row), separators=(",", ":"))


def read_row(kind: type[Row], text: bytes) -> Row:
    """The row of a text. Raises ValueError for what is none."""
    return _checked(kind, json.loads(text))


def _checked(kind: type[Row], values: Any) -> Row:
    if kind is Numbered:
        number, stored = _pair(values)
        row = _checked(OutcomeRow, stored)
        EntryState(row.state)
        return cast("Row", Numbered(number, row))
    fields = _FIELDS[kind]
    if not _is_list(values) or len(values) != len(fields):
        raise ValueError("not a row")
    if not all(isinstance(value, field) for value, field in zip(values, fields, strict=True)):
        raise ValueError("not a row of this kind")
    return kind(*values)


def _is_list(values: Any) -> TypeGuard[list[Any]]:
    return isinstance(values, list)


def read_record(text: bytes) -> tuple[int, str]:
    """The place of a session record, and the record. Raises ValueError for what is none."""
    number, record = _pair(json.loads(text))
    if not isinstance(record, str):
        raise ValueError("not a record")  # noqa: TRY004 -- what is read is wrong, not what was called
    return number, record


def _pair(values: Any) -> tuple[int, Any]:
    match values:
        case [int() as number, stored]:
            return number, stored
        case _:
            raise ValueError("not a numbered row")
