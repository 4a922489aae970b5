"""The table of rows, and what a row compares with. Rule: equal as JSON, types of numbers included; an exception says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .raw_client import Client


OPENED = {
    "protocolVersion": "2025-11-25",
    "clientInfo": {"name": "raw", "title": "Raw ü", "version": "0", "x-vendor": 1},
    "capabilities": {
        "roots": {"listChanged": True},
        "sampling": {"context": {}},
        "elicitation": {"form": {}, "url": {}},
        "experimental": {"example.com/ask": {"a": 1.5}},
    },
}
ANSWERS: dict[str, Any] = {
    "roots/list": {"roots": [{"uri": "file:///ü", "name": "r", "x-root": 1}], "x-unknown": 1},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "4"},
        "model": "m",
    },
    "elicitation/create": {
        "action": "accept",
        "content": {"name": "ü"},
        "_meta": {"example.com/a": 1},
    },
    "example.com/ask": {"vendor": "yes"},
}
REFUSED = {"code": -32042, "message": "not now", "data": {"why": ["ü"]}}

Row = Callable[["Client", Mapping[str, Any]], None]
ROWS: dict[str, Row] = {}


def row(check: Row) -> Row:
    """A row, named as its function: an exception says what is wrong."""
    ROWS[check.__name__] = check
    return check


def same(found: Any, wanted: Any) -> None:
    """Equal as JSON, types of numbers included."""
    texts = [json.dumps(value, sort_keys=True, ensure_ascii=False) for value in (found, wanted)]
    assert texts[0] == texts[1], f"wanted {texts[1][:250]}, got {texts[0][:250]}"


def result(answer: Any) -> Any:
    """The result of an answer; an AssertionError if it is an error."""
    assert "result" in answer, f"wanted a result, got {answer}"
    return answer["result"]
