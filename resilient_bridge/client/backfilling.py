"""Runs the user's `backfill` to fetch what was missed, while live messages are held."""

from __future__ import annotations

import asyncio
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any

from ..calls import Policy, Retry
from ..failure import ConfigError, PositionGoneError, ProtocolError, config_error
from .cancelled import is_ours


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ..protocol.fact_link import FactLink
    from ..protocol.facts import Record
    from .driver import Driver

    Backfill = Callable[[Record], AsyncIterator[str | bytes]]
    """Called with what was read so far; yields the frames after it, from elsewhere."""


_READING = Policy(Retry(attempts=3))  # it only reads


async def fetch(backfill: Backfill, driver: Driver, link: FactLink) -> None:
    """Pass the frames of `backfill`, and how it ended, to the join of this link.

    Raises nothing but its own cancellation.
    """

    async def once() -> None:
        wanted = "an async iterator of frames (async def with yield)"
        frames: Any = backfill(link.begin_backfill())
        if not hasattr(frames, "__aiter__"):
            if iscoroutine(frames):
                frames.close()
            raise config_error("BridgeClient.backfill", wanted, f"a {type(frames).__name__}")
        async for frame in frames:
            if not isinstance(frame, str | bytes):
                got = f"a frame that is a {type(frame).__name__}"
                raise config_error(
                    "BridgeClient.backfill", "frames as they came: text or bytes", got
                )
            if link.backfilled(frame, driver.now()):
                return

    lost = ""
    try:
        reading: Any = _READING(idempotent=True)
        await reading.call(once)
    except PositionGoneError:
        lost = "position_gone"
    except (ConfigError, ProtocolError) as error:  # what it returned, or what decode made of it
        lost = "backfill_failed"
        link.refuse(error.failure, driver.now())
    except Exception:  # noqa: BLE001 -- a function of the user's; the gap says that it failed, and the log of its retries why
        lost = "backfill_failed"
    except asyncio.CancelledError:
        if is_ours():
            raise
        lost = "backfill_failed"
    now = driver.now()
    link.joining.backfill_ended(now, lost)
    driver.after(now)
