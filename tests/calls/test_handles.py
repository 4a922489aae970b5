"""The handle of a circuit: what it shows, what it sets, and blocks under a circuit, in any task and order."""

from __future__ import annotations

import asyncio
import gc
from contextlib import AsyncExitStack, ExitStack, suppress
from contextvars import copy_context

import pytest

from resilient_bridge.calls import Breaker, Circuit, circuit, circuits
from resilient_bridge.failure import BridgeError, CircuitOpenError, ConfigError, Failure, Severity
from tests.calls.circuit_driving import in_threads
from tests.calls.test_registry import empty  # noqa: F401 -- a fixture
from tests.internals.calls import circuit as handle
from tests.internals.calls import circuit as handles
from tests.internals.calls import circuit as registry


class Clock:
    """The clock of the handles in a test."""

    def __init__(self, monkeypatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(handle, "clock", lambda: self.now)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    return Clock(monkeypatch)


def _fail(
    handle: Circuit, times: int = 1, error: type[BaseException] = ConnectionResetError
) -> None:
    for _ in range(times):
        with suppress(error), handle:
            raise error


def _github(breaker: Breaker) -> Circuit:
    registry.CIRCUITS.get("github", breaker, warn=False)
    return circuit("github")


# ---- looking -------------------------------------------------------------------------------------------------------


def test_the_repr_is_a_line_of_status(clock):
    """It shows name, state, seconds to the next probe, and the failure behind it."""
    github = _github(Breaker(open_for=20))
    assert repr(github) == "<Circuit github closed, 0/0 failed>"
    _fail(github, 3)
    assert repr(github) == "<Circuit github closed, 3/3 failed>"
    _fail(github, 7)
    clock.now += 7.6
    assert repr(github) == "<Circuit github open, 12.4 s left, 10/10 failed>"
    clock.now += 12.4
    assert repr(github) == "<Circuit github open, 0.0 s left, 10/10 failed>"
    with github:
        assert repr(github) == "<Circuit github half_open, 10/10 failed>"
    github.isolate()
    assert repr(github) == "<Circuit github isolated>"
    github.disable()
    assert repr(github) == "<Circuit github disabled>"


def test_a_handle_shows_state_and_hint(clock):
    """`retry_after` is None while calls are admitted, the seconds while it is open, None while isolated."""
    github = _github(Breaker.consecutive(1, open_for=20))
    assert (github.key, github.state, github.retry_after) == ("github", "closed", None)
    _fail(github)
    assert (github.state, github.retry_after) == ("open", 20)
    github.isolate()
    assert (github.state, github.retry_after) == ("isolated", None)
    github.reset()
    assert github.state == "closed"


def test_all_handles_of_a_name_are_one_circuit(clock):
    """A handle may be discarded; the circuit stays."""
    with circuit("github"):
        pass
    circuit("github").isolate()
    gc.collect()
    assert circuit("github").state == "isolated"
    with pytest.raises(CircuitOpenError), circuit("github"):
        pytest.fail("let through")


def test_circuits_lists_all_that_there_are():
    """Circuits with a key, and those of functions under the function's name; the second of one name gets a number."""
    held = [registry.CIRCUITS.own("app.search", Breaker()) for _ in range(3)]
    held[0].isolate(0.0)
    _github(Breaker())
    found = circuits()
    assert list(found) == ["github", "app.search", "app.search #2", "app.search #3"]
    assert sorted(found[name].state for name in found) == ["closed", "closed", "closed", "isolated"]
    with pytest.raises(TypeError):
        found["x"] = found["github"]
    del found, held
    gc.collect()
    assert list(circuits()) == ["github"]


def test_a_protected_function_has_a_handle():
    """Every object with a circuit has a handle: a function, a method, a policy; the circuit may change later."""

    class Owner:
        """What a decorated function carries."""

        def __init__(self, states):
            self.__circuit__ = lambda: states[0] if states else None

    states = [registry.CIRCUITS.own(name, Breaker()) for name in ("first", "second")]

    def protected():
        """What a decorator returns."""

    protected.__binding__ = Owner(states)
    handle = circuit(protected)
    assert handle.key == "first"
    states.pop(0)
    assert handle.key == "second"
    states.clear()
    with pytest.raises(ConfigError, match=r"circuit\.of"):
        handle.reset()


@pytest.mark.parametrize("of", ["", 5, None, len, Breaker()])
def test_what_has_no_circuit_is_refused(of):
    """A ConfigError says what was wanted."""
    with pytest.raises(
        ConfigError,
        match=r"circuit\.of: wanted a key, or what is protected by a policy with a Breaker",
    ):
        circuit(of)


# ---- blocks --------------------------------------------------------------------------------------------------------


def test_a_block_counts_as_a_call():
    """An outage counts, a caller's mistake does not, and the error is raised."""
    github = _github(Breaker.consecutive(2, open_for=20))
    with pytest.raises(ConnectionResetError), github:
        raise ConnectionResetError
    with pytest.raises(ValueError), github:
        raise ValueError
    assert repr(github) == "<Circuit github closed, 1/2 failed>"
    with github as same:
        assert same is github
    assert repr(github) == "<Circuit github closed, 0/2 failed>"
    _fail(github, 2)
    with pytest.raises(CircuitOpenError) as caught, github:
        pytest.fail("let through")
    assert caught.value.failure.details["because"].startswith("connection reset")


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit]
)
def test_an_interrupted_block_counts_neither_way(error):
    """Also as a probe: the permit is free again, and the circuit is neither opened nor closed."""
    github = _github(Breaker.consecutive(1, open_for=0))
    _fail(github, 1, error)
    assert github.state == "closed"
    _fail(github)
    _fail(github, 3, error)
    assert github.state == "half_open"
    with github:
        pass
    assert github.state == "closed"


def test_a_condition_that_ends_the_program_gives_the_permit_of_a_block_back(clock):
    """Ctrl-C may come while the user's condition runs: the next block is a probe all the same."""

    def interrupted(failure) -> bool:
        raise KeyboardInterrupt

    github = _github(Breaker.consecutive(1, open_for=0))
    _fail(github)
    _github(Breaker.consecutive(1, open_for=0, on=interrupted))
    with pytest.raises(KeyboardInterrupt):
        _fail(github)
    with github:
        pass
    assert github.state == "closed"


def test_a_rejection_from_inside_counts_neither_way():
    """Another open circuit says nothing about this one."""
    with circuit("other"):
        pass
    circuit("other").isolate()
    github = _github(Breaker.consecutive(1))
    with suppress(CircuitOpenError), github, circuit("other"):
        pytest.fail("let through")
    assert github.state == "closed"


def test_a_slow_block_counts_as_failed(clock):
    """However it ends, even if an outer deadline cancels it."""
    github = _github(Breaker.consecutive(2, slow_after=5))
    for error in (None, asyncio.CancelledError):
        with suppress(asyncio.CancelledError), github:
            clock.now += 5
            if error:
                raise error
    assert github.state == "open"


async def test_of_a_hundred_tasks_one_probes(clock):
    """One handle, entered by all of them at once."""
    github = _github(Breaker.consecutive(1, open_for=10))
    _fail(github)
    clock.now += 10
    inside = 0

    async def call():
        nonlocal inside
        with github:
            inside += 1
            await asyncio.sleep(0)

    results = await asyncio.gather(*(call() for _ in range(100)), return_exceptions=True)
    assert inside == 1
    assert sum(isinstance(result, CircuitOpenError) for result in results) == 99
    assert github.state == "closed"


@pytest.mark.parametrize("first", [0, 1])
async def test_each_task_leaves_its_own_block(clock, first):
    """Two at once, one slow: the quick one does not count as slow, whichever ends first."""
    github = _github(Breaker.consecutive(9, slow_after=5))
    releases = [asyncio.Event(), asyncio.Event()]

    async def call(gate):
        with github:
            await gate.wait()

    calls = []
    for gate in releases:  # the first is slow
        calls.append(asyncio.create_task(call(gate)))
        await asyncio.sleep(0)
        clock.now += 4
    for leaving in (first, 1 - first):
        releases[leaving].set()
        await calls[leaving]
        assert repr(github) == f"<Circuit github closed, {1 - leaving}/9 failed>"


async def test_a_block_may_end_in_another_task():
    """As with exit stacks, fixtures and finalisers of async generators: no error, and no permit is lost."""
    github = _github(Breaker.consecutive(1, open_for=0))
    _fail(github)
    stack = AsyncExitStack()

    async def enter():
        stack.enter_context(github)

    await asyncio.create_task(enter())
    assert github.state == "half_open"
    await asyncio.create_task(stack.aclose())
    assert github.state == "closed"


def test_blocks_of_many_contexts_may_end_in_any_order():
    """Entered in five contexts, exited in a sixth: each permit is returned once, also when the first context goes on."""
    github = _github(Breaker.consecutive(5))
    contexts = [copy_context() for _ in range(5)]
    for context in contexts:
        context.run(github.__enter__)
    for context in contexts[:2]:
        context.run(github.__exit__, ConnectionError, ConnectionError(), None)
    for _ in range(3):
        github.__exit__(ConnectionError, ConnectionError(), None)
    assert github.state == "open"
    github.reset()
    with ExitStack() as stack:
        contexts[4].run(stack.enter_context, github)
    assert repr(github) == "<Circuit github closed, 0/5 failed>"


def test_blocks_nest():
    """The same circuit twice: two permits, returned in reverse order."""
    github = _github(Breaker.consecutive(5))
    with suppress(ConnectionError), github:
        with suppress(ConnectionError), github:
            raise ConnectionError
        assert repr(github) == "<Circuit github closed, 1/5 failed>"
        raise ConnectionError
    assert repr(github) == "<Circuit github closed, 2/5 failed>"


def test_blocks_leave_nothing_behind():
    """A context that enters a thousand blocks stores at most one of them."""
    github = _github(Breaker())
    before = len(handles._entered.get())
    for _ in range(1000):
        with github:
            pass
    assert len(handles._entered.get()) <= before + 1
    assert not github._blocks


def test_an_alarm_opens_it_at_once():
    """A failure of critical severity, once (R2)."""
    github = _github(Breaker())
    with pytest.raises(BridgeError), github:
        raise BridgeError(Failure.of("SYS_UNAVAILABLE", severity=Severity.CRITICAL))
    assert github.state == "open"


def test_threads_share_a_handle():
    """8 threads of 100 blocks: every failure is counted."""
    github = _github(Breaker(rate=1, window=1000))
    in_threads(lambda: _fail(github, 100), 8)
    assert repr(github) == "<Circuit github closed, 800/1000 failed>"


def test_e08_a_block_counts_an_exception_of_ones_own():
    """A user's exception counts as a failure; Python's own error classes and their subclasses count neither way."""

    class BusyError(Exception):
        """Somebody else's trouble."""

    class BadInputError(ValueError):
        """One's own trouble."""

    for error, state in ((BusyError, "open"), (BadInputError, "closed"), (KeyError, "closed")):
        registry.CIRCUITS.get(error.__name__, Breaker.consecutive(1), warn=False)
        handle = circuit(error.__name__)
        with suppress(error), handle:
            raise error
        assert handle.state == state
