"""An append-only log of this process's events, one JSON object a line.

Rule: a log never breaks or delays what it logs. Lines that cannot be written are counted, reported
once, and dropped; when writing works again, that is reported too. System calls go through `disk`,
which tests replace.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Literal

from .. import events
from ..failure import BridgeError, Failure, config_error, error_for
from ..failure.teaching import taught
from ..files.file_changes import write_all
from ..files.identity import leads_to
from ..files.portable import move
from ..files.private_files import (
    close_quietly,
    open_private,
    path_of,
    prepare_directory,
    typed_errors,
)
from ..locks import new_lock
from ..telemetry import emit, listen
from ..values.fields import is_count
from ..world import current_world
from .session_lines import LONGEST_LINE, event_line, log_line, record_line, viber_line


if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Self


disk: Final = os

_FIELD: Final = "SessionLog.path"
_MOST: Final = 1_000
_FORMS: Final = {"events": event_line, "log": log_line, "openviber": viber_line}


class SessionLog:
    """Writes every event of this process as a line of a file, inside `with SessionLog(path):`.

        with rb.stores.SessionLog("session.jsonl"):
            ...      # the events of this block are in the file

    A line is `{"at": …, "event": "Disconnected", …}` with the event's fields, a failure as its
    `to_dict()`. Secrets are masked, and control characters escaped. With `form="log"` the lines of
    events are those of a structured log: `{"level": …, "ts": …, "msg": …}`, and where known `kind`
    (that of `rb.telemetry.Debug`), `tool`, `name`, `provider`, `attempt`, `error` (the type that a model
    gets), `code` and `duration_ms`. `form="openviber"` has exactly the keys, messages and times of
    that specification.

    A line that would make the file larger than `max_bytes` starts a new file: the old one becomes
    `<name>.1`, the one before `<name>.2`, up to `keep` of them. The file is 0600; nothing is read
    back from it.

    A full disk or a missing directory raises nothing and is not waited for. Such lines are counted
    in `lost`, and reported once, by StoreChanged and the stdlib logger `resilient_bridge`. When
    writing works again, StoreChanged is emitted, and its line has that count. A line is passed to
    the system at once, so it survives a kill of this process; a power cut may lose the last
    seconds. One process writes to a path at a time; its threads may share the object. The stdlib
    logger continues.

    Raises ConfigError for wrong arguments and, on entering, for a path that is not safe. On
    entering it also raises StoreError: SYS_STORE_UNAVAILABLE if the file cannot be opened,
    SYS_STORE_IN_USE if this object is in use already.
    """

    @taught
    def __init__(
        self,
        path: str | os.PathLike[str],
        /,
        *,
        max_bytes: int = 10 * 1024 * 1024,
        keep: int = 5,
        form: Literal["events", "log", "openviber"] = "events",
    ) -> None:
        self._path = path_of(path, _FIELD)
        if not is_count(max_bytes, LONGEST_LINE):
            wanted = f"a whole number of at least {LONGEST_LINE}, the longest line"
            raise config_error("SessionLog.max_bytes", wanted, max_bytes)
        if not is_count(keep) or keep > _MOST:
            raise config_error("SessionLog.keep", f"a whole number from 1 to {_MOST}", keep)
        if form not in _FORMS:
            raise config_error("SessionLog.form", f"one of {', '.join(_FORMS)}", form)
        self._max_bytes, self._keep = max_bytes, keep
        self._line_of = _FORMS[form]
        self._name = f"SessionLog {self._path}"
        self._lock = new_lock()
        self._listening: AbstractContextManager[None] | None = None
        self._handle: int | None = None
        self._has_failed = False
        self._lost = 0

    def __repr__(self) -> str:
        """A status line."""
        state = "closed" if self._listening is None else "failing" if self._has_failed else "open"
        return f"<SessionLog {self._path} {state} lost={self._lost}>"

    @property
    def path(self) -> Path:
        """The path of the current file."""
        return self._path

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return self._lost

    def __enter__(self) -> Self:
        with self._lock:
            if self._listening is not None:
                text = f"{self._name}: wanted one that is closed, got one that is open"
                raise error_for(Failure.of("SYS_STORE_IN_USE", text))
            prepare_directory(self._path, _FIELD)
            with typed_errors(self._path, "be opened"):
                self._open()
            self._listening = listen(self._hear)
            self._listening.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            listening, self._listening = self._listening, None
        if listening is not None:  # first of all: no event may reach a log that is closed
            listening.__exit__(kind, error, trace)
        with self._lock:
            self._close()

    def write(self, record: Mapping[str, object], /) -> None:
        """Append a line of your own: the record's fields, and `at` unless it has its own.

        Fields are masked and escaped like those of events. Texts are cut at 500 characters, lines
        at 64 KiB. Raises ConfigError for a record that is no mapping, and StoreError
        (SYS_STORE_UNAVAILABLE) outside of the `with` block. A line that cannot be written raises
        nothing: it is counted in `lost`.
        """
        if not hasattr(record, "items"):
            raise config_error("SessionLog.write.record", "a mapping", type(record).__name__)
        if self._listening is None:
            text = f"{self._name}: wanted one that is open, got one that is closed"
            raise error_for(
                Failure.of(
                    "SYS_STORE_UNAVAILABLE", text, suggestions=("write inside its `with` block",)
                )
            )
        self._append(record_line(record, current_world().now()))

    def _hear(self, event: events.Event) -> None:
        if not isinstance(event, events.StoreChanged) or event.store != self._name:
            self._append(self._line_of(event))
        elif event.state == "working":
            # this line stands where lines are missing: that it failed could not be written
            self._append(event_line(event, {"lost": self._lost}))

    def _append(self, line: bytes) -> None:
        with self._lock:
            if self._listening is None:
                return  # closed after this event was emitted
            event = self._written(line)
        if event is not None:
            emit(event)  # without the lock: this object receives the event too

    def _written(self, line: bytes) -> events.StoreChanged | None:
        """Write the line or count it as lost; return the event if the state has changed."""
        try:
            with typed_errors(self._path, "be appended to"):
                write_all(self._ready_for(len(line)), line)
        except BridgeError as error:
            self._lost += 1
            self._close()  # the next line opens it again, and ends a line that was cut here
            if self._has_failed:
                return None
            self._has_failed = True
            return events.StoreChanged(
                store=self._name, state="failed", degraded=True, failure=error.failure
            )
        if not self._has_failed:
            return None
        self._has_failed = False
        return events.StoreChanged(store=self._name, state="working")

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _ready_for(self, length: int) -> int:
        """Return the descriptor of a file at this path that has room for `length` bytes."""
        if self._handle is not None and not leads_to(self._path, self._handle):
            self._close()  # opening it shows the cause
        handle = self._open()
        size = disk.fstat(handle).st_size
        if size and size + length > self._max_bytes:
            self._close()
            self._rotate()
            handle = self._open()
        return handle

    def _open(self) -> int:
        """Open the file for appending; end the incomplete line of a process that died."""
        if self._handle is None:
            handle = open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, _FIELD)
            try:
                if not self._ends_whole(handle):
                    write_all(handle, b"\n")
            except BaseException:
                close_quietly(handle)
                raise
            self._handle = handle
        return self._handle

    def _ends_whole(self, handle: int) -> bool:
        """Return whether the last line is complete: reads only the last byte."""
        end = disk.lseek(handle, 0, os.SEEK_END)
        if not end:
            return True
        disk.lseek(handle, end - 1, os.SEEK_SET)
        return disk.read(handle, 1) == b"\n"

    def _rotate(self) -> None:
        """Rename each file to its next number.

        If this fails half-way, the next call continues at the free number, and no file is lost.
        """
        numbered = [
            self._path,
            *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._keep + 1)),
        ]
        last = next(
            (n for n in range(1, self._keep) if not self._is_there(numbered[n])), self._keep
        )
        for n in range(last, 0, -1):
            move(numbered[n - 1], numbered[n], disk.replace)

    def _is_there(self, path: Path) -> bool:
        try:
            disk.lstat(path)
        except FileNotFoundError:
            return False
        return True

    def _close(self) -> None:
        if self._handle is not None:
            close_quietly(self._handle)
            self._handle = None
