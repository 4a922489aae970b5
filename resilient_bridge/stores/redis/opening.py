"""How a process becomes the owner of a store in Redis, and what it says about damage that it found. Rule: one owner, by a lease."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from ...errors import Failure, StoreError
from ...telemetry import emit
from ...telemetry.events import StateSetAside
from ...world import REAL
from .commits import Commits
from .keys import FORMAT
from .loading import load
from .outbox_scripts import ACQUIRE, RELEASE


if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol import Now
    from .keys import Keys
    from .known import Known
    from .loading import LoadedState
    from .redis_link import RedisLink


_ASK_AGAIN: Final = 0.1  # seconds between two looks whether a store has become free


class Terms(NamedTuple):
    """How a store is owned: the lease, the timeout of a call, how long to wait for another owner; seconds."""

    lease: float
    timeout: float
    wait: float | None


async def open_store(
    link: RedisLink,
    keys: Keys,
    terms: Terms,
    clock: Callable[[], Now],
    *,
    tell: Callable[[StoreError | None], object],
) -> tuple[Commits, Known]:
    """Become the owner, load, and begin to write. Raises StoreError; then the store is nobody's, and the link is closed."""
    token = REAL.new_id()
    link.open()
    try:
        opening = await _acquire(link, keys, token, terms)
        loaded = await load(link, keys, clock(), terms.timeout)
        commits = Commits(
            link, keys, loaded.known, clock, tell,
            token=token, opening=opening, lease=terms.lease, timeout=terms.timeout,
        )  # fmt: skip
        if loaded.is_new or loaded.faults:
            deadline = asyncio.get_running_loop().time() + terms.timeout
            aside = await commits.restore(loaded.aside, deadline)
            if loaded.faults:
                _tell(loaded, keys, aside)
    except BaseException as error:
        if not (isinstance(error, StoreError) and error.failure.code == "SYS_STORE_IN_USE"):
            with suppress(StoreError):
                await link.release(RELEASE, keys.owner, token)
        await link.close()
        raise
    commits.start()
    return commits, loaded.known


async def _acquire(link: RedisLink, keys: Keys, token: str, terms: Terms) -> str:
    """Become the owner, and return the number of this opening."""
    loop = asyncio.get_running_loop()
    until = loop.time() + (terms.wait or 0.0)
    while True:
        state, _, remaining_ms = await link.script(
            ACQUIRE,
            (keys.owner, keys.head),
            lambda _: (token, int(terms.lease * 1000), FORMAT),
            deadline=loop.time() + terms.timeout,
        )
        if state == "ok":
            return str(remaining_ms)
        if loop.time() >= until:
            raise _in_use(keys.tag, max(remaining_ms / 1000, 0.0))
        await asyncio.sleep(min(_ASK_AGAIN, max(until - loop.time(), 0.0)))


def _in_use(tag: str, remaining: float) -> StoreError:
    text = f"the store {tag} is in use by another client, whose lease has {remaining:.1f} s left"
    return StoreError(Failure.of("SYS_STORE_IN_USE", text, retry_after=remaining))


def _tell(loaded: LoadedState, keys: Keys, aside: list[str]) -> None:
    """One event for all that was damaged."""
    code = "SYS_STATE_FOREIGN" if loaded.is_foreign else "SYS_STATE_DAMAGED"
    emit(
        StateSetAside(
            path=", ".join(loaded.aside) or keys.tag,
            set_aside=", ".join(aside),
            source="the rows that can be read",
            lost=", ".join(loaded.lost),
            failure=Failure.of(code, f"the store {keys.tag} was damaged: {'; '.join(loaded.faults)}"),
        )
    )
