"""Servers in processes of their own: started, killed, started again on the same port, and gone afterwards.

Rule: every wait is for a condition and has a bound. Use from any test:
`from tests.peers.running import mcp_server` and `async with mcp_server(ledger=tmp_path / "ledger") as server:`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from tests.peers.forked import Forked
from tests.peers.ports import HOST, Port
from tests.peers.zygote import PYTHON, SOCKET


MCP_SERVER = Path(__file__).with_name("mcp_server.py")
PATIENCE = 30.0  # seconds for anything a process may take on a busy machine

HttpTransport = Literal["streamable-http", "sse"]


async def until(
    condition: Callable[[], object], what: str = "a condition", *, seconds: float = PATIENCE
) -> None:
    """Wait until the condition holds, looking every 5 ms; an AssertionError that names it if it never does."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"wanted within {seconds:g} s: {what}") from None


class Ledger:
    """What the tools of an MCP server did, read from its files; outlives the server."""

    def __init__(self, file: Path) -> None:
        """Name the file; it need not exist yet."""
        self.file = file

    @property
    def keys(self) -> list[str]:
        """One key per effect, in order."""
        return _lines(self.file)

    @property
    def lives(self) -> list[int]:
        """One process id per start of the server, in order."""
        return [int(line) for line in _lines(self.file.with_name(f"{self.file.name}.lives"))]

    def count(self, key: str) -> int:
        """How often that effect happened."""
        return self.keys.count(key)

    @property
    def repeated(self) -> list[str]:
        """The keys of effects that happened more than once."""
        return [key for key, count in Counter(self.keys).items() if count > 1]

    async def wait_for(self, key: str, count: int = 1) -> None:
        """Wait until the effect happened that often; an AssertionError if it does not."""
        await until(lambda: self.count(key) >= count, f"{key!r} {count} times in the ledger")


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


class Process:
    """A server program on a port of its own, which stays its own while the program is dead.

    `port` is where it listens, `log` the file with all that it printed, `starts` how often it was started.
    """

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Name the command; nothing runs yet."""
        self.port = port
        self.log = log
        self.starts = 0
        self._command = command
        self._environment = environment
        self._process: asyncio.subprocess.Process | Forked | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the program runs, as far as this loop heard."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The process id of the last start."""
        assert self._process is not None
        return self._process.pid

    def url(self, path: str = "/mcp") -> str:
        """The address to give to a client."""
        return f"http://{HOST}:{self.port}{path}"

    async def start(self) -> None:
        """Start it and wait until it accepts connections; an AssertionError with its log if it does not."""
        assert not self.is_alive, f"{self._command[0]} already runs as {self.pid}"
        self._process = await self._begin()
        self.starts += 1
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self._accepts():
                    if not self.is_alive:
                        raise AssertionError(
                            f"it ended with {self._process.returncode}:\n{self.log.read_text()}"
                        )
                    await asyncio.sleep(0.01)
        except TimeoutError:
            await self.kill()
            raise AssertionError(
                f"it never listened on port {self.port}:\n{self.log.read_text()}"
            ) from None
        except BaseException:
            await self.kill()
            raise

    async def _begin(self) -> asyncio.subprocess.Process | Forked:
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,  # its end is the end of a server whose parent was killed
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )

    async def _accepts(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, self.port)
        except OSError:
            return False
        writer.transport.abort()
        return True

    async def kill(self) -> None:
        """SIGKILL, and return when the process is reaped: its port refuses from here on. A dead one stays dead."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM, and return when the process is reaped; SIGKILL if it does not go."""
        await self._end(signal.SIGTERM)

    async def restart(self) -> None:
        """Kill it and start it again on the same port: all that it kept in memory is forgotten."""
        await self.kill()
        await self.start()

    async def gone(self) -> int:
        """Wait until it ended by itself; its exit code."""
        assert self._process is not None
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()

    async def _end(self, number: signal.Signals) -> None:
        if (process := self._process) is None:
            return
        if process.returncode is None:
            process.send_signal(number)  # says nothing if the process is gone and not yet reaped
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if process.stdin is not None:
            process.stdin.close()


class McpProcess(Process):
    """A Python program that serves MCP: `command` is its file and its arguments."""

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        """Name the program; nothing runs yet."""
        super().__init__([sys.executable, *command], port, log)

    async def _begin(self) -> asyncio.subprocess.Process | Forked:
        if SOCKET is None:
            return await super()._begin()
        _, program, *arguments = self._command
        return Forked(SOCKET, program, arguments, self.log)


class McpServer(McpProcess):
    """The MCP server of `mcp_server.py`, with its ledger."""

    def __init__(
        self, transport: HttpTransport, port: int, ledger: Path, options: Sequence[str] = ()
    ) -> None:
        """Name the transport and the ledger's file; nothing runs yet."""
        command = [
            *(str(MCP_SERVER), "--transport", transport),
            *("--port", str(port), "--ledger", str(ledger)),
            *options,
        ]
        super().__init__(command, port, ledger.with_name(f"{ledger.name}.log"))
        self.ledger = Ledger(ledger)
        self.path = "/mcp" if transport == "streamable-http" else "/sse"

    def url(self, path: str = "") -> str:
        """The address to give to an MCP client."""
        return super().url(path or self.path)


@asynccontextmanager
async def mcp_server(
    transport: HttpTransport = "streamable-http", *, ledger: Path, options: Sequence[str] = ()
) -> AsyncIterator[McpServer]:
    """The MCP server over HTTP, ready; killed when the block is left. `options`: `--stateless`, `--json`."""
    with Port() as port:
        server = McpServer(transport, port.number, ledger, options)
        await server.start()
        try:
            yield server
        finally:
            await server.kill()


def stdio_command(ledger: Path) -> tuple[str, ...]:
    """The command of the MCP server over stdio, for whoever starts it; `Ledger(ledger)` reads what it did."""
    return (*PYTHON, str(MCP_SERVER), "--transport", "stdio", "--ledger", str(ledger))
