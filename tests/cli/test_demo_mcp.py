"""`resilient-bridge demo --mcp`: tool calls survive a server that dies, and the server's own ledger judges what was said."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys

import pytest

from resilient_bridge import mcp
from tests.internals.cli import Call, demo_mcp, totals


CODE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"mcp", "pydantic", "starlette", "uvicorn", "httpx", "redis"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from resilient_bridge.cli import main
sys.exit(main(["demo", "--mcp", "--json", "--seed", "1"]))
"""


@pytest.mark.real
def test_calls_survive_their_server():
    """Without any extra: each call has the outcome that the ledger bears out, nothing ran twice, and the table is shown."""
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=100, check=False
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["broken"]) == (0, []), done.stderr
    assert [found[name] for name in ("sent", "answered", "unknown", "not_executed")] == [
        10,
        5,
        4,
        1,
    ]
    assert [
        found[name] for name in ("ran_twice", "ran_unsaid", "never_ran", "unknown_ran", "seed")
    ] == [
        0,
        0,
        0,
        3,
        1,
    ]
    by_server = {
        (one["server"], one["tool"]): (one["outcome"], one["ran"]) for one in found["calls"]
    }
    assert by_server == {
        ("answer", "order"): ("answered", 1),
        ("killed", "order"): ("answered", 1),
        ("before", "order"): ("unknown", 0),
        ("after", "order"): ("unknown", 1),
        ("middle", "order"): ("unknown", 1),
        ("hang", "order"): ("unknown", 1),
        ("after", "list_orders"): ("answered", 2),
        ("before", "put"): ("answered", 1),
        ("away", "order"): ("not_executed", 0),
    }
    lines = done.stderr.splitlines()
    assert lines[2].startswith("the server ")
    assert lines[-1].startswith("kept: ")
    assert done.stdout.count("\n") == 1


def test_what_the_ledger_does_not_bear_out_is_a_broken_promise(tmp_path):
    """A call that ran twice, one that ran and was said not to have, and one that was said to be answered and never ran."""
    trap = mcp.Trap(tmp_path / "effects.jsonl")
    for number, marker in enumerate(["twice", "twice", "unsaid"]):
        demo_mcp.mcp_trap_ledger.append(
            trap.ledger, "effect", tool="order", marker=marker, call=number
        )
    calls = [
        Call(
            server="after", tool=tool, marker=marker, seconds=0.1, ran=1, sends=1, outcome=outcome, is_restarted=False
        )
        for tool, marker, outcome in [
            ("order", "twice", "unknown"),
            ("order", "unsaid", "not_executed"),
            ("order", "never", "answered"),
            ("list_orders", "reads", "answered"),
        ]
    ]  # fmt: skip
    found = totals(calls, trap)
    assert found["broken"] == [
        "ran twice without permission: twice",
        "said not executed, but ran: unsaid",
        "said answered, but never ran: never",
    ]
    assert [found[name] for name in ("ran_twice", "ran_unsaid", "never_ran", "unknown_ran")] == [
        1,
        1,
        1,
        1,
    ]


async def test_a_server_that_never_answers_ends_the_demo_with_a_reason(monkeypatch):
    """No traceback: the run is broken, and says what it waited for."""
    monkeypatch.setattr(demo_mcp, "_PATIENCE", 0)
    found = await demo_mcp.play(random.Random(0), 0, demo_mcp.Screen(io.StringIO()))
    assert found["broken"] == ["ended early: an answer to initialize expected within 0 s, got none"]
