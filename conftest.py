"""What holds for every test, documents included: their Python blocks run, and no test leaves this machine.

Rule: a connect to anything but loopback fails the test that made it, even if the code under test swallowed the
error. A network namespace that the test made itself is a network of its own, and free.
"""

from __future__ import annotations

import atexit
import gc
import ipaddress
import os
import signal
import socket
import ssl
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import certifi
import pytest
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser, SkipParser


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(), SkipParser()], patterns=["*.md"]
).pytest()

_MAY_SKIP = os.environ.get("RESILIENT_BRIDGE_REQUIRE_SERVERS", "") in {"", "0"}
_ALL_ROOTS = Path(certifi.where())
_strays: list[str] = []


def _network() -> str:
    """The network namespace of this thread; one constant where the system has no such thing."""
    try:
        return str(Path("/proc/thread-self/ns/net").readlink())
    except OSError:
        return "the only one"


_HOME_NETWORK = _network()


def is_loopback(host: str) -> bool:
    """Whether an address, or the one name allowed, stays on this machine without asking a resolver."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _check(sock: socket.socket, address: Any) -> None:
    if sock.family not in {socket.AF_INET, socket.AF_INET6} or is_loopback(str(address[0])):
        return
    if _network() != _HOME_NETWORK:
        return
    stray = f"loopback expected, got a connect to {address[0]!r}"
    _strays.append(stray)
    raise PermissionError(stray)


def _guarded(name: str) -> Any:
    plain = getattr(socket.socket, name)

    def guarded(sock: socket.socket, *args: Any) -> Any:
        if args and isinstance(
            args[-1], tuple
        ):  # the address is the last argument of each of the three
            _check(sock, args[-1])
        return plain(sock, *args)

    return guarded


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are imported and compiled: it would take 40 % of that time, and there is hardly any.

    What was imported is kept out of every later collection: with three SDKs loaded each would take half a second,
    and simulations collect.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """The same for what the tests of a file have left: reports, caches, modules that were imported late."""
    yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Spread the whole suite (`-n auto` in pyproject.toml); files that are named run in this process, and begin at once.

    Half of the time is spent waiting for processes and sockets, so there are two workers for each core.
    """
    if config.option.numprocesses != "auto" or "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return 0
    return (os.cpu_count() or 1) * 2


def pytest_configure(config: pytest.Config) -> None:
    """Guard the class that every stream, TLS included, and every event loop connects through; and make all runs alike."""
    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, _guarded(name))
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a shell does that to what it starts with `&`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Every client of HTTP reads the roots of all the world's certificates, of which a peer on loopback has none: one is enough.
    os.environ["SSL_CERT_FILE"] = root = _one_root()
    certifi.where = lambda: root
    ssl.get_default_verify_paths = lambda: ssl.DefaultVerifyPaths(root, None, "", root, "", "")
    # Hundreds of processes import the package: each would compile it, which is half of the time that they take.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if config.option.tx:  # one process has the imports of all programs that the workers start
        from tests.peers.zygote import SOCKET

        os.environ["RB_ZYGOTE"] = SOCKET or ""
    if hasattr(config, "workerinput") and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        number, count = (
            int(config.workerinput["workerid"].removeprefix("gw")),
            config.workerinput["workercount"],
        )
        config.args[:] = _started_elsewhere(config.args, number / count)


def _one_root() -> str:
    number, name = tempfile.mkstemp(suffix=".pem")
    atexit.register(os.unlink, name)
    end = "-----END CERTIFICATE-----\n"
    os.write(number, (_ALL_ROOTS.read_text().partition(end)[0] + end).encode())
    os.close(number)
    return name


def _started_elsewhere(paths: list[str], share: float) -> list[str]:
    """The same paths in turn, from another place: workers that compile tests at the same time find what others have compiled."""
    places = [
        str(path_)
        for path in paths
        for path_ in (sorted(Path(path).iterdir()) if Path(path).is_dir() else [Path(path)])
        if path_.suffix == ".md"
        or path_.match("test_*.py")
        or (path_.is_dir() and path_.name[0] not in "._")
    ]
    first = int(len(places) * share)
    return places[first:] + places[:first]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Bring what a worker collected into the order that all of them have in common."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Fail a test whose stray connect was caught by the code under test."""
    _strays.clear()
    yield
    if _strays:
        pytest.fail("; ".join(sorted(set(_strays))), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure where every server is there (RESILIENT_BRIDGE_REQUIRE_SERVERS=1)."""
    report = yield
    if report.skipped and not _MAY_SKIP and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped here, got {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is imported."""
    report = yield
    if report.skipped and not _MAY_SKIP:
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped here, got {report.longrepr}"
    return report
