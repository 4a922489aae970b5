"""Asynchronous commands: started once, then polled by correlation id until they end or are lost.

Rule: the peer decides when a command has ended. The local clock sets two statuses that a later
poll may still replace: `timeout` when `result` has waited for all of its time, and `expired` when
the peer has not reported on the command for longer than it keeps a result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import attrs

from ... import events
from ...calls import Policy, Timeout
from ...failure import (
    AttemptTimeoutError,
    BridgeError,
    Executed,
    Failure,
    classify,
    config_error,
    error_for,
    mapping_of,
)
from ...failure.teaching import taught
from ...telemetry import emit, has_listeners
from ...values.backoff import Backoff
from ...values.fields import Seconds, is_count, read_name, read_seconds, refuse
from ...world import current_world
from ..polling import poll_until
from .command_answers import HINTS, Answer, CommandStatus, Look, read_answer


Start: TypeAlias = Callable[[str, Mapping[str, Any], str], Awaitable[Answer]]
"""Called with a name, its parameters and a correlation id; returns the peer's first answer."""
Poll: TypeAlias = Callable[[str], Awaitable[Answer]]
"""Called with a correlation id; returns what the peer says of that command."""

_SHORTEST: Final = 0.01  # seconds between two polls: a backoff of 0 would be a busy loop


@attrs.frozen(kw_only=True)
class _CommandPeer:
    """What all commands of one peer share: the poll function, the time limits, and the removal."""

    ask: Poll
    expires_after: float
    interval: Backoff
    timeouts: Timeout
    forget: Callable[[Command], None]


class Command:
    """One asynchronous command, made by `Commands.start` or `Commands.follow`.

        command = await commands.start("execute_js", {"script": "document.title"})
        print(command.status)      # pending
        print(await command.result())      # Home

    `correlation_id` is its id at the peer: with it another process can `follow` the command.
    """

    def __init__(self, peer: _CommandPeer, name: str, correlation_id: str) -> None:
        """Start with the status pending, without a poll."""
        self.name = name
        self.correlation_id = correlation_id
        self._peer = peer
        self._look = Look(CommandStatus.PENDING)
        self._heard_at = self._sent_at = _now()

    @property
    def status(self) -> CommandStatus:
        """The status that the peer reported last, or `timeout` or `expired` by the local clock.

        `timeout`: `result()` has waited for all of its time. `expired`: the peer has not reported
        for longer than `expires_after`, so it has deleted a result that came right after its last
        report. A poll may still succeed.
        """
        is_silent = not self.is_done and _now() - self._heard_at > self._peer.expires_after
        return CommandStatus.EXPIRED if is_silent else self._look.status

    @property
    def hint(self) -> str:
        """The hint for the status; for a failed command the suggestions of its error."""
        failure = self._look.failure
        return HINTS[self.status] if failure is None else "; ".join(failure.suggestions)

    @property
    def failure(self) -> Failure | None:
        """The failure that the peer reported, None without one."""
        return self._look.failure

    @property
    def is_done(self) -> bool:
        """Whether the peer reported the end of the command: complete, or expired."""
        return self._look.status in (CommandStatus.COMPLETE, CommandStatus.EXPIRED)

    async def poll(self) -> CommandStatus:
        """Poll once and return the status; a command that is done is not polled again.

        Raises AttemptTimeoutError after the first of the `timeouts` (2 s), and the errors of the
        `poll` function.
        """
        await Policy(Timeout(self._peer.timeouts.of(1))).call(self._ask)
        return self.status

    async def result(self, *, timeout: Seconds | None = None) -> Any:  # noqa: ASYNC109 -- it bounds our waiting, not the work
        """Poll until the command is done, and return its result.

        Waits for the `timeouts` one after the other, or for `timeout` seconds. RetryScheduled is
        emitted after each of the `timeouts` but the last. A poll that failed with a retryable error
        is repeated.

        Raises the failure that the peer reports; AttemptTimeoutError when the time is up, here or
        at the peer (the peer goes on working, so this can be called again); OutcomeUnknownError
        when the result is lost; and any other error of the `poll` function.
        """
        steps = (self._peer.timeouts if timeout is None else Timeout(timeout)).seconds
        for number, seconds in enumerate(steps, 1):
            try:
                await Policy(Timeout(seconds)).call(self._until_final)
                break
            except AttemptTimeoutError as error:
                if self.is_done:  # another task received the answer
                    break
                if number == len(steps):
                    raise self._abandoned(steps, error) from error
                name, step = f"command {self.name}", number + 1
                emit(
                    events.RetryScheduled(name=name, attempt=step, wait=0.0, failure=error.failure)
                )
        return self._outcome()

    def tell(self, answer: Answer) -> CommandStatus:
        """Apply an answer that the peer has pushed, and return the status.

        A waiting `result()` sees it when its next poll is due. Raises ProtocolError for anything
        but an answer, and then changes nothing.
        """
        self._look = read_answer(answer)
        self._heard_at = _now()
        if self.is_done:
            self._peer.forget(self)
        if has_listeners() and self._look.status is not CommandStatus.PENDING:
            emit(
                events.CommandAnswered(
                    name=self.name,
                    correlation_id=self.correlation_id,
                    status=str(self.status),
                    seconds=self._heard_at - self._sent_at,
                )
            )
        return self.status

    async def _until_final(self) -> None:
        """Poll until the peer has a final answer, by the clock in use."""
        world, least, wait = current_world(), 0.0, None

        async def is_final() -> bool:
            nonlocal least
            least = 0.0
            try:
                await self._ask()
            except Exception as error:
                if (wanted := _wait_after(error)) is None:
                    raise
                if self.status is CommandStatus.EXPIRED:
                    raise self._lost(error) from error
                least = wanted
                return False
            return self._look.status is not CommandStatus.PENDING

        def until_next(polls: int) -> float:
            nonlocal wait
            wait = self._peer.interval.next(polls, wait, world.rng)
            return max(wait, least, _SHORTEST)

        await poll_until(is_final, wait=until_next, sleep=world.asleep)

    async def _ask(self) -> None:
        if self.is_done:
            return
        try:
            answer = await self._peer.ask(self.correlation_id)
        except Exception as error:
            if has_listeners():
                failure = classify(error)
                emit(
                    events.PollFailed(
                        name=self.name, correlation_id=self.correlation_id, failure=failure
                    )
                )
            raise
        if not self.is_done:  # else a final answer was pushed during the poll
            self.tell(answer)

    def _outcome(self) -> Any:
        look = self._look
        if look.failure is not None:
            raise error_for(look.failure)
        if look.status is CommandStatus.EXPIRED:
            raise self._lost(None)
        if look.status is CommandStatus.TIMEOUT:
            raise self._timed_out((), None)
        return look.value

    def _abandoned(self, waited: tuple[float, ...], cause: Exception) -> BridgeError:
        if self.status is CommandStatus.EXPIRED:
            return self._lost(cause)
        self._look = Look(CommandStatus.TIMEOUT)
        return self._timed_out(waited, cause)

    def _timed_out(self, waited: tuple[float, ...], cause: Exception | None) -> BridgeError:
        when = f"after {sum(waited):g} s" if waited else "in the time that the peer gives it"
        message = f"command {self.name} not complete {when}: the peer keeps working, and can be asked again"
        return self._error("SYS_TIMEOUT", message, CommandStatus.TIMEOUT, cause, waited=waited)

    def _lost(self, cause: Exception | None) -> BridgeError:
        why = "the peer does not have its result any more"
        if cause is not None:
            silence, lifetime = _now() - self._heard_at, self._peer.expires_after
            why = f"nothing was heard of it for {silence:.3g} s, and results are kept for {lifetime:g} s"
        return self._error(
            "SYS_OUTCOME_UNKNOWN",
            f"command {self.name} expired: {why}",
            CommandStatus.EXPIRED,
            cause,
        )

    def _error(
        self,
        code: str,
        message: str,
        status: CommandStatus,
        cause: Exception | None,
        **details: Any,
    ) -> BridgeError:
        fields = {"correlation_id": self.correlation_id, "status": str(status), **details}
        hint, ran = (HINTS[status],), Executed.MAYBE
        return error_for(
            Failure.of(code, message, executed=ran, suggestions=hint, details=fields, cause=cause)
        )

    def __repr__(self) -> str:
        """Return name, id and status, without parameters and result, which may be secret."""
        return f"<Command {self.name} {self.correlation_id} {self.status}>"


class Commands:
    """The asynchronous commands of one peer: `start` sends one, `poll` asks for its status.

        commands = rb.agent.Commands(peer.start, peer.poll)
        command = await commands.start("execute_js", {"script": "document.title"})
        print(await command.result())      # Home

    Both are async functions of the caller. `start(name, params, correlation_id)` returns the peer's
    first answer: None, or a mapping. A `correlation_id` in it replaces ours, and its `status` may
    be "complete" already. `poll(correlation_id)` returns a mapping with `status` (pending,
    complete, timeout, expired), and `result` or `error`; None if the peer does not know the id.

    `expires_after`: how long the peer keeps a result, 30 s. `interval`: the wait between two polls,
    seconds or a Backoff; by default 1 s, then 2 s each. `timeouts`: how long `result()` waits, step
    by step. `limit`: the most commands in the table. One that is done is removed at once; an
    expired one is removed when the table is full and a new one is added. ConfigError names a wrong
    argument.
    """

    @taught
    def __init__(
        self,
        start: Start,
        poll: Poll,
        *,
        expires_after: Seconds = 30,
        interval: Backoff | Seconds | None = None,
        timeouts: tuple[Seconds, ...] = (2, 5, 30),
        limit: int = 1_000,
    ) -> None:
        """Create an empty table."""
        for name, received in (("start", start), ("poll", poll)):
            if not callable(received):
                raise config_error(
                    f"Commands.{name}", "an async function", cast("object", received)
                )
        if not is_count(limit):
            refuse("Commands.limit", "a whole number of at least 1", limit)
        self._start = start
        self._limit = limit
        self._table: dict[str, Command] = {}
        self._peer = _CommandPeer(
            ask=poll,
            expires_after=read_seconds("Commands.expires_after", expires_after),
            interval=_as_backoff(interval),
            timeouts=_as_timeouts(timeouts),
            forget=self._forget,
        )

    async def start(self, name: str, params: Mapping[str, Any] | None = None) -> Command:
        """Send a command to the peer, once, and return it without waiting for its result.

        Raises the errors of the `start` function. If the command may have reached the peer, it
        stays in the table, and a note on the error has its correlation id for `follow`. Raises
        BulkheadFullError if the table is full of commands that have not expired.
        """
        self._make_room()
        command = self._added(name, current_world().new_id())
        try:
            answer = await self._start(name, params or {}, command.correlation_id)
        except Exception as error:
            if classify(error).executed is Executed.NO:
                self._forget(command)
            else:
                error.add_note(f"the command may run: follow({command.correlation_id!r}) finds out")
            raise
        fields = mapping_of(answer)
        received = fields.get("correlation_id")
        if isinstance(received, str) and received:
            self._forget(command)
            command = self._added(name, received)
        if has_listeners():
            emit(events.CommandSent(name=name, correlation_id=command.correlation_id))
        if "status" in fields or not (
            answer is None or isinstance(cast("object", answer), Mapping)
        ):
            command.tell(answer)
        return command

    def follow(self, correlation_id: str, *, name: str = "command") -> Command:
        """Return the command with this correlation id.

        It comes from the table, or is added to it for a command that another process has started.
        Raises BulkheadFullError as `start` does.
        """
        read_name("Commands.follow.correlation_id", correlation_id)
        command = self._table.get(correlation_id)
        if command is None:
            self._make_room()
            command = self._added(name, correlation_id)
        return command

    def unfinished(self) -> tuple[Command, ...]:
        """Return the commands in the table, oldest first; none of them is done."""
        return tuple(self._table.values())

    def _added(self, name: str, correlation_id: str) -> Command:
        command = self._table[correlation_id] = Command(self._peer, name, correlation_id)
        return command

    def _forget(self, command: Command) -> None:
        if self._table.get(command.correlation_id) is command:
            del self._table[command.correlation_id]

    def _make_room(self) -> None:
        if len(self._table) < self._limit:
            return
        for command in self.unfinished():
            if command.status is CommandStatus.EXPIRED:
                self._forget(command)
        if len(self._table) >= self._limit:
            message = f"no room for another command: {self._limit} are unfinished"
            raise error_for(Failure.of("SYS_BULKHEAD_FULL", message))

    def __repr__(self) -> str:
        """Return how many commands are unfinished."""
        return f"<Commands {len(self._table)} unfinished>"


def _now() -> float:
    return current_world().monotonic()


def _as_backoff(interval: Backoff | Seconds | None) -> Backoff:
    if interval is None:
        return Backoff.linear(1, cap=2, jitter="none")
    if isinstance(interval, Backoff):
        return interval
    return Backoff.constant(read_seconds("Commands.interval", interval))


def _as_timeouts(timeouts: tuple[Seconds, ...]) -> Timeout:
    if not isinstance(cast("object", timeouts), tuple | list) or not timeouts:
        refuse("Commands.timeouts", "a tuple of seconds, one for each step", timeouts)
    steps = enumerate(timeouts)
    return Timeout.escalating(
        *(read_seconds(f"Commands.timeouts[{index}]", one) for index, one in steps)
    )


def _wait_after(error: Exception) -> float | None:
    """Return the minimum wait in seconds after a failed poll; None if the error is not retryable."""
    # Not in the caller: a local there would form a reference cycle with the error's traceback.
    failure = classify(error)
    return (failure.retry_after or 0.0) if failure.retryable else None
