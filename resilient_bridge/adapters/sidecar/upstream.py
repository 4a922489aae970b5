"""The interface between the relay and a connection to an MCP server.

A child process has one implementation, an HTTP server another.

Rule: a connection handles bytes, HTTP sessions, and evidence. It repeats nothing and decides
nothing: whether a request may be sent again is the relay's decision, and `Loss.executed` is the
evidence that only the connection has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from ...failure import Executed


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .message import Message


@attrs.frozen(kw_only=True)
class Loss:
    """Why a request will have no answer, or why a connection ended.

    `reason` is for people, short and without secrets.

    `executed` is NO if the request provably did not run: its bytes were not sent or not read, the
    connection was refused, or the server refused it before it handled it (unknown session, rate
    limit, credentials, no MCP at this path). Everything else is MAYBE.
    """

    reason: str  # "exit code 137", "connection refused", "HTTP 502", "the answer was cut off"
    executed: Executed = Executed.MAYBE
    # the server is away: nothing listens, a proxy cannot reach it, or a secret for it cannot be read
    # now. Its session may still exist, so it is kept
    is_away: bool = False
    is_cut: bool = False  # the connection broke before the answer, so the server may be away
    is_unusable: bool = False  # an answer came, and cannot be used
    is_session_gone: bool = False  # the server does not know our session: the next needs a new one
    # no new attempt can succeed: command not found, credentials refused, no MCP server
    is_final: bool = False
    retry_after: float | None = None  # seconds that the server asked to wait
    words: str = ""  # the last lines of stderr, or the server's response body; secrets masked
    # of a connection that ended: its requests that provably did not run
    unread: frozenset[int] = frozenset()

    def of(self, request: int) -> Loss:
        return attrs.evolve(self, executed=Executed.NO) if request in self.unread else self

    def with_words(self, lines: Iterable[str]) -> Loss:
        """Return this loss with these lines as its `words`."""
        return attrs.evolve(self, words="\n".join(lines))


NOT_STARTED: Final = Loss(reason="it has not started yet", executed=Executed.NO)
NOT_GREETED: Final = Loss(reason="it has not answered initialize", executed=Executed.NO)
"""The losses for a server that has not started, and for one that does not answer `initialize`."""


class Receiver(Protocol):
    """Gets the events of a connection, in the event loop's thread. No method blocks."""

    def on_message(self, message: Message, request: int | None, /) -> None:
        """Handle a message of the server: an answer, or one of its own.

        `request` is the id, on this connection, of the request in whose response stream it came;
        None if there is no such stream.
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

    `open` is called once, and `close` in every case.
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

    def know_tools(self, tools: Sequence[Mapping[str, Any]]) -> None:  # noqa: ARG002 -- not every connection needs them
        """Take the tools of the server, each time that a complete list of them is known.

        Over HTTP some arguments are also sent as headers, which the tools' schemas name
        (2026-07-28).
        """
        return

    def set_reading(self, *, is_reading: bool) -> None:
        """Pause or resume reading what the server sends by itself."""

    async def close(self) -> None:
        """Close the connection and everything that belongs to it, within a few seconds."""


class LostError(Exception):
    """Raised by `Upstream.open`; `loss` is the reason."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.reason)
        self.loss = loss

    @classmethod
    def final(cls, reason: str) -> LostError:
        """Return an error with a final loss: no new attempt can succeed."""
        return cls(Loss(reason=reason, executed=Executed.NO, is_final=True))
