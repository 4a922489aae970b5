"""The contract of a transport that carries frames: connect, send, receive, abort, close."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """One open link that carries whole frames, each way in order, until it is lost; it is never
    reopened.

    One task may send while another receives; two tasks must not receive at once. There is no pause
    method: if `receive()` is not called, reading stops, and the peer is slowed down.
    """

    @property
    def address(self) -> tuple[str, int] | None:
        """Return the host and port that were dialled, for a later dial without DNS; None if they
        are unknown or cannot be dialled again.
        """
        ...

    @property
    def half_received(self) -> int | None:
        """Return how many bytes of an incomplete data frame have arrived; None if there is none, or
        if it cannot be determined.
        """
        ...

    async def send(self, *frames: str | bytes) -> None:
        """Write frames, text or bytes, to the network in order, waiting while the send buffer is full; a return
        does not mean that the peer received them.

        Raises the underlying library's own exception when the link is lost. The frames of a
        cancelled call may have been sent.
        """
        ...

    def send_now(self, *frames: str | bytes) -> bool:
        """Write frames as `send` does if no wait is needed, and return whether they were written.

        False: nothing was written; `send` then waits, or raises the reason.
        """
        ...

    async def receive(self) -> str | bytes:
        """Wait for the next whole frame and return it: text, or the raw bytes of a frame that is
        not UTF-8.

        A cancelled call loses no frame. When the link is lost, the frames that arrived before are
        returned first; then it raises the underlying library's own exception.
        """
        ...

    def receive_now(self) -> str | bytes | None:
        """Return what `receive` would return without waiting; None where it would wait or raise, or
        if that cannot be determined.
        """
        ...

    def abort(self) -> None:
        """Drop the link now, without a closing handshake; pending and later calls end at once with
        the underlying library's own exception.

        Calling it again does nothing.
        """
        ...

    async def close(self, code: int = 1000) -> None:
        """Close the link with a closing handshake and this close code; return when it is closed.

        The caller sets the timeout. For a link that is already lost, it does nothing and raises
        nothing.
        """
        ...
