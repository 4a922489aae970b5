"""A real Redis of a test's own: on a free loopback port, with nothing on disk, to be killed, restarted and stopped for a while.

Rule: a test gets a server that answers, and leaves nothing behind. The port stays the same over a restart, what was in the
server does not. `server = redis_server_fixture()` in a test module makes a fixture of it; `redis_server()` is the same as a
`with` block. Where there is no `redis-server` the test is skipped, and fails with RESILIENT_BRIDGE_REQUIRE_SERVERS=1.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Literal, Self

import pytest

from tests.peers.ports import HOST, Port


PATIENCE = 10.0  # seconds for a server to answer, on a busy machine
PROGRAM = "redis-server"


class RedisServer:
    """One server process. `url` is what clients connect to; `arguments` go to the command line of redis-server."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        """Start it, and wait until it answers."""
        self._folder = folder
        self._arguments = arguments
        self._port = Port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self._port.close()
            raise

    @property
    def port(self) -> int:
        """The port, the same for as long as this object lives."""
        return self._port.number

    @property
    def url(self) -> str:
        """The address of database 0."""
        return f"redis://{HOST}:{self.port}/0"

    def start(self) -> None:
        """Start a process, empty, and wait until it answers PING."""
        assert self._process is None, "the server runs already"
        command = [
            *(PROGRAM, "--port", str(self.port), "--bind", HOST, "--dir", str(self._folder)),
            *("--save", "", "--appendonly", "no", "--logfile", str(self._folder / "redis.log")),
            *self._arguments,
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.wait_until_it_answers()

    def wait_until_it_answers(self, patience: float = PATIENCE) -> None:
        """Return once it answers PING (or asks for a password); fail with the end of its log when it does not."""
        ends = time.monotonic() + patience
        while time.monotonic() < ends:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                with socket.create_connection((HOST, self.port), timeout=1) as line:
                    line.sendall(b"PING\r\n")
                    if line.recv(64).startswith((b"+PONG", b"-NOAUTH")):
                        return
            except OSError:
                pass
            time.sleep(0.01)
        log = self._folder / "redis.log"
        text = log.read_text(errors="replace")[-2_000:] if log.exists() else "no log"
        self.kill()
        pytest.fail(f"{PROGRAM} on port {self.port} does not answer: {text}", pytrace=False)

    def kill(self) -> None:
        """End it at once (SIGKILL), and with it what it knew. Connects are refused until `start`."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # a stopped process dies of it, too
            process.wait()

    def restart(self) -> None:
        """Kill it and start an empty one on the same port."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stop it (SIGSTOP): connections stay, connects succeed, and nothing is answered until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on with all that came in the meantime."""
        self._signal(signal.SIGCONT)

    def client(self, **options: Any) -> Any:
        """A synchronous client of the `redis` package; the caller closes it. Answers are text unless said otherwise."""
        import redis

        return redis.Redis(host=HOST, port=self.port, **{"decode_responses": True, **options})

    def connections(self) -> int:
        """How many clients are connected, the one that asks left out."""
        with self.client() as client:
            return len(client.client_list()) - 1

    def close(self) -> None:
        """Kill it and give the port back."""
        self.kill()
        self._port.close()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "the server does not run"
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        """The server, until the block is left."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it."""
        self.close()


@contextmanager
def redis_server(*arguments: str) -> Iterator[RedisServer]:
    """A server for the time of a `with` block; skips the test that asks where there is none."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"needs {PROGRAM} on the PATH (apt-get install redis-server)")
    with (
        TemporaryDirectory(prefix="rb-redis-") as folder,
        RedisServer(Path(folder), *arguments) as server,
    ):
        yield server


def redis_server_fixture(
    *arguments: str, scope: Literal["function", "module", "session"] = "function"
) -> Any:
    """A pytest fixture that gives a server: `server = redis_server_fixture(scope="module")` at the top of a test module."""

    @pytest.fixture(scope=scope)
    def server() -> Iterator[RedisServer]:
        with redis_server(*arguments) as running:
            yield running

    return server
