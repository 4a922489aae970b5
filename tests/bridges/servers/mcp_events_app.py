"""The server of mcp_events.py, run by the Python of its environment: `python -P mcp_events_app.py PORT LEDGER [--forget]`.

The tool `order` writes its marker to the ledger, reports progress, and answers when the next number is posted to /publish/NUMBER.
The events of its streams are kept in memory, as in the examples of the SDK; GET /replays counts how often a stream was taken up again.
With --forget nothing is kept.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore
from starlette.responses import JSONResponse


port, ledger, keeps = int(sys.argv[1]), Path(sys.argv[2]), "--forget" not in sys.argv
waiting: set[asyncio.Future[int]] = set()


class Events(EventStore):
    """All events in one list; an event's id is its place in it, counted from 1."""

    def __init__(self):
        """None yet; `replays` counts how often a stream was taken up again."""
        self.replays = 0
        self.events = []

    async def store_event(self, stream_id, message):
        """Keep it; no message for an event that only has a place."""
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        """Send what is kept of the same stream behind this event."""
        self.replays += 1
        number = int(last_event_id)
        if not 0 < number <= len(self.events):
            return None
        stream = self.events[number - 1][0]
        for at, (other, message) in enumerate(self.events[number:], number + 1):
            if other == stream and message is not None:
                await send_callback(EventMessage(message, str(at)))
        return stream


server = MCPServer("orders")
store = Events()


@server.tool()
async def order(marker: str, context: Context) -> str:
    """Order something: twice is one too many."""
    with ledger.open("a") as file:
        file.write(f"{marker}\n")
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting.add(answer)
    try:
        await context.report_progress(1, 2)
        return f"{marker} {await answer}"
    finally:
        waiting.discard(answer)


@server.custom_route("/publish/{number}", methods=["POST"])
async def publish(request):
    """Let every call that waits answer with this number; how many there were."""
    unanswered = [each for each in waiting if not each.done()]
    for each in unanswered:
        each.set_result(int(request.path_params["number"]))
    return JSONResponse(len(unanswered))


@server.custom_route("/replays", methods=["GET"])
async def replayed(request):
    """How often a stream was taken up again."""
    return JSONResponse(store.replays)


app = server.streamable_http_app(event_store=store if keeps else None, retry_interval=100)
uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, timeout_graceful_shutdown=1)
