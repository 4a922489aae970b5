"""Lives of a program that pays the orders of a job, one after the other, each ended where it is wanted to be.

    python _effects_lives.py PROGRAM        reads one JSON object a line, answers each with the exit code of that life

A life is a fork of this process, which has imported the program's library. `kill` is the step and the point at which it ends. A life
that reaches its end writes what its caller knows of each order ("done" or "unknown") and what each call cost to `life.json`. It needs
no package but that of its program: DBOS is in an environment of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
import urllib.request
from contextlib import contextmanager
from pathlib import Path


#: where a process is killed: no call yet; the function runs; the effect is made; the call has returned
POINTS = ("before", "called", "made", "answered")


class Job:
    """Orders that are paid at the far end."""

    def __init__(self, wanted: dict) -> None:
        self.name: str = wanted["job"]
        self.folder = Path(wanted["folder"])
        self.steps = range(wanted["steps"])
        self.costs: list[float] = []  # seconds of each call, without the far end
        self._url, self._kill = wanted["url"], wanted["kill"]
        self._away = 0.0

    def order(self, step: int) -> str:
        return f"{self.name}/{step}"

    def at(self, step: int, point: str) -> None:
        if self._kill == [step, point]:
            os.kill(os.getpid(), signal.SIGKILL)

    def ask(self, path: str, **asked: object):
        request = urllib.request.Request(self._url + path, json.dumps(asked).encode())
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    @contextmanager
    def call(self, step: int):
        """Around the call of a step."""
        self.at(step, "before")
        self._away, began = 0.0, time.perf_counter()
        yield
        self.costs.append(time.perf_counter() - began - self._away)
        self.at(step, "answered")

    def pay(self, step: int, key: str = "") -> str:
        """The effect."""
        self.at(step, "called")
        began = time.perf_counter()
        answer = self.ask("/pay", order=self.order(step), key=key)
        self._away = time.perf_counter() - began
        self.at(step, "made")
        return answer

    # ---- the programs: each returns what its caller knows of the orders

    def loop_after(self) -> list[str]:
        """A loop that notes the end of each call."""
        with Notes(self.folder / "notes") as notes:
            for step in self.steps:
                if step not in notes.steps:
                    with self.call(step):
                        self.pay(step)
                        notes.add(step)
        return ["done" for _ in self.steps]

    def loop_before(self) -> list[str]:
        """A loop that notes the begin of each call."""
        with Notes(self.folder / "notes") as notes:
            for step in self.steps:
                if step not in notes.steps:
                    with self.call(step):
                        notes.add(step)
                        self.pay(step)
        return ["done" for _ in self.steps]

    def dbos(self, *, has_keys: bool = False) -> list[str]:
        """A workflow of steps, whose ID is that of the job: started again, it goes on."""
        from dbos import DBOS, SetWorkflowID

        @DBOS.step()
        def pay(step: int) -> str:
            return self.pay(step, f"{DBOS.workflow_id}-{DBOS.step_id}" if has_keys else "")

        @DBOS.workflow()
        def pay_all(steps: int) -> list[str]:
            answers = []
            for step in range(steps):
                with self.call(step):
                    answers.append(pay(step))
            return answers

        DBOS(
            config={
                "name": "shop",
                "system_database_url": f"sqlite:///{self.folder}/dbos.sqlite",
                "log_level": "ERROR",
                "run_admin_server": False,
            }
        )
        DBOS.launch()
        with SetWorkflowID(self.name):
            started = DBOS.start_workflow(pay_all, len(self.steps))
        answers = started.get_result()
        DBOS.destroy()
        return ["done" for _ in answers]

    def dbos_keys(self) -> list[str]:
        """The same; each step has a key, by which the far end knows it again."""
        return self.dbos(has_keys=True)

    def effects(self, *, verify=None) -> list[str]:
        """A loop over a function that may not run twice; each order has a key."""
        import resilient_bridge as rb

        effects = rb.stores.Effects(
            self.folder / "effects.db",
            key=lambda arguments: self.order(arguments["step"]),
            results=True,
            verify=verify,
        )

        @rb.resilient(idempotent=False, effects=effects, name="pay")
        def pay(step: int) -> str:
            return self.pay(step)

        known = []
        with effects:
            for step in self.steps:
                with self.call(step):
                    try:
                        pay(step)
                        known.append("done")
                    except rb.errors.EffectHeldError as error:
                        has_run = error.failure.details["first"] == "ran"
                        known.append("done" if has_run else "unknown")
        return known

    def find(self, call):
        """What the far end says of an order."""
        from resilient_bridge.stores import NOT_RUN, Ran

        receipt = self.ask("/find", order=self.order(call.arguments["step"]))
        return Ran(receipt) if receipt else NOT_RUN

    def effects_verify(self) -> list[str]:
        """The same; the far end is asked about a call in doubt."""
        return self.effects(verify=self.find)

    def phases(self) -> list[str]:
        """A workflow with a phase for each order; the far end is asked about a call in doubt."""
        import asyncio

        import resilient_bridge as rb

        effects = rb.stores.Effects(self.folder / "effects.db", verify=self.find)
        tools = rb.agent.Toolbox(effects=effects)
        state = self.folder / "state.json"
        flow = rb.agent.Workflow(state, name="shop", root=self.folder, tools=tools)

        @tools.tool
        def pay(step: int) -> str:
            return self.pay(step)

        def add(step: int) -> None:
            @flow.phase(name=f"order-{step}")
            async def paying(phase: rb.agent.Phase) -> None:
                with self.call(step):
                    await phase.call("pay", {"step": step})

        for step in self.steps:
            add(step)
        with effects:
            report = asyncio.run(flow.run())
        assert report.is_completed, report.explain()
        return ["done" for _ in self.steps]


class Notes:
    """A file with a line for each step, on the disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+")
        self._file.seek(0)
        self.steps = {int(line) for line in self._file}

    def add(self, step: int) -> None:
        self._file.write(f"{step}\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def live(program: str, wanted: dict) -> int:
    """One life, in this process; its exit code."""
    job = Job(wanted)
    try:
        known = getattr(job, program)()
    except BaseException:  # noqa: BLE001 -- the exit code says it
        traceback.print_exc()
        return 1
    (job.folder / "life.json").write_text(json.dumps({"known": known, "costs": job.costs}))
    return 0


def main(program: str) -> None:
    if program.startswith("dbos"):
        import dbos  # noqa: F401 -- once for all lives
    elif not program.startswith("loop"):
        import logging

        import resilient_bridge

        resilient_bridge.stores, resilient_bridge.agent  # noqa: B018 -- loaded once for all lives
        logging.getLogger("resilient_bridge").setLevel(logging.CRITICAL + 1)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os._exit(live(program, json.loads(line)))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
