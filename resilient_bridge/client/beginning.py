"""How a client with a store starts: where the last client of that store ended, or in a new session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..failure import SessionError


if TYPE_CHECKING:
    from .driver import Driver


async def open_store(driver: Driver) -> None:
    """Open the store and take over its session.

    Raises StoreError, and SessionError if the named session may not be entered.
    """
    session = driver.session
    await driver.store.open(driver.now())
    try:
        if driver.is_durable:
            session.take_over()
        try:
            await driver.enter()
        except SessionError:
            if session.named is not None:
                raise
            session.take_over(anew=True)  # the last session is closed, and no other was named
            await driver.enter()
    except BaseException:
        await driver.store.close()
        raise
