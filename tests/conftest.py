"""Fixtures that any test may ask for. Rule: none is needed to read a test."""

from __future__ import annotations

import asyncio
import os
import sys
import time

import pytest


def _eager_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined] -- from 3.12 on
    return loop


_LOOPS: dict[str, dict[str, object]] = {
    "": {},
    "uvloop": {"use_uvloop": True},
    "eager": {"loop_factory": _eager_loop},
}


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Async tests run on asyncio, the loop that the client drives, and once; `nox -s loops` has them run on its other kinds."""
    return "asyncio", _LOOPS[os.environ.get("RESILIENT_BRIDGE_LOOP", "")]


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """A key that nobody had before: state behind a key outlives its test, and a process may run the suite more than once."""
    return f"{request.node.name} {time.monotonic_ns()}"


def pytest_runtest_logstart(nodeid: str) -> None:
    """Where coverage is measured, its data says which file of tests ran a line: tests/tested_in.py reads it."""
    if (coverage := sys.modules.get("coverage")) and (measuring := coverage.Coverage.current()):
        measuring.switch_context(nodeid.partition("::")[0])
