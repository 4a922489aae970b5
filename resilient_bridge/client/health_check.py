"""The application's own health check, called repeatedly while the client is READY.

Rule: its answer is a hint, not a verdict. False, an exception or no answer in time sends a probe.
Only a link that does not answer the probe is dead, so a broken check, or a busy bridge, costs only
pings.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

from ..telemetry.events import BridgeState
from .cancelled import is_ours
from .driver import ENDED


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..protocol.policies.heartbeat import Heartbeat
    from .driver import Driver


class HealthCheck:
    """Runs the check until the client ends.

    `failed` counts runs without a yes, `errors` those that raised.
    """

    def __init__(
        self, driver: Driver, check: Callable[[], Awaitable[bool] | bool], heartbeat: Heartbeat
    ) -> None:
        self.failed = 0
        self.errors = 0
        self._driver = driver
        self._check = check
        self._every, self._timeout = heartbeat.every, heartbeat.timeout

    async def run(self) -> None:
        """Call it every `Heartbeat.every` seconds, for at most `Heartbeat.timeout`.

        One run at a time.
        """
        driver, session = self._driver, self._driver.session
        while True:
            began = driver.loop.time()
            link = session.link
            if session.state is BridgeState.READY and not await self._says_yes():
                self.failed += 1
                if session.link is link:  # the link was lost meanwhile
                    driver.probe("health_check_failed")
            await asyncio.sleep(began + self._every - driver.loop.time())
            while session.state is not BridgeState.READY:
                if session.state in ENDED:
                    return
                await driver.changed()

    async def _says_yes(self) -> bool:
        bound = asyncio.timeout(self._timeout)
        try:
            async with bound:
                answer = self._check()
                if inspect.isawaitable(answer):
                    answer = await answer
                return bool(answer)
        except asyncio.CancelledError:
            if is_ours():
                raise
            self.errors += 1
        except Exception:  # noqa: BLE001 -- whatever it is, the check did not say yes
            self.errors += not bound.expired()
        return False
