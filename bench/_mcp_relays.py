"""Relays of the Model Context Protocol that others wrote, and ours: how each is installed and started.

They are below $RESILIENT_BRIDGE_MCP_RELAYS (default: ~/.cache/resilient-bridge-mcp/relays), outside the repository, installed when they are first
asked for: the Python ones in an environment of their own, for they need mcp 1.x. Rule: a version is named here, and read from what is installed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from _environments import has, note, python_with
from _processes import processes, tree_of


HERE = Path(__file__).parent
HOME = Path(
    os.environ.get(
        "RESILIENT_BRIDGE_MCP_RELAYS", Path.home() / ".cache/resilient-bridge-mcp/relays"
    )
).absolute()
NPM = {"mcp-remote": "0.15.1", "supergateway": "4.0.0", "mcp-proxy": "6.7.19"}
PYPI = {"mcp-proxy": "0.13.0", "fastmcp": "3.4.11", "mcp-snoop": "0.1.0"}
PYTHON = HOME / "python" / "bin" / "python"
OURS = (sys.executable, "-m", "resilient_bridge", "mcp")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
SERVER = str(HERE / "_mcp_server.py")
FASTMCP = "import sys; from fastmcp.server import create_proxy; create_proxy({}).run(transport='stdio', show_banner=False)"
FASTMCP_CHILD = "from fastmcp.client.transports import StdioTransport; " + FASTMCP.format(
    "StdioTransport(sys.argv[1], sys.argv[2:])"
)


def install() -> None:
    """Install what is missing, or was asked for in another version."""
    names = [f"{name}@{version}" for name, version in NPM.items()]
    if not has(HOME / "node", names):
        options = ("--silent", "--no-audit", "--no-fund", "--prefix", HOME / "node")
        subprocess.run(["npm", "install", *options, *names], check=True)
        note(HOME / "node", names)
    install_python()


def install_python(*chosen: str) -> None:
    """The relays from PyPI: the chosen ones, else all."""
    python_with(HOME / "python", [f"{name}=={PYPI[name]}" for name in chosen or PYPI])


def versions() -> str:
    """What is installed, in one line."""
    node = [
        f"{name} {json.loads((HOME / 'node/node_modules' / name / 'package.json').read_text())['version']} (npm)"
        for name in NPM
    ]
    code = (
        f"from importlib.metadata import version\nfor n in {[*PYPI, 'mcp']!r}: print(n, version(n))"
    )
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout
    nodes = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    python = [f"{line} (PyPI)" for line in found.splitlines()]
    return ", ".join([*node, *python, f"node {nodes}", f"Python {sys.version.split()[0]}"])


def program(name: str) -> tuple[str, str]:
    """The command of a program from npm, without npx in between."""
    folder = HOME / "node" / "node_modules" / name
    entry = json.loads((folder / "package.json").read_text())["bin"]
    return "node", str(folder / (entry if isinstance(entry, str) else entry[name]))


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until_listening(port: int, seconds: float = 20.0) -> None:
    """Wait until somebody accepts."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise TimeoutError(f"nobody listens at {port} after {seconds:g} s")


@dataclass
class Relay:
    """One relay in one shape: what the client speaks to, and what it has in front of the server."""

    name: str
    front: str  # "stdio" or "HTTP": what a client speaks
    back: str  # the same: what the server speaks
    command: (
        object  # a function of the server's command or URL, and of a port for a front over HTTP
    )

    @property
    def is_foreign(self) -> bool:
        """Whether it has to be installed."""
        return self.name != "resilient-bridge"

    @property
    def is_ours(self) -> bool:
        """Whether it is this package's."""
        return self.name == "resilient-bridge"


def _remote(url, _port):
    return [*program("mcp-remote"), url, "--allow-http", "--transport", "http-only"]


def _gateway(url, _port):
    return [*program("supergateway"), "--streamableHttp", url, "--outputTransport", "stdio"]


def _gateway_http(server, port):
    return [
        *program("supergateway"),
        *("--stdio", " ".join(server), "--outputTransport", "streamableHttp"),
        *("--stateful", "--port", str(port)),
    ]


def _npm_proxy(server, port):
    options = ("--port", str(port), "--host", "127.0.0.1", "--server", "stream")
    return [*program("mcp-proxy"), *options, "--", *server]


def _pypi_proxy(url, _port):
    return [str(PYTHON.with_name("mcp-proxy")), "--transport", "streamablehttp", url]


def _pypi_proxy_http(server, port):
    return [
        str(PYTHON.with_name("mcp-proxy")),
        "--pass-environment",
        "--port",
        str(port),
        "--",
        *server,
    ]


def _snoop(server, _port):
    """It copies lines both ways, and writes on stderr what passes."""
    return [str(PYTHON.with_name("mcp-snoop")), "--no-color", "--", *server]


RELAYS = [
    Relay(
        "resilient-bridge", "stdio", "stdio", lambda server, _: [*OURS, "--quiet", "--", *server]
    ),
    Relay(
        "FastMCP proxy",
        "stdio",
        "stdio",
        lambda server, _: [str(PYTHON), "-c", FASTMCP_CHILD, *server],
    ),
    Relay("mcp-snoop", "stdio", "stdio", _snoop),
    Relay("resilient-bridge", "stdio", "HTTP", lambda url, _: [*OURS, "--quiet", url]),
    Relay("mcp-remote", "stdio", "HTTP", _remote),
    Relay("supergateway", "stdio", "HTTP", _gateway),
    Relay("mcp-proxy (PyPI)", "stdio", "HTTP", _pypi_proxy),
    Relay(
        "FastMCP proxy",
        "stdio",
        "HTTP",
        lambda url, _: [str(PYTHON), "-c", FASTMCP.format("sys.argv[1]"), url],
    ),
    Relay(
        "resilient-bridge",
        "HTTP",
        "stdio",
        lambda server, port: [
            *OURS,
            "--quiet",
            "--http",
            f"127.0.0.1:{port}",
            "--no-token",
            "--",
            *server,
        ],
    ),
    Relay("supergateway", "HTTP", "stdio", _gateway_http),
    Relay("mcp-proxy (npm)", "HTTP", "stdio", _npm_proxy),
    Relay("mcp-proxy (PyPI)", "HTTP", "stdio", _pypi_proxy_http),
]


@dataclass
class Upstream:
    """The small server: a command that a relay starts, or a process of ours at a URL; and what it has written down."""

    folder: Path
    port: int | None = None
    processes: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rename("order", "large", "old")
        if self.port is not None:
            self.port = self.port or free_port()
            self.start()

    @property
    def target(self):
        """What a relay is given: the command, or the URL."""
        if self.port is None:
            return [sys.executable, SERVER, str(self.folder)]
        return f"http://127.0.0.1:{self.port}/mcp"

    def rename(self, *names: str) -> None:
        """The tools that it has from its next start on."""
        (self.folder / "names").write_text(" ".join(names))

    def start(self) -> None:
        """Start it again; a command is the relay's to start."""
        if self.port is not None:
            command = [sys.executable, SERVER, str(self.folder), "--http", str(self.port)]
            self.processes.append(subprocess.Popen(command, **QUIET))
            until_listening(self.port)

    def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        pid = int((self.folder / "pid").read_text())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()
        stat, end = Path(f"/proc/{pid}/stat"), time.monotonic() + 5
        while time.monotonic() < end:
            with suppress(OSError):
                if stat.read_text().rpartition(")")[2].split()[0] != "Z":
                    time.sleep(0.01)
                    continue
            return

    def count(self, file: str, line: str) -> int:
        """How many lines of a file are this one."""
        path = self.folder / file
        return path.read_text().split("\n").count(line) if path.exists() else 0

    def close(self) -> None:
        """End what was started here."""
        for process in self.processes:
            process.kill()
            process.wait()


@contextmanager
def target_of(relay: Relay, server):
    """What a client connects to: the relay's command, or the URL of one that was started here."""
    if relay.front == "stdio":
        yield relay.command(server, None)
        return
    with listening(relay, server) as (url, _):
        yield url


@contextmanager
def listening(relay: Relay, server):
    """The URL of a relay that was started here, and its process."""
    port = free_port()
    with started(relay.command(server, port)) as process:
        until_listening(port)
        yield f"http://127.0.0.1:{port}/mcp", process


@contextmanager
def started(command):
    """A process with its group, ended with it."""
    process = subprocess.Popen(command, start_new_session=True, **QUIET)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(3)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def end_tree(pid: int, close) -> None:
    """Close what a process belongs to, and end what is then left of the process and of those below it."""
    tree = [pid, *tree_of(pid)]
    with suppress(Exception):
        close()
    for each in processes().keys() & tree:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
