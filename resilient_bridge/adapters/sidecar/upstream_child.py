"""A connection to an MCP server that is a child process: one JSON-RPC message per line.

Rule: a line of the child's stdout that is no message is copied to the log and otherwise ignored. A
request that the child has provably not read has not run. Processes that a child leaves running are
ended with it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...failure import Executed, redact
from ..processes.child import ChildProcess
from .defects import request_misnamed_by, request_named_in, unusable
from .message import NotAMessage, parse
from .upstream import Loss, LostError, Upstream


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..processes.child import Outgoing
    from .message import Message
    from .upstream import Receiver


MAX_LINE: Final = 64 * 2**20
# from the end of its stdin to SIGTERM, and from that to SIGKILL
_CLOSE_SECONDS: Final = 2.0
_WORDS: Final = 20  # lines that an error shows
_LONGEST: Final = 500  # characters of a line in the log


class ChildUpstream(Upstream):
    """One child process; it inherits our environment, and `env` overrides it.

    `max_line` bounds a line of its output, in bytes.
    """

    def __init__(
        self,
        command: Sequence[str],
        receiver: Receiver,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_line: int = MAX_LINE,
    ) -> None:
        self._receiver = receiver
        self._command, self._cwd = tuple(command), cwd
        self._env = {**os.environ, **env} if env else None
        self._max_line = max_line
        self._child: ChildProcess | None = None
        self._handed: dict[int, Outgoing] = {}  # requests that are not answered yet
        self._words: deque[str] = deque(maxlen=_WORDS)

    async def open(self) -> None:
        self._child = child = ChildProcess(
            self._command,
            cwd=self._cwd,
            env=self._env,
            max_line=self._max_line,
            on_stderr=self._on_stderr,
            on_skipped=self._on_skipped,
        )
        try:
            await child.start(self._on_line, self._on_exit)
        except OSError as error:
            self._child = None
            raise LostError(self._not_started(error)) from error

    def send(self, message: Message) -> None:
        """Write a message to the pipe, after the earlier ones."""
        if self._child is None:
            return
        outgoing = self._child.send(message.text.encode() + b"\n", _nothing)
        number = message.id
        if message.is_request and isinstance(number, int):
            self._handed[number] = outgoing
        elif message.method == "notifications/cancelled":
            self._handed.pop(message.params.get("requestId", 0), None)

    def cancel(self, request: int) -> None:
        """Forget a request: there is no stream to close, and the relay ignores its answer."""
        self._handed.pop(request, None)

    async def close(self) -> None:
        """Close its stdin; after 2 s send SIGTERM to its process group, after 2 s more SIGKILL."""
        child, self._child = self._child, None
        if child is not None:
            await child.close(_CLOSE_SECONDS)

    def close_input(self) -> None:
        """Close its stdin only, which requests its end."""
        if self._child is not None:
            self._child.close_input()

    def set_reading(self, *, is_reading: bool) -> None:
        if self._child is not None:
            self._child.set_reading(is_reading=is_reading)

    @property
    def pid(self) -> int:
        """The process id of the child; 0 while there is none."""
        return 0 if self._child is None else self._child.pid

    # ---- what the child does -----------------------------------------------------------------------------------

    def _on_line(self, line: bytes) -> None:
        try:
            message = parse(line)
        except NotAMessage as error:
            if line.strip():
                text = redact(
                    line[: 4 * _LONGEST].decode("utf-8", "replace").strip(), limit=_LONGEST
                )
                self._words.append(f"on stdout: {text} ({error})")
                self._receiver.on_note(f"server, {self._words[-1]}")
                self._end(request_named_in(line), unusable(error))
            return
        if message.is_answer and isinstance(message.id, int):
            self._handed.pop(message.id, None)
        elif self._end(request_misnamed_by(message), unusable()):
            return
        self._receiver.on_message(message, None)

    def _end(self, request: int | None, loss: Loss) -> bool:
        """End a request without an answer; return whether it is an open one."""
        if request is None or self._handed.pop(request, None) is None:
            return False
        self._receiver.on_unanswered(request, loss)
        return True

    def _on_skipped(self) -> None:
        """Handle a line that was too long. If exactly one answer is awaited, it was that one."""
        self._receiver.on_note(f"server: a line of more than {self._max_line} bytes was skipped")
        if len(self._handed) == 1:
            number, _ = self._handed.popitem()
            self._receiver.on_unanswered(
                number, unusable(f"it has more than {self._max_line} bytes")
            )

    def _on_stderr(self, line: bytes) -> None:
        text = redact(line.decode("utf-8", "replace").rstrip(), limit=_LONGEST)
        self._words.append(text)
        self._receiver.on_note(f"server: {text}")

    def _on_exit(self) -> None:
        child = self._child
        if child is None:
            return
        unread = frozenset(
            number for number, outgoing in self._handed.items() if not child.was_read(outgoing)
        )
        self._handed.clear()
        self._receiver.on_lost(Loss(reason=_reason(child.loss), words=self.words, unread=unread))

    @property
    def words(self) -> str:
        """Its last lines on stderr, and those on stdout that are no messages; secrets masked."""
        return "\n".join(self._words)

    def _not_started(self, error: OSError) -> Loss:
        program = self._command[0]
        if (
            isinstance(error, FileNotFoundError)
            and self._cwd is not None
            and not Path(self._cwd).is_dir()
        ):
            reason = f"the folder {self._cwd} does not exist"
        elif isinstance(error, FileNotFoundError):
            is_a_path = Path(program).name != program
            searched = (
                "" if is_a_path else f", looked for in {(self._env or os.environ).get('PATH', '')}"
            )
            reason = f"command not found: {program}{searched}"
        elif isinstance(error, PermissionError):
            reason = f"not allowed to run {program}"
        else:
            return Loss(
                reason=f"cannot start {program}: {(error.strerror or str(error)).lower()}",
                executed=Executed.NO,
            )
        return Loss(reason=reason, executed=Executed.NO, is_final=True)


def _reason(loss: Exception | None) -> str:
    if isinstance(loss, subprocess.CalledProcessError):
        code = loss.returncode
        if code < 0:
            try:
                return f"ended by {signal.Signals(-code).name}"
            except ValueError:
                return f"ended by signal {-code}"
        with suppress(ValueError):  # a shell reports a signal of its command like this
            return f"exit code {code} ({signal.Signals(code - 128).name})"
        return f"exit code {code}"
    if isinstance(loss, EOFError):
        return "exit code 0" if "exit code 0" in str(loss) else "it closed its output"
    return "it closed its input" if loss is not None else "it ended"


def _nothing() -> None:
    """Do nothing when the message was written."""
