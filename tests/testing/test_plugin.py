"""The pytest plugin, in runs of pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]

CALLS = '''
import time
import resilient_bridge as rb

policy = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.steps(1, 60)))

@policy(idempotent=True)
def ask():
    return "answer"

def test_time(rb_time):
    """A wait of a minute takes none, and is noted."""
    began = time.monotonic()
    with rb.testing.inject(ask, ConnectionRefusedError, ConnectionRefusedError):
        assert ask() == "answer"
    assert rb_time.slept == [1.0, 60.0]
    assert time.monotonic() - began < 10

def test_each_test_has_its_own_time(rb_time):
    """Nothing is left of the test before."""
    assert rb_time.slept == []

def test_jitter_comes_from_a_seed(rb_time):
    """The default schedule draws the same waits in every run."""
    with rb.testing.inject(rb.resilient, ConnectionRefusedError):
        rb.resilient(lambda: 1, idempotent=True)()
    assert rb_time.slept == rb.Retry().backoff.sample(1, seed=0)

def test_events(rb_time, rb_events):
    """What happened, in its order."""
    with rb.testing.inject(ask, ConnectionRefusedError):
        ask()
    assert [type(event).__name__ for event in rb_events] == ["RetryScheduled", "RetryRecovered"]

def test_no_events(rb_events):
    """Nothing is left of the test before."""
    assert rb_events == []

def test_time_is_real_again():
    """Without the fixture nothing is changed."""
    with rb.calls.circuit("x"):
        assert rb.calls.circuit("x").retry_after is None
    with rb.testing.record() as seen:
        assert rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0)))(idempotent=True).call(ask) == "answer"
    assert seen == []
'''

ROOMS = '''
import asyncio
import pytest
import resilient_bridge as rb

policy = rb.Policy(rb.Deadline(60), rb.Retry(backoff=rb.Backoff.constant(5)), rb.Timeout(10))

@policy(idempotent=True)
async def ask():
    return "answer"

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_time_holds_in_an_async_test(rb_time, rb_events):
    """The context of the fixture is that of the test."""
    with rb.testing.inject(ask, ConnectionRefusedError):
        assert await ask() == "answer"
    assert rb_time.slept == [5.0]
    assert len(rb_events) == 2

@pytest.mark.anyio
async def test_the_server_and_the_proxy_are_entered_by_the_test(rb_server, rb_proxy):
    """A client talks to the bridge through the proxy."""
    async with rb_server, rb_proxy:
        rb_proxy.retarget(*rb_server.address)
        async with rb.BridgeClient(rb_proxy.url("/ws"), token="secret") as bridge:
            await bridge.wait_ready(timeout=30)
    assert rb_proxy.connections == 1
    assert rb_proxy.bytes_down > 0

def test_neither_has_been_started(rb_server, rb_proxy):
    """What is not entered costs nothing and leaves nothing."""
    with pytest.raises(RuntimeError, match="a started bridge expected"):
        rb_server.url
    assert rb_proxy.port == 0
'''

TRAPS = '''
import json
from urllib.request import Request, urlopen

def call(url, method, params, session=()):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"Content-Type": "application/json", **dict(session)}
    return urlopen(Request(url, body, headers), timeout=5)

def order(url, markers):
    session = {"Mcp-Session-Id": call(url, "initialize", {}).headers["Mcp-Session-Id"]}
    for marker in markers:
        try:
            call(url, "tools/call", {"name": "order", "arguments": {"marker": marker, "item": "tea"}}, session)
        except OSError:
            session = {}

def test_a_client_that_does_not_repeat(rb_mcp_trap):
    """It passes."""
    with rb_mcp_trap.http() as url:
        order(url, ["a"])

def test_a_client_that_repeats(rb_mcp_trap):
    """It passes, and then its fixture says no."""
    with rb_mcp_trap.http() as url:
        order(url, ["a", "a", "a"])
'''


def test_the_package_states_its_plugin():
    """Pytest finds it by the entry point of the distribution."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][
        "pytest11"
    ]
    assert stated == {"resilient_bridge": "resilient_bridge.testing.plugin"}


def test_loading_the_plugin_loads_nothing_else():
    """Every run of pytest pays for it: the package, this room and how they offer their names; no loop, no library."""
    code = (
        "import sys, pytest; before = set(sys.modules); import resilient_bridge.testing.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        "resilient_bridge",
        "resilient_bridge.lazy_names",
        "resilient_bridge.testing",
        "resilient_bridge.testing.plugin",
    ]


@pytest.mark.real
def test_the_fixtures_for_calls_for_mcp_clients_and_for_links(pytester):
    """In a project that has nothing but the package installed: `rb_time` and `rb_events` in plain tests, `rb_server` and `rb_proxy`
    in async tests, and virtual time in them; `rb_mcp_trap` judges when a test is over.
    """
    pytester.makepyfile(test_calls=CALLS, test_traps=TRAPS, test_rooms=ROOMS)
    result = pytester.runpytest_subprocess("-q", "-W", "error")
    result.assert_outcomes(passed=6 + 2 + 3, errors=1)
    result.stdout.fnmatch_lines(["*order 'a' was done again*"])


@pytest.mark.real
def test_the_fixtures_are_listed_with_what_they_are(pytester):
    """`pytest --fixtures` shows the first line of each."""
    shown = pytester.runpytest_subprocess("--fixtures", "-q")
    shown.stdout.fnmatch_lines_random(
        [
            "rb_time*",
            "*Virtual time for the policies of this test*",
            "rb_events*",
            "rb_server*",
            "rb_proxy*",
        ]
    )
