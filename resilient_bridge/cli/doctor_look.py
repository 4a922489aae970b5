"""The first frames of a server, before any message to it, and the dialects they fit.

It sends nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from ..failure import Failure, classify
from ..protocol.recognition import fitting
from ..transports.contract import Transport
from ..transports.websocket import open_websocket


_FRAMES: Final = 3
_MAX_FRAME: Final = 16 * 1024 * 1024
_FOLLOWS: Final = 0.3  # seconds to wait for each frame after the first
_GOODBYE: Final = 1.0


class Look(NamedTuple):
    """The first frames, and the dialects they fit, the likeliest first.

    `failure` is why no connection was made, or why it ended; `connected` is how many seconds it
    took to connect.
    """

    connected: float | None = None
    frames: tuple[str, ...] = ()
    fits: tuple[str, ...] = ()
    failure: Failure | None = None


async def look(url: str, *, connecting: float, listening: float) -> Look:
    """Connect without a token, receive up to three frames, and close.

    `connecting` and `listening` are seconds. Errors of the network or the server are not raised:
    they are the `failure` of the result.
    """
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(connecting):
            transport = await open_websocket(url, max_frame_bytes=_MAX_FRAME)
    except Exception as error:  # noqa: BLE001 -- `classify` takes any exception
        return Look(failure=_failure(error, connecting))
    connected = asyncio.get_running_loop().time() - started
    frames: list[str] = []
    failure: Failure | None = None
    try:
        async with asyncio.timeout(listening) as limit:
            while len(frames) < _FRAMES:
                frame = await transport.receive()
                frames.append(frame if isinstance(frame, str) else frame.decode("utf-8", "replace"))
                limit.reschedule(
                    min(limit.when() or 0.0, asyncio.get_running_loop().time() + _FOLLOWS)
                )
    except TimeoutError:
        pass
    except Exception as error:  # noqa: BLE001 -- the connection has ended, which is a finding
        failure = classify(error)
    finally:
        await _hang_up(transport)
    return Look(connected, tuple(frames), fitting(frames), failure)


async def _hang_up(transport: Transport) -> None:
    try:
        async with asyncio.timeout(_GOODBYE):
            await transport.close()
    except TimeoutError:
        pass
    finally:
        transport.abort()
        await transport.close()


def _failure(error: Exception, seconds: float) -> Failure:
    if isinstance(error, TimeoutError):
        return Failure.of("CONN_TIMEOUT", f"no connection within {seconds:.3g} s", cause=error)
    return classify(error)
