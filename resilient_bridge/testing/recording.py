"""The events of this process as a list."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from .. import events
from ..failure.teaching import taught
from ..telemetry import listen


class _Recording(AbstractContextManager[list[events.Event]]):
    def __init__(self, *, calls: bool) -> None:
        self._collected: list[events.Event] = []
        self._listening = listen(self._collected.append if calls else self._decided)

    def _decided(self, event: events.Event) -> None:
        if not event.__of_each_call__:
            self._collected.append(event)

    def __enter__(self) -> list[events.Event]:
        self._listening.__enter__()
        return self._collected

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.__exit__(kind, error, trace)


@taught
def record(*, calls: bool = False) -> AbstractContextManager[list[events.Event]]:
    """Collect the events of this process in a list, in order.

        with rb.testing.record(calls=True) as events:
            search("x")
        print([type(event).__name__ for event in events])      # ['CallFinished']

    By default these are the events of decisions. With `calls=True` they include the events of every
    single call and command: `CallFinished`, `CallRejected`,
    `CommandSent`, `CommandAnswered` and `PollFailed`.
    """
    return _Recording(calls=calls)
