"""The events of asynchronous commands, public in `rb.events`: created only while a listener is
registered.

Rule: an event has a correlation id and a status, never a command's arguments or results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .event import Event


if TYPE_CHECKING:
    from ..failure import Failure

__all__ = ["CommandAnswered", "CommandSent", "PollFailed"]


class CommandSent(Event):
    """A command was handed to its peer, which knows it by `correlation_id`."""

    name: str
    correlation_id: str

    __kind__ = "correlation"
    __of_each_call__ = True


class CommandAnswered(Event):
    """The peer reported a command complete, timed out or expired, `seconds` after it was sent or
    first followed.
    """

    name: str
    correlation_id: str
    status: str
    seconds: float

    __kind__ = "correlation"
    __of_each_call__ = True


class PollFailed(Event):
    """Polling a command failed; whether it is repeated depends on the failure."""

    name: str
    correlation_id: str
    failure: Failure

    __kind__ = "polling"
    __of_each_call__ = True
