"""Does the server run a message once that arrives twice with one id and key? Only then may what may have arrived go again.

Rule: an acknowledgement proves that a message was read, and nothing about a second copy of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .policies.dialect import Dialect


_REPEATED: Final = ("already_processed", "duplicate")  # statuses of an ack


def is_repeat(payload: Mapping[str, Any]) -> bool:
    """Does this acknowledgement say that the server had the message already?"""
    return payload.get("status") in _REPEATED


class Dedupe:
    """What is known about it: `Dialect.dedupes`, and under "stated" what the server has said or shown."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._is_stated = False

    @property
    def holds(self) -> bool:
        """May a message that may have arrived be handed out again?"""
        dedupes = self._dialect.dedupes
        return self._is_stated if dedupes == "stated" else dedupes

    def hello(self, payload: Mapping[str, Any], *, is_same_server: bool = True) -> None:
        """The server answered auth or join: it may say so there. Another server has to say it anew."""
        if not is_same_server:
            self._is_stated = False
        stated = payload.get("dedupes")
        if isinstance(stated, bool):
            self._is_stated = stated

    def shown(self) -> None:
        self._is_stated = True
