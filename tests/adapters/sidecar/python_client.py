"""The official Python client, in one era: `python python_client.py legacy|auto PLAN COMMAND...` or `... PLAN URL`.

PLAN and what is printed are those of tests/node/mcp_client.mjs; the first line tells the protocol version as well.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError


def _print(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def _call(client: Client, n: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    numbered = json.loads(json.dumps(arguments).replace("{n}", str(n)))
    try:
        result = await client.call_tool(name, numbered)
    except MCPError as error:
        return {"n": n, "name": name, "error": {"code": error.code, "message": str(error)}}
    text = "\n".join(getattr(item, "text", "") for item in result.content)
    return {
        "n": n,
        "name": name,
        "isError": result.is_error,
        "text": text,
        "meta": result.meta or {},
    }


async def run(era: str, plan: dict[str, Any], target: list[str]) -> None:
    """Run the plan on one session."""
    command, *arguments = target
    server = (
        command
        if command.startswith("http")
        else StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    )
    async with Client(server, mode=era, read_timeout_seconds=plan.get("timeout", 60)) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        _print(
            {
                "server": client.server_info and client.server_info.name,
                "tools": tools,
                "version": client.protocol_version,
            }
        )
        n = 0
        for call in plan["calls"]:
            for _ in range(call.get("times", 1)):
                if plan.get("paced") and not await asyncio.to_thread(sys.stdin.readline):
                    return
                _print(await _call(client, n, call["name"], call.get("arguments", {})))
                n += 1


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]))
