"""A child process that speaks JSON-RPC 2.0: its requests, its notifications, and its lines.

Rule: a request fails as soon as its outcome is known, and the error says whether it can have run.
Invalid output of the child increments a counter and never ends the link. A line is one object; ours
are ASCII, so that no other character can end one. Unread notifications are bounded in number and
bytes, and the oldest is dropped first.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from collections import deque
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ...client.one_reader import OneReader
from ...failure import (
    AttemptTimeoutError,
    BridgeError,
    Category,
    Executed,
    Failure,
    classify,
    config_error,
    error_for,
    redact,
    stays_here,
)
from ...failure.exits import tail_of
from ...protocol import Message
from ...transports.loop_guard import LoopGuard
from ...values.fields import Seconds, is_number, optional_seconds


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from .child import ChildProcess, Outgoing


Fields: TypeAlias = dict[str, Any]
"""An object of JSON."""

_CAPACITY: Final = 1_000  # unread notifications
_LONGEST_ID: Final = 1_000  # characters
_SHOWN: Final = 100  # characters of a line that is shown
_REFUSALS: Final = 100  # answers queued for a child that sends requests and does not read


class Peer:
    """A child process that speaks JSON-RPC 2.0, one object per line.

        async with rb.links.stdio(*command)() as peer:
            print(await peer.request("greet", {"name": "Ann"}))      # hello

    `rb.links.stdio(…)` starts and ends it.

    It is open until the child exits or the `async with` is left; `repr()` is a status line. A
    request from the child is answered with -32601, method not found. Raises ConfigError when used
    in another process, thread or event loop than that of its block.
    """

    def __init__(self, child: ChildProcess, queue_bytes: int) -> None:
        """Create the peer of a child, for `rb.links.stdio`; `queue_bytes` limits unread notifications."""
        self._child = child
        self._ids = itertools.count(1)
        # None: there will be no answer
        self._calls: dict[object, asyncio.Future[Fields | None]] = {}
        self._notes: set[asyncio.Future[None]] = set()
        self._guard = LoopGuard("Peer")
        loop = self._guard.loop = asyncio.get_running_loop()
        self._notifications = Notifications(queue_bytes, self._ending)
        self._is_closing = False
        self._closed: asyncio.Future[None] = loop.create_future()
        self._noise = self._unmatched = self._refusing = self._unanswered = 0
        self._last_noise = b""  # the beginning of the last line that was not JSON-RPC
        self._last_stray: object = None  # the id of the last unmatched answer

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """A status line: program, pid, state, pending requests."""
        state = "closed" if self._is_closing else "open" if self.close_exc is None else "lost"
        return f"<Peer {self._child.program} pid={self.pid} {state} waiting={len(self._calls)}>"

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the child once it has ended, negative for a signal; None before."""
        return self._child.returncode

    @property
    def close_exc(self) -> Exception | None:
        """The error with which the child ended by itself; None while open, and after a close by us.

        CalledProcessError, EOFError (exit code 0, or stdout closed) or BrokenPipeError (stdin
        closed).
        """
        return self._child.loss

    @property
    def stderr(self) -> str:
        """The end of the child's stderr: at most 8 KiB, with secrets masked."""
        return self._child.stderr

    @property
    def noise(self) -> int:
        """How many lines of the child's stdout were skipped.

        They are not JSON-RPC, not UTF-8, empty, or longer than `max_line`.
        """
        return self._noise + self._child.skipped

    @property
    def unmatched(self) -> int:
        """How many answers matched no pending request: late, repeated, or with an unknown id."""
        return self._unmatched

    @property
    def missed(self) -> int:
        """How many notifications were dropped unread, plus unanswered requests of the child.

        Its requests stay unanswered while it does not read the answers.
        """
        return self._notifications.missed + self._unanswered

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: Seconds | None = 30,  # noqa: ASYNC109 -- the error at the timeout says whether it can have run
        idempotent: bool = False,  # noqa: ARG002 -- rb.reconnecting reads it
    ) -> Any:
        """Send a request and return the `result` of its answer.

        Never repeated here, whatever `idempotent` says.

        Raises:

        - The error of an error answer, as `classify` reads it; ProtocolError (UPSTREAM) for an
          answer that is neither.
        - AttemptTimeoutError after `timeout` seconds (None: never); a late answer is dropped.
        - OutcomeUnknownError if the child exits after the request was written, NotConnectedError if
          it was not, both from `close_exc`.
        - ConfigError for what cannot be sent.

        A cancelled request is withdrawn if it was not written yet.
        """
        self._guard.check()
        seconds = optional_seconds("request.timeout", timeout)
        number = next(self._ids)
        data = encode("request", method, params, number)
        self._check_open(method)
        before = self.noise, self.unmatched
        outcome: asyncio.Future[Fields | None] = asyncio.get_running_loop().create_future()
        self._calls[number] = outcome
        line = self._child.send(data, lambda: None)
        try:
            await asyncio.wait([outcome], timeout=seconds)
        finally:
            self._calls.pop(number, None)
            self._child.withdraw(line)
        if seconds is not None and not outcome.done():
            raise _timed_out(method, seconds, line, *self._came_instead(*before))
        answer = outcome.result()
        if answer is None:
            raise self._lost(method, was_handed=line.is_handed) from self.close_exc
        return result_of(method, answer)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None, /) -> None:
        """Send a notification; returns when it is written to the pipe, which is not delivery.

        Waits while the child does not read. Raises NotConnectedError, from `close_exc`, if the
        child exits before, and ConfigError for what cannot be sent. A cancelled notification is
        withdrawn if it was not written yet.
        """
        self._guard.check()
        data = encode("notify", method, params)
        self._check_open(method)
        handed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._notes.add(handed)
        line = self._child.send(data, lambda: _wake(handed))
        try:
            await handed
        finally:
            self._notes.discard(handed)
            self._child.withdraw(line)
        if not line.is_handed:
            raise self._lost(method, was_handed=False) from self.close_exc

    def notifications(self) -> AsyncIterator[Message]:
        """Return an async iterator over the child's notifications, as Messages.

        `type` is the method, `payload` the params (a list as `{"params": […]}`). The last 1,000
        are kept, from the start on; dropped ones are counted in `missed`. One task reads: a second
        one is refused with ConfigError, and the first goes on. After the last it raises
        NotConnectedError, from `close_exc`, if the child ended by itself, and stops if it was
        closed by us.
        """
        return Reader(self._notifications, self._guard)

    async def wait_closed(self) -> None:
        """Wait until the child has exited or was closed; `close_exc` has the cause."""
        self._guard.check()
        await asyncio.wait([self._closed])

    @asynccontextmanager
    async def _running(self, close_timeout: float) -> AsyncGenerator[Peer]:
        """Start the child, and end it when the block is left."""
        await self._child.start(self._on_line, self._on_exit)
        try:
            yield self
        finally:
            self._is_closing = True
            self._release()
            try:
                await self._child.close(close_timeout)
            finally:
                _wake(self._closed)

    # -- lines and exit of the child ----------------------------------------------------------------------------------
    def _on_line(self, line: bytes) -> None:
        message = decode(line)
        if message is None:
            self._noise += 1
            self._last_noise = line[:_SHOWN]
        elif "method" not in message:
            self._answered(message)
        elif message.get("id") is None:
            self._notifications.put(message["method"], message.get("params"), len(line))
        elif self._refusing >= _REFUSALS:
            self._unanswered += 1
        else:
            self._refusing += 1
            self._child.send(refusal(message["id"]), self._refused)

    def _on_exit(self) -> None:
        self._release()
        _wake(self._closed)

    def _answered(self, message: Fields) -> None:
        outcome = self._calls.pop(message["id"], None)
        if outcome is None or outcome.done():
            self._unmatched += 1
            self._last_stray = message["id"]
        else:
            outcome.set_result(message)

    def _came_instead(self, noise: int, unmatched: int) -> tuple[str, dict[str, Any]]:
        """Return what noise and unmatched answers came since these counts: a text, and details."""
        noise, unmatched = self.noise - noise, self.unmatched - unmatched
        words, details = list[str](), dict[str, Any]()
        if noise:
            last = redact(self._last_noise.decode("utf-8", "replace").strip(), limit=_SHOWN)
            words.append(
                f"{noise} {'line' if noise == 1 else 'lines'} of no JSON-RPC, the last {last!r}"
            )
            details["noise"] = noise
        if unmatched:
            last = redact(str(self._last_stray), limit=_SHOWN)
            words.append(
                f"{unmatched} {'answer' if unmatched == 1 else 'answers'} to an id that was not asked, the last {last!r}"
            )
            details["unmatched"] = unmatched
        return f"; instead came {' and '.join(words)}" if words else "", details

    def _refused(self) -> None:
        self._refusing -= 1

    def _release(self) -> None:
        for outcome in self._calls.values():
            if not outcome.done():
                outcome.set_result(None)
        for handed in self._notes:
            _wake(handed)
        self._notifications.end()

    def _ending(self) -> BridgeError | None:
        if self.close_exc is None:
            return None
        error = self._lost("notifications", was_handed=False)
        error.__cause__ = self.close_exc
        return error

    def _check_open(self, method: str) -> None:
        if self._is_closing or self.close_exc is not None:
            raise self._lost(method, was_handed=False) from self.close_exc

    def _lost(self, what: str, *, was_handed: bool) -> BridgeError:
        cause, details = self.close_exc, dict[str, Any]()
        if cause is not None:
            fields = {"exit_code": self.returncode, "stderr": tail_of(self.stderr) or None}
            details = {name: value for name, value in fields.items() if value is not None}
        why = f"{what}: {_reason(self._child.program, cause)}"
        if was_handed:
            why += "; it was handed out"
            return error_for(Failure.of("SYS_OUTCOME_UNKNOWN", why, details=details, cause=cause))
        # A command that cannot be run now cannot be run the next time either.
        retryable = False if cause and classify(cause).category is Category.CONFIG else None
        why += "; it never left"
        return error_for(
            Failure.of("CONN_NOT_CONNECTED", why, details=details, cause=cause, retryable=retryable)
        )


def running(
    child: ChildProcess, queue_bytes: int, close_timeout: float
) -> AbstractAsyncContextManager[Peer]:
    """Return the context manager that runs this child and yields its peer."""
    return Peer(child, queue_bytes)._running(close_timeout)  # pyright: ignore[reportPrivateUsage] # noqa: SLF001 -- not for users


def _timed_out(
    method: str, seconds: float, line: Outgoing, instead: str, details: dict[str, Any]
) -> AttemptTimeoutError:
    remaining = "it was handed out" if line.is_handed else "it never left"
    executed = Executed.MAYBE if line.is_handed else Executed.NO
    text = f"{method}: no answer within {seconds:g} s; {remaining}{instead}"
    return AttemptTimeoutError(Failure.of("SYS_TIMEOUT", text, executed=executed, details=details))


def _reason(program: str, cause: Exception | None) -> str:
    match cause:
        case None:
            return f"{program} was closed"
        case subprocess.CalledProcessError():
            return f"{program} ended with exit code {cause.returncode}"
        case OSError():
            return str(cause.strerror)
        case _:
            return str(cause)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


# ---- notifications --------------------------------------------------------------------------------------------------


class Notifications:
    """A queue of notifications. `missed` counts those that were dropped to make room."""

    def __init__(self, max_bytes: int, ending: Callable[[], BridgeError | None]) -> None:
        """Keep at most 1,000, and at most `max_bytes` of lines, but always the last one.

        `ending` returns the error that ends the readers after the last; None: they just stop.
        """
        self.missed = 0
        self._queue: deque[tuple[int, Message]] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._ending = ending
        self._is_ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._one_reader = OneReader("Peer.notifications")

    def put(self, method: str, params: dict[str, Any] | list[Any] | None, size: int) -> None:
        """Add a notification; `size` is that of its line."""
        payload = {"params": params} if isinstance(params, list) else params or {}
        self._queue.append(
            (size, Message(type=method, id=None, raw_timestamp=None, payload=payload))
        )
        self._bytes += size
        while len(self._queue) > _CAPACITY or (
            self._bytes > self._max_bytes and len(self._queue) > 1
        ):
            self._take()
            self.missed += 1
        self._wake()

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    async def next(self) -> Message:
        """Return the oldest notification, waiting for one.

        After the last, raise the error of `ending`, or StopAsyncIteration if it is None. Raises
        ConfigError while another task reads.
        """
        self._one_reader.check(is_waiting=self._waiter is not None)
        while not self._queue:
            if self._is_ended:
                error = self._ending()
                if error is None:
                    raise StopAsyncIteration
                raise error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._take()

    def loop(self) -> AsyncIterator[Message]:
        """Return the iterator of an `async for`. Raises ConfigError while another task reads."""
        return self._one_reader.begins(self.next)

    def _take(self) -> Message:
        size, message = self._queue.popleft()
        self._bytes -= size
        return message

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Reader:
    """An async iterator over notifications, for the event loop of their peer.

    It holds no notification, so dropping it loses none.
    """

    def __init__(self, notifications: Notifications, guard: LoopGuard) -> None:
        self._notifications = notifications
        self._guard = guard

    def __aiter__(self) -> AsyncIterator[Message]:
        self._guard.check()
        return self._notifications.loop()

    async def __anext__(self) -> Message:
        self._guard.check()
        return await self._notifications.next()


# ---- lines ----------------------------------------------------------------------------------------------------------


def encode(by: str, method: object, params: object, number: int | None = None) -> bytes:
    """Return the line of a request, or of a notification if `number` is None.

    Raises ConfigError, naming `by`, for what cannot be sent.
    """
    if not isinstance(method, str) or not method:
        raise config_error(f"{by}.method", "a name that is not empty", type(method).__name__)
    fields: Fields = {"jsonrpc": "2.0", "method": method}
    if number is not None:
        fields["id"] = number
    if params is not None:
        if not isinstance(params, Mapping):
            raise config_error(f"{by}.params", "a mapping, or None", type(params).__name__)
        fields["params"] = dict(cast("Mapping[str, Any]", params))
    try:
        return _line(fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise config_error(f"{by}.params", "values that JSON can hold", str(error)) from error


def refusal(number: object) -> bytes:
    """Return the line that answers a request of the child: method not found."""
    return _line(
        {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "method not found"}}
    )


def decode(line: bytes) -> Fields | None:
    """Return the message in a line: an object with a method, or an answer with an id.

    None for any other line. `"jsonrpc": "2.0"` is required, because a log line can be JSON as well.
    """
    try:
        message: object = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    found = cast("Fields", message)
    if found.get("jsonrpc") != "2.0" or not _is_id(found.get("id")):
        return None
    if "method" in found:
        fits = isinstance(found["method"], str) and isinstance(
            found.get("params"), dict | list | None
        )
    else:
        fits = "id" in found
    return found if fits else None


def result_of(method: str, answer: Fields) -> Any:
    """Return the result of an answer.

    Raises the error that an error answer stands for, ProtocolError for an answer that is neither.
    """
    if answer.get("error") is None and "result" in answer:
        return answer["result"]
    failure = classify(answer) if isinstance(answer.get("error"), dict) else None
    if failure is None:
        failure = Failure.of(
            "PROTO_INVALID_MESSAGE",
            f"{method}: invalid answer: wanted a result or an error",
            # stdio Bus: what a worker answers wrongly is its failure, not the link's
            category=Category.UPSTREAM,
            executed=Executed.MAYBE,
            details={"received": sorted(answer)},
        )
    raise error_for(failure)


def _line(message: Fields) -> bytes:
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _is_id(found: object) -> bool:
    return (
        found is None or is_number(found) or (isinstance(found, str) and len(found) <= _LONGEST_ID)
    )
