"""Fixtures that any test may ask for. Rule: none is needed to read a test."""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path

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


@cache
def _examples_without_a_clock() -> None:
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "tests",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize="RB_DAMAGE"
        not in os.environ,  # `nox -s damage` looks for examples that nobody has seen
        database=None,
        print_blob=True,
    )
    settings.load_profile("tests")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Hypothesis judges no test by the seconds that it takes, and draws the same examples in each run.

    Before the module is imported, because its own settings are made then; most modules do not load Hypothesis.
    """
    if b"hypothesis" in module_path.read_bytes() and find_spec("hypothesis"):
        _examples_without_a_clock()
