"""The README's two commands are the ones that run, and its second example does what it says. Rule: nothing here repeats them, it reads them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

import resilient_bridge as rb


ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def _command(name: str) -> str:
    found = re.findall(rf"^<!-- command: {name} -->\n+```\w*\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)
    assert len(found) == 1
    return found[0]


def test_the_second_example_is_any_bridge_and_subscribes_again_after_a_cut(capsys):
    """The block itself, with another address: it subscribes at each connection, sends its frame once, and prints what comes and the gap."""
    block = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)[1]
    address = '"wss://host/ws", dialect=rb.dialects.plain, on_connect=hello'
    assert f"rb.BridgeClient({address}" in block

    async def main(server):
        names = {"rb": rb}
        exec(block.replace("wss://host/ws", server.url), names)
        reading = asyncio.create_task(names["read"]())
        await asyncio.sleep(5)
        await server.push({"n": 1})
        await asyncio.sleep(1)
        await server.cut("abort")
        await asyncio.sleep(30)
        await server.push(["n", 2])
        await asyncio.sleep(1)
        reading.cancel()
        await asyncio.wait([reading])
        return server.received

    feed = partial(rb.testing.LogBridge, position=None, type="ok", ping={"op": "subscribe"}, pong="subscribe")
    subscribed, message = {"op": "subscribe", "topic": "news"}, {"op": "say", "text": "hello"}
    assert rb.testing.simulate(main, server=feed) == [subscribed, message, subscribed]
    first, gap, last = capsys.readouterr().out.splitlines()
    assert (first, last) == ("{'n': 1}", "['n', 2]")
    assert "UNKNOWN" in gap


@pytest.mark.parametrize("name", ["demo", "tests"])
def test_each_command_is_one_line_for_a_bare_machine(name):
    """One line to paste, which makes its own environment: Debian's pip refuses to install outside of one."""
    command = _command(name)
    assert "\n" not in command
    assert command.startswith("python3 -m venv ")
    assert "sudo" not in command


def test_ci_runs_the_very_lines_that_the_readme_prints(tmp_path):
    """`.ci/run` takes its two commands from README.md: another line there, and CI runs that one instead; the demo is a short one."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    line = _command("tests")
    planted = "printenv RESILIENT_BRIDGE_REQUIRE_SERVERS > ran && echo '1 passed'"
    readme = README.replace(line, planted).replace(_command("demo"), "echo > played")
    (tmp_path / "README.md").write_text(readme)
    done = subprocess.run(
        ["bash", tmp_path / ".ci/run", "readme", "totals"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "ran").read_text() == "1\n"
    assert (tmp_path / "played").read_text() == "--duration 2\n"
    assert done.stdout.splitlines()[-1] == "1 passed"


@pytest.mark.parametrize(("name", "other"), [("tests", "demo"), ("demo", "tests")])
def test_ci_fails_if_a_line_fails(tmp_path, name, other):
    """A failing README line fails the run, although the output of the tests is also kept for the totals."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "README.md").write_text(
        README.replace(_command(name), "(exit 3) && true").replace(_command(other), "true")
    )
    done = subprocess.run(
        ["bash", tmp_path / ".ci/run", "readme"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 3


def test_the_totals_of_the_simulation_come_before_those_of_the_tests(tmp_path):
    """The last two lines of a full run count the seeded runs and the tests."""
    (tmp_path / ".ci").mkdir()
    script = (
        (ROOT / ".ci/run")
        .read_text()
        .replace("session simulation 2>&1", "printf '8 passed, 2 deselected in 9s\\nnox > done\\n'")
    )
    (tmp_path / ".ci/run").write_text(script)
    (tmp_path / "README.md").write_text(
        README.replace(_command("tests"), "echo '1 passed'").replace(_command("demo"), "true")
    )
    done = subprocess.run(
        ["bash", tmp_path / ".ci/run", "simulation", "readme", "totals"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-2:] == ["simulation: 8 passed, 2 deselected in 9s", "1 passed"]


def test_a_run_of_everything_includes_the_readme_and_ends_with_the_totals():
    """With no step named, the README's line is a step, and the number of tests is printed last."""
    script = (ROOT / ".ci/run").read_text()
    every = re.search(r"steps=\((system [^)]*)\)", script)
    assert every
    steps = every.group(1).split()
    beside = re.search(r"^beside\(\) \{.*?^\}", script, re.MULTILINE | re.DOTALL)[0]
    wanted = {*steps, *re.findall(r"\w+", beside)}
    assert {
        "style",
        "types",
        "layers",
        "simulation",
        "rules",
        "crashes",
        "litellm",
        "neighbours",
        "lowest",
        "readme",
    } <= wanted
    assert steps[-1] == "totals"


def test_what_runs_beside_something_else_fails_the_run(tmp_path):
    """What fails in the background is not lost behind what succeeds, nor the first of two that run one after the other."""
    (tmp_path / ".ci").mkdir()
    script = (ROOT / ".ci/run").read_text()
    for failing in ("", "types", "litellm", "neighbours", "lowest(sample)"):
        stubbed = re.sub(
            r"^session\(\) .*$", f'session() {{ [ "$1" != "{failing}" ]; }}', script, flags=re.MULTILINE
        )
        (tmp_path / ".ci/run").write_text(stubbed)
        code = 1 if failing else 0
        done = subprocess.run(
            ["bash", tmp_path / ".ci/run", "beside"],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr


def test_ci_has_no_test_command_of_its_own():
    """Pytest is named in no line of `.ci/run`: what runs is the README's line and nox's sessions."""
    assert "pytest" not in (ROOT / ".ci/run").read_text()
