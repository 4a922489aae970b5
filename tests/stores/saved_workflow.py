"""The program that made tests/stores/data/version_1/workflows, and that opens what it left."""

from __future__ import annotations

import os

import resilient_bridge as rb


def saved_workflow(root, end=""):
    """Return the workflow, the phases that ran, and the orders that were placed; `end` is where it ends, if not at its last phase."""
    box, ran, placed = rb.agent.Toolbox(), [], []

    @box.tool
    async def order(item: str) -> str:
        placed.append(item)
        return f"ordered {item}"

    flow = rb.agent.Workflow(root / "state.json", name="release", root=root, tools=box)

    @flow.phase(artifacts=["notes.md"])
    async def collect():
        ran.append("collect")

    @flow.phase
    async def buy(phase):
        ran.append(("buy", phase.restored))
        await phase.checkpoint({"step": 2})
        if end == "halted":
            raise PermissionError(13, "no")
        if end == "killed":
            os._exit(1)
        await phase.call("order", {"item": "book"})
        if end == "called":
            os._exit(1)

    @flow.phase(required=False)
    async def announce():
        ran.append("announce")

    return flow, ran, placed
