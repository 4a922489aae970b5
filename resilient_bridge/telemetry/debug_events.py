"""The events of commands that answer later, public in `rb.events`: made only while somebody listens.

Rule: a correlation id and a status, never what the command was given or has returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .event import Event


if TYPE_CHECKING:
    from ..errors import Failure

__all__ = ["CommandAnswered", "CommandSent", "PollFailed"]


@attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)
class CommandSent(Event):
    """A command was handed to its peer, which knows it by `correlation_id`."""

    name: str
    correlation_id: str


@attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)
class CommandAnswered(Event):
    """The peer said how a command stands: complete, timeout or expired, `seconds` after it was sent or first followed."""

    name: str
    correlation_id: str
    status: str
    seconds: float


@attrs.frozen(kw_only=True, repr=False, eq=False, slots=False)
class PollFailed(Event):
    """A look at a command failed; whether it is repeated depends on the failure."""

    name: str
    correlation_id: str
    failure: Failure
