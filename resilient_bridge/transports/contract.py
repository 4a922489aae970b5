"""The contract of a transport that carries frames: connect, send, receive, abort, close."""

from __future__ import annotations

from typing import Protocol


class Transport(Protocol):
    """One open link that carries whole frames, each way in order, until it is lost; it is never reopened.

    One task may send while another receives; two tasks must not receive at once. There is no pause
    method: if `receive()` is not called, reading stops, and the peer is slowed down.
    """

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port that were dialled, to dial again without DNS, or None when that is not known or no use."""
        ...

    @property
    def half_received(self) -> int | None:
        """Return how many bytes of an incomplete data frame have arrived; None if there is none, or
        if it cannot be determined.
        """
        ...

    async def send(self, *frames: str) -> None:
        """Hand frames to the network, in order, waiting while its buffer is full; that is not delivery.

        Raises the native exception of the library below when the link is lost. A cancelled send may have been sent.
        """
        ...

    def send_now(self, *frames: str) -> bool:
        """Hand frames to the network as `send` does, if that needs no waiting. False: nothing was sent, `send` waits or says why."""
        ...

    async def receive(self) -> str | bytes:
        """Return the next whole frame: text, or the raw bytes of a frame that is not UTF-8. Cancelling it loses nothing.

        Raises the native exception of the library below when the link is lost; what had arrived before comes first.
        """
        ...

    def receive_now(self) -> str | bytes | None:
        """Return what `receive` would return without waiting; None where it would wait or raise, or
        if that cannot be determined.
        """
        ...

    def abort(self) -> None:
        """Drop the link now, without a polite close; pending and later calls end at once with the native exception.

        Calling it again does nothing.
        """
        ...

    async def close(self, code: int = 1000) -> None:
        """Close politely with this close code and return when the link is gone; the caller bounds it.

        A link that is already lost is left as it is, and that is no error.
        """
        ...
