"""The thread of a RedisState: sends reports and questions, polls circuits in use, delivers answers.

Rule: only this thread uses the socket, so it does not matter in which thread or event loop a call
is made. Every failure of the server has the same effect: Redis counts as unavailable, all waiting
calls are released at once, and it is tried again later, each time after a longer wait.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from weakref import WeakSet

from ... import events
from ...failure import Failure, config_error
from ...failure.extras import needed
from ...telemetry import emit
from ...world import REAL
from ..redis.url import public_url, without_secrets
from .scripts import CHECK_TTL, FORMAT, Script


if TYPE_CHECKING:
    from collections.abc import Sequence

Command: TypeAlias = tuple[Script, str, list[str]]  # the script, the name of its key, its arguments

LINGER: Final = 0.01
"""Seconds that a report waits for others to be sent with it, unless it may change the state."""
POLL: Final = 0.15
"""Seconds between two polls of a circuit in use."""
WATCH: Final = 3.0
"""Seconds after its last call that a circuit counts as in use."""
_LONGEST_RETRY: Final = 30.0
_STEADY: Final = 30.0  # seconds of availability after which the waits between retries start over
_DEADLINE: Final = 5.0  # the longest that closing waits for the thread, in seconds


class Answered(Protocol):
    """Who waits for an answer."""

    def answer(self, answer: None, /) -> None:
        """Take that there is none."""


class Line:
    """One circuit, budget or limit: lists under the lock of its exchange. It neither waits nor sends."""

    is_polled = False  # whether it is polled while it is in use
    is_watched = False  # whether it is being polled

    def __init__(self, exchange: Exchange, key: str) -> None:
        self._exchange = exchange
        self.key = key
        self.used_at = -inf

    @property
    def is_up(self) -> bool:
        return self._exchange.is_up

    def use(self) -> None:
        self.used_at = REAL.monotonic()

    def command(self) -> Command:
        """Return what is to be sent, and note that it is under way; with the lock held."""
        raise NotImplementedError

    def answered(self, reply: list[Any]) -> None:
        """Deliver the answer; without the lock."""
        raise NotImplementedError

    def too_late(self, reply: list[Any]) -> None:
        """Note an answer that no call waited for; with the lock held."""

    def lost(self) -> Sequence[Answered]:
        """Forget what was reported; return who is to be answered with None. With the lock held."""
        raise NotImplementedError

    def ending(self) -> bool:
        """Note that the state is closed; return whether there is more to send. With the lock held."""
        return False

    def ended(self) -> None:
        """Note that nothing is answered any more; without the lock."""

    def begin_anew(self) -> None:
        """Forget what was reported and asked."""
        raise NotImplementedError


class Exchange:
    """The traffic between one RedisState and its server. `lock` guards the lists of its lines."""

    def __init__(self, url: str, prefix: str, *, timeout: float, retry_after: float) -> None:
        self.name = public_url(url)
        self.timeout = timeout
        self._url, self._prefix, self._retry_after = url, prefix, retry_after
        self._lines: WeakSet[Line] = WeakSet()
        self.is_closed = False
        self._reset()
        _exchanges.add(self)

    def _reset(self) -> None:
        self.lock = threading.Condition()
        # held while lines and circuits are written to: no fork happens meanwhile
        self.delivering = threading.RLock()
        self.is_up = not self.is_closed
        self._thread: threading.Thread | None = None  # noqa: TID251 -- the type
        self._client: Any = None
        self._due: dict[Line, float] = {}
        self._wakes_at = -inf
        self._retry_at = inf
        self._failures = 0
        self._up_since = -inf
        self._between = (-inf, inf)  # when the last exchange began, and when it ended
        self._ahead: float | None = None

    # ---- for the lines ------------------------------------------------------------------------------------------

    def add(self, line: Line) -> None:
        """Serve a line. ConfigError: without the package redis, or an unknown option in the url."""
        # Now, when a policy is put around a function: the first call has no time for an import.
        self.connect()
        self.serve(line)

    def serve(self, line: Line) -> None:
        """Serve a line of which this is known not to fail."""
        with self.lock:
            self._lines.add(line)

    def send(self, line: Line, within: float) -> None:
        """Send the line's reports within so many seconds (0.0: at once); with the lock held."""
        due = 0.0 if within == 0.0 else REAL.monotonic() + within
        self._due[line] = min(due, self._due.get(line, inf))
        if self._thread is None and not self.is_closed:
            try:
                self._thread = REAL.start_thread(self._run, self.name)
            except RuntimeError:  # the interpreter is about to end
                self.is_up, self.is_closed = False, True
        if due < self._wakes_at:
            self._wakes_at = due
            self.lock.notify_all()

    def ahead(self, clock: float) -> float:
        """Return by how much the server's clock is ahead, which said this in the last exchange.

        It was asked between two of our times, so the difference is between two bounds. It stays what
        it was as long as it fits: it is as steady as the clocks are, however slow an answer was.
        """
        began, ended = self._between
        least, most = clock - ended, clock - began
        before = (least + most) / 2 if self._ahead is None else self._ahead
        self._ahead = min(max(before, least), most)
        return self._ahead

    @property
    def known_ahead(self) -> float | None:
        """The same as it was last, None if the server has not said its time yet."""
        return self._ahead

    def late(self) -> None:
        """Count Redis as unavailable: a call has waited in vain, and no other one should."""
        self._away(f"no answer within {self.timeout:g} s")

    # ---- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self.lock:
                while not self.is_closed and (wait := self._next() - REAL.monotonic()) > 0:
                    self.lock.wait(None if wait == inf else wait)
                is_last, is_trial = self.is_closed, not self.is_up and not self.is_closed
                lines = self._chosen(REAL.monotonic(), is_trial=is_trial)
                commands = [line.command() for line in lines]
            if commands or is_trial:
                self._exchange(lines, commands, is_trial=is_trial)
        self._disconnect()

    def _next(self) -> float:
        """Return when there is something to do; with the lock held."""
        self._wakes_at = min(self._due.values(), default=inf) if self.is_up else self._retry_at
        return self._wakes_at

    def _chosen(self, now: float, *, is_trial: bool) -> list[Line]:
        """Return the lines that are due, after an outage all circuits; with the lock held."""
        if is_trial:
            return [line for line in self._lines if line.is_polled]
        chosen = [line for line, due in self._due.items() if due <= now or self.is_closed]
        for line in chosen:
            del self._due[line]
            if line.is_polled and now - line.used_at <= WATCH:
                self._due[line] = now + POLL
        return chosen

    def _exchange(self, lines: list[Line], commands: list[Command], *, is_trial: bool) -> None:
        try:
            replies = self._replies(commands, is_trial=is_trial)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the calls go on without Redis
            self._disconnect()
            with suppress(KeyboardInterrupt, SystemExit):
                self._away(without_secrets(self._url, f"{type(error).__name__}: {error}"))
            return
        with self.delivering:
            if is_trial:
                # A listener may raise these: in this thread they end no program.
                with suppress(KeyboardInterrupt, SystemExit):
                    emit(events.StoreChanged(store=self.name, state="working"))
            elif not (self.is_up or self.is_closed):
                # a call gave up, so every question has been answered with None
                with self.lock:
                    for line, reply in zip(lines, replies, strict=True):
                        line.too_late(reply)
                return
            for line, reply in zip(lines, replies, strict=True):
                line.answered(reply)
            now = REAL.monotonic()
            with self.lock:
                for line in lines:
                    if is_trial:
                        line.used_at = max(line.used_at, now)
                        self._due[line] = now + POLL
                    line.is_watched = line in self._due
                if is_trial and not self.is_closed:
                    self.is_up, self._up_since = True, now

    def _replies(self, commands: list[Command], *, is_trial: bool) -> list[Any]:
        """Send all in one round trip; return the answers.

        Raises the first error, and TimeoutError for a slow trial.
        """
        began = REAL.monotonic()
        if self._client is None:
            self._client = self.connect()
        sent = [
            ("EVALSHA", script.sha, 1, self._key(key), *arguments)
            for script, key, arguments in commands
        ]
        replies = self._sent(sent, is_trial=is_trial)
        # redis-py would ask for missing scripts before each pipeline: one more round trip per poll.
        missing = [
            index for index, reply in enumerate(replies) if type(reply).__name__ == "NoScriptError"
        ]
        if missing:
            again = [("EVAL", commands[index][0].text, *sent[index][2:]) for index in missing]
            for index, reply in zip(missing, self._sent(again, is_trial=False), strict=True):
                replies[index] = reply
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        ended = REAL.monotonic()
        self._between = began, ended
        if is_trial and ended - began > self.timeout:
            raise TimeoutError(f"an answer after more than {self.timeout:g} s")
        return replies

    def connect(self) -> Any:
        """Make a client that never retries: a waiting call has no time. Raises ConfigError."""
        library: Any = needed("redis", "Policy.state")
        retry, backoff = import_module("redis.retry"), import_module("redis.backoff")
        try:
            return library.Redis.from_url(
                self._url,
                socket_timeout=self.timeout,
                socket_connect_timeout=self.timeout,
                retry=retry.Retry(backoff.NoBackoff(), 0),
                protocol=2,
                max_connections=1,
            )
        except (TypeError, ValueError) as error:
            got = without_secrets(self._url, str(error))
            raise config_error(
                "RedisState.url", "options that the package redis knows", got
            ) from None

    def _key(self, key: str) -> bytes:
        # A cluster chooses the slot by the part in braces; names may hold lone surrogates.
        return f"{{{self._prefix}:{key}}}:{FORMAT}".encode("utf-8", "surrogatepass")

    def _sent(self, commands: list[tuple[Any, ...]], *, is_trial: bool) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            if is_trial:  # reads alone would succeed on a full server and on a replica
                pipe.execute_command("SET", self._key("check"), "1", "PX", CHECK_TTL)
            replies: list[Any] = pipe.execute(raise_on_error=False)
        if is_trial and isinstance(checked := replies.pop(), Exception):
            raise checked
        return replies

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
            client.connection_pool.disconnect()

    # ---- outages ------------------------------------------------------------------------------------------------

    def _away(self, why: str) -> None:
        """Count Redis as unavailable: until it has recovered, no call asks it."""
        now = REAL.monotonic()
        with self.lock:
            is_first, self.is_up = self.is_up and not self.is_closed, False
            if is_first and now - self._up_since > _STEADY:
                self._failures = 0
            if is_first or now >= self._retry_at:
                growth = 2.0 ** min(self._failures, 10)
                self._retry_at = now + min(
                    self._retry_after * growth, max(_LONGEST_RETRY, self._retry_after)
                )
                self._failures += 1
            self._due.clear()
            questions = [question for line in self._lines for question in line.lost()]
            self.lock.notify_all()
        if is_first:
            failure = Failure.of("SYS_STORE_UNAVAILABLE", f"{self.name} is away: {why}")
            emit(
                events.StoreChanged(store=self.name, state="failed", degraded=True, failure=failure)
            )
        for question in questions:
            question.answer(None)

    def stop(self) -> None:
        with self.lock:
            self.is_up, self.is_closed = False, True
            lines = list(self._lines)
            for line in lines:
                if line.ending():
                    self._due[line] = 0.0
            thread = self._thread
            self.lock.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_DEADLINE)
        for line in lines:
            line.ended()

    def begin_anew(self) -> None:
        """Start over in a forked child: the thread and the connection are the parent's."""
        lines = list(self._lines)
        self._reset()
        for line in lines:
            line.begin_anew()


# ---- fork: no thread writes to a circuit while the process is copied -------------------------------------------------

_exchanges: Final[WeakSet[Exchange]] = WeakSet()
_held: Final[list[Exchange]] = []


def _before_fork() -> None:
    for exchange in list(_exchanges):
        exchange.delivering.acquire()
        _held.append(exchange)


def _in_parent() -> None:
    while _held:
        _held.pop().delivering.release()


def _in_child() -> None:
    while _held:
        _held.pop().begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
