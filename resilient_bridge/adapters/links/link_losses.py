"""Decide what follows the end of a connection: another attempt after a wait, or the link's end.

It does no I/O.

Rule: an open connection is not yet a success. It counts as one once something came from the peer,
or once it has lasted `Reconnect.stable_after`; until then its end is a failed attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...failure import Failure
from ...protocol.clock import Now
from ...protocol.policies.losses import is_programming_error, is_unreadable
from ...protocol.reconnection import Decision, Reconnection
from ...values.rule import most_specific
from .link_credentials import sends_in_clear


if TYPE_CHECKING:
    import random

    from ...protocol.policies.reconnect import Reconnect
    from .connection import Connection


# seconds: a server that refuses credentials after the handshake closes sooner, often after a
# message with the reason
_ACCEPTED: Final = 1.0


class Losses:
    """The losses of one link so far, and the decision about each."""

    def __init__(self, policy: Reconnect, rng: random.Random) -> None:
        self._policy = policy
        self.reconnection = Reconnection(policy, rng, superseded=(), can_refresh=True)
        self._made: object = None  # what the factory returned the last time
        self._unreadable: object = None  # the close code after a message that could not be read

    def opened(self) -> None:
        self.reconnection.connected()
        self.reconnection.entered()

    def lost(self, connection: Connection, failure: Failure, now: Now) -> Decision:
        """Return the decision after the end of this connection, or of the attempt to make it."""
        if connection.opened_at is not None:
            lasted = now.mono - connection.opened_at
            is_stable = lasted >= self._policy.stable_after
            if is_stable:
                self._unreadable = None
            if connection.has_worked or is_stable:
                is_accepted = is_stable or lasted >= _ACCEPTED
                opened = Now(connection.opened_at, now.wall - lasted)
                self.reconnection.ready(opened, proves_credentials=is_accepted)
                self.reconnection.pong()  # for a link, received data is the proof of health
        elif is_programming_error(failure):
            failure = _factory_failure(f"raised {failure.message}", failure)
        elif connection.made is not None and connection.made is self._made and _is_used_up(failure):
            failure = _factory_failure(
                f"returned the same object again, which said: {failure.message}", failure
            )
        self._made = connection.made
        self.reconnection.sends_in_clear = sends_in_clear(connection.made)
        decision = self.reconnection.lost(failure, now)
        return decision._replace(retry=False) if self._is_stuck(failure) else decision

    def _is_stuck(self, failure: Failure) -> bool:
        """Return whether unreadable data has ended two connections with the same close code.

        None between them was stable. A rule of the policy for it takes precedence.
        """
        if not is_unreadable(failure):
            return False
        before, self._unreadable = self._unreadable, failure.details["close_code"]
        return self._unreadable == before and most_specific(self._policy.rules, failure) is None


def _factory_failure(what: str, failure: Failure) -> Failure:
    """Return a configuration error for a factory with a programming error: it ends the link."""
    return Failure.of(
        "SYS_CONFIG_INVALID",
        f"reconnecting.factory {what}",
        suggestions=("correct the factory: the next attempt would fail like this one",),
        cause=failure.cause,
    )


def _is_used_up(failure: Failure) -> bool:
    """Return whether a client says that it can be entered only once."""
    return failure.code == "SYS_INTERNAL_ERROR" and isinstance(failure.cause, RuntimeError)
