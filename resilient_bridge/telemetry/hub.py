"""The hub of events: `listen` adds a listener, `emit` calls them all and writes the log; and the
clients and links that are open.

Rule: emitting never fails and never waits. A listener runs in the emitter's thread, so it has to be
quick. Its exceptions are counted and logged once. Only KeyboardInterrupt and SystemExit reach the
emitter. Every listener gets every event; the log is independent of the listeners.

The log is the stdlib logger `resilient_bridge`, whose level switches it on and off. One record per
event, one line per record: text from a peer cannot forge a second line, and nothing is logged that
an event does not carry.
"""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ..failure import Failure, config_error, redact
from ..failure.teaching import taught
from ..locks import new_lock
from ..world import current_world
from .line_rate import PER, LineRate


if TYPE_CHECKING:
    import asyncio
    import logging
    from collections.abc import Callable, Generator
    from types import TracebackType

    from .event import Event
    from .events import BridgeState

    class Link(Protocol):
        """A BridgeClient, or the supervisor behind `reconnecting`."""

        @property
        def state(self) -> BridgeState: ...
        def health(self) -> Any: ...


# inspect.CO_COROUTINE; importing `inspect` takes longer than importing this package
_COROUTINE_FUNCTION: Final = 0x80


class Listening:
    """A registered listener: active inside the `with` block."""

    __slots__ = ("_complained", "_listener")

    def __init__(self, listener: Callable[[Event], object]) -> None:
        self._listener = listener
        self._complained = False

    def __enter__(self) -> None:
        HUB.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        HUB.remove(self)

    def tell(self, event: Event) -> None:
        try:
            self._listener(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 -- a listener must not break what it watches, not even by CancelledError
            HUB.failures += 1
            if not self._complained:
                self._complained = True
                log_listener_failure(self._listener, error)


class Hub:
    __slots__ = ("_lock", "failures", "listening")

    def __init__(self) -> None:
        self._lock = new_lock()
        self.failures = 0
        # replaced, never changed: emit reads it without the lock
        self.listening: tuple[Listening, ...] = ()

    def add(self, one: Listening) -> None:
        with self._lock:
            self.listening = (*self.listening, one)

    def remove(self, one: Listening) -> None:
        with self._lock:
            remaining = list(self.listening)
            # only one entry: the same `with` object may have been entered twice
            remaining.remove(one)
            self.listening = tuple(remaining)


HUB: Final = Hub()
"""The listeners of this process. Hot paths check `listening` before they create an event."""


@taught
def listen(listener: Callable[[Event], object], /) -> Listening:
    """Call `listener` with every event of this process, inside `with listen(fn):`.

        def show(event: rb.events.Event) -> None:
            print(event)

        with rb.listen(show):
            ...      # the events of the calls and links in this process

    It is called in the thread and task that emits, in the order of events. Its exceptions are
    counted (`listener_failures`), logged once, and do not reach the emitter, but for
    KeyboardInterrupt and SystemExit. The log continues; switch it off with its level, or with
    `logging.getLogger("resilient_bridge").disabled = True`.

    Raises ConfigError for an object that is not callable, and for an `async def`, which would never
    run.
    """
    path = "listen.listener"
    if not callable(listener):
        raise config_error(path, "a callable that takes an event", listener)
    code = getattr(getattr(listener, "__func__", listener), "__code__", None)
    if code is not None and code.co_flags & _COROUTINE_FUNCTION:
        raise config_error(path, "a plain function, not an async one", listener)
    return Listening(listener)


def has_listeners() -> bool:
    """Return whether a listener is registered: check before creating an event that the log does not
    show.
    """
    return bool(HUB.listening)


def listener_failures() -> int:
    """Return how many calls of listeners have raised in this process."""
    return HUB.failures


def emit(event: Event, /) -> None:
    """Pass `event` to every listener and the log. Of their exceptions it raises only
    KeyboardInterrupt and SystemExit.
    """
    tell(event)
    log_event(event)


def tell(event: Event, /) -> None:
    """Pass `event` to every listener, but not to the log."""
    for one in HUB.listening:
        one.tell(event)


# ---- the log ------------------------------------------------------------------------------------


def log_event(event: Event) -> None:
    """Log an event if it is important; ignore every other event. Never raises.

    Warnings: waits over a second, suspensions, fallbacks, circuits that open, stores that fail,
    damaged state, sends in doubt, contexts that are nearly full, and work that is skipped,
    repeated or paused. A workflow that halts is an error. A call that gave up is logged at the
    level of its severity: info, warning, error, and critical for critical or fatal; an error that
    is not retryable and was called once at debug. A retry after a short wait is info, as is the
    success after it. A connection that is lost is logged at info if the wait is short; a failed
    attempt to connect then is not.
    """
    level = event.__level__()
    if not level or (event.__by_strangers__ and not _has_room(type(event).__name__)):
        return
    say(level, event.__text__, event)


# A retry is bounded by its call, a reconnect by its schedule; what strangers cause is not.
_rate = LineRate()


def _has_room(name: str) -> bool:
    """Return whether a line for this event may be written, and tell how many were not."""
    now = current_world().monotonic()
    for kind, number in _rate.omitted(now):
        say("warning", f"{number} more lines of {kind} were omitted within {PER:g} s")
    return _rate.admits(name, now)


@contextmanager
def muted() -> Generator[None]:
    """Silence the log inside the block, for a command of ours that prints the events itself."""
    import logging

    logger = logging.getLogger("resilient_bridge")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def log_listener_failure(listener: Callable[..., Any], error: BaseException) -> None:
    """Log once that a listener raises.

    The error's text is omitted: it may contain data of the listener.
    """
    name = getattr(listener, "__qualname__", type(listener).__qualname__)
    say(
        "error",
        f"event listener {name} raised {type(error).__name__}, further failures of it are only counted",
    )


def say(level: str, text: str | Callable[[], str], event: Event | None = None) -> None:
    """Log a line, masked, with the fields of its event for formatters that print them. Never
    raises.

    A `text` that is a function is called only if somebody reads that level.
    """
    try:
        import logging

        logger: logging.Logger = logging.getLogger("resilient_bridge")
        number = logging.getLevelNamesMapping()[level.upper()]
        if logger.isEnabledFor(number):
            logger.log(
                number,
                redact(text if isinstance(text, str) else text()),
                extra=None if event is None else log_fields(event),
            )
    except Exception:  # noqa: BLE001, S110 -- a broken log handler must not break a connection
        pass


# `name` is an attribute of every LogRecord
_RENAMED: Final[dict[str, str]] = {"name": "call", "seconds": "duration"}


def log_fields(event: Event) -> dict[str, Any]:
    """Return `event_name` and the event's fields that are text (not empty), numbers or booleans;
    `name` becomes `call`, `seconds` `duration`.

    Of a failure: its `code`, `category`, `severity`, `failure_kind` and `retryable` (permanent and
    no longer retryable, once the attempts are used up), and `tool`, `provider` and `session_id`
    where known.
    """
    fields: dict[str, Any] = {"event_name": type(event).__name__}
    for field, value in list(vars(event).items())[1:]:
        name = _RENAMED.get(field, field)
        if isinstance(value, Failure):
            fields.update(_of_failure(value))
        elif isinstance(value, str):
            if value:
                fields[name] = redact(value)
        elif isinstance(value, bool | int | float):
            fields[name] = value
    return fields


def _of_failure(failure: Failure) -> dict[str, Any]:
    known = {
        "code": failure.code,
        "category": failure.category.value,
        "severity": failure.severity.value,
        "failure_kind": failure.kind.value,
        "retryable": failure.retryable and failure.stopped != "attempts",
        "tool": failure.details.get("tool"),
        "provider": failure.details.get("provider_id"),
        "session_id": failure.details.get("session_id"),
    }
    return {name: value for name, value in known.items() if value is not None}


# ---- open links ----------------------------------------------------------------------------------


class _Entry(NamedTuple):
    """Where a link is open: not in a forked child, which has a copy of the list."""

    name: str
    pid: int
    loop: weakref.ref[asyncio.AbstractEventLoop]

    def is_alive(self) -> bool:
        loop = self.loop()
        return self.pid == os.getpid() and loop is not None and not loop.is_closed()


# weak: a link is listed while its owner lives
_open: Final[WeakKeyDictionary[Link, _Entry]] = WeakKeyDictionary()
_lock: Final = new_lock()


def opened(link: Link, name: str) -> None:
    """List a link, by its name, from now until it is CLOSED; call it in the link's event loop."""
    import asyncio

    entry = _Entry(name, os.getpid(), weakref.ref(asyncio.get_running_loop()))
    with _lock:
        _open[link] = entry


def open_links() -> list[tuple[str, Link]]:
    """Return every link of this process that was entered and is not CLOSED, with its name."""
    from .events import BridgeState

    with _lock:
        listed = list(_open.items())
    return [
        (entry.name, link)
        for link, entry in listed
        if entry.is_alive() and link.state is not BridgeState.CLOSED
    ]
