"""The interface between the relay and a connection to an MCP server.

A child process and an HTTP server implement it.

Rule: a connection handles bytes, HTTP sessions, and evidence. It repeats nothing and decides
nothing: whether a request may be sent again is the relay's decision, and `Loss.executed` is the
evidence that only the connection has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from ...errors import Executed


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .message import Message


@attrs.frozen(kw_only=True)
class Loss:
    """Why a request will have no answer, or why a connection ended.

    `reason` is for people, short and without secrets.

    `executed` is NO where the request provably was not carried out: its bytes were never sent, the
    connection was refused, or the server said that it does not know the session, is limiting, or
    wants other credentials. Everything else is MAYBE.
    """

    reason: str  # "exit code 137", "connection refused", "HTTP 502", "the answer was cut off"
    executed: Executed = Executed.MAYBE
    # nothing listens: the session may still exist, so it is not replaced for this
    is_unreachable: bool = False
    is_session_gone: bool = False  # the server does not know our session: the next needs a new one
    # no new attempt can help: command not found, credentials refused, no MCP server
    is_final: bool = False
    retry_after: float | None = None  # seconds that the server asked to wait
    words: str = ""  # the last lines of stderr, or the server's response body; secrets masked
    # of a connection that ended: requests in it that provably were not carried out
    unread: frozenset[int] = frozenset()

    def of(self, request: int) -> Loss:
        return attrs.evolve(self, executed=Executed.NO) if request in self.unread else self

    def with_words(self, lines: Iterable[str]) -> Loss:
        """Return it with these lines as the server's last words."""
        return attrs.evolve(self, words="\n".join(lines))


NOT_STARTED: Final = Loss(reason="it has not started yet", executed=Executed.NO)
NOT_GREETED: Final = Loss(reason="it has not answered initialize", executed=Executed.NO)
"""Texts for a server that never existed, and for one that is reachable and silent."""


class Receiver(Protocol):
    """Gets the events of a connection. All methods are called in the loop's thread, and never block."""

    def on_message(self, message: Message, request: int | None, /) -> None:
        """Handle a message of the server: an answer, or one of its own.

        `request` is the request (its `id` on this connection) in whose answer stream it came, None
        where there is no such stream.
        """

    def on_unanswered(self, request: int, loss: Loss) -> None:
        """Handle a request that will have no answer.

        Called once per request, and never after its answer.
        """

    def on_lost(self, loss: Loss) -> None:
        """Handle a connection that ended by itself: nothing more will arrive.

        Open requests get `loss`, except those reported before. Called once, never after `close`.
        """

    def on_note(self, text: str) -> None:
        """Handle a log line for people; the server's own lines begin with `server`."""


class Upstream(Protocol):
    """One connection to an MCP server, and over HTTP one session; a new one is made for the next.

    `open` is called once, `close` always.
    """

    async def open(self) -> None:
        """Start the child, or prepare the client; no message is sent by it.

        Raises LostError if that fails.
        """

    def send(self, message: Message, /) -> None:
        """Send a message, in the order of the calls; its ids are ours.

        Never blocks, never raises: `on_unanswered` reports a failure.

        A request's id is an int that this connection has not seen before.
        """

    def cancel(self, request: int) -> None:
        """Give up the answer stream of this request. Nothing is reported for it afterwards."""

    def know_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:  # noqa: ARG002 -- none has to be known
        """Pass on the tools of the server, each page as the server listed it, before one of them is called.

        Over HTTP some arguments are also sent as headers, which the tools' schemas name
        (2026-07-28).
        """
        return

    def set_reading(self, *, is_reading: bool) -> None:  # noqa: ARG002 -- HTTP has no such switch
        """Pause or resume reading what the server sends, where the connection supports that."""
        return

    async def close(self) -> None:
        """Close the connection and everything that belongs to it, within a few seconds."""


class LostError(Exception):
    """What `Upstream.open` raises; `loss` says why."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.reason)
        self.loss = loss

    @classmethod
    def final(cls, reason: str) -> LostError:
        """Return the error for what no new attempt can help."""
        return cls(Loss(reason=reason, executed=Executed.NO, is_final=True))
