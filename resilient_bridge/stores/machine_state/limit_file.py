"""The file through which the processes of one machine share adaptive limits.

A header, then 512 slots of 16 KiB, sparse: one for each limit, found by the digest of its name.
A slot has what was learnt, and a row for each user with a call in flight or waiting. Reading,
changing and writing one is a critical section of microseconds under `flock`; nothing is flushed,
since after a restart of the machine everything is forgotten.

Rule: nobody waits for the lock longer than 5 ms, and no operation raises. A file that cannot be
used is away: its users decide alone, it is tried again after 1 s, then 2, 4 … up to 30, and both are
reported once. A file of another program or version is never written to.

A row counts until its process ends, or 15 minutes after it was last written: in another container
nobody can know.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from hashlib import blake2b
from itertools import count
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakSet
from zlib import crc32

from ... import events
from ...calls.shared import LimitShare, LimitView
from ...failure import BridgeError, Failure, StoreError
from ...files.identity import leads_to
from ...files.owner import boot_id
from ...files.portable import lock_now, read_at, unlock, write_at
from ...files.private_files import close_quietly, open_private, prepare_directory, unavailable
from ...files.running import Process, is_running, this_process
from ...locks import new_lock
from ...telemetry import emit
from ...world import REAL


if TYPE_CHECKING:
    from ...telemetry.event import Event


_FIELD: Final = "MachineState.path"
_NAME: Final = b"resilient_bridge limits "  # then the version of the format
_MAGIC: Final = (_NAME + b"2\n").ljust(32, b"\0")
_HEADER: Final = struct.Struct("<32s16sdI")  # magic, boot, the latest `until`, check sum
_SLOT: Final = struct.Struct("<II16sdII")  # check sum, length, digest, until, numbers, rows
_ROW: Final = struct.Struct("<QQQQIIdd")  # of a user: process, its number, and its LimitShare
_SUMMED: Final = 4  # the check sum is of what follows it
_FIRST: Final = 4_096  # where the slots begin
_SIZE: Final = 16_384  # of a slot
_SLOTS: Final = 512
_PROBED: Final = 16  # slots in which a limit may be
_USUAL: Final = 1_024  # bytes that most slots have
_MOST_ROWS: Final = 250
_LEASE: Final = 900.0  # seconds until a row that is not written again counts no more
_LOOKED_AFTER: Final = (
    1.0  # seconds after which a process, and the file's path, are looked at again
)
_PATIENCE: Final = 0.005  # seconds that an operation waits for the lock
_PAUSE: Final = 0.0002  # seconds between two tries
_STUCK: Final = 1.0  # seconds without the lock after which the file is away
_RETRIES: Final = (1.0, 30.0)  # seconds: the first, and the longest


class _User(NamedTuple):
    """A user of a limit: a line of a process."""

    process: Process
    number: int


class _Slot(NamedTuple):
    """A limit in the file."""

    until: float
    numbers: tuple[float, ...]
    rows: tuple[tuple[_User, LimitShare], ...]


class _DamagedError(Exception):
    """A slot or the header does not hold what was written."""


class LimitFile:
    """One file in one MachineState: the descriptor, its lock, and whether it can be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_up = True
        self.is_closed = False
        self._lock = new_lock()
        self._handle = -1
        self._pid = 0
        self.process = Process(0, 0, 0)
        self._looked_at = -inf
        self._busy_since = inf
        self._retry_at = -inf
        self._wait = _RETRIES[0]
        self._is_damaged = False
        self._news: list[Event] = []
        self._running: dict[Process, float] = {}  # when each was last seen to run
        self.lines: WeakSet[FileLine] = WeakSet()

    # ---- the critical section -------------------------------------------------------------------

    def hold(self, now: float) -> bool:
        """Lock the file, if that takes no longer than a few milliseconds; return whether it is."""
        if not self._lock.acquire(timeout=_STUCK):
            return False
        try:
            if self._is_usable(now) and self._locked(now):
                if not self.is_up:
                    self.is_up, self._wait = True, _RETRIES[0]
                    self._news.append(events.StoreChanged(store=str(self.path), state="working"))
                return True
        except (OSError, BridgeError, _DamagedError) as error:
            self.failed(error, now)
        self._lock.release()
        return False

    def release(self) -> None:
        """End what `hold` began."""
        try:
            unlock(self._handle)
        except OSError:  # closing it releases the lock as well
            self._close()
        self._lock.release()

    def _is_usable(self, now: float) -> bool:
        """Open the file, if it is time to; return whether it is open."""
        if self.is_closed or now < self._retry_at:
            return False
        if self._pid != os.getpid():  # a fork: parent and child have one lock together
            self._close()
            self._pid, self.process = os.getpid(), this_process()
        if self._handle >= 0 and now - self._looked_at >= _LOOKED_AFTER:
            self._looked_at = now
            if not leads_to(self.path, self._handle):  # removed, moved or replaced
                self._close()
        if self._handle < 0:
            prepare_directory(self.path, _FIELD)
            self._handle = open_private(self.path, os.O_RDWR | os.O_CREAT, _FIELD)
            self._looked_at = -inf
        return True

    def _locked(self, now: float) -> bool:
        gives_up = None
        while not lock_now(self._handle):
            clock = REAL.monotonic()
            gives_up = clock + _PATIENCE if gives_up is None else gives_up
            if clock >= gives_up:
                self._busy_since = min(self._busy_since, now)
                if now - self._busy_since >= _STUCK:
                    self._busy_since = inf
                    text = f"{self.path} is locked by a process that does not go on"
                    raise StoreError(Failure.of("SYS_STORE_UNAVAILABLE", text))
                return False
            REAL.sleep(_PAUSE)
        self._busy_since = inf
        if self._looked_at == -inf:  # it was just opened
            try:
                self._begin()
            except BaseException:
                unlock(self._handle)
                raise
            self._looked_at = now
        return True

    def _begin(self) -> None:
        """Check the header of the file, and begin anew what is empty, damaged or of another boot.

        Raises StoreError for a file that is not ours.
        """
        data = read_at(self._handle, _HEADER.size, 0)
        if data and not data.startswith(_MAGIC):
            got = data[:32].split(b"\n")[0].decode("ascii", "replace")
            kind = "another version" if data.startswith(_NAME) else "another program"
            text = f"{self.path} is of {kind}: it begins with {got!r}"
            raise StoreError(Failure.of("SYS_STATE_FOREIGN", text))
        if self._is_damaged or not data or _read_header(data)[0] != _boot():
            self._is_damaged = False
            os.ftruncate(self._handle, 0)
            self.limited_until(0.0)

    def failed(self, error: Exception, now: float) -> None:
        """Be away until the next try, and report it once. Not while the file is locked."""
        self._close()
        self._is_damaged = isinstance(error, _DamagedError)
        self._retry_at = now + self._wait
        self._wait = min(2 * self._wait, _RETRIES[1])
        if isinstance(error, OSError):
            error = unavailable(self.path, "be used", error)
        failure = error.failure if isinstance(error, BridgeError) else _damaged(self.path)
        if self.is_up:
            self.is_up = False
            self._news.append(
                events.StoreChanged(
                    store=str(self.path), state="failed", degraded=True, failure=failure
                )
            )

    def _close(self) -> None:
        if self._handle >= 0:
            close_quietly(self._handle)
            self._handle = -1

    def report(self) -> None:
        """Emit what has changed. Without any lock."""
        while self._news:
            emit(self._news.pop(0))

    def stop(self) -> None:
        """Give back what the users here hold, and close the file; they decide alone from now on."""
        for line in list(self.lines):
            line.give_back()
        self.is_closed, self.is_up = True, False
        # not for ever: an interrupt may have ended who has it
        if self._lock.acquire(timeout=_STUCK):
            self._close()
            self._lock.release()

    # ---- the header -----------------------------------------------------------------------------

    def is_limited(self, now: float) -> bool:
        """Return whether some limit may be in force: one read, and no lock."""
        if now < self._retry_at or self.is_closed:
            return False
        if self._handle < 0 or self._pid != os.getpid() or now - self._looked_at >= _LOOKED_AFTER:
            if not self.hold(now):
                return False
            self.release()
        with self._lock:
            try:
                return _read_header(read_at(self._handle, _HEADER.size, 0))[1] > now
            except (OSError, _DamagedError):
                return True  # who looks for the limit finds out what is wrong

    def limited_until(self, until: float) -> None:
        """Note until when a limit is in force. While the file is locked; raises OSError."""
        try:
            before = _read_header(read_at(self._handle, _HEADER.size, 0))[1]
        except _DamagedError:
            before = -1.0
        if until > before:
            body = _HEADER.pack(_MAGIC, _boot(), until, 0)[:-_SUMMED]
            write_at(self._handle, body + struct.pack("<I", crc32(body)), 0)

    # ---- slots, while the file is locked --------------------------------------------------------

    def read(self, offset: int, digest: bytes) -> _Slot | None:
        """Return the limit of this digest, None if another is there. Raises OSError, _DamagedError."""
        data = read_at(self._handle, _USUAL, offset)
        if len(data) < _SLOT.size:
            return None
        summed, length, found, until, numbers, rows = _SLOT.unpack_from(data)
        if found != digest:
            return None
        if length > _USUAL:
            data = read_at(self._handle, min(length, _SIZE), offset)
        if length != _SLOT.size + 8 * numbers + _ROW.size * rows or len(data) < length:
            raise _DamagedError
        if crc32(data[_SUMMED:length]) != summed:
            raise _DamagedError
        at = _SLOT.size + 8 * numbers
        return _Slot(
            until,
            struct.unpack_from(f"<{numbers}d", data, _SLOT.size),
            tuple(map(_row, _ROW.iter_unpack(data[at:length]))),
        )

    def write(self, offset: int, digest: bytes, slot: _Slot) -> None:
        """Write a limit. Raises OSError."""
        rows = slot.rows[:_MOST_ROWS]
        data = bytearray(_SLOT.size)
        data += struct.pack(f"<{len(slot.numbers)}d", *slot.numbers)
        for user, share in rows:
            data += _ROW.pack(*user.process, user.number, *share)
        _SLOT.pack_into(data, 0, 0, len(data), digest, slot.until, len(slot.numbers), len(rows))
        struct.pack_into("<I", data, 0, crc32(memoryview(data)[_SUMMED:]))
        write_at(self._handle, bytes(data), offset)

    def offset_of(self, digest: bytes) -> tuple[int, bool]:
        """Return the offset of a limit, or where it may be written, and whether it is there.

        That is a free slot, else the one whose limit is forgotten first. Raises OSError.
        """
        first, best = int.from_bytes(digest[:4], "little"), (inf, 0)
        for index in range(_PROBED):
            offset = _FIRST + (first + index) % _SLOTS * _SIZE
            data = read_at(self._handle, _SLOT.size, offset)
            free = len(data) < _SLOT.size or not any(data[8:24])
            if free:
                return offset, False
            _, _, found, until, _, _ = _SLOT.unpack(data)
            if found == digest:
                return offset, True
            best = min(best, (until, offset))
        return best[1], False

    def is_present(self, user: _User, share: LimitShare, now: float) -> bool:
        """Return whether what a user has counts: its process runs, and has written it lately."""
        process = user.process
        if now - share.at > _LEASE:
            return False
        if process == self.process or now - self._running.get(process, -inf) < _LOOKED_AFTER:
            return True
        if not is_running(process):
            self._running.pop(process, None)
            return False
        self._running[process] = now
        return True

    def lost(self, error: Exception, now: float) -> None:
        """End what `hold` began, because the file cannot be used: closing it releases its lock."""
        self.failed(error, now)
        self._lock.release()


class FileLine:
    """The line of one user to one limit in the file."""

    _numbers = count(1)

    def __init__(self, file: LimitFile, name: str, owner: object) -> None:
        """`owner` closes the file when nobody uses it, so it lives as long as this."""
        self._file = file
        self._owner = owner
        self._digest = blake2b(name.encode(), digest_size=16).digest()
        self._number = next(self._numbers)
        self._offset = 0
        self._rows: tuple[tuple[_User, LimitShare], ...] = ()
        self._now = self._until = 0.0
        file.lines.add(self)

    @property
    def is_up(self) -> bool:
        return self._file.is_up

    @property
    def _user(self) -> _User:
        return _User(self._file.process, self._number)

    def hold(self, now: float, /) -> LimitView | None:
        file = self._file
        if not file.hold(now):
            return None
        self._now = now
        try:
            slot = self._found()
        except (OSError, _DamagedError) as error:
            file.lost(error, now)
            return None
        self._until = 0.0 if slot is None else slot.until
        if slot is None or slot.until <= now:
            self._rows = ()
            return LimitView((), ())
        me = self._user
        self._rows = tuple(
            (user, share)
            for user, share in slot.rows
            if user != me and file.is_present(user, share, now)
        )
        return LimitView(slot.numbers, tuple(share for _, share in self._rows))

    def _found(self) -> _Slot | None:
        if self._offset and (slot := self._file.read(self._offset, self._digest)) is not None:
            return slot
        self._offset, is_there = self._file.offset_of(self._digest)
        return self._file.read(self._offset, self._digest) if is_there else None

    def write(self, numbers: tuple[float, ...], share: LimitShare, until: float, /) -> None:
        file = self._file
        rows = self._rows
        if share.running or share.earlier or share.first < inf:
            rows = ((self._user, share), *rows)
        try:
            file.write(self._offset, self._digest, _Slot(until, numbers, rows))
            if until > self._until:
                file.limited_until(until)
        except OSError as error:
            file.lost(error, self._now)
        else:
            file.release()

    def release(self) -> None:
        self._file.release()

    def give_back(self) -> None:
        """Remove what this user has in the file."""
        view = self.hold(self._now) if self._offset else None
        if view is None:
            return
        if view.numbers:
            nothing = LimitShare(0, 0, inf, self._now)
            self.write(view.numbers, nothing, self._until)
        else:
            self.release()


def _row(fields: tuple[int, int, int, int, int, int, float, float]) -> tuple[_User, LimitShare]:
    pid, started, space, number, running, earlier, first, at = fields
    return _User(Process(pid, started, space), number), LimitShare(running, earlier, first, at)


def _read_header(data: bytes) -> tuple[bytes, float]:
    """Return the boot in which it was written, and until when a limit is in force."""
    if len(data) < _HEADER.size:
        raise _DamagedError
    magic, boot, until, summed = _HEADER.unpack(data)
    if magic != _MAGIC or crc32(data[:-_SUMMED]) != summed:
        raise _DamagedError
    return boot, until


@cache
def _boot() -> bytes:
    """Return a digest of this start of the machine: the clock begins with it."""
    return blake2b(boot_id().encode(), digest_size=16).digest()


def _damaged(path: Path) -> Failure:
    text = f"{path} does not hold what was written to it, and is begun anew"
    hint = "do nothing: what was learnt is learnt again"
    return Failure.of("SYS_STATE_DAMAGED", text, suggestions=(hint,))
