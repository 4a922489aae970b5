"""What the tests of `resilient-bridge workflow` share: a workflow in a file, and how the command is called in this process."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import pytest

from resilient_bridge import cli


# `make` finishes; `ship` is refused until there is a file `ready`, and with a file `wait` it waits.
FLOW = """
import asyncio
from pathlib import Path
from resilient_bridge.agent import Workflow

root = Path(__file__).parent
flow = Workflow(root / "state.json", root=root, name="demo")

def note(text):
    with (root / "ledger").open("a") as ledger:
        ledger.write(text + "\\n")

@flow.phase(artifacts=["a.txt"])
def make():
    note("make")
    (root / "a.txt").write_text("a")

@flow.phase
async def ship():
    note("ship")
    while (root / "wait").exists():
        await asyncio.sleep(0.01)
    (root / "redy").read_text()
"""


@contextmanager
def forgotten_imports():
    """What a command imports inside of the block is forgotten after it."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        patch.setattr(sys, "dont_write_bytecode", True)
        yield
    for name in set(sys.modules) - before:
        if not name.startswith("resilient_bridge"):
            del sys.modules[name]


def call(capsys, argv):
    """The exit code, stdout and stderr of one call."""
    try:
        code = cli.main(["workflow", *map(str, argv)])
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err
