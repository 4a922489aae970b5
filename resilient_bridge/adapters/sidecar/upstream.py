"""What the relay asks of a connection to an MCP server, and what it is told by one. A child process and an HTTP server are the two.

Rule: a connection knows bytes, sessions of HTTP, and evidence. It repeats nothing and decides nothing: whether a request may be
sent again is the relay's question, and `Loss.executed` is the answer that only the connection can give.
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
    """Why a request will have no answer, or why a connection ended; `reason` is for people, short and without secrets.

    `executed` is NO where the request provably was not carried out: its bytes never left, the connection was refused, or the server
    said that it does not know the session, is limiting, or wants other credentials. Everything else is MAYBE.
    """

    reason: str  # "exit code 137", "connection refused", "HTTP 502", "the answer was cut off"
    executed: Executed = Executed.MAYBE
    is_unreachable: bool = (
        False  # nobody listens: the session may still exist, so it is not made anew for this
    )
    is_session_gone: bool = False  # the server does not know our session: the next needs a new one
    is_final: bool = False  # no new attempt can help: command not found, credentials refused, no MCP server
    retry_after: float | None = None  # seconds that the server asked to wait
    words: str = ""  # the last lines of stderr, or what the server said in its body; secrets masked
    unread: frozenset[int] = (
        frozenset()
    )  # of a connection that ended: requests in it that provably were not carried out

    def of(self, request: int) -> Loss:
        """Return what the end of its connection is for one request."""
        return attrs.evolve(self, executed=Executed.NO) if request in self.unread else self

    def with_words(self, lines: Iterable[str]) -> Loss:
        """Return it with these lines for the server's last words."""
        return attrs.evolve(self, words="\n".join(lines))


NOT_STARTED: Final = Loss(reason="it has not started yet", executed=Executed.NO)
NOT_GREETED: Final = Loss(reason="it has not answered initialize", executed=Executed.NO)
"""What is said of a server that was never there, and of one that is there and silent."""


class Receiver(Protocol):
    """Who is told what a connection hears. All of it is called in the loop's thread, and never blocks."""

    def on_message(self, message: Message, request: int | None, /) -> None:
        """The server sent a message: an answer, or something of its own.

        `request` is the request (its `id` on this connection) in whose answer stream it came, None where there is no such stream.
        """

    def on_unanswered(self, request: int, loss: Loss) -> None:
        """The request will have no answer. Said once per request, and never after its answer."""

    def on_lost(self, loss: Loss) -> None:
        """The connection ended by itself: nothing more will come, and what was not answered will not be.

        What is still open when it comes has `loss` for its fate, except requests reported before. Said once, never after `close`.
        """

    def on_note(self, text: str) -> None:
        """Something that a person should see in the log, in one line; what the server itself wrote begins with `server`."""


class Upstream(Protocol):
    """One connection to an MCP server, and over HTTP one session; made anew for the next. `open` is called once, `close` always."""

    async def open(self) -> None:
        """Start the child, or prepare the client; no message is sent by it. Raises LostError for what ends it."""

    def send(self, message: Message, /) -> None:
        """Send a message, in the order of the calls; its ids are ours. Never blocks, never raises: `on_unanswered` says what became of it.

        A request's id is an int that this connection has not seen before.
        """

    def cancel(self, request: int) -> None:
        """Nobody waits for the answer to this request any longer: give up its stream. Nothing is reported for it afterwards."""

    def know_tools(self, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:  # noqa: ARG002 -- none has to be known
        """Tell it the tools of the server, each page of them as the server listed it, before one of them is called.

        Over HTTP some arguments also travel as headers, which the tools' schemas name (2026-07-28). Returns the tools whose
        marks are not valid, name to reason: their arguments travel in the message alone. Raises nothing; nothing is sent by it.
        """
        return {}

    async def close(self) -> None:
        """End it within a bound of a few seconds, and everything that belongs to it."""


class LostError(Exception):
    """What `Upstream.open` raises; `loss` says why."""

    def __init__(self, loss: Loss) -> None:
        """Carry the loss."""
        super().__init__(loss.reason)
        self.loss = loss
