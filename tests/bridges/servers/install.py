"""Install the servers, each in an environment of its own: `python -m tests.bridges.servers.install NAME...`, or `all`, or `possible`.

The environments are below $RESILIENT_BRIDGE_SERVERS (default: .nox/servers in the repository). What is installed is not
installed again, so a second run takes no time. A server that asks for a newer Python than this one is not downloaded one:
any that is on this machine is used, and without one the server is missing. `possible` leaves such servers out, and says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path


ROOT = Path(__file__).parents[3]
NODE = ROOT / "tests" / "node"


@dataclass(frozen=True)
class Recipe:
    """What `uv pip install` gets, and the versions of Python that it runs on (all that this project runs on, if empty)."""

    requirements: tuple[str, ...]
    pythons: tuple[str, ...] = ()


RECIPES = {
    "a2a": Recipe(("a2a-sdk[http-server]>=1.3.0", "uvicorn>=0.40")),
    "agno": Recipe(("agno[os]>=3.1.10",)),
    "jupyter": Recipe(("jupyter-server>=2.21.1", "ipykernel>=7.4.0")),
    # langgraph-api is under the Elastic License 2.0: for tests alone
    "langgraph": Recipe(("langgraph-cli[inmem]>=0.4.40", "langgraph-api>=0.16.7")),
    "mcp_events": Recipe(("mcp>=2.3.0",)),
    "nostr": Recipe(("nostr-relay>=1.14",)),
    "openhands": Recipe(("openhands-agent-server>=1.58.0",), pythons=("3.12", "3.13")),
    "python_socketio": Recipe(("python-socketio>=5.18.1", "uvicorn>=0.40", "websockets>=16")),
}
PACKAGES = {
    "socketio": "socket.io",
    "graphql_ws": "graphql-ws",
    "yjs": "yjs",
}  # of npm, in tests/node/package-lock.json
NAMES = (*PACKAGES, *RECIPES)


def folder() -> Path:
    """Where the environments are."""
    return Path(os.environ.get("RESILIENT_BRIDGE_SERVERS") or ROOT / ".nox" / "servers").absolute()


def program(name: str, command: str) -> str:
    """The path of a command in a server's environment."""
    return str(folder() / name / "bin" / command)


def missing(name: str) -> str | None:
    """Why this server cannot be started here; None if it can."""
    if name in PACKAGES:
        if shutil.which("node") is None:
            return f"{name} needs node on the PATH"
        if not (NODE / "node_modules" / PACKAGES[name]).is_dir():
            return f"npm's {PACKAGES[name]} is missing: run `npm ci` in tests/node"
        return None
    if _stamp(name).is_file() and _stamp(name).read_text() == _contents(name):
        return None
    if _python(RECIPES[name]) is None:
        return (
            f"{name} needs Python {' or '.join(RECIPES[name].pythons)}, and this machine has none"
        )
    return f"{name} is not installed: run `python -m tests.bridges.servers.install {name}`"


def is_possible(name: str) -> bool:
    """Whether this machine has a Python for it."""
    return name in PACKAGES or _python(RECIPES[name]) is not None


def install(name: str) -> None:
    """Install one server if it is missing; SystemExit if it cannot be."""
    if missing(name) is None:
        return
    if name in PACKAGES:
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=NODE, check=True)
        return
    recipe, home = RECIPES[name], folder() / name
    if (python := _python(recipe)) is None:
        raise SystemExit(missing(name))
    uv = _uv()
    subprocess.run(
        [uv, "venv", "-q", "--clear", "--no-python-downloads", "--python", python, home], check=True
    )
    target = str(home / "bin" / "python")
    subprocess.run(
        [uv, "pip", "install", "-q", "--python", target, *recipe.requirements], check=True
    )
    _stamp(name).write_text(
        _contents(name)
    )  # last: an installation that was interrupted starts again


def _stamp(name: str) -> Path:
    return folder() / name / "installed.txt"


def _contents(name: str) -> str:
    return "\n".join(RECIPES[name].requirements)


def _uv() -> str:
    """Uv from the PATH, or from an environment of its own that is made here."""
    if (found := shutil.which("uv")) is not None:
        return found
    home = folder() / "uv"
    uv = home / "bin" / "uv"
    if not uv.is_file():
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        subprocess.run([home / "bin" / "python", "-m", "pip", "install", "-q", "uv"], check=True)
    return str(uv)


@cache
def _python(recipe: Recipe) -> str | None:
    """An interpreter that the recipe runs on: this one, or one of the PATH or of pyenv."""
    if not recipe.pythons:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for version in recipe.pythons:
        found = [sys.executable, shutil.which(f"python{version}")]
        found += sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}")))
        for python in filter(None, found):
            if _version(python) == version:
                return python
    return None


def _version(python: str) -> str:
    """Major and minor; empty if it does not run (pyenv has a command for each version, installed or not)."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run(
        [python, "-c", code], capture_output=True, text=True, check=False
    ).stdout.strip()


def main() -> None:
    """Install what the command line names, and print how long each took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names",
        nargs="+",
        choices=[*NAMES, "all", "possible"],
        metavar="NAME",
        help=" ".join(NAMES),
    )
    names = parser.parse_args().names
    for name in NAMES if {"all", "possible"} & {*names} else names:
        if "possible" in names and not is_possible(name):
            sys.stdout.write(f"{name}: left out, {missing(name)}\n")
            continue
        begins = time.monotonic()
        install(name)
        sys.stdout.write(f"{name}: {time.monotonic() - begins:.1f} s\n")


if __name__ == "__main__":
    main()
