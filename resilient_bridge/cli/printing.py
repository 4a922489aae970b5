"""Output of commands that only print.

Rule: no traceback for a closed pipe, which ends the command without a message, or for a full disk,
which is reported in one line.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .terminal import columns, fitted


if TYPE_CHECKING:
    from ..failure import BridgeError


USAGE: Final = 2


def show(command: str, text: str, *, is_data: bool = False) -> int:
    """Print to stdout and flush; return 0, or 2 if it cannot be written.

    Text is wrapped to a terminal's width, but not output for programs: JSON or `is_data`. Raises
    OSError if stdout is a closed pipe.
    """
    if not is_data and not text.startswith("{"):
        text = fitted(text, columns(sys.stdout))
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        # Flushed here, because a failure at exit would print a traceback.
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        if is_unread(error):
            raise  # `… | head`: main returns 141 without a message
        discard_output()
        return complain(command, f"cannot write the output: {words_of(error)}")
    return 0


def is_unread(error: OSError) -> bool:
    """Return whether the error means that our output is no longer read.

    On Windows the error is EINVAL, with no file name, because it is that of a write.
    """
    is_windows_word = sys.platform == "win32" and error.errno == errno.EINVAL
    return isinstance(error, BrokenPipeError) or (is_windows_word and error.filename is None)


def discard_output() -> None:
    """Redirect stdout to the null device, so that Python's flush at exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):  # an invalid stdout
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def write_file(command: str, path: str, text: str) -> int:
    """Write a file, in UTF-8; return 0, or 2 if that is impossible."""
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:  # a ValueError is a name that no file can have
        return complain(command, f"cannot write {path!r}: {words_of(error)}")
    return 0


def complain(command: str, text: str) -> int:
    """Print one line about the problem on stderr; return 2."""
    line = " ".join(text.split())
    print(fitted(f"resilient-bridge {command}: {line}", columns(sys.stderr)), file=sys.stderr)
    return USAGE


def for_a_shell(error: BridgeError) -> str:
    """Return what an error says, without the line of Python to write."""
    from ..failure import ConfigError  # help is printed without it

    if isinstance(error, ConfigError):
        return error.failure.message.partition("; write ")[0]
    return str(error.failure)


def words_of(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) else None
    return (words or str(error)).lower()
