"""`rb.links.stdio(command, …)`: a factory of child processes that speak JSON-RPC, one per call.

Rule: wrong arguments are refused here, before anything runs. Neither arguments nor environment are
ever shown: they may hold secrets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

import attrs

from ...failure import config_error, mapping_of
from ...failure.teaching import taught
from ...values.fields import is_count, read_seconds
from .child import ChildProcess
from .peer import running


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from ...values.fields import Seconds
    from .peer import Peer


_MAX_LINE: Final = 64 * 2**20


@taught
def stdio(
    *command: str,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    max_line: int = _MAX_LINE,
    close_timeout: Seconds = 2,
) -> Callable[[], AbstractAsyncContextManager[Peer]]:
    """Return a factory of peers: `async with factory() as peer` starts the command and ends it.

        async with rb.links.stdio(*command)() as peer:
            print(await peer.request("greet", {"name": "Ann"}))      # hello

    Each call of the factory starts another child process.

    The child speaks JSON-RPC 2.0, one object per line, as MCP's stdio does; the end of its stderr
    is kept. `cwd` and `env` are those of `subprocess` (`env` is the whole environment; None
    inherits ours). A line of more than `max_line` bytes is skipped.

    Leaving the block closes the child's stdin, after `close_timeout` seconds sends SIGTERM to its
    process group, after as many again SIGKILL, and returns when the child is reaped, 7 s later at
    most; so does a cancellation. A process that has moved to a session of its own is not reached.
    Entering raises the system's errors unchanged: FileNotFoundError, PermissionError. ConfigError
    names a bad argument.
    """
    return _Factory(
        _checked_command(command),
        _checked_cwd(cwd),
        _checked_env(env),
        _checked_max_line(max_line),
        read_seconds("stdio.close_timeout", close_timeout, zero=True),
    )


@attrs.frozen(repr=False, eq=False)
class _Factory:
    """The factory that `stdio` returns: each call starts a child from the same arguments."""

    _command: tuple[str, ...]
    _cwd: str | None
    _env: dict[str, str] | None
    _max_line: int
    _close_timeout: float

    def __repr__(self) -> str:
        """Show the program, and nothing of its arguments."""
        return f"<stdio {os.path.basename(self._command[0])}>"  # noqa: PTH119 -- a name, not a file

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[Peer]:
        child = ChildProcess(self._command, cwd=self._cwd, env=self._env, max_line=self._max_line)
        async with running(child, self._max_line, self._close_timeout) as peer:
            yield peer


def _checked_command(command: tuple[object, ...]) -> tuple[str, ...]:
    if len(command) == 1 and isinstance(command[0], list | tuple):
        wanted = "a program and its arguments, one by one"
        raise config_error("stdio.command[0]", wanted, "one list", write="rb.links.stdio(*command)")
    for index, word in enumerate(command):
        if not _can_be_passed(word):
            raise config_error(
                f"stdio.command[{index}]", "text without a null character", _kind(word)
            )
    words = cast("tuple[str, ...]", command)
    if not words or not words[0]:
        raise config_error("stdio.command", "a program, and its arguments", "none")
    return words


def _checked_cwd(cwd: object) -> str | None:
    if cwd is None:
        return None
    path = os.fspath(cast("os.PathLike[str]", cwd)) if isinstance(cwd, os.PathLike) else cwd
    if not path or not _can_be_passed(path):
        raise config_error("stdio.cwd", "the path of a folder, or None", type(path).__name__)
    return cast("str", path)


def _checked_env(env: object) -> dict[str, str] | None:
    if env is None:
        return None
    found = mapping_of(env)
    if not isinstance(env, Mapping):
        raise config_error("stdio.env", "a mapping of text to text, or None", _kind(env))
    for name, value in found.items():
        if not isinstance(name, str) or not _can_be_passed(name) or not name or "=" in name:
            raise config_error("stdio.env", "names that are not empty and hold no =", _kind(name))
        if not _can_be_passed(value):
            raise config_error(
                f"stdio.env[{name!r}]", "text without a null character", _kind(value)
            )
    return dict(cast("Mapping[str, str]", found))


def _checked_max_line(max_line: object) -> int:
    if not is_count(max_line):
        raise config_error("stdio.max_line", "a whole number of bytes, at least 1", max_line)
    return cast("int", max_line)


def _can_be_passed(word: object) -> bool:
    """Return whether a value is text that the system accepts: no null character, encodable."""
    if not isinstance(word, str) or "\0" in word:
        return False
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: object) -> str:
    """Return the kind of a value, without its content."""
    return type(value).__name__
