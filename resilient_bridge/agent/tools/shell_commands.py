"""A command as a tool: run without a shell, its output bounded, no process left behind.

Rule: arguments may hold secrets, so only the base name of the program is reported. When the command
ends, by itself, by its time limit or by a cancellation, every process of its session is ended.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import attrs

from ...adapters.processes.groups import OWN_GROUP
from ...adapters.processes.tree import CLOSE_SECONDS, KILL_SECONDS, Calm, ProcessTree
from ...failure import BridgeError, ConfigError, Executed, Failure, config_error, error_for


MAX_OUTPUT: Final = 32 * 1024
"""Bytes kept of each stream by default."""
_TERM_SECONDS: Final = 1.0  # between SIGTERM and SIGKILL
_LAST_WORDS: Final = 0.5  # after its exit: for the output of a process that holds its pipes open
END_SECONDS: Final = _TERM_SECONDS + KILL_SECONDS + CLOSE_SECONDS + 1.0
"""The most seconds that ending a command takes."""
_LONGEST_WORD: Final = 256  # bytes
_STDOUT, _STDERR = 1, 2


@attrs.frozen(repr=False)
class CommandResult:
    """The result of a command that ended with exit code 0.

        tools = rb.agent.Toolbox()

        @tools.command
        def greet(name: str) -> list[str]:
            return ["echo", f"hello {name}"]
        print((await tools.call("greet", {"name": "Ann"})).value.exit_code)      # 0

    Its output is decoded as UTF-8; wrong bytes become U+FFFD. `is_truncated`: a stream had more
    than `max_output` bytes; a line in its middle says how many were left out.
    """

    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    is_truncated: bool

    def __str__(self) -> str:
        """Return the output for a model: stdout, then stderr."""
        return self.stdout + self.stderr

    def __repr__(self) -> str:
        """Return exit code, sizes and seconds, but no output: it may be large, or secret."""
        cut = ", truncated" if self.is_truncated else ""
        sizes = f"{len(self.stdout)} + {len(self.stderr)} characters"
        return f"<CommandResult exit code {self.exit_code}, {sizes}{cut}, {self.seconds:.3g} s>"


class MistakeError(ConfigError):
    """The definition of a tool is wrong; `Toolbox.call` raises it too."""


def words_of(returned: object, name: str) -> list[str]:
    """Return the words of a command.

    Raises MistakeError for anything but a sequence: a text would need a shell. A word of a wrong
    type may come from the model's arguments: BridgeError (TOOL_ARGUMENTS_INVALID, not executed).
    """
    wanted, kind = "a sequence of words: the program and its arguments", type(returned).__name__
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Sequence):
        raise MistakeError(config_error(f"Toolbox.command({name})", wanted, kind).failure)
    words = list(cast("Sequence[object]", returned))
    if not words or not words[0]:
        raise _no_word(name, wanted, "none")
    for index, word in enumerate(words):
        if not isinstance(word, str | os.PathLike):
            raise _no_word(name, f"a text or a path as word {index}", type(word).__name__)
    return [os.fspath(cast("str", word)) for word in words]


def _no_word(name: str, wanted: str, got: str) -> BridgeError:
    message = f"command {name} has no such words: wanted {wanted}, got {got}"
    return error_for(
        Failure.of("TOOL_ARGUMENTS_INVALID", message, executed=Executed.NO, proof="not_executed")
    )


class _Ends:
    """The beginning and the end of a stream.

    The end, which says why a command failed, gets three quarters of the bytes.
    """

    def __init__(self, most: int) -> None:
        self._head_bytes = most // 4
        self._tail_bytes = most - self._head_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def feed(self, data: bytes) -> None:
        self._seen += len(data)
        free = self._head_bytes - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: -self._tail_bytes]

    @property
    def is_cut(self) -> bool:
        return self._seen > self._head_bytes + self._tail_bytes

    def text(self) -> str:
        if not self.is_cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        end = bytes(self._tail[-self._tail_bytes :])
        # The rest of a cut word is dropped too: half a secret no longer looks like one.
        if space := re.search(rb"\s", end[:_LONGEST_WORD]):
            end = end[space.end() :]
        omitted = self._seen - len(self._head) - len(end)
        head, tail = self._head.decode("utf-8", "replace"), end.decode("utf-8", "replace")
        return f"{head}\n[… {omitted:,} bytes left out …]\n{tail}"


class _RunningCommand(asyncio.SubprocessProtocol):
    """One command from its start to its end."""

    def __init__(self, max_output: int) -> None:
        loop = asyncio.get_running_loop()
        self.output = {_STDOUT: _Ends(max_output), _STDERR: _Ends(max_output)}
        self.done: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._open = {_STDOUT, _STDERR}
        self._exited: asyncio.Future[None] = loop.create_future()
        self._gone: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.SubprocessTransport", transport)
        self._tree = ProcessTree(self.transport, self._exited)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.output[fd].feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 -- the exit code says more
        self._open.discard(fd)
        self._look()

    def process_exited(self) -> None:
        """Handle the exit of the process; processes that it started may still hold its pipes open."""
        _set(self._exited)
        self._loop.call_later(_LAST_WORDS, _set, self.done)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- None, always
        _set(self._gone)

    def _look(self) -> None:
        if self._exited.done() and not self._open:
            _set(self.done)

    async def end(self, calm: Calm) -> None:
        """End the remaining processes and close the pipes."""
        if not await self._tree.is_ended_within(calm, 0):
            await self._tree.end(calm, _TERM_SECONDS)
        self.transport.close()
        await calm.wait(self._gone, CLOSE_SECONDS)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def run_command(
    words: Sequence[str],
    *,
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    max_output: int,
) -> CommandResult:
    """Run a command to its end and return its result.

    Raises CalledProcessError if its exit code is not 0, and OSError if it cannot be started. When
    cancelled, it ends all processes of the command; the CancelledError has a TimeoutExpired as its
    cause, with the output so far.
    """
    program = os.path.basename(words[0])  # noqa: PTH119 -- a name, not a file
    calm = Calm()
    loop = asyncio.get_running_loop()
    began = loop.time()
    run = await _started(words, cwd, env, max_output, calm)
    try:
        await run.done
    except asyncio.CancelledError as cancelled:
        calm.keep(cancelled)
    await run.end(calm)
    seconds = loop.time() - began
    out, err = run.output[_STDOUT], run.output[_STDERR]
    try:
        calm.give_back()
    except asyncio.CancelledError as cancelled:
        printed = out.text().encode(), err.text().encode()
        raise cancelled from subprocess.TimeoutExpired([program], round(seconds, 3), *printed)
    code = cast("int", run.transport.get_returncode())
    if code:
        raise subprocess.CalledProcessError(code, [program], output=out.text(), stderr=err.text())
    return CommandResult(code, out.text(), err.text(), seconds, out.is_cut or err.is_cut)


async def _started(
    words: Sequence[str],
    cwd: str | os.PathLike[str] | None,
    env: Mapping[str, str] | None,
    max_output: int,
    calm: Calm,
) -> _RunningCommand:
    """Start a command in a session of its own.

    If cancelled meanwhile, end the command before raising.
    """
    if any("\0" in os.fsdecode(word) for word in words):
        # asyncio's own loop says the same; uvloop would run the command up to the NUL.
        raise ValueError("embedded null byte")
    options: dict[str, Any] = {"cwd": cwd, "env": env, **OWN_GROUP}
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: _RunningCommand(max_output), *words, stdin=asyncio.subprocess.DEVNULL, **options
        )
    )
    await calm.wait(starting)
    try:
        if starting.cancelled() or starting.exception() is not None:
            calm.give_back()
        _, run = starting.result()
    finally:
        del starting  # breaks a cycle of exception and frame
    try:
        calm.give_back()
    except asyncio.CancelledError:
        await run.end(calm)
        raise
    return run
