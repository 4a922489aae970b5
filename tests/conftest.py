"""Fixtures that any test may ask for. Rule: none is needed to read a test."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, the loop that the client drives, and once."""
    return "asyncio"
