"""What `resilient-bridge workflow` takes for a workflow: files, modules, names in them; and how it refuses what is none."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.cli.calling_workflow import FLOW, call, forgotten_imports


@pytest.fixture
def run(capsys):
    """Calls the command: the exit code, stdout and stderr."""
    with forgotten_imports():
        yield lambda *argv: call(capsys, argv)


TWO = (
    "from resilient_bridge.agent import Workflow\na = Workflow('a.json')\nb = Workflow('b.json')\n"
)


@pytest.mark.parametrize(
    ("source", "name", "reported"),
    [
        (None, "", "flow.py"),
        ("def broken(:\n", "", "cannot be imported"),
        ("import a_module_that_is_missing\n", "", "a_module_that_is_missing"),
        ("undefined_name\n", "", "NameError"),
        ("1 / 0\n", "", "ZeroDivisionError"),
        ("raise SystemExit(0)\n", "", "SystemExit"),
        ("from resilient_bridge.agent import Workflow\nWorkflow(5)\n", "", "Workflow"),
        ("\0", "", "cannot be imported"),
        ("x = 1\n", "", "got none"),
        (TWO, "", "got a, b"),
        (TWO, ":c", "NoneType"),
        (TWO + "c = 1\n", ":c", "int"),
        ("raise RuntimeError('token=s3cret-value')\n", "", "RuntimeError"),
    ],
)
def test_a_target_that_is_none_is_one_line_and_two(run, tmp_path, source, name, reported):
    """Whatever is wrong with it: no traceback, no secret, nothing on stdout, nothing made."""
    path = tmp_path / "flow.py"
    if source is not None:
        path.write_text(source)
    for action in ("run", "status"):
        code, out, err = run(action, f"{path}{name}")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("resilient-bridge workflow: TARGET: ")
        assert reported in err
        assert "s3cret" not in err
    assert {one.name for one in tmp_path.iterdir()} <= {"flow.py"}


@pytest.mark.parametrize(
    "target", ["", ":", ":flow", ".flow", "no_such_module:flow", "no/such/module", "a b.py"]
)
def test_a_target_that_names_nothing(run, tmp_path, monkeypatch, target):
    """The same for what is no file and no module."""
    monkeypatch.chdir(tmp_path)
    code, out, err = run("status", target)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("resilient-bridge workflow: TARGET: ")


def test_a_directory_or_a_pipe_is_no_file(run, tmp_path):
    """Neither is waited for."""
    (tmp_path / "a.py").mkdir()
    os.mkfifo(tmp_path / "b.py")
    for name in ("a.py", "b.py"):
        code, _, err = run("status", tmp_path / name)
        assert (code, err.count("\n")) == (2, 1)


def test_one_of_two_by_name(run, tmp_path, monkeypatch):
    """`FILE.py:NAME` and `MODULE:NAME`, the module also from the working directory."""
    (tmp_path / "two_flows.py").write_text(TWO)
    monkeypatch.chdir(tmp_path)
    for target in (f"{tmp_path}/two_flows.py:b", "two_flows.py:b", "two_flows:b"):
        code, out, _ = run("status", target)
        assert (code, out.splitlines()[0]) == (0, "b has not begun (0 of 0 phases finished)")


def test_two_names_for_one_workflow_are_one(run, tmp_path):
    """An alias is no second workflow."""
    path = tmp_path / "flow.py"
    path.write_text(FLOW + "\nalias = flow\n")
    assert run("status", path)[0] == 0


def test_a_file_named_like_a_loaded_module_takes_nothing_from_it(run, tmp_path):
    """`json.py` is a workflow, and `import json` is what it was."""
    path = tmp_path / "json.py"
    path.write_text(FLOW)
    code, out, _ = run("status", path, "--json")
    assert code == 0
    assert json.loads(out)["workflow"] == "demo"
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    "argv", [(), ("begin", "flow.py"), ("run",), ("run", "a.py", "--reason", "x")]
)
def test_a_wrong_command_line(run, argv):
    """It is argparse's 2, with usage."""
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("usage: ")
