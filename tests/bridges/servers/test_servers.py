"""What holds for every server of this package: one interface, a reason where it is missing, and nothing that outlives a test."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.bridges.servers import install, socketio
from tests.bridges.servers.process import ServerProcess
from tests.bridges.servers.wire import until


ROOT = Path(__file__).parents[3]
OWNER = """
import asyncio, sys
from pathlib import Path
from tests.bridges.servers import socketio

async def main():
    async with socketio.running(Path(sys.argv[1])) as server:
        print(server._process.pid, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("name", install.NAMES)
def test_each_has_the_interface(name):
    """A module of that name with `running`, and one class with all that `Server` has."""
    module = import_module(f"tests.bridges.servers.{name}")
    (kind,) = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ServerProcess)
        and value is not ServerProcess
    ]
    assert kind.name == name
    assert callable(module.running)
    for wanted in "url start stop kill publish ledger".split():
        assert hasattr(kind, wanted), wanted


@pytest.mark.parametrize("name", install.RECIPES)
def test_a_missing_environment_is_a_reason_that_says_what_to_do(name, tmp_path, monkeypatch):
    """Not installed, or interrupted, or for another recipe: the command; no Python for it: the versions."""
    monkeypatch.setenv("RESILIENT_BRIDGE_SERVERS", str(tmp_path))
    reason = install.missing(name)
    assert f"tests.bridges.servers.install {name}" in reason or "needs Python" in reason
    (tmp_path / name).mkdir()
    (tmp_path / name / "installed.txt").write_text("something older")
    assert install.missing(name) == reason
    (tmp_path / name / "installed.txt").write_text("\n".join(install.RECIPES[name].requirements))
    assert install.missing(name) is None


def test_possible_leaves_out_what_this_machine_has_no_python_for(monkeypatch, capsys):
    """All others are installed, and the line of each that is not says so: `nox -s servers` reads it."""
    installed = []
    monkeypatch.setattr(
        install, "_python", lambda recipe: None if recipe.pythons else sys.executable
    )
    monkeypatch.setattr(install, "install", installed.append)
    monkeypatch.setattr(install, "missing", lambda name: f"{name} needs something")
    monkeypatch.setattr(sys, "argv", ["install", "possible"])
    install.main()
    assert installed == [name for name in install.NAMES if name != "openhands"]
    assert "openhands: left out, openhands needs something\n" in capsys.readouterr().out


@pytest.mark.real
async def test_nothing_outlives_a_test_that_fails(tmp_path):
    """The process, its folder and its port are gone."""
    with pytest.raises(ZeroDivisionError):
        async with socketio.running(tmp_path) as server:
            assert len(server.processes()) == 1
            raise ZeroDivisionError
    assert server.processes() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.real
async def test_a_server_that_does_not_start_shows_its_log(tmp_path, monkeypatch):
    """And leaves nothing, either."""
    monkeypatch.setattr(
        socketio.SocketIoServer, "command", lambda server: ["node", "-e", "throw 'no reason'"]
    )
    with pytest.raises(AssertionError, match="no reason"):
        async with socketio.running(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.real
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv (util-linux)")
@pytest.mark.skipif(
    install.missing("socketio") is not None, reason=f"{install.missing('socketio')}"
)
async def test_nothing_outlives_tests_that_are_killed(tmp_path):
    """SIGKILL of the process that started it ends a server as well."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as owner:
        try:
            server = int(owner.stdout.readline())
            os.kill(server, 0)
        finally:
            owner.send_signal(signal.SIGKILL)

    async def runs() -> bool:
        return Path(f"/proc/{server}").exists()

    await until(runs, wanted=False)
