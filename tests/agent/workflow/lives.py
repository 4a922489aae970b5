"""Lives of the program in docs/how-to/run-a-workflow.md, one after the other, each ended where it is told to be.

    python -m tests.agent.workflow.lives PROGRAM        reads {"root", "host", "kill_at"} lines, answers each with one line

Each life is a fork of this process, which has loaded everything and runs nothing, so that a life costs milliseconds. `kill_at` counts
points at which something is about to happen or has just happened: a save, a tool call, a measurement, a phase; at that point the life is
ended with SIGKILL. 0: it is not.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from functools import wraps
from pathlib import Path

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox
from tests.internals.agent import WorkflowStateFile, runner, verification, workflow
from tests.internals.stores import JournaledFile, journaled


LEDGER = ".ledger"


class Points:
    """Where a life may end; each is passed once before and once after what happens there."""

    def __init__(self, kill_at):
        self.passed = 0
        self._kill_at = kill_at

    def point(self):
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner, name):
        function = getattr(owner, name)
        if asyncio.iscoroutinefunction(function):

            @wraps(function)
            async def reported(*positional, **named):
                self.point()
                found = await function(*positional, **named)
                self.point()
                return found

        else:

            @wraps(function)
            def reported(*positional, **named):
                self.point()
                found = function(*positional, **named)
                self.point()
                return found

        setattr(owner, name, reported)


def live(program, reported):
    """One life, in this process; what it came to."""
    points = Points(reported["kill_at"])
    points.around(WorkflowStateFile, "_note")
    points.around(WorkflowStateFile, "_save")
    points.around(journaled, "append")
    points.around(JournaledFile, "_replace")
    points.around(Toolbox, "call")
    points.around(runner, "measure")
    points.around(verification, "problems")
    os.environ.update(RELEASE_ROOT=reported["root"], RELEASE_HOST=reported["host"])
    names = {"__name__": "release"}
    exec(compile(program, "release.py", "exec"), names)
    flow = names["flow"]
    assert isinstance(flow, workflow.Workflow)
    with Path(LEDGER).open("a", buffering=1) as ledger:

        def write(event):
            if isinstance(event, rb.events.PhaseChanged) and event.status == "started":
                ledger.write(f"began {event.phase}\n")
                points.point()  # inside of the phase, before its first step
            elif isinstance(event, rb.events.PhaseChanged) and event.status == "completed":
                ledger.write(f"finished {event.phase}\n")
                points.point()

        with rb.listen(write), rb.testing.virtual_time():
            run = flow.resume if reported.get("resume") else flow.run
            report = asyncio.run(run())
    return {"report": report.to_dict(), "points": points.passed, "text": report.explain()}


def main():
    program = Path(sys.argv[1]).read_text()
    for line in sys.stdin:
        reported = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                came_to = live(program, reported)
            except BaseException as error:  # noqa: BLE001 -- the parent says it
                came_to = {"error": f"{type(error).__name__}: {error}"}
            os.write(writing, json.dumps(came_to).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answer:
            stated = answer.read()
        _, status = os.waitpid(child, 0)
        sys.stdout.write((stated or json.dumps({"killed": os.WTERMSIG(status)})) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
