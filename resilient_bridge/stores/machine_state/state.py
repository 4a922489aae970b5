"""Adaptive limits shared by all processes of one machine: `Policy(..., state=MachineState(path))`.

Rule: no call waits for the file longer than a few milliseconds, and none fails because of it. While
it cannot be used every process decides alone, from what it learned last.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import attrs

from ...files.private_files import path_of
from ...values.fields import Value, called
from ...world import REAL
from .limit_file import FileLine, LimitFile


if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


def _as_path(path: Any) -> Path:
    return path_of(path, "MachineState.path")


@attrs.frozen(repr=False, eq=False)
class MachineState(Value):
    """Adaptive limits shared by all processes of this machine that use the same file and keys.

        state = rb.stores.MachineState("~/.cache/app/limits")
        policy = rb.Policy(rb.Retry(), rb.AdaptiveLimit(key="search"), state=state)

    What the server refuses in one process, all go by; the places are counted together, and the
    earliest waiting call of all starts first. Circuits and retry budgets are not shared. The file is
    private to this user, and is made when it is first needed; a process that dies gives its places
    back. Nothing waits for it: a call under a limit takes some microseconds longer.

    While the file cannot be used (a full disk, another program's), each process decides alone
    (`StoreChanged`), and it is tried again after 1 s, then 2, 4 … up to 30. This is a context manager;
    it is compared by its path, and pickled as its path. ConfigError names a path that is none.
    """

    path: Path = attrs.field(converter=_as_path)
    _file: LimitFile = attrs.field(eq=False, init=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened before the first call."""
        file = LimitFile(self.path)
        object.__setattr__(self, "_file", file)
        finalize(self, file.stop)

    def limit(self, name: str, /) -> FileLine:
        """Return a new line to the limit of this name."""
        return FileLine(self._file, name, self)

    def is_limited(self, now: float, /) -> bool:
        """Return whether some limit may be in force."""
        return self._file.is_limited(now)

    def is_common(self, clock: object, /) -> bool:
        """Return whether this is the machine's clock, and not that of a test."""
        return clock is REAL.monotonic

    def report(self) -> None:
        """Emit `StoreChanged`, if the file has failed or works again."""
        self._file.report()

    def close(self) -> None:
        """Give back what this process holds, and close the file; then this process decides alone."""
        self._file.stop()

    def __enter__(self) -> Self:
        """Return the state, which is closed at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return MachineState, (self.path,)

    def __repr__(self) -> str:
        """Return the constructor's call."""
        return called(self, repr(str(self.path)), path="", _file="")
