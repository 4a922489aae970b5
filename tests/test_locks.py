"""C04: a lock that another thread holds while the process forks is free in the child."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge import locks
from tests.internals.calls import MADE


PACKAGE = Path(rb.__file__).parent
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
THREADED = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
SECONDS = 20


@contextlib.contextmanager
def held_by_another_thread(held):
    """Another thread holds these locks inside the block."""
    is_held, may_end = threading.Event(), threading.Event()

    def hold():
        with contextlib.ExitStack() as stack:
            for lock in held:
                stack.enter_context(lock)
            is_held.set()
            may_end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    try:
        yield
    finally:
        may_end.set()
        thread.join()


def in_a_child(work):
    """Fork, and return how the child ended: 0 if `work` returned in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)  # a child that hangs is killed
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _rate():
    protected = rb.Policy(rb.RateLimit(100, key="c04 rate"))(len)
    return lambda: protected(())


def _bulkhead():
    protected = rb.Policy(rb.Bulkhead(100))(len)
    return lambda: protected(())


def _breaker():
    @rb.Policy(rb.Breaker.consecutive(1, key="c04 circuit"))
    def protected(text):
        return int(text)

    def work():
        assert isinstance(rb.capture(protected, "no number").error, ValueError)
        rb.calls.circuit("c04 circuit").isolate()
        assert isinstance(rb.capture(protected, "1").error, rb.CircuitOpenError)

    return work


def _budget():
    policy, calls = rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0))), []

    def fails():
        calls.append(1)
        raise ConnectionResetError

    ask = policy(fails, idempotent=True)

    def work():
        rb.capture(ask)
        assert len(calls) == 2

    return work


def _timeout():
    @rb.Policy(rb.Timeout(10))
    async def ask():
        return 1

    return lambda: asyncio.run(ask())


def _health():
    app = rb.telemetry.health_app()
    return app.status


def _listening():
    def work():
        with rb.listen(lambda event: None), rb.telemetry.Alerts() as alerts:
            alerts.active()

    return work


DOORS = {
    "rate limit": _rate, "bulkhead": _bulkhead, "breaker": _breaker, "budget": _budget,
    "timeout": _timeout, "health": _health, "listeners": _listening,
}  # fmt: skip


@FORKS
@THREADED
@pytest.mark.real
@pytest.mark.parametrize("door", DOORS)
def test_c04_a_child_of_a_threaded_parent_does_not_wait_for_a_lock_of_the_parent(door):
    """Another thread holds every lock of the package at the fork; the child calls all the same."""
    work = DOORS[door]()
    work_locks = list(locks._made)
    assert work_locks
    with held_by_another_thread(work_locks):
        assert in_a_child(work) == 0


@FORKS
@THREADED
@pytest.mark.real
def test_c04_the_parent_keeps_its_locks():
    """What the fork frees is the child's copy."""
    for lock in (locks.new_lock(), locks.new_rlock()):
        with held_by_another_thread([lock]):
            assert in_a_child(lambda lock=lock: lock.acquire(timeout=0) or os._exit(3)) == 0
            assert not lock.acquire(blocking=False)


@FORKS
@THREADED
@pytest.mark.real
def test_c04_the_calls_of_other_threads_take_no_room_in_a_bulkhead_of_the_child():
    """One of the parent's threads has the only permit, and another one waits: neither will ever give it back there."""
    is_in, may_end = threading.Event(), threading.Event()

    @rb.Policy(rb.Bulkhead(1, queue=1))
    def work(*, is_long=False):
        if is_long:
            is_in.set()
            may_end.wait()
        return 1

    threads = [threading.Thread(target=work, kwargs={"is_long": each}) for each in (True, False)]
    threads[0].start()
    is_in.wait()
    threads[1].start()
    (state,) = [each for each in MADE if each.running]
    while not state.waiting:
        time.sleep(0.001)
    try:
        assert in_a_child(lambda: [work(), work()]) == 0
    finally:
        may_end.set()
        for thread in threads:
            thread.join()
    assert work() == 1


@FORKS
@pytest.mark.real
def test_c04_the_call_that_forks_keeps_its_permit_in_the_child():
    """It runs there, too, and gives the permit back at its end."""

    @rb.Policy(rb.Retry(attempts=1), rb.Bulkhead(1))(idempotent=True)
    def work(depth=0):
        if depth:
            return 1
        return in_a_child(
            lambda: (
                isinstance(rb.capture(work, 1).error, rb.errors.BulkheadFullError) or os._exit(3)
            )
        )

    assert work() == 0
    assert work(1) == 1


class _SlowImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, whose import ends when its test says so."""

    def __init__(self, name):
        self.name, self.began, self.may_end = name, threading.Event(), threading.Event()

    def find_spec(self, name, path, target=None):
        return importlib.machinery.ModuleSpec(name, self) if name == self.name else None

    def exec_module(self, module):
        self.began.set()
        self.may_end.wait()


@FORKS
@THREADED
@pytest.mark.real
@pytest.mark.parametrize("name", ["resilient_bridge.c04_late", "antigravity"])
def test_c04_a_child_does_not_wait_for_an_import_of_the_parent(name, monkeypatch):
    """Another thread imports a module of the package, or of Python, for the first time: the fork comes after it."""
    slow = _SlowImport(name)
    monkeypatch.setattr(sys, "meta_path", [slow, *sys.meta_path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    forking = []
    # asked right before the hook of the package, which has been there for longer
    os.register_at_fork(before=lambda: forking and forking.pop().set())
    importing = threading.Thread(target=importlib.import_module, args=[name])
    importing.start()
    slow.began.wait()
    forking.append(slow.may_end)
    try:
        assert in_a_child(lambda: importlib.import_module(name)) == 0
    finally:
        slow.may_end.set()
        importing.join()
        sys.modules.pop(name, None)


@FORKS
@THREADED
@pytest.mark.real
def test_c04_a_fork_does_not_wait_for_an_import_that_is_not_ours(monkeypatch):
    """A module of somebody else may never end: its import is a program."""
    slow = _SlowImport("c04_program")
    monkeypatch.setattr(sys, "meta_path", [slow, *sys.meta_path])
    importing = threading.Thread(target=importlib.import_module, args=["c04_program"])
    importing.start()
    slow.began.wait()
    try:
        assert in_a_child(lambda: None) == 0
    finally:
        slow.may_end.set()
        importing.join()
        sys.modules.pop("c04_program", None)


@FORKS
@pytest.mark.real
def test_c04_a_module_may_fork_while_it_is_imported(monkeypatch):
    """The thread that forks does not wait for itself."""

    class Forks(_SlowImport):
        def exec_module(self, module):
            module.ended = in_a_child(lambda: None)

    monkeypatch.setattr(sys, "meta_path", [Forks("resilient_bridge.c04_forks"), *sys.meta_path])
    try:
        assert importlib.import_module("resilient_bridge.c04_forks").ended == 0
    finally:
        sys.modules.pop("resilient_bridge.c04_forks", None)


def test_c04_a_lock_is_dropped_with_its_state():
    """The list of locks keeps none of them."""
    gc.collect()
    before = len(locks._made)
    mine = [locks.new_lock() for _ in range(100)]
    assert len(locks._made) >= before + 100
    del mine
    assert len(locks._made) <= before


OTHERS = {
    "stores/redis_state/exchange.py": "has hooks of its own: its thread has to be stopped at a fork",
    "adapters/processes/standard_streams.py": "a child may not use the streams: its guard refuses",
}


def test_c04_one_module_makes_every_lock_of_threads():
    """But for those that say why, and the servers of `rb.testing`."""
    made = re.compile(r"(?<!asyncio\.)(?<!\w)(?:threading\.)?(?:R?Lock|Condition)\(\)")
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if made.search(path.read_text("utf-8"))
        and path.name != "locks.py"
        and path.parts[-2] != "testing"
    }
    assert found == set(OTHERS)
