"""Reads the intact rows of a damaged database of a store; the file is not changed.

Each row is judged by its own CRC, so a row that is found can be trusted; the rows of a page that
SQLite cannot read are lost. Rule: what is not found stays in the file that is set aside, and the
worst is assumed of it: a message that may have been handed out counts as handed out, and a position
that may be too old counts as too old.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...failure import Failure, StoreError
from .database import GENERATION, is_good
from .integrity import is_about_content, schema_of, version_of
from .log_end import log_of
from .versions import STORE


if TYPE_CHECKING:
    from pathlib import Path

    from .integrity import FileFaults
    from .versions import Kind, Layout, Rows


_ALL: Final = "everything"
_MANY: Final = 2_048  # messages that the consumer may have had since a position that may be old
_ALONE: Final = "&immutable=1"  # without its log, and without a lock


class _Look(NamedTuple):
    """The schema of a file, its tables, and its two numbers in the header: program and version."""

    schema: tuple[str, ...]
    tables: frozenset[str]
    application: int
    version: int


def refuse_others(path: Path, kind: Kind = STORE) -> None:
    """Raise StoreError for a sound database of another program or a later version; changes nothing.

    Their owners would miss such files, so they are not even renamed. A file with the tables of a
    known version is not a later one: its version number has a flipped bit.
    """
    with path.open("rb") as file:
        header = file.read(100)
    is_ours = int.from_bytes(header[68:72], "big") == kind.application
    version = int.from_bytes(header[60:64], "big", signed=True)
    unread = _Look((), frozenset(), kind.application * is_ours, version)
    for how in (_ALONE, "")[: 1 + log_of(path).exists()]:
        look = _look(path, how) or unread
        if (
            look.application == kind.application
            and look.version > kind.newest()
            and version_of(look.schema, kind) is None
        ):
            text = f"{path.name} is of version {look.version}, wanted {kind.newest()} or earlier: it was left alone"
            raise StoreError(Failure.of("SYS_STATE_FOREIGN", text))
        is_ours |= look.application == kind.application
        is_ours |= any(look.tables.issuperset(layout.tables) for layout in kind.layouts.values())
        if not is_ours and (look.tables or look.application):
            text = f"{path.name} is a database of another program, and was left alone"
            raise StoreError(Failure.of("SYS_STATE_FOREIGN", text))


def _opened(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro{how}", uri=True, isolation_level=None)


def _look(path: Path, how: str) -> _Look | None:
    try:
        with closing(_opened(path, how)) as connection:
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
            numbers = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
            return _Look(schema_of(connection), frozenset(name for (name,) in names), *numbers)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.Error) and not is_about_content(error):
            raise
        return None


def salvage(path: Path, faults: FileFaults) -> tuple[Rows, str]:
    """Return the intact rows of a damaged file in the newest layout, and what is lost, in words.

    Raises what a `lift` raises.
    """
    # Read with the log; without it only if no row can be read with it.
    for how in ("", _ALONE):
        version, rows, losses = _read(path, how)
        if any(rows.values()):
            break
    rows = _consistent(STORE.lifted(rows, version), knows_marks=faults.spare_marks)
    return rows, _loss_text(losses, rows, faults)


def _read(path: Path, how: str) -> tuple[int, Rows, dict[str, str]]:
    """Read the file as the version in which the most rows have a correct CRC."""
    look = _look(path, how)
    known = look and version_of(look.schema)
    with closing(_opened(path, how)) as connection:
        connection.text_factory = _text
        found = [
            (version, *_rows_of(connection, STORE.layouts[version]))
            for version in ([known] if known else sorted(STORE.layouts, reverse=True))
        ]
    return max(found, key=lambda one: (sum(map(len, one[1].values())), -len(one[2])))


def _loss_text(losses: dict[str, str], rows: Rows, faults: FileFaults) -> str:
    if not any(rows.values()):
        return _ALL
    parts = [faults.log] if faults.log else []
    parts += [f"{lost_rows} of {table}" for table, lost_rows in losses.items()]
    if faults.whole and not parts:
        parts.append("nothing that could be counted, perhaps rows of any table")
    return ", ".join(parts)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")  # the CRC of a row with such a text is wrong


def _rows_of(connection: sqlite3.Connection, layout: Layout) -> tuple[Rows, dict[str, str]]:
    """Return the intact rows, and by table what is lost."""
    rows: Rows = {table: [] for table in layout.tables}
    losses: dict[str, str] = {}
    for table in layout.tables:
        rows[table], bad, is_whole = read_table(connection, table, layout)
        if not is_whole:
            losses[table] = "an unknown number of rows"
        elif bad:
            losses[table] = f"{bad} rows"
    # The generation is no content: the next owner writes a greater one.
    rows["marks"] = [row for row in rows["marks"] if row[0] != GENERATION]
    return rows, losses


def read_table(
    connection: sqlite3.Connection, table: str, layout: Layout
) -> tuple[list[tuple[Any, ...]], int, bool]:
    """Return the rows of a table, read forwards and then backwards around what cannot be read."""
    found: dict[tuple[Any, ...], bool] = {}
    columns, key = ", ".join(layout.tables[table]), layout.keys.get(table, "seq").split(", ")
    is_whole = False
    for way in ("ASC", "DESC"):
        order = ", ".join(f"{name} {way}" for name in key)
        try:
            for row in connection.execute(f"SELECT {columns}, crc FROM {table} ORDER BY {order}"):  # noqa: S608 -- names of ours
                found[row] = is_good(row)
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            if isinstance(error, sqlite3.Error) and not is_about_content(error):
                raise
            continue
        is_whole = True
        break
    good = [row[:-1] for row, is_ok in found.items() if is_ok]
    return sorted(good, key=lambda row: row[: len(key)]), len(found) - len(good), is_whole


def _consistent(rows: Rows, *, knows_marks: bool) -> Rows:
    """Assume the worst of what is missing: sends may have gone out, positions may be old."""
    if not knows_marks and rows["outbox"]:
        # The sends that a mark without a time covers are too old to be repeated.
        rows["marks"] = [(max(row[0] for row in rows["outbox"]), None)]
    settled = {outcome[0] for _, body in rows["outcomes"] for outcome in json.loads(body)}
    rows["outbox"] = [row for row in rows["outbox"] if row[0] not in settled]
    known = {row[0] for row in rows["positions"]}
    for session in {row[0] for row in rows["tail"]} - known:
        body: dict[str, Any] = {
            "asked_to_join": True,
            "joined": True,
            "replaces": False,
            "epoch": None,
            "answers_used": 0,
            "in_hand": [],
        }
        rows["positions"].append((session, 0, json.dumps(body)))
    rows["positions"] = [_as_old(row, rows) for row in rows["positions"]]
    return rows


def _as_old(row: tuple[Any, ...], rows: Rows) -> tuple[Any, ...]:
    session, used, text = row
    body = json.loads(text)
    numbers = [n for name, n, *_ in rows["tail"] if name == session]
    answers = [n for name, n, *_ in rows["answers"] if name == session]
    body["taken"] = max(numbers, default=0)
    body["answers_used"] = max([body["answers_used"], *answers])
    body["unsure"] = _MANY
    # Keep only the messages after the last missing number.
    start = body["taken"]
    held = set(numbers)
    while start - 1 in held:
        start -= 1
    rows["tail"] = [mark for mark in rows["tail"] if mark[0] != session or mark[1] >= start]
    return session, used, json.dumps(body)
