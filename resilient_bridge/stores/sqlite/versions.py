"""The tables of every version, and how the rows of one version become those of the next.

Rule: a released version is never changed, and no two have the same tables, so the tables of a file
state its version as well as its header does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


#: Table -> its rows, without their CRC.
Rows: TypeAlias = "dict[str, list[tuple[Any, ...]]]"


class Layout(NamedTuple):
    """One version: the columns by table, and the keys of tables whose key is not `seq`.

    `lift` turns the rows of the version before into those of this one. It must depend on the rows
    alone, and accept any part of them: of a damaged file some are missing.
    """

    tables: Mapping[str, tuple[str, ...]]
    keys: Mapping[str, str]
    lift: Callable[[Rows], Rows] = lambda rows: rows

    @property
    def schema(self) -> tuple[str, ...]:
        """The SQL that makes the tables, in their order in the file."""
        return tuple(self._create(table, columns) for table, columns in self.tables.items())

    def _create(self, table: str, columns: tuple[str, ...]) -> str:
        kinds = {
            "seq": " INTEGER PRIMARY KEY",
            "n": " INTEGER",
            "used": " INTEGER",
            "doubtful": " INTEGER",
        }
        reals = {"expires", "accepted", "wall", "at", "began", "ended"}
        parts = [name + kinds.get(name, " REAL" if name in reals else " TEXT") for name in columns]
        parts.append("crc INTEGER NOT NULL")
        key = self.keys.get(table)
        if key is None:
            return f"CREATE TABLE {table} ({', '.join(parts)})"
        return f"CREATE TABLE {table} ({', '.join(parts)}, PRIMARY KEY ({key})) WITHOUT ROWID"


LAYOUTS: Final[dict[int, Layout]] = {
    1: Layout(
        {
            "outbox": ("seq", "id", "key", "type", "frame", "expires", "coalesce", "accepted"),
            "marks": ("seq", "wall"),
            # outcomes: those of one transaction, as JSON, under the last of their numbers
            "outcomes": ("seq", "body"),
            "positions": ("session", "used", "body"),
            "tail": ("session", "n", "type", "id", "text", "stamp", "at", "doubtful"),
            "answers": ("session", "n", "type", "id"),
            "records": ("session", "used", "body"),
        },
        {
            "positions": "session",
            "records": "session",
            "tail": "session, n",
            "answers": "session, n",
        },
    )
}
"""Every version by its number, the `user_version` of a file. The last one is written."""


class Kind(NamedTuple):
    """What a file is for: its number in the header, its versions, and what becomes of a damaged one.

    Each layout has the table `marks`, which holds the generation. `main`: the table whose rows are
    all in memory, by `seq`. `mends`: whether a new file gets the intact rows of a damaged one; if
    not, a damaged file is refused. `forgets`: whether a file that was moved away while it was open
    keeps no row of `main`, because its next owner would act on it.
    """

    application: int
    layouts: Mapping[int, Layout]
    main: str
    mends: bool = True
    forgets: bool = True

    def newest(self) -> int:
        """Return the version that is written."""
        return max(self.layouts)

    def lifted(self, rows: Rows, version: int) -> Rows:
        """Return the rows of a version as those of the newest. Raises what a `lift` raises."""
        for later in range(version + 1, self.newest() + 1):
            rows = self.layouts[later].lift(rows)
        return rows


STORE: Final = Kind(0x72_62_73_31, LAYOUTS, "outbox")  # "rbs1"
"""The file of a SQLiteStore."""
