"""Work in phases: a finished phase stays finished, across failures and crashes.

The second phase fails on its first run. The second run, which could be another process,
does only the unfinished phase.

    $ python examples/release_workflow.py
    collecting notes
    halted: remaining ['publish']
    publishing 2 notes
    completed: remaining []
"""

import asyncio
import tempfile
from pathlib import Path

import resilient_bridge as rb


is_permitted = False


def release(root: Path) -> rb.agent.Workflow:
    flow = rb.agent.Workflow(
        root / "state.json",
        name="release",
        root=root,
        tools=rb.agent.Toolbox(rb.presets.ccsetup),
    )

    @flow.phase(artifacts=["notes.md"])
    async def collect(phase: rb.agent.Phase) -> None:
        print("collecting notes")
        (phase.root / "notes.md").write_text("- one\n- two\n")

    @flow.phase
    async def publish(phase: rb.agent.Phase) -> None:
        if not is_permitted:
            raise PermissionError(13, "permission denied", "release-server")
        print(
            "publishing",
            len((phase.root / "notes.md").read_text().splitlines()),
            "notes",
        )

    return flow


async def main() -> None:
    global is_permitted
    with tempfile.TemporaryDirectory() as directory:
        report = await release(Path(directory)).run()
        print(f"{report.status}: remaining {list(report.remaining)}")
        is_permitted = True  # a person has read report.explain() and fixed it
        report = await release(Path(directory)).resume()
        print(f"{report.status}: remaining {list(report.remaining)}")


if __name__ == "__main__":
    asyncio.run(main())
