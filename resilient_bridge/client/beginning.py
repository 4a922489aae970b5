"""How a client with a store of its own begins: where the last one with that store ended, or in a new session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import SessionError


if TYPE_CHECKING:
    from .driver import Driver


async def open_store(driver: Driver) -> None:
    """Open the store and take over the session in it. Raises StoreError, and SessionError if the session that was named may not be entered."""
    session = driver.session
    await driver.store.open(driver.now())
    try:
        if driver.is_durable:
            session.take_over()
        try:
            await driver.enter()
        except SessionError:
            if session.is_named:
                raise
            session.take_over(anew=True)  # the last one is over, and nobody asked for it
            await driver.enter()
    except BaseException:
        await driver.store.close()
        raise
