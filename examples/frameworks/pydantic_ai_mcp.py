"""An MCP server that dies, under pydantic-ai, from a file of mcpServers.

`resilient-bridge mcp` stands before the server in the file, as
`resilient-bridge mcp --print-config mcpservers COMMAND …` prints it. The server is a
trap: it dies after it took the order, before it answered. With
`tool_error_behavior="failed"` the model reads OUTCOME UNKNOWN and looks before it
repeats anything; pydantic-ai's default would ask it for another call.

    $ python examples/frameworks/pydantic_ai_mcp.py
    order: OUTCOME UNKNOWN
    list_orders: A-17
    answer: Tea is ordered.
    orders placed: 1
"""

import asyncio
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import resilient_bridge as rb


def script(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Play the model: an order, a look whether it was taken, an answer."""
    last = messages[-1].parts[-1]
    if last.part_kind != "tool-return":
        return ModelResponse(
            parts=[ToolCallPart("order", {"marker": "A-17", "item": "tea"})]
        )
    text = last.model_response_str()
    is_unknown = "OUTCOME UNKNOWN" in text
    print(f"{last.tool_name}:", "OUTCOME UNKNOWN" if is_unknown else text)
    if is_unknown:
        return ModelResponse(parts=[ToolCallPart("list_orders", {})])
    return ModelResponse(parts=[TextPart("Tea is ordered.")])


async def main(folder: Path) -> None:
    trap = rb.mcp.Trap(folder / "effects.jsonl", plan="after,answer")
    options = ["mcp", "--quiet", "--check", "order=list_orders"]
    entry = {
        "command": sys.executable,
        "args": ["-m", "resilient_bridge", *options, *trap.command],
    }
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"shop": entry}}))

    config = json.loads(file.read_text())
    tools = MCPToolset(config, tool_error_behavior="failed")
    async with Agent(FunctionModel(script), toolsets=[tools]) as agent:
        result = await agent.run("Order tea, marker A-17.")
    print("answer:", result.output)
    print("orders placed:", trap.ran("A-17"))


if __name__ == "__main__":
    with TemporaryDirectory() as path:
        asyncio.run(main(Path(path)))
