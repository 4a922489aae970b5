"""One line in the stdlib logger `resilient_bridge`, for what the default log of events does not say."""

from __future__ import annotations

from typing import Final

from ..errors import redact


__all__ = ["warn"]

_LIMIT: Final = 2_000  # characters: it names two paths


def warn(text: str) -> None:
    """Log a warning: one line, redacted. Never raises."""
    try:
        import logging

        logging.getLogger("resilient_bridge").warning(redact(text, limit=_LIMIT))
    except Exception:  # noqa: BLE001, S110 -- a broken log handler must not break what it is told about
        pass
