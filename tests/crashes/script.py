"""A short script that can be killed at every step: connect, send five, receive five, confirm, close; and a clean life after it.

Rule: the second life ends with the right accounts, whatever the first one left.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from resilient_bridge.testing import BridgeServer

from .accounts import Accounts, BrokenError


if TYPE_CHECKING:
    from pathlib import Path

    from .lives import Life, Nursery

SENDS: Final = 5
PUSHES: Final = 5


class Script:
    """One run of the script over a store of its own."""

    def __init__(
        self, nursery: Nursery, store: Path, *, forgets: bool = False, **order: Any
    ) -> None:
        self.nursery, self.store, self.order = nursery, store, order
        self.accounts = Accounts(
            forgets=forgets, is_quick=order.get("durability", "process") == "process"
        )

    async def run(self, *deaths: dict[str, Any] | None) -> list[Life]:
        """A life for each death, then a clean one; raises BrokenError. `None`: this life closes, and is not killed."""
        async with BridgeServer() as server:
            for death in deaths:
                life = self._start(server, last=SENDS * (len(self.accounts.lives) + 1), die=death)
                await self._live(life, server)
                if self.accounts.forgets:
                    await server.restart(lose_sessions=True)
            last = self._start(server, last=self.accounts.proven())
            await self._live(last, server)
            if last.undelivered != 0 or last.over != 0:
                self.accounts.problems.append(
                    f"the clean life ended with {last.over}, {last.undelivered}"
                )
            try:
                self.accounts.judge(server)
            except BrokenError as error:
                raise BrokenError(f"{error}\n  after {deaths} with {self.order}") from error
        return self.accounts.lives

    def _start(self, server: BridgeServer, **order: Any) -> Life:
        life = self.nursery.start(
            url=server.url, store=str(self.store), first=self.accounts.proven() + 1, pauses=0, dawdles=0,
            **{**self.order, **order},
        )  # fmt: skip
        self.accounts.lives.append(life)
        return life

    async def _live(self, life: Life, server: BridgeServer) -> None:
        joined = {"Joined", "Resumed"}
        await self._until(life, lambda: any(event[0] in joined for event in life.events))
        if server.session is not None and not self.accounts.forgets:
            for n in range(len(server.pushed), len(server.pushed) + PUSHES):
                await server.push("news", {"n": n + 1})
        await self._until(life, lambda: life.is_idle and self._has_read_all(server))
        life.ask_to_close()
        await life.end()
        await asyncio.sleep(0)

    async def _until(self, life: Life, condition: Any) -> None:
        if not await life.until(condition):
            self.accounts.problems.append(f"life {life.number} is stuck: {life}")

    def _has_read_all(self, server: BridgeServer) -> bool:
        return self.accounts.forgets or len(self.accounts.consumed()) == len(server.pushed)
