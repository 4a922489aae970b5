"""What the feature server says: read by it, and by the rows that compare. Rule: values only."""

from __future__ import annotations


VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
INSTRUCTIONS = "Use “echo” first.\nThen the rest — ünïcode, \u2028 and 日本."
SERVER_INFO = {
    "name": "feature-server",
    "title": "The Feature Server",
    "version": "1.2.3",
    "websiteUrl": "https://example.com/",
    "icons": [{"src": "data:image/png;base64,aGk=", "mimeType": "image/png", "sizes": ["any"]}],
    "x-vendor": {"build": 7},
}
CAPABILITIES = {
    "tools": {"listChanged": True, "x-unknown": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "experimental": {"example.com/feature": {"level": 3, "ratio": 1.50, "list": [None, True, ""]}},
}
NAMES = [
    "echo",
    "progress",
    "changes",
    "logs",
    "asks",
    "fails",
    "wait",
    "numbers",
    "large",
    "contents",
    "spawn",
    "probe",
]
_HINTS = {
    "echo": {"readOnlyHint": True},
    "wait": {"destructiveHint": False, "idempotentHint": True},
}
TOOLS = [
    {
        "name": name,
        "title": f"The tool {name}",
        "description": f"Does {name}.",
        "inputSchema": {
            "type": "object",
            "properties": {"marker": {"type": "string", "x-mcp": 1}},
            "$comment": "ü",
        },
        "annotations": {"title": name, "x-unknown-hint": [1, {"a": None}], **_HINTS.get(name, {})},
        "execution": {"taskSupport": "optional"},
        "_meta": {"example.com/cost": 0.10},
        "x-unknown": {"deep": [[], {}, "ü"]},
    }
    for name in NAMES
]
PAGE = 5  # tools on a page: three pages
PROMPTS = [
    {"name": "greet", "title": "Greet", "arguments": [{"name": "who", "required": True}], "x-p": 1}
]
RESOURCES = [
    {"uri": "feature://one", "name": "one", "size": 3, "annotations": {"priority": 0.5}, "x-r": 2}
]
TEMPLATES = [{"uriTemplate": "feature://{name}", "name": "any", "x-t": 3}]
ERROR = {
    "code": -32042,
    "message": "URL elicitation required",
    "data": {"elicitations": [{"x": 1}, "ü"]},
}
NUMBERS = '{"content":[],"structuredContent":{"one":1.0,"big":123456789012345678901234567890,"exp":1E+2,"tiny":1e-400,"e":"\\u00fc"}}'
CONTENTS = {
    "content": [
        {"type": "text", "text": "ü", "annotations": {"audience": ["user"]}},
        {"type": "example.com/unknown", "payload": {"a": 1}},
        {"type": "resource_link", "uri": "feature://one", "name": "one"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ],
    "structuredContent": {"free": True},
    "isError": True,
    "_meta": {"example.com/trace": "t"},
    "x-unknown": 1,
}
ASKED = {
    "roots/list": {"_meta": {"example.com/why": 1}},
    "sampling/createMessage": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
        "maxTokens": 9,
        "modelPreferences": {"hints": [{"name": "fast"}], "x": 1},
    },
    "elicitation/create": {
        "message": "Name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
    "example.com/ask": {"vendor": True},
}
LARGE = 3_000_000
