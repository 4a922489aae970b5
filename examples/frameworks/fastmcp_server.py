"""Tools of a Toolbox behind FastMCP, and a client that reconnects.

The server returns the outcome with `is_error`, so the model reads what failed, why and
what to do. The client is FastMCP's own under `rb.reconnecting`. Here it runs in the
server's process; for a remote server use `lambda: Client("https://host/mcp")`.

    $ python examples/frameworks/fastmcp_server.py
    Rome: 21 degrees
    Atlantis: LookupError: no such city: Atlantis
"""

import asyncio
import json

from fastmcp import Client, FastMCP
from fastmcp.tools import ToolResult

import resilient_bridge as rb


toolbox = rb.agent.Toolbox(rb.presets.openviber)
server = FastMCP("weather")
calls = 0


@toolbox.tool(idempotent=True)
async def look(city: str) -> str:
    global calls
    calls += 1
    if calls == 1:
        # repeated by the toolbox's policy
        raise ConnectionResetError(104, "connection reset")
    if city == "Atlantis":
        raise LookupError("no such city: Atlantis")
    return "21 degrees"


@server.tool(output_schema=None)
async def weather(city: str) -> ToolResult:
    """Return the weather of a city."""
    outcome = await toolbox.call("look", {"city": city})
    return ToolResult(content=outcome.to_llm(), is_error=not outcome.ok)


async def main() -> None:
    async with rb.reconnecting(lambda: Client(server)) as client:
        for city in ("Rome", "Atlantis"):
            result = await client.call_tool(
                "weather", {"city": city}, raise_on_error=False
            )
            reported = json.loads(result.content[0].text)
            print(f"{city}:", reported.get("result") or reported["message"])


if __name__ == "__main__":
    with rb.testing.virtual_time():  # only here: do not wait between repeats
        asyncio.run(main())
