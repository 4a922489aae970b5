"""A tool under the official MCP SDK's own decorator: its schema stays, and it works through a real client."""

from __future__ import annotations

from typing import Annotated

import pytest
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from pydantic import Field

import resilient_bridge as rb
from resilient_bridge.agent import CommandResult, Toolbox
from tests.calls.forms import at_once


def servers():
    """The same tools twice: as they are, and from a toolbox."""
    plain, wrapped = MCPServer("plain"), MCPServer("wrapped")
    toolbox = Toolbox(rb.Policy(at_once()))
    fails = [1, 1]

    async def grep(pattern: Annotated[str, Field(description="what")], most: int = 3) -> list[str]:
        """Look for it."""
        if fails:
            fails.pop()
            raise ConnectionRefusedError
        return [pattern] * most

    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    for function in (grep, add):
        plain.tool()(function)
        wrapped.tool()(toolbox.tool(idempotent=True)(function))
    return plain, wrapped, toolbox, fails


@pytest.mark.real
async def test_the_schema_is_that_of_the_function():
    """Names, descriptions, input and output: what the SDK reads from the tool is what it reads from the function."""
    plain, wrapped, *_ = servers()
    async with Client(plain) as one, Client(wrapped) as two:
        expected, found = (await one.list_tools()).tools, (await two.list_tools()).tools
    assert found == expected
    assert [tool.name for tool in found] == ["grep", "add"]


@pytest.mark.real
async def test_the_server_calls_the_protected_function():
    """Two refused connections inside of the tool are repeated; the toolbox has it by name as well."""
    _, wrapped, toolbox, fails = servers()
    async with Client(wrapped) as client:
        found = await client.call_tool("grep", {"pattern": "x", "most": 1})
        added = await client.call_tool("add", {"a": 2})
    assert fails == []
    assert (found.is_error, found.content[0].text) == (False, "x")
    assert added.content[0].text == "3"
    assert (await toolbox.call("grep", {"pattern": "y", "most": 2})).value == ["y", "y"]


@pytest.mark.real
async def test_a_command_under_the_sdk():
    """Its parameters are those of the function, and its answer is that of the command."""
    server, toolbox = MCPServer("commands"), Toolbox()

    @server.tool(structured_output=False)
    @toolbox.command(timeout=10)
    def echo(word: str) -> list[str]:
        """Say it."""
        return ["echo", word]

    async with Client(server) as client:
        (tool,) = (await client.list_tools()).tools
        answer = await client.call_tool("echo", {"word": "hi"})
    assert tool.input_schema["required"] == ["word"]
    assert not answer.is_error
    assert "hi" in answer.content[0].text
    assert isinstance(await echo("x"), CommandResult)
