"""Find a local daemon, or start it and wait until it is ready; return cached answers while it is
unavailable.

Rule: the process that answers the health check is the daemon, whichever program started it. So two
programs may start it at the same time. Only a process that this program started is ever terminated.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast
from weakref import WeakKeyDictionary

import attrs

from ...failure import (
    BridgeError,
    Failure,
    classify,
    config_error,
    error_for,
    exit_finding,
    text_of,
)
from ...failure.errnos import hints
from ...failure.failure import short_of
from ...failure.teaching import taught
from ...values.fields import LONGEST_TIMEOUT, Seconds, read_seconds, refuse
from ...world import current_world
from ..polling import poll_until
from .daemon_process import DaemonProcess
from .health_probe import Check, DaemonHealth, HealthProbe


T = TypeVar("T")
_MOST: Final = 100  # cached answers
_NOT_RUN: Final = (126, 127)  # exit codes of a shell that cannot run the command: do not wait
_REAPED: Final = 5.0  # the most seconds to wait for a killed process


@attrs.frozen(kw_only=True)
class DaemonAnswer(Generic[T]):
    """The result of `Daemon.answer`.

        answer = await daemon.answer("version", ask_version)
        print(answer.value, answer.is_cached)      # 1.2 False

    With `is_cached`, `value` is `age` seconds old, and `failure` is the reason why there is no
    newer one.
    """

    value: T
    is_cached: bool = False
    age: float = 0.0
    failure: Failure | None = None


class Daemon:
    """A daemon on this machine, and the command that starts it.

        daemon = rb.agent.Daemon("gasoline-mcp", health="http://localhost:7890/health")

        async def browse() -> None:
            await daemon.ensure()      # it is started if it is not there, and ready afterwards

    `health` is an http:// URL (200 is ready, 503 starting or stopping), or an async function that
    returns a DaemonHealth. Of a URL only the status is read, so any process that answers there is
    taken for the daemon; a function can ask it who it is. `startup_timeout`: how long `ensure()` waits, 4 s. `probe_timeout`: the
    limit of one health check, 0.5 s. `poll_interval`: the wait between two checks, 0.1 s. `env` is
    added to the environment of this process. `log` names a file for the output of the daemon;
    without one its stderr goes to a temporary file. `cache`: initial answers by key for `answer`;
    their age counts from now. ConfigError names a wrong argument.

    A daemon that is started here has its own session and no stdin. It can go on running when this
    process ends (`--persist`). In `virtual_time` the waits between two checks take no time, unless
    a started process runs that is asked at a URL. POSIX systems only.
    """

    @taught
    def __init__(
        self,
        *command: str | os.PathLike[str],
        health: str | Check,
        startup_timeout: Seconds = 4,
        probe_timeout: Seconds = 0.5,
        poll_interval: Seconds = 0.1,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] | None = None,
        cache: Mapping[Hashable, object] | None = None,
    ) -> None:
        """Keep the settings, without a check or a start."""
        for word in command or (None,):
            if not isinstance(cast("object", word), str | os.PathLike):
                raise config_error(
                    "Daemon.command", "a program and its arguments, each a string or a path", word
                )
        self._command = tuple(os.fspath(word) for word in command)
        self._env = _checked_env(env)
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._log = None if log is None else os.fspath(log)
        self._patience = read_seconds(
            "Daemon.startup_timeout", startup_timeout, most=LONGEST_TIMEOUT
        )
        self._interval = read_seconds("Daemon.poll_interval", poll_interval, most=LONGEST_TIMEOUT)
        probe_seconds = read_seconds("Daemon.probe_timeout", probe_timeout, most=LONGEST_TIMEOUT)
        self._probe = HealthProbe(health, probe_seconds)
        self._health: DaemonHealth | None = None
        self._process: DaemonProcess | None = None
        self._failure: Failure | None = None
        self._failures = 0  # starts that failed
        self._start_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )
        if not (cache is None or isinstance(cast("object", cache), Mapping)):
            refuse("Daemon.cache", "a mapping of key to answer", cache)
        now = current_world().monotonic()
        latest = list((cache or {}).items())[-_MOST:]
        self._cached: OrderedDict[Hashable, tuple[object, float]] = OrderedDict(
            (key, (value, now)) for key, value in latest
        )

    @property
    def failure(self) -> Failure | None:
        """Why the last start failed, until a check finds the daemon ready; None otherwise."""
        return self._failure

    @property
    def failed(self) -> bool:
        """Whether the last start failed and no check has found the daemon ready since."""
        return self._failure is not None

    @property
    def pid(self) -> int | None:
        """The process id of the daemon that this object started, while it runs; None otherwise."""
        process = self._process
        if process is None or process.guard.is_forked or not process.is_running:
            return None
        return process.pid

    @property
    def cached(self) -> Mapping[Hashable, object]:
        """The cached answers by key, oldest first; a later process can take them as its `cache=`."""
        return {key: value for key, (value, _) in self._cached.items()}

    async def health(self) -> DaemonHealth:
        """Check once, for at most `probe_timeout`, and return the result; an error is UNREACHABLE."""
        self._health = await self._probe.look()
        if self._health is DaemonHealth.READY:
            self._failure = None
        return self._health

    async def ensure(self) -> DaemonHealth:
        """Start the daemon unless it is ready, wait until it is, at most `startup_timeout`, and
        return READY.

        Several tasks and processes may call this at the same time; they end with one daemon. If the
        started process ends because its port is taken, the call waits for the daemon on that port.
        It also waits for a daemon that starts or shuts down.

        Raises NotConnectedError, with the last health check, when none is ready in time; then
        `failed` is True. The started process is not ended then, nor when this call is cancelled.
        Raises ConfigError if the command cannot be run.
        """
        if await self.health() is DaemonHealth.READY:
            return DaemonHealth.READY
        before = self._failures
        async with self._start_locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            # another task's start failed meanwhile
            if self._failures != before and self._failure is not None:
                raise error_for(self._failure)
            try:
                await self._start()
            except BridgeError as error:
                # Without the cause: its traceback would keep frames alive as long as this object.
                self._failure = attrs.evolve(error.failure, cause=None)
                self._failures += 1
                raise
        return DaemonHealth.READY

    async def answer(self, key: Hashable, call: Callable[[], Awaitable[T]]) -> DaemonAnswer[T]:
        """Return the answer of `call`, or the cached answer of this key if the daemon is not
        available.

        The daemon is started if it is not ready; after a failed start it is only checked as long as
        this key has a cached answer. If `call` fails because the daemon was not reached (CONN_
        codes, an open circuit), the cached answer is returned. Any other error of `call` is raised,
        and so is any error without a cached answer. The last 100 keys are cached, each with the
        object that was returned.
        """
        try:
            await self._reach(key)
        except BridgeError as error:
            if key not in self._cached:
                raise
            return self._old(key, error.failure)
        try:
            value = await call()
        except Exception as error:
            if key not in self._cached or not _is_link(error):
                raise
            return self._old(key, classify(error))
        self._cached.pop(key, None)
        self._cached[key] = value, current_world().monotonic()
        if len(self._cached) > _MOST:
            self._cached.popitem(last=False)
        return DaemonAnswer(value=value)

    async def stop(self, *, grace: Seconds = 5) -> None:
        """Terminate the daemon if this object started it: SIGTERM to its session, SIGKILL after
        `grace` seconds.

        Returns when the process has ended and is reaped, at the latest 5 s after SIGKILL. Sends
        SIGKILL at once when cancelled. Raises ConfigError in a fork of the process that started it.
        """
        seconds = read_seconds("Daemon.stop.grace", grace, most=LONGEST_TIMEOUT)
        process = self._process
        if process is None:
            return
        process.guard.check_process()
        try:
            process.end(at_once=False)
            await _gone(process, seconds)
        finally:
            process.end(at_once=True)
        await _gone(process, _REAPED)

    # ---- the start --------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        """Check, start the daemon if it is unreachable, and check until it is ready.

        Starts at most one process.
        """
        loop, world = asyncio.get_running_loop(), current_world()
        ends, world_ends = loop.time() + self._patience, world.monotonic() + self._patience
        is_started, remaining = False, 0.0
        process: DaemonProcess | None = None

        async def is_ready() -> bool:
            nonlocal is_started, remaining, process
            if (found := await self.health()) is DaemonHealth.READY:
                return True
            if found is DaemonHealth.UNREACHABLE and not is_started and self.pid is None:
                is_started, self._process = True, self._spawned()
            process = self._process if is_started or self.pid else None
            if process is not None and process.exit_code in _NOT_RUN:
                raise error_for(self._ended(process, "could not be run"))
            remaining = min(ends - loop.time(), world_ends - world.monotonic())
            if remaining <= 0:
                raise error_for(self._not_ready(process))
            return False

        async def sleep(seconds: float) -> None:
            # The clock of a test must not run ahead of a process that is coming up at its URL.
            if self._probe.asks_url and process is not None and process.is_running:
                await asyncio.sleep(seconds)
            else:
                await world.asleep(seconds)

        await poll_until(is_ready, wait=lambda _: min(self._interval, remaining), sleep=sleep)

    def _spawned(self) -> DaemonProcess:
        try:
            return DaemonProcess(self._command, env=self._env, cwd=self._cwd, log=self._log)
        except OSError as error:
            failure = classify(error)
            message = f"daemon {self._name} not started: {failure.message}"
            raise error_for(attrs.evolve(failure, message=message)) from error
        except ValueError as error:  # a null byte, or an invalid variable name
            message = f"daemon {self._name} not started: {text_of(error)}"
            raise error_for(Failure.of("SYS_CONFIG_INVALID", message, cause=error)) from error

    def _not_ready(self, process: DaemonProcess | None) -> Failure:
        """Return the failure for a start that took too long, with the last health check."""
        after, seen = f"after {self._patience:g} s", self._probe.seen
        if process is not None and not process.is_running:
            return self._ended(process, f"ended, and nobody else is ready {after}")
        what = "not ready" if process is None else "started but not responding"
        return Failure.of(
            "CONN_NOT_CONNECTED",
            f"daemon {self._name} {what} {after}; last seen: {seen}",
            suggestions=hints("SLOW_START"),
            details={"seen": seen, "stderr": "" if process is None else process.output_end().text},
        )

    def _ended(self, process: DaemonProcess, what: str) -> Failure:
        """Return the failure for a started process that ended before the daemon was ready."""
        code, output_end = process.exit_code or 0, process.output_end()
        finding = exit_finding(code, output_end.text)
        return Failure.of(
            finding.code if code in _NOT_RUN else "CONN_NOT_CONNECTED",
            f"daemon {self._name} {what}: exit code {code}{short_of(output_end.last)}",
            suggestions=finding.suggestions or hints("SPAWN"),
            details={**finding.details, "seen": self._probe.seen},
        )

    # ---- the cache --------------------------------------------------------------------------------------------

    async def _reach(self, key: Hashable) -> None:
        failure = self._failure
        if failure is None or key not in self._cached:
            await self.ensure()
        elif await self.health() is not DaemonHealth.READY:
            raise error_for(failure)

    def _old(self, key: Hashable, failure: Failure) -> DaemonAnswer[Any]:
        value, at = self._cached[key]
        age = current_world().monotonic() - at
        return DaemonAnswer(value=value, is_cached=True, age=age, failure=failure)

    @property
    def _name(self) -> str:
        """The name of the program, without arguments, which may hold secrets."""
        return Path(self._command[0]).name[:80] or "command"

    def __repr__(self) -> str:
        """Return the program, the last health, and the pid if this object started it."""
        pid = "" if self.pid is None else f" pid={self.pid}"
        return f"<Daemon {self._name} {self._health or 'not looked at'}{pid}>"


def _checked_env(env: Mapping[str, str] | None) -> dict[str, str] | None:
    for name, value in (env or {}).items():
        if not isinstance(cast("object", value), str):  # often a port, as an int
            refuse(f"Daemon.env.{name}", "a string", value)
    return None if env is None else dict(env)


def _is_link(error: Exception) -> bool:
    """Return whether an error means that the daemon was not reached; other errors come from the
    call.
    """
    code = classify(error).code
    return code.startswith("CONN_") or code == "SYS_CIRCUIT_OPEN"


async def _gone(process: DaemonProcess, seconds: float) -> None:
    """Wait until the process has ended and is reaped, for at most `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await process.ended()
