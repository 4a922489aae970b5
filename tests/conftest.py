"""Fixtures that any test may ask for. Rule: none is needed to read a test."""

from __future__ import annotations

import time

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests run on asyncio, the loop that the client drives, and once."""
    return "asyncio"


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key that nobody had before: state behind a key outlives its test, and a process may run the suite more than once."""
    return f"{request.node.name} {time.monotonic_ns()}"
