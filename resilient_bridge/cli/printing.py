"""Output of commands that only print.

Rule: a closed reader or a full disk is one line and no traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from .terminal import columns, fitted


USAGE: Final = 2


def show(command: str, text: str, *, is_data: bool = False) -> int:
    """Print to stdout, at once, as wide as a terminal is; 0, or 2 if it cannot be written.

    Raises OSError if the reader has gone. Output for programs, JSON or `is_data`, is never wrapped.
    """
    if not is_data and not text.startswith("{"):
        text = fitted(text, columns(sys.stdout))
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        # Flushed here: at exit a failure would be a traceback.
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        if is_unread(error):
            raise  # `… | head`: main ends without a word
        discard_output()
        return complain(command, f"cannot write the output: {words_of(error)}")
    return 0


def is_unread(error: OSError) -> bool:
    """Return whether the error means that our output is no longer read.

    On Windows that is an invalid argument: that of a write, which names no file.
    """
    is_windows_word = sys.platform == "win32" and error.errno == errno.EINVAL
    return isinstance(error, BrokenPipeError) or (is_windows_word and error.filename is None)


def discard_output() -> None:
    """Discard the rest of stdout's buffer, or Python would try again at exit, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with suppress(OSError, ValueError):  # an invalid stdout
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def write_file(command: str, path: str, text: str) -> int:
    """Write a file, in UTF-8; 0, or 2 if that is impossible."""
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


def words_of(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) else None
    return (words or str(error)).lower()
