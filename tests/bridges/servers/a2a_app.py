"""The agent of a2a.py, run by the Python of its environment: `python -P a2a_app.py PORT LEDGER`. No model in it.

A message begins a task: its text goes into the ledger, and each number that is posted to /publish/NUMBER becomes an artifact of the task, until
0 is posted. Tasks are kept in memory.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as types
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


port, ledger = int(sys.argv[1]), Path(sys.argv[2])
waiting: set[asyncio.Queue[int]] = set()


class Numbers(AgentExecutor):
    """An agent that passes on what is published."""

    async def execute(self, context, event_queue):
        """Work on a task until 0 is published."""
        with ledger.open("a") as file:
            file.write(f"{context.get_user_input()}\n")
        status = types.TaskStatus(state=types.TASK_STATE_SUBMITTED)
        await event_queue.enqueue_event(
            types.Task(id=context.task_id, context_id=context.context_id, status=status)
        )
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        await task.start_work()
        numbers: asyncio.Queue[int] = asyncio.Queue()
        waiting.add(numbers)
        try:
            while (number := await numbers.get()) != 0:
                await task.add_artifact([types.Part(text=str(number))], artifact_id=str(number))
        finally:
            waiting.discard(numbers)
        await task.complete()

    async def cancel(self, context, event_queue):
        """Nobody asks for it."""
        raise NotImplementedError


async def publish(request):
    """Give the number to every task that is worked on; how many there are."""
    for numbers in waiting:
        numbers.put_nowait(int(request.path_params["number"]))
    return JSONResponse(len(waiting))


url = f"http://127.0.0.1:{port}/a2a"
card = types.AgentCard(
    name="numbers",
    description="passes numbers on",
    version="1",
    capabilities=types.AgentCapabilities(streaming=True),
    supported_interfaces=[
        types.AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
)
handler = DefaultRequestHandler(Numbers(), InMemoryTaskStore(), card)
routes = [
    *create_jsonrpc_routes(handler, "/a2a"),
    Route("/publish/{number}", publish, methods=["POST"]),
]
uvicorn.run(
    Starlette(routes=routes),
    host="127.0.0.1",
    port=port,
    access_log=False,
    timeout_graceful_shutdown=1,
)
