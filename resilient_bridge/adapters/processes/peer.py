"""The user's view of a child process that speaks JSON-RPC 2.0.

Rule: only a view; the transport calls `peer_exchange`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import stays_here


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ...protocol import Message
    from ...values.fields import Seconds
    from .peer_exchange import PeerExchange


class Peer:
    """A child process that speaks JSON-RPC 2.0, one object per line.

    `rb.stdio(…)` starts and ends it.

    It is open until the child exits or the `async with` is left; `repr()` is a status line. A
    request from the child is answered with -32601, method not found. Raises ConfigError when used
    in another process, thread or event loop than that of its block.
    """

    __slots__ = ("__weakref__", "_exchange")

    def __init__(self, exchange: PeerExchange) -> None:
        """Wrap an exchange; created by `rb.stdio` only."""
        self._exchange = exchange

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """A status line: program, pid, state, pending requests."""
        return repr(self._exchange)

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._exchange.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code once it has ended, negative for a signal; None before."""
        return self._exchange.returncode

    @property
    def close_exc(self) -> Exception | None:
        """Why it ended by itself: CalledProcessError, EOFError (exit code 0, or stdout closed), BrokenPipeError (stdin closed).

        None while it is open, and after a close by us.
        """
        return self._exchange.close_exc

    @property
    def stderr(self) -> str:
        """The end of its stderr: at most 8 KiB, with secrets masked."""
        return self._exchange.stderr

    @property
    def noise(self) -> int:
        """How many lines of its stdout were skipped: not JSON-RPC, not UTF-8, empty, or longer than `max_line`."""
        return self._exchange.noise

    @property
    def unmatched(self) -> int:
        """How many answers matched no pending request: late, repeated, or with an unknown id."""
        return self._exchange.unmatched

    @property
    def missed(self) -> int:
        """How many notifications were dropped unread, and requests of the child not answered because it does not read."""
        return self._exchange.missed

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: Seconds = 30,  # noqa: ASYNC109 -- part of the operation: it decides what is known afterwards
        idempotent: bool = False,
    ) -> Any:
        """Send a request and return the `result` of its answer.

        Never repeated here, whatever `idempotent` says.

        Raises:

        - The error of an error answer, as `classify` reads it; ProtocolError (UPSTREAM) for an
          answer that is neither.
        - AttemptTimeoutError after `timeout` seconds; a late answer is dropped.
        - OutcomeUnknownError if the child exits after the request was written, NotConnectedError if
          it was not, both from `close_exc`.
        - ConfigError for what cannot be sent.

        Cancelled, it is withdrawn if it was not written yet.
        """
        return await self._exchange.request(method, params, timeout=timeout, idempotent=idempotent)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None, /) -> None:
        """Send a notification; returns when it is written to the pipe, which is not delivery.

        Waits while the child does not read. Raises NotConnectedError, from `close_exc`, if the
        child exits before, and ConfigError for what cannot be sent. Cancelled, it is withdrawn if
        it was not written yet.
        """
        await self._exchange.notify(method, params)

    def notifications(self) -> AsyncIterator[Message]:
        """Iterate over the child's notifications: `type` is the method, `payload` the params (a list as `{"params": […]}`).

        The last 1,000 are kept, from the start on; dropped ones are counted in `missed`. Each goes
        to one reader. After the last it raises NotConnectedError, from `close_exc`, if the child
        ended by itself, and stops if it was closed by us.
        """
        return self._exchange.notifications()

    async def wait_closed(self) -> None:
        """Wait until the child has exited or was closed; `close_exc` says why, nothing is raised."""
        await self._exchange.wait_closed()
