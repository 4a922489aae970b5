"""One connection of a link: it enters and leaves a client in its own task, and makes its calls.

Rule: the task that enters is the task that leaves (anyio requires it). A caller is never cancelled
because of a loss: its call waits for the cause, which many clients raise only when they are left.

A connection of websockets is pinged. A missing pong counts only if nothing else moves: while
reading is paused because messages are not consumed, while messages arrive, or while the write
buffer drains, the pong may still come.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ...failure import BridgeError, Failure, classify, config_error, error_for, text_of


if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from ...protocol.policies.heartbeat import Heartbeat


_SILENT: Final = "the client ended without saying why"
_LAST_ANSWERS: Final = 2.0  # seconds for the calls in progress when the session is lost
CLOSING: Final = 5.0  # seconds for leaving a client, and for a cancelled call to end
_PATIENCE: Final = 1.0  # seconds after which a client that cancelled a call is ended


class Connection:
    """A connection attempt, and the connection if it succeeds.

    Three futures without a result: `opened` is done when the client exists, `over` when it is no
    longer usable, `lost` when it has been left or abandoned, so that `cause` is final.
    """

    def __init__(
        self, factory: Callable[[], AbstractAsyncContextManager[Any]], heartbeat: Heartbeat | None
    ) -> None:
        loop = asyncio.get_running_loop()
        self.made: object = None  # what the factory returned
        self.client: Any = None
        self.cause: BaseException | None = None  # why it was lost
        self.calls = 0  # in flight
        self._crowded = False  # calls have overlapped since it was last idle
        self.received = 0  # messages that were read from it
        self.has_worked = False  # something came from the peer: an answer, a message, a pong
        self.opened_at: float | None = None  # by the loop's clock
        self.hints: asyncio.Future[Any] | None = None  # the tools of an mcp server
        self.doubt: asyncio.Future[bool] | None = None  # while it is probed: no calls meanwhile
        self._heartbeat = heartbeat
        self._is_silent = False
        self.opened: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        self._retirement: BaseException | None = None
        self._task = loop.create_task(self._run(factory), name="resilient_bridge connection")

    @property
    def is_usable(self) -> bool:
        is_open = self.opened.done() and not self.over.done() and not self.lost.done()
        return is_open and self._retirement is None and self.doubt is None

    @property
    def known_cause(self) -> BaseException | None:
        """The cause of the loss, None if only the end is known.

        Leaving the client may raise the cause later.
        """
        return None if self._is_silent else self.cause

    def end(self, cause: BaseException | None, *, is_silent: bool = False) -> None:
        """Leave the client, or stop entering it: it is lost for `cause`, or the link closes (None).

        The first cause counts. An error raised on leaving replaces one that `is_silent`, which only
        says that the connection is closed.
        """
        if not self.over.done():
            if self.cause is None:
                self.cause, self._is_silent = cause, is_silent
            self.over.set_result(None)
        if not self.opened.done():
            self._task.cancel()

    def retire(self, cause: BaseException) -> None:
        """Accept no more calls, and end for `cause` when the calls in progress have ended.

        At the latest 2 seconds later: the peer still answers.
        """
        if self.over.done() or self._retirement is not None:
            return
        self._retirement = cause
        if self.calls == 0:
            self.end(cause)
        else:
            asyncio.get_running_loop().call_later(_LAST_ANSWERS, self.end, cause)

    def took(self) -> None:
        self.received += 1
        self.has_worked = True

    async def closed(self) -> None:
        """Wait until the client has been left.

        Its task is cancelled after 5 seconds, and abandoned after 5 more.
        """
        for step in (CLOSING, CLOSING):
            await asyncio.wait([self._task], timeout=step)
            if self._task.done():
                break
            self._task.cancel()
        if not self.lost.done():
            self.lost.set_result(None)

    # ---- the task ---------------------------------------------------------------------------------------------

    async def _run(self, factory: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        try:
            self.made = _checked(factory())
            async with self.made as client:
                self.client = client
                self.opened_at = asyncio.get_running_loop().time()
                self.opened.set_result(None)
                await self._until_over(client)
        except asyncio.CancelledError:
            # Cancelled by `end` or `closed`, or by the client, which then raised no error.
            self._learn(ConnectionAbortedError(_SILENT))
        except BaseException as error:  # noqa: BLE001 -- any error is the cause of the loss
            self._learn(error)
        finally:
            if not self.over.done():
                self.over.set_result(None)
                self._learn(ConnectionAbortedError(_SILENT))
            if not self.lost.done():  # `closed` has set it if it abandoned this task
                self.lost.set_result(None)

    def _learn(self, error: BaseException) -> None:
        """Set an error as the cause, unless one is known that says more than "closed"."""
        error = _leaf(error)
        says_more = self._is_silent and not isinstance(
            error, asyncio.CancelledError | ConnectionAbortedError
        )
        if self.cause is None or says_more:
            self.cause, self._is_silent = error, False

    async def _until_over(self, client: Any) -> None:
        """Wait until the connection is ended, or the client says that it is closed."""
        wait_closed = getattr(client, "wait_closed", None)
        if not inspect.iscoroutinefunction(wait_closed):
            await asyncio.shield(self.over)
            return
        watch = asyncio.ensure_future(wait_closed())
        helpers = [watch]
        if self._heartbeat is not None and _has_heartbeat(client):
            helpers.append(asyncio.ensure_future(_beat(self, self._heartbeat)))
        try:
            await asyncio.wait([watch, self.over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if watch.done() and not watch.cancelled():
                watch.exception()  # only its end matters
            for helper in helpers:
                helper.cancel()
                with suppress(BaseException):
                    await helper
        if not self.over.done():
            self.end(close_cause(client))

    # ---- calls ------------------------------------------------------------------------------------------------

    async def call(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> Ended:
        """Make a call and return how it ended.

        If the client is lost meanwhile, wait for the cause first.
        """
        self.calls += 1
        self._crowded = self._crowded or self.calls > 1
        stepped = _Stepped(begin)
        task = asyncio.ensure_future(stepped.run())
        try:
            await asyncio.wait([task, self.over], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=CLOSING)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task], timeout=CLOSING)
            raise
        finally:
            was_alone = not self._crowded
            self.calls -= 1
            self._crowded = self._crowded and self.calls > 0
            if self._retirement is not None and self.calls == 0:
                self.end(self._retirement)
            if task.done() and not task.cancelled():
                task.exception()  # the result may never be read
        if task.done() and not task.cancelled():
            error = task.exception()
            if error is None:
                return Ended(result=task.result())
            if not isinstance(error, Exception):
                raise error
            return Ended(error=error, has_suspended=stepped.has_suspended, was_alone=was_alone)
        await self._learned()
        return Ended(is_lost=True, has_started=stepped.has_started, was_alone=was_alone)

    async def _learned(self) -> None:
        """Wait for the cause of a loss, which may be that the client cancelled only this call."""
        await asyncio.wait([self.over], timeout=_PATIENCE)
        self.end(ConnectionAbortedError("the client cancelled a call"))
        await asyncio.wait([self.lost], timeout=2 * CLOSING)


@attrs.frozen(kw_only=True)
class Ended:
    """How a call ended: with a result, with an error of its own, or because the client was lost.

    `has_started` is False for a call that was cancelled before its first step, `has_suspended`
    False for one that failed before it waited for anything: it cannot have reached another task.
    `was_alone`: no calls have overlapped since the connection was last idle.
    """

    result: Any = None
    error: Exception | None = None
    is_lost: bool = False
    has_started: bool = True
    has_suspended: bool = True
    was_alone: bool = False


class _Stepped:
    """A call that records whether it was started, and whether it has yielded to the loop."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._begin = begin
        self.has_started = False
        self.has_suspended = False

    async def run(self) -> Any:
        self.has_started = True
        # Runs once the call waits, before anything that it has started can be answered.
        mark = asyncio.get_running_loop().call_soon(self._suspended)
        try:
            return await self._begin()
        finally:
            mark.cancel()

    def _suspended(self) -> None:
        self.has_suspended = True


def _checked(made: Any) -> AbstractAsyncContextManager[Any]:
    """Return the object of a factory if it can be entered.

    If not, ConfigError ends the link: another attempt would fail in the same way.
    """
    if not hasattr(made, "__aenter__"):
        if inspect.iscoroutine(made):
            made.close()  # or Python warns that it was never awaited
        raise config_error(
            "reconnecting.factory",
            "a callable that returns an async context manager",
            type(made).__name__,
        )
    return made  # type: ignore[no-any-return]


def _leaf(error: BaseException) -> BaseException:
    """Return the first error in a group that is no cancellation: task groups may nest groups."""
    while isinstance(error, BaseExceptionGroup):
        inner = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next(
            (one for one in inner if not isinstance(one, asyncio.CancelledError)), inner[0]
        )
    return error


def close_cause(client: Any) -> BaseException:
    """Return the cause that a client reports for its end, as websockets and our own peers do."""
    for holder in (client, getattr(client, "protocol", None)):
        close_error = getattr(holder, "close_exc", None)
        if isinstance(close_error, BaseException):
            return close_error
    return ConnectionAbortedError(_SILENT)


def is_readable(client: object) -> bool:
    """Return whether a client is an async iterable."""
    return hasattr(type(client), "__aiter__")


def failure_that_ended(cause: BaseException | None) -> Failure:
    """Return the failure that ended a connection.

    A control-flow exception (such as a cancellation) is none, but the connection is lost.
    """
    if isinstance(cause, TimeoutError) and not isinstance(cause, BridgeError):
        return Failure.of("CONN_TIMEOUT", text_of(cause), cause=cause)
    try:
        return classify(cause if cause is not None else ConnectionAbortedError("the client ended"))
    except BaseException as stop:  # noqa: BLE001 -- a group of nothing but cancellations
        return Failure.of("CONN_RESET", cause=stop)


# ---- the heartbeat --------------------------------------------------------------------------------------------------


def _has_heartbeat(client: object) -> bool:
    """Return whether this client can be pinged: a connection of websockets.

    The end of a child process or a stream is seen without a ping.
    """
    return (
        type(client).__module__.startswith("websockets.")
        and hasattr(client, "ping")
        and hasattr(client, "transport")
    )


async def _beat(connection: Connection, heartbeat: Heartbeat) -> None:
    """Ping every `heartbeat.every` seconds until the connection ends.

    End it when nothing has come back for `heartbeat.timeout` seconds.
    """
    client: Any = connection.client
    while True:
        await asyncio.sleep(heartbeat.every)
        try:
            pong = await _answered(connection, client.ping(), heartbeat.timeout)
            if (
                pong is not None
                and await _answered(connection, pong, heartbeat.timeout) is not None
            ):
                connection.has_worked = True
                continue
        except Exception:  # noqa: BLE001 -- it is closing already, and reports the cause itself
            return
        text = f"no pong within {heartbeat.timeout:g} s"
        connection.end(error_for(Failure.of("CONN_HEARTBEAT_TIMEOUT", text)))
        client.transport.abort()  # a close handshake would wait for the same peer
        return


async def _answered(connection: Connection, what: Any, seconds: float) -> Any:
    """Return the result of the ping or of its pong, True if that is None.

    Return None if it did not come for `seconds`, and no data was received or sent either.
    """
    waiting = asyncio.ensure_future(what)
    transport = connection.client.transport
    try:
        while True:
            before = connection.received, transport.get_write_buffer_size()
            done, _ = await asyncio.wait([waiting], timeout=seconds)
            if done:
                result = waiting.result()
                return True if result is None else result
            received, buffered = connection.received, transport.get_write_buffer_size()
            is_moving = received != before[0] or buffered < before[1]
            if transport.is_reading() and not is_moving:
                return None
    finally:
        waiting.cancel()
