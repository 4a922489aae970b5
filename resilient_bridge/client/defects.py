"""The failure of a client with a defect of its own."""

from __future__ import annotations

from typing import cast

from ..failure import Failure


def defect_of(error: Exception) -> Failure:
    """Return the failure that names the error, the first of a group."""
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    text = f"the client failed with {type(first).__name__}, which is a defect of resilient_bridge"
    return Failure.of("SYS_INTERNAL_ERROR", text, cause=first)
