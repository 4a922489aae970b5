"""The application of agno.py, run by the Python of agno's environment: `python -P agno_app.py PORT FOLDER`. No model in it.

The workflow `numbers` writes its message to the ledger and then tells each number that is posted to /publish/NUMBER, as the
progress of its second step, until /finish is posted.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
from agno.db.sqlite import SqliteDb
from agno.os import AgentOS
from agno.workflow import Step, StepOutput, Workflow
from agno.workflow.types import StepProgress
from fastapi import FastAPI


port, folder = int(sys.argv[1]), Path(sys.argv[2])
waiting: set[asyncio.Queue[int | None]] = set()


async def note(step_input):
    """Count the run."""
    with (folder / "ledger.txt").open("a") as ledger:
        ledger.write(f"{step_input.input}\n")
    return StepOutput(content="noted")


async def count(step_input):
    """Pass on what is published."""
    numbers: asyncio.Queue[int | None] = asyncio.Queue()
    waiting.add(numbers)
    try:
        while (number := await numbers.get()) is not None:
            yield StepProgress(content=str(number))
    finally:
        waiting.discard(numbers)
    yield StepOutput(content="finished")


base = FastAPI()


@base.post("/publish/{number}")
async def publish(number: int) -> int:
    """Give the number to every run that is open; how many there are."""
    for numbers in waiting:
        numbers.put_nowait(number)
    return len(waiting)


@base.post("/finish")
async def finish() -> None:
    """End every run that is open."""
    for numbers in waiting:
        numbers.put_nowait(None)


@base.get("/open")
async def opened() -> int:
    """How many runs wait for numbers."""
    return len(waiting)


numbers = Workflow(
    id="numbers",
    name="numbers",
    steps=[Step(name="note", executor=note), Step(name="count", executor=count)],
    db=SqliteDb(db_file=str(folder / "agno.db")),
    telemetry=False,
)
app = AgentOS(workflows=[numbers], base_app=base, telemetry=False).get_app()
uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, ws="websockets-sansio")
