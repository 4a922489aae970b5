"""The secrets this client has used, so that no peer can put them into our errors by echoing them in plain words.

Patterns find `Bearer ...` and `token=...`; they cannot find a value that looks like any other word. We know the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from ..errors import MASK


if TYPE_CHECKING:
    from ..errors import Failure

__all__ = ["Secrets"]

_SHORTEST: Final = 4  # a shorter value would mask half of every sentence
_REMEMBERED: Final = 32


class Secrets:
    """The last values used. `mask` is handed to whatever makes a Failure from a peer's words."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}

    def learn(self, *values: str | None) -> None:
        """These were sent to a server."""
        for value in values:
            if value is not None and len(value) >= _SHORTEST:
                self._values.pop(value, None)
                self._values[value] = None
        while len(self._values) > _REMEMBERED:
            del self._values[next(iter(self._values))]

    def mask(self, failure: Failure) -> Failure:
        """`failure` without any of the values; the same object if none is in it."""
        parts = (failure.message, *failure.suggestions, repr(dict(failure.details)))
        if not any(value in part for value in self._values for part in parts):
            return failure
        return attrs.evolve(
            failure,
            message=self._masked(failure.message),
            suggestions=tuple(self._masked(text) for text in failure.suggestions),
            details={key: self._masked(value) for key, value in failure.details.items()},
        )

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            for secret in self._values:
                value = value.replace(secret, MASK)
            return value
        if isinstance(value, (tuple, list)):
            return tuple(self._masked(part) for part in value)  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, dict):
            return {key: self._masked(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
        return value
