"""The effects of a model call beside its cost: tools that run inside it, or at the provider.

Rule: an argument that is unknown, or cannot be inspected without consuming it, counts as a tool
that runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast


_LOOPS: Final = re.compile(r"(aio\.)?(models\.generate_content|chats\.send_message)(_stream)?")
"""Calls of google-genai that call the model, run the tools it requests, and call it again."""


def field_of(value: object, name: str) -> Any:
    """Return the value of an object or a mapping under a name; None if there is none."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, Any]", value)
        first, *rest = name.split("_")
        # google-genai accepts camelCase, too
        return fields.get(name, fields.get(first + "".join(map(str.title, rest))))
    return getattr(value, name, None)


def openai_effect(arguments: Mapping[str, Any], _owner: object) -> bool:
    """Return whether the provider runs tools without asking, or stores messages in a conversation.

    `background=True` counts as no effect: a response that is never fetched costs money, as a lost
    answer does.
    """
    body = _body(arguments)
    if body.get("conversation"):
        return True
    tools = body.get("tools") or ()
    if not isinstance(tools, Collection):
        return True
    return any(
        field_of(tool, "type") == "mcp" and field_of(tool, "require_approval") != "always"
        for tool in cast("Collection[object]", tools)
    )


def anthropic_effect(arguments: Mapping[str, Any], _owner: object) -> bool:
    """Return whether the provider runs tools: those of MCP servers."""
    return bool(_body(arguments).get("mcp_servers"))


def _body(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = arguments.get("extra_body")
    return (
        {**arguments, **cast("Mapping[str, Any]", extra)}
        if isinstance(extra, Mapping)
        else arguments
    )


# ---- google-genai ---------------------------------------------------------------------------------------------------


def google_config(arguments: Mapping[str, Any], owner: object) -> object:
    """Return the config of a call: its own, or that of its chat."""
    return arguments.get("config") or getattr(owner, "_config", None)


def google_effect(arguments: Mapping[str, Any], owner: object) -> bool:
    """Return whether the provider runs tools: those of MCP servers."""
    tools = field_of(google_config(arguments, owner), "tools") or ()
    if not isinstance(tools, Collection):
        return True
    return any(field_of(tool, "mcp_servers") for tool in cast("Collection[object]", tools))


def google_runs_tools(method: str, arguments: Mapping[str, Any], owner: object) -> bool:
    """Return whether the SDK runs tools inside a call.

    It runs functions and MCP sessions, and on Vertex AI also the tools of MCP servers.
    """
    config = google_config(arguments, owner)
    tools = field_of(config, "tools") or ()
    if (
        _LOOPS.fullmatch(method) is None
        or not tools
        or _is_off(field_of(config, "automatic_function_calling"))
    ):
        return False
    if not isinstance(tools, Collection):
        return True
    return any(_is_run(tool, owner) for tool in cast("Collection[object]", tools))


def _is_off(calling: object) -> bool:
    most = field_of(calling, "maximum_remote_calls")
    return field_of(calling, "disable") is True or (isinstance(most, int) and most <= 0)


def _is_run(tool: object, owner: object) -> bool:
    if callable(tool) or not (
        issubclass(type(tool), Mapping) or hasattr(type(tool), "model_fields")
    ):
        return True
    api = getattr(getattr(owner, "_modules", owner), "_api_client", None)
    return bool(field_of(tool, "mcp_servers") and getattr(api, "vertexai", False))
