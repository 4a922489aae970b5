"""A damaged database: set aside whole, and what is certain in it carried over into a new one.

Each row is judged by its own CRC, so a row that can be found can be trusted; pages that cannot be read cost the rows in them. A
file whose first page is gone gets that of an empty one: the tables of ours begin where they always begin. Rule: nothing is
deleted. What cannot be read stays beside the new file, and what follows from the loss is assumed against us: a message
that may have been handed out was, and a position that may be too old is.
"""

from __future__ import annotations

import glob
import json
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .sqlite_faults import is_about_content
from .sqlite_file import APPLICATION, KEYS, PAGE, TABLES, connect, is_good
from .sqlite_log import log_of, read_log


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .sqlite_faults import Faults
    from .sqlite_file import Rows

__all__ = ["is_foreign", "remove_rooms", "salvage"]

_ALL: Final = "everything"
_MANY: Final = 2_048  # messages that the consumer may have had since a position that may be old


def is_foreign(path: Path) -> bool:
    """Is this a sound database of another program? Its owner would miss it, so it is not even renamed."""
    names, application = _tables_of(path)
    if not names and application != APPLICATION and log_of(path).exists():
        with _room(path) as room:
            copy = Path(room) / "copy.db"
            for side in ("", "-wal"):
                shutil.copyfile(path.with_name(path.name + side), copy.with_name(copy.name + side))
            names, application = _tables_of(copy, "")
    is_ours = application == APPLICATION or set(TABLES) <= names
    return not is_ours and bool(names or application)


def _room(path: Path) -> tempfile.TemporaryDirectory[str]:
    """A directory of our own beside the file: messages have no business in /tmp, should this process be killed."""
    return tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.reading-")


def remove_rooms(path: Path) -> None:
    """Remove what a process that was killed while it read a damaged file has left."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.reading-*"):
        shutil.rmtree(left, ignore_errors=True)


def _tables_of(path: Path, how: str = "&immutable=1") -> tuple[set[str], int]:
    """The tables, and the number of the program; nothing if it cannot be read. Immutable: not even a lock is taken."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{how}", uri=True)) as connection:
            told = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {name for (name,) in told}, connection.execute("PRAGMA application_id").fetchone()[0]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.Error) and not is_about_content(error):
            raise
        return set(), 0


def salvage(path: Path, faults: Faults) -> tuple[Rows, str]:
    """Read what is certain in a damaged file, without a change to it. Returns the rows, and what is lost, in words."""
    log = read_log(path)
    with _room(path) as room:
        copy = Path(room) / "copy.db"
        shutil.copyfile(path, copy)
        if log.pages:
            _apply(copy, log.pages, log.size)
        rows, losses = _rows_of(copy)
        if losses:
            _give_first_page(copy)
            again, losses_again = _rows_of(copy)
            for table in TABLES:
                if len(again[table]) > len(rows[table]):
                    rows[table] = again[table]
                if table in losses and table not in losses_again:
                    del losses[table]
    return _consistent(rows, knows_marks=faults.spare_marks), _told(losses, rows, faults, log.lost)


def _told(losses: dict[str, str], rows: Rows, faults: Faults, lost_log: str) -> str:
    if not any(rows.values()):
        return _ALL
    told = [lost_log] if lost_log else []
    told += [f"{said} of {table}" for table, said in losses.items()]
    if faults.whole and not told:
        told.append("nothing that could be counted, perhaps rows of any table")
    return ", ".join(told)


def _apply(path: Path, pages: Mapping[int, bytes], count: int) -> None:
    """Copy a log into its database, as SQLite would."""
    with path.open("r+b") as file:
        for number, page in pages.items():
            file.seek((number - 1) * len(page))
            file.write(page)
        file.truncate(count * len(next(iter(pages.values()))))


def _rows_of(path: Path) -> tuple[Rows, dict[str, str]]:
    """The rows that are right, and by table what is not."""
    rows: Rows = {table: [] for table in TABLES}
    losses: dict[str, str] = {}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = _text
        for table in TABLES:
            rows[table], bad, is_whole = _read(connection, table)
            if not is_whole:
                losses[table] = "an unknown number of rows"
            elif bad:
                losses[table] = f"{bad} rows"
    return rows, losses


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")  # no row with such a text has its CRC


def _read(connection: sqlite3.Connection, table: str) -> tuple[list[tuple[Any, ...]], int, bool]:
    """Every row that can be found, forwards and then backwards, around what cannot be read."""
    found: dict[tuple[Any, ...], bool] = {}
    columns, key = ", ".join(TABLES[table]), KEYS.get(table, "seq").split(", ")
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


def _give_first_page(path: Path) -> None:
    """Put the first page of an empty database of ours in the place of this one's, with the size of this one."""
    with suppress(sqlite3.Error, OSError):
        fresh = path.with_name("fresh.db")
        connect(fresh, is_machine=False).close()
        with closing(sqlite3.connect(fresh)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = bytearray(fresh.read_bytes()[:PAGE])
        pages = path.stat().st_size // PAGE
        page[28:32] = pages.to_bytes(4, "big")
        page[24:28] = page[92:96] = (1).to_bytes(4, "big")  # the size is believed if both counters agree
        page[32:40] = bytes(8)  # no free pages
        data = path.read_bytes()
        path.write_bytes(bytes(page) + data[PAGE:])


def _consistent(rows: Rows, *, knows_marks: bool) -> Rows:
    """What may be concluded from what is left: messages that may have gone out did, positions that may be old are."""
    if not knows_marks and rows["outbox"]:
        # Without a time, what a mark covers is too old to be repeated.
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
    # Of the tail only what is without a hole up to its end is one.
    start = body["taken"]
    held = set(numbers)
    while start - 1 in held:
        start -= 1
    rows["tail"] = [mark for mark in rows["tail"] if mark[0] != session or mark[1] >= start]
    return session, used, json.dumps(body)
