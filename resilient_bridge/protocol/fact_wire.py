"""The control lane of a connection whose frames a dialect encodes: it takes intents and queues the
dialect's frames for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..failure import Failure
from .border import WrongFrameError, frame_of
from .facts import CONTROL, Ping
from .wire import Wire


if TYPE_CHECKING:
    from collections.abc import Callable

    from .clock import Identifiers, Now
    from .facts import Intent, Record
    from .policies.dialect import Dialect
    from .policies.heartbeat import Heartbeat


class FactWire(Wire):
    """A Wire that takes intents.

    `fail(failure)` is called if a dialect's `encode` raises: the connection cannot continue.
    """

    def __init__(
        self,
        ids: Identifiers,
        policy: Heartbeat,
        dialect: Dialect,
        record: Callable[[], Record],
        fail: Callable[[Failure], None],
    ) -> None:
        super().__init__(ids, policy, "ping" if dialect.pings else None)
        self._encode = dialect.encode
        self._record, self._fail = record, fail
        self._number = CONTROL

    def ping_every(self, seconds: float, now: Now) -> None:
        policy = self.policy.evolve(every=seconds)
        if policy != self.policy:
            self.policy = policy
            if self.heartbeat is not None:
                self.heartbeat.follow(policy, now.mono)

    def number(self) -> int:
        """Return a number that no other frame of ours has on this connection."""
        self._number += 1
        return self._number

    def express(self, intent: Intent) -> bool:
        """Queue the frame of an intent. False if the dialect has none for it."""
        if self._encode is None:
            return False
        try:
            frame = frame_of(self._encode, intent)
        except WrongFrameError as error:
            self._fail(Failure.of("SYS_CONFIG_INVALID", str(error)))
            return False
        except Exception as error:  # noqa: BLE001 -- a function of the user's
            text = f"the dialect's encode raised {type(error).__name__} for {type(intent).__name__}"
            self._fail(Failure.of("SYS_CONFIG_INVALID", text, cause=error))
            return False
        if frame is not None:
            self.control.append(frame)
        return frame is not None

    def _say_ping(self, type_: str, now: Now) -> str | None:
        del type_, now
        identity = self.ids()
        if self.express(Ping(id=identity, number=self.number(), record=self._record())):
            return identity
        self.lacks_pings = True
        return None
