"""The graph and the routes of langgraph.py, imported by the server: `langgraph dev` in a folder that has this file.

The graph `numbers` writes its marker to the ledger and then reports each number that is posted to /publish/NUMBER, until 0 is posted. After
/publish/-1 it reports fifty at once.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


waiting: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Queue[int]]] = {}
LEDGER = Path("ledger.txt")


class State(TypedDict):
    """What a run is given."""

    marker: str


async def count(state: State) -> dict:
    """Count the run, and pass on what is published."""
    with LEDGER.open("a") as ledger:
        ledger.write(f"{state['marker']}\n")
    numbers: asyncio.Queue[int] = asyncio.Queue()
    waiting[state["marker"]] = asyncio.get_running_loop(), numbers
    write = get_stream_writer()
    try:
        while (number := await numbers.get()) != 0:
            for each in range(1, 51) if number == -1 else (number,):
                write({"number": each})
    finally:
        waiting.pop(state["marker"], None)
    write({"number": 0})
    return {}


async def publish(request):
    """Give the number to every run that waits; how many there are."""
    number = int(request.path_params["number"])
    for loop, numbers in list(waiting.values()):
        loop.call_soon_threadsafe(numbers.put_nowait, number)
    return JSONResponse(len(waiting))


building = StateGraph(State)
building.add_node("count", count)
building.add_edge(START, "count")
building.add_edge("count", END)
graph = building.compile()
app = Starlette(routes=[Route("/publish/{number}", publish, methods=["POST"])])
