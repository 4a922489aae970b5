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

from ...errors import Failure, StoreError
from .database import APPLICATION, PAGE, connect, is_good
from .integrity import is_about_content, schema_of, version_of
from .versions import LAYOUTS, Layout, lifted, newest
from .wal import log_of, read_log


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .integrity import FileFaults
    from .versions import Rows
    from .wal import Log


_MAGIC: Final = b"SQLite format 3\0"
_ALL: Final = "everything"
_MANY: Final = 2_048  # messages that the consumer may have had since a position that may be old


def is_foreign(path: Path) -> bool:
    """Is this a sound database of another program? Its owner would miss it, so it is not even renamed."""
    names, application = _tables_of(path)
    if not names and application != APPLICATION and _says_ours(path):
        return False
    if not names and application != APPLICATION and log_of(path).exists():
        with _room(path) as room:
            copy = Path(room) / "copy.db"
            for side in ("", "-wal"):
                shutil.copyfile(path.with_name(path.name + side), copy.with_name(copy.name + side))
            names, application = _tables_of(copy, "")
    is_ours = application == APPLICATION or any(set(one.tables) <= names for one in LAYOUTS.values())
    return not is_ours and bool(names or application)


def _says_ours(path: Path) -> bool:
    """Does the newest first page say that it is ours? The file behind it may be shorter than that page says: so a full disk leaves it.

    From the bytes themselves: SQLite reads such a file only with its log, and a copy of both needs room that a full disk has not.
    """
    page = read_log(path).pages.get(1)
    if page is None:
        with path.open("rb") as file:
            page = file.read(100)
    return page.startswith(_MAGIC) and int.from_bytes(page[68:72], "big") == APPLICATION


def _room(path: Path) -> tempfile.TemporaryDirectory[str]:
    """A directory of our own beside the file: messages have no business in /tmp, should this process be killed."""
    return tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.reading-")


def remove_rooms(path: Path) -> None:
    """Remove what a process that was killed while it read a damaged file has left."""
    for remaining in path.parent.glob(f"{glob.escape(path.name)}.reading-*"):
        shutil.rmtree(remaining, ignore_errors=True)


def _tables_of(path: Path, how: str = "&immutable=1") -> tuple[set[str], int]:
    """The tables, and the number of the program; nothing if it cannot be read. Immutable: not even a lock is taken."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro{how}", uri=True)) as connection:
            table_names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {name for (name,) in table_names}, connection.execute("PRAGMA application_id").fetchone()[
                0
            ]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.Error) and not is_about_content(error):
            raise
        return set(), 0


def refuse_later(path: Path, name: str) -> None:
    """Raise StoreError for a database that a later version of ours has left; nothing is changed.

    A bit that was turned over in the number does not make one: the tables are those of a version that is known.
    """
    with path.open("rb") as file:
        header = file.read(100)
    found_version = int.from_bytes(header[60:64], "big", signed=True)
    is_ours = int.from_bytes(header[68:72], "big") == APPLICATION
    if is_ours and found_version > newest() and _version_of(path) is None:
        text = f"{name} is of version {found_version}, wanted {newest()} or earlier: it was left alone"
        raise StoreError(Failure.of("SYS_STATE_FOREIGN", text))


def _version_of(path: Path) -> int | None:
    """The version whose tables a file has, whatever is in its log."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            return version_of(schema_of(connection))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.Error) and not is_about_content(error):
            raise
        return None


def salvage(path: Path, faults: FileFaults) -> tuple[Rows, str]:
    """Read what is certain in a damaged file, without a change to it. Returns the rows as of today's version, and what is lost, in words.

    Raises StoreError for a file of a later version, and what a `lift` raises.
    """
    log = read_log(path)
    with _room(path) as room:
        copy = Path(room) / "copy.db"
        _copy(path, log, copy)
        refuse_later(copy, path.name)
        known = _version_of(copy)
        versions = sorted(LAYOUTS, reverse=True) if known is None else [known]
        # A row whose sum is right is one of its version: whichever finds most of them is that of the file.
        found: list[tuple[int, Rows, dict[str, str]]] = []
        for version in versions:
            _copy(path, log, copy)
            found.append((version, *_salvaged_as(version, copy)))
    version, rows, losses = max(found, key=lambda one: (sum(map(len, one[1].values())), -len(one[2])))
    rows = _consistent(lifted(rows, version), knows_marks=faults.spare_marks)
    return rows, _loss_text(losses, rows, faults)


def _copy(path: Path, log: Log, to: Path) -> None:
    shutil.copyfile(path, to)
    if log.pages:
        _apply(to, log.pages, log.size)


def _salvaged_as(version: int, copy: Path) -> tuple[Rows, dict[str, str]]:
    layout = LAYOUTS[version]
    rows, losses = _rows_of(copy, layout)
    if losses:
        _give_first_page(copy, version)
        again, losses_again = _rows_of(copy, layout)
        for table in layout.tables:
            if len(again[table]) > len(rows[table]):
                rows[table] = again[table]
            if table in losses and table not in losses_again:
                del losses[table]
    return rows, losses


def _loss_text(losses: dict[str, str], rows: Rows, faults: FileFaults) -> str:
    if not any(rows.values()):
        return _ALL
    parts = [faults.log] if faults.log else []
    parts += [f"{lost_rows} of {table}" for table, lost_rows in losses.items()]
    if faults.whole and not parts:
        parts.append("nothing that could be counted, perhaps rows of any table")
    return ", ".join(parts)


def _apply(path: Path, pages: Mapping[int, bytes], count: int) -> None:
    """Copy a log into its database, as SQLite would."""
    with path.open("r+b") as file:
        for number, page in pages.items():
            file.seek((number - 1) * len(page))
            file.write(page)
        file.truncate(count * len(next(iter(pages.values()))))


def _rows_of(path: Path, layout: Layout) -> tuple[Rows, dict[str, str]]:
    """The rows that are right, and by table what is not."""
    rows: Rows = {table: [] for table in layout.tables}
    losses: dict[str, str] = {}
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.text_factory = _text
        for table in layout.tables:
            rows[table], bad, is_whole = _read(connection, table, layout)
            if not is_whole:
                losses[table] = "an unknown number of rows"
            elif bad:
                losses[table] = f"{bad} rows"
    return rows, losses


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")  # no row with such a text has its CRC


def _read(
    connection: sqlite3.Connection, table: str, layout: Layout
) -> tuple[list[tuple[Any, ...]], int, bool]:
    """Every row that can be found, forwards and then backwards, around what cannot be read."""
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


def _give_first_page(path: Path, version: int) -> None:
    """Put the first page of an empty database of ours in the place of this one's, with the size of this one."""
    with suppress(sqlite3.Error, OSError):
        fresh = path.with_name(f"fresh-{version}.db")
        connect(fresh, is_machine=False, version=version).close()
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
