"""Reads the server's lists, learns them from answers to clients, and compares them after a restart.

Rule: after a restart, clients are notified of a list exactly when it differs from the one they
could see before. A list is compared once per session, when we or a client have first read all of
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from . import message
from .lists import LISTS, MOST_PAGES
from .notices import tell_changed
from .permission import repeatable
from .state import KnowTools, Phase


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .message import Message
    from .state import Session, State
    from .upstream import Loss

# seconds for each request that sets up a new session; then calls go on without its answer
SETTLING: Final = 5.0
_ANSWER: Final = 30.0  # seconds for an answer that no client waits for
_MOST_LOSSES: Final = 3  # lost answers after which a list is not read further


class Catalog:
    """The lists of one relay.

    `on_read(session, now)` is called when a list was read to its end, or cannot be read.
    """

    def __init__(self, state: State, on_read: Callable[[Session, float], None]) -> None:
        self._state = state
        self._on_read = on_read

    def remember(self, session: Session) -> None:
        """Save in `session.before` what the clients could see of each list, for the comparison."""
        known = ((method, self._state.known.seen(method)) for method in LISTS)
        session.before = {method: seen for method, seen in known if seen is not None}

    def relist(self, session: Session, notice: str, now: float) -> None:
        """Handle the server's `list_changed`: it is no longer complete; tools are read again."""
        for method, (_, _, changed) in LISTS.items():
            if changed == notice:
                session.lists.forget(method)
                session.before.pop(method, None)
                if method == "tools/list" and (not session.is_modern or self._state.envelope):
                    self.read(session, method, now)

    def learn(self, session: Session, method: str, cursor: str, result: Mapping[str, Any]) -> str:
        """Store a page of a list; return the cursor of the next page, "" after the last.

        A complete list is compared with `session.before`; clients are notified of a difference.
        """
        following = session.lists.learn(method, cursor, result)
        self._state.known.learn(method, cursor, result)
        if method in session.lists.complete:
            if method == "tools/list":
                self._state.tools_ever.update(session.lists.names())
                self._say_what_is_repeated(session)
                self._say_what_is_unknown(session.lists.names())
                if session.is_modern and not self._state.options.is_command:
                    self._state.actions.append(
                        KnowTools(session.number, session.lists.items(method))
                    )
            before = session.before.pop(method, None)
            if before is not None and session.lists.differs(method, before):
                line = f"{method} is not what it was before the restart"
                self._state.note("list_changed", line, list=method)
                tell_changed(self._state, LISTS[method][2])
        return following

    def read(self, session: Session, method: str, now: float, *, is_awaited: bool = False) -> None:
        """Read a list, page by page; with `is_awaited` the session is ready only after that."""
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
            if loss is not None and session.phase is Phase.UNREACHABLE:
                session.unread_lists.add(method)
            elif loss is not None and session is self._state.current and losses + 1 < _MOST_LOSSES:
                self._ask(session, method, cursor, at, pages=pages, losses=losses + 1)
                return
            session.setting_up.discard(method)
            self._on_read(session, at)

        until = now + (SETTLING if self._state.restarts else _ANSWER)
        self._state.ask(session, message.request(0, method, params or None), got, until)

    def _say_what_is_unknown(self, tools: list[str]) -> None:
        """Report once the names in the options that no tool has; the server may add such a tool later."""
        state = self._state
        if state.has_checked_names:
            return
        state.has_checked_names = True
        unknown = {
            name: at for name, at in state.options.named_tools().items() if name not in tools
        }
        if unknown:
            shown = [
                f"{name!r} ({', '.join(at)}){_near(name, tools)}" for name, at in unknown.items()
            ]
            line = f"the server now has no tool {'; '.join(shown)}"
            state.note("tools_unknown", line, name=", ".join(unknown))

    def _say_what_is_repeated(self, session: Session) -> None:
        state = self._state
        names = repeatable(state.options, session.lists)
        shown = (
            f"repeated after a loss: {', '.join(names)}"
            if names
            else "no tool is repeated after a loss"
        )
        if shown != state.repeated_shown:
            state.repeated_shown = shown
            state.note(
                "tools_known", f"tools: {len(session.lists.names())}; {shown}", repeated=names
            )


def _near(name: str, tools: list[str]) -> str:
    from difflib import get_close_matches  # imported here: only a wrong name needs it

    found = get_close_matches(name, tools, 1)
    return f", did you mean {found[0]!r}?" if found else ""
