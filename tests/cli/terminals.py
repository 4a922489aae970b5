"""What was drawn on a terminal of a test."""

from __future__ import annotations

import os
from contextlib import suppress


def drawn_on(ours: int) -> str:
    """Return all that was written to the other end, whose last holder has closed it; then close this one.

    The kernel passes it on in parts, so that one read is not enough; and Linux reports the end as an error.
    """
    parts = []
    with suppress(OSError):
        while part := os.read(ours, 65_536):
            parts.append(part)
    os.close(ours)
    return b"".join(parts).decode()
