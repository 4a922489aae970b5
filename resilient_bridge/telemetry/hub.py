"""The event hub: `listen` adds a listener, `emit` calls them all.

Rule: emitting never fails and never waits. A listener runs in the emitter's thread, so it has to be
quick. Its exceptions are counted and logged once. Only KeyboardInterrupt and SystemExit reach the
emitter. Every listener gets every event; the log is independent of the listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..failure import config_error
from ..failure.teaching import taught
from ..locks import new_lock


if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .event import Event


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
                from .log import log_listener_failure

                log_listener_failure(self._listener, error)


class _Hub:
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


HUB: Final = _Hub()
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
    from .log import log_event

    log_event(event)


def tell(event: Event, /) -> None:
    """Pass `event` to every listener, but not to the log."""
    for one in HUB.listening:
        one.tell(event)
