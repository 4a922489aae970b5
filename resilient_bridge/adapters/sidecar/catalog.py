"""The lists of the server: read by us, learnt from passing answers, and compared after a restart.

Rule: clients are informed of a list exactly when it differs from the one they could see before. It
is compared once in each session, by the first complete reading, ours or a client's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import message
from .lists import LISTS, MOST_PAGES
from .notices import tell_changed
from .permission import repeatable
from .state import KnowTools


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .message import Message
    from .state import Session, State
    from .upstream import Loss

SETTLING: Final = 5.0  # seconds that a new session may take to be set up before calls go on without
_ANSWER: Final = 30.0  # seconds for an answer that no client waits for
_MOST_LOSSES: Final = 3  # of one reading


class Catalog:
    """The lists of one relay.

    `on_read` is called when a list of a new session has been read, or cannot be.
    """

    def __init__(self, state: State, on_read: Callable[[Session, float], None]) -> None:
        self._state = state
        self._on_read = on_read

    def remember(self, session: Session) -> None:
        """Keep what the clients could see before this session, for comparison."""
        known = ((method, self._state.known.seen(method)) for method in LISTS)
        session.before = {method: seen for method, seen in known if seen is not None}

    def relist(self, session: Session, notice: str, now: float) -> None:
        """Handle the server's notice that a list has changed: inform the clients, and use its new hints."""
        for method, (_, _, changed) in LISTS.items():
            if changed == notice:
                session.lists.forget(method)
                session.before.pop(method, None)
                if method == "tools/list" and (not session.is_modern or self._state.envelope):
                    self.read(session, method, now)

    def learn(self, session: Session, method: str, cursor: str, result: Mapping[str, Any]) -> str:
        """Take a page of a list; return the cursor of the next one, "" at the end."""
        following = session.lists.learn(method, cursor, result)
        self._state.known.learn(method, cursor, result)
        if method in session.lists.complete:
            if method == "tools/list":
                self._state.tools_ever.update(session.lists.names())
                self._say_what_is_repeated(session)
                if session.is_modern and not self._state.options.is_command:
                    self._state.actions.append(KnowTools(session.number, session.lists.items(method)))
            before = session.before.pop(method, None)
            if before is not None and session.lists.differs(method, before):
                line = f"{method} is not what it was before the restart"
                self._state.note("list_changed", line, list=method)
                tell_changed(self._state, LISTS[method][2])
        return following

    def read(self, session: Session, method: str, now: float, *, is_awaited: bool = False) -> None:
        """Read a list, page by page; with `is_awaited` the session is not ready before."""
        if is_awaited:
            session.setting_up.add(method)
        self._ask(session, method, "", now, pages=0, losses=0)

    def _ask(
        self, session: Session, method: str, cursor: str, now: float, *, pages: int, losses: int
    ) -> None:
        params: dict[str, Any] = {"cursor": cursor} if cursor else {}
        if session.is_modern:
            params["_meta"] = dict(self._state.envelope)

        def got(answer: Message | None, loss: Loss | None, at: float) -> None:
            if answer is not None and not answer.is_refusal:
                following = self.learn(session, method, cursor, answer.result)
                if following and pages + 1 < MOST_PAGES:
                    self._ask(session, method, following, at, pages=pages + 1, losses=losses)
                    return
            if loss is not None and session is self._state.current and losses + 1 < _MOST_LOSSES:
                self._ask(session, method, cursor, at, pages=pages, losses=losses + 1)
                return
            session.setting_up.discard(method)
            self._on_read(session, at)

        until = now + (SETTLING if self._state.restarts else _ANSWER)
        self._state.ask(session, message.request(0, method, params or None), got, until)

    def _say_what_is_repeated(self, session: Session) -> None:
        state = self._state
        names = repeatable(state.options, session.lists)
        shown = f"repeated after a loss: {', '.join(names)}" if names else "no tool is repeated after a loss"
        if shown != state.repeated_shown:
            state.repeated_shown = shown
            state.note("tools_known", f"tools: {len(session.lists.names())}; {shown}", repeated=names)
