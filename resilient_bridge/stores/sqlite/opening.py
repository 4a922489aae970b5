"""Opens the database at a path: checked first, then migrated or repaired if necessary.

Rule: a damaged file is never silently replaced by an empty one. It is set aside beside a new one,
which has its intact rows. The new file is complete before the old one is moved, so one of them
exists after a crash or with a full disk. A file is not written to while it is checked.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ...failure import Failure, StoreError
from ...files.file_changes import set_aside
from ...files.owner import Owner
from ...files.private_files import open_private, prepare_directory, sync_directory
from .database import GENERATION, PAGE, make, name_of, store_error
from .integrity import FileFaults, faults_of, is_about_content
from .log_end import INDEX, NOTE, SIDES, is_end_lost, log_of, note_of
from .migration import migrate
from .owned import RENEWED, OwnedDatabase, generation_after
from .salvage import refuse_others, salvage
from .versions import STORE


if TYPE_CHECKING:
    from .versions import Kind


T = TypeVar("T")

_ASK_AGAIN: Final = 0.1  # seconds between two attempts to become the owner
_NEW: Final = ".new"  # a new database until it is complete: an empty file is a damaged one
_SALVAGED: Final = ".salvaged"


class Mended(NamedTuple):
    """A repair: the new path of the damaged file, its faults, and what was lost."""

    set_aside: Path
    faults: str
    lost: str


async def opened(
    path: Path, *, is_machine: bool, wait: float
) -> tuple[Owner, OwnedDatabase, Mended | None]:
    """Become the owner within `wait` seconds, and open the file in a thread.

    When cancelled, it waits for the thread and closes the file again.
    """
    loop, owner = asyncio.get_running_loop(), Owner(path)
    until = loop.time() + wait
    while True:
        try:
            owner.take()
            break
        except StoreError as error:
            if error.failure.code != "SYS_STORE_IN_USE" or loop.time() >= until:
                raise
        await asyncio.sleep(_ASK_AGAIN)
    work = asyncio.get_running_loop().run_in_executor(
        None, partial(open_owned, owner, path, is_machine=is_machine)
    )
    try:
        return owner, *await finished(work)
    except asyncio.CancelledError:
        if work.exception() is None:
            work.result()[0].close()
            owner.release()
        raise


async def finished(work: asyncio.Future[T]) -> T:
    """Return the result of work in a thread; when cancelled, raise after the work is done."""
    cancelled = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return work.result()


def open_owned(
    owner: Owner, path: Path, *, is_machine: bool, kind: Kind = STORE
) -> tuple[OwnedDatabase, Mended | None]:
    """Open the file of an owner that has its lock; release that if it cannot be opened."""
    try:
        found = open_database(
            path,
            is_machine=is_machine,
            is_same_boot=owner.is_same_boot,
            owner=owner,
            kind=kind,
        )
        owner.note_boot()
    except BaseException:
        owner.release()
        raise
    return found


def open_database(
    path: Path,
    *,
    is_machine: bool,
    is_same_boot: bool = False,
    owner: Owner | None = None,
    kind: Kind = STORE,
) -> tuple[OwnedDatabase, Mended | None]:
    """Open or create the database at `path`, as its owner.

    `is_same_boot`: the last owner used it since the machine was started; see `is_end_lost`. Raises
    StoreError, ConfigError; then nothing has changed. A damaged file of a kind that is not mended is
    refused (SYS_STATE_DAMAGED).
    """
    prepare_directory(path, "store")
    try:
        _clear_up(path)
        mended = None
        if _is_missing(path):
            make(_beside(path, _NEW), {"marks": [(GENERATION, generation_after(0.0))]}, kind)
            for side in (INDEX, NOTE):  # of a log that is gone with its database
                _beside(path, side).unlink(missing_ok=True)
            _beside(path, _NEW).rename(path)
            sync_directory(path.parent)
        else:
            refuse_others(path, kind)
            faults = _faults(path, kind, is_same_boot=is_same_boot)
            if faults and not kind.mends:
                text = f"{path.name} is damaged ({faults}), and was left alone"
                hint = "look at what was under way; then move it away, with the files beside it"
                raise StoreError(Failure.of("SYS_STATE_DAMAGED", text, suggestions=(hint,)))
            if faults:
                mended = _mend(path, faults)
            elif faults.version != kind.newest():
                note_of(path).unlink(missing_ok=True)  # the migration does not update it
                migrate(path, faults.version, kind)
        return OwnedDatabase(path, is_machine=is_machine, owner=owner, kind=kind), mended
    except (OSError, sqlite3.Error) as error:
        raise store_error(error, f"{path.name} cannot be opened") from error


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _is_missing(path: Path) -> bool:
    """Return whether neither the database nor its log exists: a log without its database is damage.

    Such a log, or one beside an empty file, gets a page of zeros as its database: SQLite deletes
    the log of a file without bytes.
    """
    log = log_of(path)
    has_log = log.exists() and log.stat().st_size > 0
    try:
        handle = open_private(path, os.O_RDWR | (os.O_CREAT if has_log else 0), "store")
    except FileNotFoundError:
        return True
    try:
        if has_log and not os.fstat(handle).st_size:
            os.write(handle, bytes(PAGE))
    finally:
        os.close(handle)
    return False


def _faults(path: Path, kind: Kind, *, is_same_boot: bool) -> FileFaults:
    """Return the faults of the file and its log; changes neither."""
    if is_end_lost(path, is_same_boot=is_same_boot):
        return FileFaults(log="the end of its log")
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return FileFaults(("it is empty",))
    if header[18:20] not in (b"\1\1", b"\2\2"):  # SQLite would take it for a read-only file
        return FileFaults(("its header",))
    try:
        with closing(
            sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        ) as look:
            return faults_of(look, kind)
    except sqlite3.Error as error:
        if not is_about_content(error):
            raise
        # Not the message of SQLite, which may contain a text of the user's.
        return FileFaults((f"it cannot be read ({name_of(error) or 'a text that is none'})",))
    except (UnicodeDecodeError, OverflowError) as error:
        return FileFaults((f"a value that cannot be read ({type(error).__name__})",))


# ---- repair ---------------------------------------------------------------------------------------------------------


def _mend(path: Path, faults: FileFaults) -> Mended:
    rows, lost = salvage(path, faults)
    made = _beside(path, _SALVAGED)
    make(made, rows)
    # first: until the end there is then no `path`, by which `_clear_up` detects a crash
    aside = set_aside_whole(path)
    made.rename(path)
    sync_directory(path.parent)
    return Mended(aside, str(faults), lost)


def set_aside_whole(path: Path) -> Path:
    """Rename a database, with its log and its note, to the name of a damaged one; return it."""
    aside = set_aside(path)
    for side in SIDES:
        with suppress(FileNotFoundError):
            _beside(path, side).rename(_beside(aside, side))
    return aside


def _clear_up(path: Path) -> None:
    """After a crash during a repair, put the damaged file back, so that the repair is repeated."""
    renewed = _beside(path, RENEWED)
    if renewed.exists() and not path.exists():  # all of it; the file that it replaces is gone
        for side in SIDES:
            _beside(path, side).unlink(missing_ok=True)
        renewed.rename(path)
        sync_directory(path.parent)
    made = _beside(path, _SALVAGED)
    if made.exists() and not path.exists():
        aside = _last_set_aside(path)
        if aside is None:  # another program has removed it: only the repaired file is left
            if log_of(path).exists():
                set_aside(log_of(path))
            for side in (INDEX, NOTE):
                _beside(path, side).unlink(missing_ok=True)
            for side in SIDES:
                with suppress(FileNotFoundError):
                    _beside(made, side).rename(_beside(path, side))
            made.rename(path)
        else:
            for side in SIDES:
                if not _beside(path, side).exists() and _beside(aside, side).exists():
                    _beside(aside, side).rename(_beside(path, side))
            aside.rename(path)
        sync_directory(path.parent)
    for start in (_SALVAGED, _NEW, RENEWED):
        for end in ("", *SIDES, "-journal"):
            _beside(path, start + end).unlink(missing_ok=True)


def _last_set_aside(path: Path) -> Path | None:
    found = [
        one
        for one in path.parent.iterdir()
        if one.name.startswith(f"{path.name}.damaged-") and not one.name.endswith(SIDES)
    ]
    return max(found, key=lambda one: one.stat().st_ctime_ns, default=None)
