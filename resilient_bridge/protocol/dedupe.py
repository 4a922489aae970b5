"""Whether the server runs a message once if it arrives twice with one id and key.

Only then may a message that may have arrived be sent again. Rule: an acknowledgement proves that a
message was read, and nothing about a second copy of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .policies.dialect import Dialect


_REPEATED: Final = ("already_processed", "duplicate")  # status values of an ack


def is_repeat(payload: Mapping[str, Any]) -> bool:
    """Return whether this acknowledgement says that the server had the message already."""
    return payload.get("status") in _REPEATED


class Dedupe:
    """What is known about deduplication: `Dialect.dedupes`, and with "stated" what the server has
    stated or shown.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._is_stated = False

    @property
    def holds(self) -> bool:
        """Return whether a message that may have arrived may be handed out again."""
        dedupes = self._dialect.dedupes
        return self._is_stated if dedupes == "stated" else dedupes

    def hello(self, payload: Mapping[str, Any], *, is_same_server: bool = True) -> None:
        """The server answered auth or join, which may state it.

        Another server has to state it again.
        """
        if not is_same_server:
            self._is_stated = False
        stated = payload.get("dedupes")
        if isinstance(stated, bool):
            self._is_stated = stated

    def shown(self) -> None:
        self._is_stated = True
