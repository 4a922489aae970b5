"""What all these servers share: a program on a port of its own, in a folder of its own, with every process it starts.

Rule: nothing outlives the test. What the program starts is found by its session, or by a mark in its environment where it
made a session of its own (the kernels of Jupyter); and if the tests themselves are killed, the system kills the program.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from uuid import uuid4

import httpx
import pytest

from tests.bridges.servers.install import missing
from tests.peers.ports import HOST, Port


PATIENCE = (
    60.0  # seconds for a server to answer: the first start of an environment compiles its modules
)
FAREWELL = 10.0  # seconds that a server has to end after SIGTERM
MARK = "RESILIENT_BRIDGE_SERVER"


class ServerProcess:
    """A program and its port. A server says what its `command`, its `environment` and its `url` are, and when it `answers`."""

    name: str  # as `install` knows it

    def __init__(self, folder: Path) -> None:
        """Take a port; nothing runs yet. The folder is for the server alone."""
        self.folder = folder
        self._mark = uuid4().hex
        self._port = Port()
        self._process: subprocess.Popen[bytes] | None = None
        self._client: httpx.AsyncClient | None = None

    @property
    def port(self) -> int:
        """Where it listens, for as long as this object lives."""
        return self._port.number

    @property
    def log(self) -> Path:
        """What it printed, over all its starts."""
        return self.folder / "server.log"

    def command(self) -> Sequence[str]:
        """What to run."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        """What it needs in its environment, beside PATH and a home of its own."""
        return {}

    async def answers(self) -> bool:
        """Whether it answers; an httpx.TransportError means no."""
        await self.http("GET", "/")
        return True

    async def http(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Ask its HTTP side; any status is an answer."""
        if self._client is None:
            self._client = httpx.AsyncClient(
                base_url=f"http://{HOST}:{self.port}", trust_env=False, verify=False, timeout=30
            )
        return await self._client.request(method, path, **options)

    async def start(self) -> None:
        """Start it and wait until it answers; an AssertionError with the end of its log if it does not."""
        assert self._process is None, f"{self.name} runs already"
        # the system kills it if this process dies: SIGKILL of a test run leaves nothing, either
        guard = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, *self.command()],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self._answers():
                    assert self._process.poll() is None, self._failure("ended")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(self._failure("does not answer")) from None

    async def stop(self) -> None:
        """SIGTERM, and wait until it has ended; SIGKILL for what is still there."""
        if (process := self._process) is not None:
            process.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(FAREWELL):
                    while process.poll() is None:
                        await asyncio.sleep(0.01)
        await self._forget_connections()
        self.kill()

    def kill(self) -> None:
        """SIGKILL to its process group and to all that carries its mark; returns when the program is reaped."""
        if (process := self._process) is None:
            return
        with suppress(ProcessLookupError):  # it ended by itself, and its group with it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        ends = time.monotonic() + FAREWELL
        while found := self.processes():
            assert time.monotonic() < ends, f"{self.name} has processes that do not die: {found}"
            for pid in found:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.001)
        self._process = None

    def processes(self) -> list[int]:
        """The processes of its session or with its mark, zombies left out; none where there is no /proc."""
        wanted = f"{MARK}={self._mark}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # gone, or another user's
                # the name, in parentheses, may have spaces; then: state, parent, group, session
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                ours = self._process is not None and int(session) == self._process.pid
                if state != "Z" and (
                    ours or wanted in (entry / "environ").read_bytes().split(b"\0")
                ):
                    found.append(int(entry.name))
        return found

    async def close(self) -> None:
        """Kill it and give the port back."""
        try:
            self.kill()
        finally:
            await self._forget_connections()
            self._port.close()

    def _environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        plain = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(home),
            "TMPDIR": str(home),
        }
        return plain | {MARK: self._mark, **self.environment()}

    async def _answers(self) -> bool:
        try:
            return await self.answers()
        except httpx.TransportError:
            return False

    async def _forget_connections(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _failure(self, what: str) -> str:
        return f"{self.name} {what}:\n{self.log.read_text(errors='replace')[-3_000:]}"


S = TypeVar("S", bound=ServerProcess)


@asynccontextmanager
async def started(kind: type[S], folder: Path, **options: Any) -> AsyncIterator[S]:
    """Start a server of this kind in a new folder below `folder`; both are gone afterwards. Skips where it is not installed."""
    if (reason := missing(kind.name)) is not None:
        pytest.skip(reason)
    with TemporaryDirectory(dir=folder, prefix=f"{kind.name}-", ignore_cleanup_errors=True) as own:
        server = kind(Path(own), **options)
        try:
            await server.start()
            yield server
        finally:
            await server.close()
