"""Our own requests to the server: to set a session up, to read its lists, to check that it lives.

Rule: each has one end, an answer, a loss or a timeout, and its callback is called once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .state import Own


if TYPE_CHECKING:
    from collections.abc import Callable

    from .message import Message
    from .state import Session, State
    from .upstream import Loss


def ask(
    state: State,
    session: Session,
    request: Message,
    then: Callable[[Message | None, Loss | None, float], None],
    until: float,
) -> int:
    """Send a request; return its id. `then` gets None and None if no answer came in time."""
    number = state.number()
    session.pending[number] = Own(request.method, then, until)
    state.to_server(session, request.with_id(number).with_progress_token(number))
    return number


def end_overdue(session: Session, now: float) -> None:
    """End the requests that were not answered in time; a callback may end further ones."""
    for number, one in list(session.pending.items()):
        is_due = isinstance(one, Own) and one.times_out_at is not None and now >= one.times_out_at
        if isinstance(one, Own) and is_due and session.pending.pop(number, None) is not None:
            session.forgotten.append(number)
            one.then(None, None, now)


def ignore(answer: Message | None, loss: Loss | None, now: float) -> None:
    """Nothing follows from the answer."""
    del answer, loss, now
