"""The GET stream of a server's own messages, before 2026-07-28: opened again whenever it ends.

Rule: a server may have no such stream. Messages between two connections are lost if the server does
not replay them.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ...failure import classify
from ...failure.rpc import is_session_unknown
from .upstream_http_exchange import is_passing, pause_of
from .upstream_http_wire import Sent, TooLongError, is_event_stream, refusal_of


if TYPE_CHECKING:
    from collections.abc import Callable

    from .upstream_http_exchange import Reading
    from .upstream_http_wire import Wire


_FIRST: Final = 1.0  # seconds before it is opened again, doubled after each failure
_LONGEST: Final = 30.0
_TRIES: Final = 3  # failures after which a stream that was never open is given up


class Notices:
    """The GET stream of one session.

    `listen` runs until the server has no such stream, or no longer knows the session.
    """

    def __init__(self, wire: Wire, reading: Reading, note: Callable[[str], None]) -> None:
        """`note` is called once when the stream is lost, and once when it works again."""
        self._wire, self._reading, self._note = wire, reading, note
        self._parser = reading.parser()
        self._was_open = self._is_away = False

    async def listen(self) -> bool:
        """Read the stream, and open it again whenever it ends.

        Returns True if the session is gone, False if there is no such stream.
        """
        failed = 0
        while True:
            heard = False
            try:
                verdict, heard = await self._once()
                if verdict is not None:
                    return verdict
                self._lost("it ended", is_loss=not heard)
            except TooLongError:
                self._lost("a message on it was too long")
                self._parser = self._reading.parser()
            except Exception as error:  # noqa: BLE001 -- after any error of the HTTP client it is tried again
                self._lost(classify(error).message)
            failed = 0 if heard else failed + 1
            if not self._was_open and failed >= _TRIES:
                return False
            retry = pause_of(self._parser)
            await asyncio.sleep(
                max(retry, min(_LONGEST, _FIRST * 2 ** min(failed - 1, 10))) if failed else retry
            )

    async def _once(self) -> tuple[bool | None, bool]:
        """Open and read the stream once.

        Returns what `listen` has to return, None to go on; and whether anything arrived.
        """
        response = await self._wire.send("GET", self._reading.headers(self._parser), Sent())
        try:
            if is_event_stream(response):
                if self._is_away:
                    self._note("the server's stream of notices is there again")
                self._was_open, self._is_away = True, False
                self._parser.restart(self._parser.last_event_id)
                return None, await self._reading.events(response, self._parser)
            if is_passing(response.status_code):
                return None, False
            if not self._was_open:
                return False, False
            body = await refusal_of(response)
            is_gone = bool(self._wire.session) and is_session_unknown(response.status_code, body)
            if not is_gone:
                self._lost(f"HTTP {response.status_code}")
            return is_gone, False
        finally:
            await response.aclose()

    def _lost(self, reason: str, *, is_loss: bool = True) -> None:
        if self._was_open and is_loss and not self._is_away:
            self._is_away = True
            self._note(f"the server's stream of notices was lost: {reason}")
