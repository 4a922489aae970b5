"""The one thread of a RedisState: it sends what the lines have to tell, looks at the circuits in use, and hands on what comes back.

Rule: it alone touches the socket, so that it does not matter which thread or event loop a call is made in. Whatever goes wrong with
the server, in whatever way, ends the same: the store is away, all who wait are told so at once, and it is tried again after a while, and
a longer while each time.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakSet

from ...errors import Failure
from ...telemetry import emit, events
from ...world import REAL
from .scripts import CHECK_TTL, FORMAT


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .scripts import Script


POLL: Final = 0.15
"""Seconds between two looks at a circuit in use."""
WATCH: Final = 3.0
"""Seconds that a circuit is in use after a call."""
_LONGEST_RETRY: Final = 30.0
_STEADY: Final = 30.0  # seconds up, after which the next outage is a first one
_DEADLINE: Final = 5.0  # seconds that closing waits at most for a thread that hangs


class Asked(Protocol):
    """A question whose asker waits."""

    def answer(self, answer: None, /) -> None:
        """There is no answer."""
        ...


class ExchangedLine(Protocol):
    """One circuit or budget, as its exchange sees it."""

    is_polled: bool  # it is looked at by itself, as long as it is in use
    used_at: float
    polled_at: float

    def watch(self, *, is_watched: bool) -> None:
        """It is looked at by itself from now on, or no more."""
        ...

    def command(self) -> tuple[Script, str, list[str]]:
        """Return what is to be sent, and note that it is under way; with the lock held."""
        ...

    def answered(self, reply: list[Any]) -> None:
        """Hand on what came back."""
        ...

    def too_late(self, reply: list[Any]) -> None:
        """Nobody waited for what came back; with the lock held."""
        ...

    def lost(self) -> Sequence[Asked]:
        """Nobody knows what became of what was sent: return the questions that get no answer; with the lock held."""
        ...

    def begin_anew(self) -> None:
        """Forget what was told and asked: it is the parent's of this process."""
        ...


class Exchange:
    """What goes between one RedisState and its server. `lock` guards the lists of its lines."""

    def __init__(
        self,
        name: str,
        prefix: str,
        *,
        timeout: float,
        retry_after: float,
        connect: Callable[[], Any],
        hide: Callable[[str], str],
    ) -> None:
        self.name = name
        self._hide = hide
        self.timeout = timeout
        self._prefix = prefix
        self._retry_after = retry_after
        self._connect = connect
        self._lines: WeakSet[ExchangedLine] = WeakSet()
        self.is_closed = False
        self._reset()
        _exchanges.add(self)

    def _reset(self) -> None:
        self._change = threading.Condition()
        self.lock = self._change
        self._handing_on = (
            threading.RLock()
        )  # held while lines and their circuits are written to: no fork in between
        self.is_up = not self.is_closed
        self._thread: threading.Thread | None = None  # noqa: TID251 -- the type
        self._client: Any = None
        self._due: dict[ExchangedLine, float] = {}
        self._watched: dict[ExchangedLine, None] = {}
        self._wakes_at = -inf
        self._retry_at = inf
        self._failures = 0
        self._up_since = -inf

    # ---- for the lines ------------------------------------------------------------------------------------------

    def add(self, line: ExchangedLine) -> None:
        """Take a line into care, for as long as somebody holds it."""
        with self.lock:
            self._lines.add(line)

    def send(self, line: ExchangedLine, within: float) -> None:
        """The line has something to tell, or to ask (0.0); with the lock held."""
        due = 0.0 if within == 0.0 else REAL.monotonic() + within
        self._due[line] = min(due, self._due.get(line, inf))
        if self._thread is None and not self.is_closed:
            self._start()
        if due < self._wakes_at:
            self._wakes_at = due
            self._change.notify_all()

    def late(self) -> None:
        """Somebody has waited in vain: nobody else does."""
        self._away(f"no answer within {self.timeout:g} s")

    # ---- the thread ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            self._thread = REAL.start_thread(self._run, self.name)
        except RuntimeError:  # the interpreter is about to end
            self.is_up, self.is_closed = False, True

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self.lock:
                while not self.is_closed and (wait := self._next() - REAL.monotonic()) > 0:
                    self._change.wait(None if wait == inf else wait)
                is_last, is_trial = self.is_closed, not self.is_up and not self.is_closed
                lines = self._chosen(REAL.monotonic(), is_trial=is_trial)
                commands = [line.command() for line in lines]
            if commands or is_trial:
                self._exchange(lines, commands, is_trial=is_trial)
        self._disconnect()

    def _next(self) -> float:
        """Return when there is something to do; with the lock held."""
        if not self.is_up:
            at = self._retry_at
        else:
            polls = (line.polled_at + POLL for line in self._watched)
            at = min(min(self._due.values(), default=inf), min(polls, default=inf))
        self._wakes_at = at
        return at

    def _chosen(self, now: float, *, is_trial: bool) -> list[ExchangedLine]:
        """Return the lines whose turn it is: after an outage all circuits; with the lock held."""
        if is_trial:
            return [line for line in self._lines if line.is_polled]
        chosen = dict.fromkeys(line for line, due in self._due.items() if due <= now or self.is_closed)
        for line in chosen:
            del self._due[line]
            if line.is_polled:
                self._watched[line] = None
        for line in list(self._watched):
            if now - line.used_at > WATCH and line not in chosen:
                del self._watched[line]
                line.watch(is_watched=False)
            elif now >= line.polled_at + POLL:
                chosen[line] = None
        for line in chosen:
            line.polled_at = now
        return list(chosen)

    def _exchange(
        self, lines: list[ExchangedLine], commands: list[tuple[Script, str, list[str]]], *, is_trial: bool
    ) -> None:
        began = REAL.monotonic()
        try:
            replies = self._replies(commands, is_trial=is_trial)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the calls go on without
            self._disconnect()
            with suppress(KeyboardInterrupt, SystemExit):
                self._away(self._hide(f"{type(error).__name__}: {error}"))
            return
        if is_trial and REAL.monotonic() - began > self.timeout:
            with suppress(KeyboardInterrupt, SystemExit):
                self._away(f"an answer after more than {self.timeout:g} s")
            return
        with self._handing_on:
            if is_trial:
                with suppress(
                    KeyboardInterrupt, SystemExit
                ):  # a listener's: from this thread it ends no program
                    emit(events.StoreRecovered(store=self.name))
            elif not (
                self.is_up or self.is_closed
            ):  # somebody gave up waiting, and all who asked have been told
                with self.lock:
                    for line, reply in zip(lines, replies, strict=True):
                        line.too_late(reply)
                return
            for line, reply in zip(lines, replies, strict=True):
                line.answered(reply)
            self._settled(lines, is_trial=is_trial)

    def _settled(self, lines: list[ExchangedLine], *, is_trial: bool) -> None:
        """All have their answers."""
        now = REAL.monotonic()
        with self.lock:
            for line in lines:
                if is_trial:
                    line.used_at = line.polled_at = now
                    self._watched[line] = None
                line.watch(is_watched=line in self._watched)
            if is_trial and not self.is_closed:
                self.is_up, self._up_since = True, now

    def _replies(self, commands: list[tuple[Script, str, list[str]]], *, is_trial: bool) -> list[Any]:
        """Send all in one go, and return what comes back; raises for any of them that failed."""
        if self._client is None:
            self._client = self._connect()
        replies = self._sent([self._evalsha(*command) for command in commands], is_trial=is_trial)
        missing = [index for index, reply in enumerate(replies) if type(reply).__name__ == "NoScriptError"]
        if missing:
            for text in {commands[index][0].text for index in missing}:
                self._client.script_load(text)
            again = self._sent([self._evalsha(*commands[index]) for index in missing], is_trial=False)
            for index, reply in zip(missing, again, strict=True):
                replies[index] = reply
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _evalsha(self, script: Script, key: str, arguments: list[str]) -> tuple[Any, ...]:
        return "EVALSHA", script.sha, 1, self._key(key), *arguments

    def _key(self, key: str) -> bytes:
        # In braces, as a cluster wants it for what belongs together; lone surrogates are text, too.
        return f"{{{self._prefix}:{key}}}:{FORMAT}".encode("utf-8", "surrogatepass")

    def _sent(self, commands: list[tuple[Any, ...]], *, is_trial: bool) -> list[Any]:
        with self._client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            if (
                is_trial
            ):  # a server that is full, or a replica, would answer until it is told of the first failure
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

    # ---- away and back ------------------------------------------------------------------------------------------

    def _away(self, why: str) -> None:
        """The store does not answer, or not in time: from now on until it is back nobody asks it."""
        now = REAL.monotonic()
        with self.lock:
            is_first, self.is_up = self.is_up, False
            is_first = is_first and not self.is_closed
            if is_first and now - self._up_since > _STEADY:
                self._failures = 0
            if is_first or now >= self._retry_at:
                growth = 2.0 ** min(self._failures, 10)
                self._retry_at = now + min(self._retry_after * growth, max(_LONGEST_RETRY, self._retry_after))
                self._failures += 1
            self._due.clear()
            self._watched.clear()
            questions = [question for line in self._lines for question in line.lost()]
            self._change.notify_all()
        if is_first:
            failure = Failure.of("SYS_STORE_UNAVAILABLE", f"{self.name} is away: {why}")
            emit(events.StoreFailed(store=self.name, degraded=True, failure=failure))
        for question in questions:
            question.answer(None)

    def stop(self) -> None:
        """Send what is waiting, and end the thread and its connection; every line is on its own from now on."""
        with self.lock:
            self.is_up, self.is_closed = False, True
            thread = self._thread
            self._change.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_DEADLINE)

    # ---- a fork -------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Keep the thread from writing to circuits while the process is copied."""
        self._handing_on.acquire()

    def let_go(self) -> None:
        """Go on after a fork, in the parent."""
        self._handing_on.release()

    def begin_anew(self) -> None:
        """Go on after a fork, in the child: the thread and the socket are the parent's."""
        lines = list(self._lines)
        self._reset()
        for line in lines:
            line.begin_anew()


_exchanges: Final[WeakSet[Exchange]] = WeakSet()
_held: Final[list[Exchange]] = []


def _before_fork() -> None:
    for exchange in list(_exchanges):
        exchange.hold()
        _held.append(exchange)


def _in_parent() -> None:
    while _held:
        _held.pop().let_go()


def _in_child() -> None:
    while _held:
        _held.pop().begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
