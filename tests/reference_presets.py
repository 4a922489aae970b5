"""A page for each preset: what it says, where each number comes from, and its source.

Rule: a value is read from the preset; only where it comes from is written here: the section of the specification, and the row of
docs/reference/promises.md that a test proves.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import resilient_bridge as rb
from tests.internals.presets import ready

from .reference_layout import table
from .requirements import SOURCES


PRESETS = Path(__file__).parents[1] / "docs/presets"


class Value(NamedTuple):
    """A value of a preset, and where it comes from."""

    about: str
    read: Callable[[Any], object]
    section: str
    row: str


class Preset(NamedTuple):
    """The specification of a preset, by its letter in tests/requirements.py, and its values."""

    letter: str
    use: str
    values: list[Value]


def _tool(name: str) -> Callable[[Any], object]:
    return lambda preset: preset.tools[name]


ABOUT = {
    "default": Preset(
        "",
        "Use it if nothing is known about the server. `BridgeClient`, `reconnecting` and `BridgePolicy()` use it by default.",
        [
            Value("reconnection", lambda p: p.reconnect, "ours: with jitter, without end", "R3"),
            Value("detection of a dead peer", lambda p: p.heartbeat, "ReCursor's times", "V13"),
            Value(
                "messages that wait to be sent",
                lambda p: p.outbox,
                "ours; the window is OpenViber's 5 minutes",
                "V9",
            ),
            Value("how far back a replay goes", lambda p: p.replay, "ours", "R14"),
            Value("calls", lambda p: p.calls, "ours: `rb.resilient`", "R15"),
        ],
    ),
    "recursor": Preset(
        "R",
        "Use it for a `BridgeClient` of a ReCursor bridge, and for the tools of its agent.",
        [
            Value(
                "waits before reconnecting",
                lambda p: p.reconnect.backoff,
                "CONN_WEBSOCKET_CLOSED",
                "R3",
            ),
            Value(
                "attempts to reconnect, and what follows them",
                lambda p: f"{p.reconnect.attempts}, {p.reconnect.on_exhausted}",
                "CONN_WEBSOCKET_CLOSED",
                "R3",
            ),
            Value(
                "after a connect timeout",
                lambda p: p.reconnect.rules["CONN_TIMEOUT"].backoff,
                "CONN_TIMEOUT",
                "R6",
            ),
            Value(
                "attempts on the cached address",
                lambda p: p.reconnect.reuse_address_on,
                "CONN_TIMEOUT",
                "R6",
            ),
            Value(
                "how long a session is kept",
                lambda p: f"{p.reconnect.grace:g} s",
                "SESS_NOT_FOUND",
                "R4",
            ),
            Value("the circuit", lambda p: p.calls.layers[1], "Circuit Breaker Pattern", "R15"),
            Value("calls", lambda p: p.calls.layers[0], "TOOL_EXECUTION_FAILED", "R11"),
            *(
                Value(f"tool `{name}`", _tool(name), "TOOL_TIMEOUT", "R12")
                for name in ("bash", "read_file", "edit_file", "search")
            ),
        ],
    ),
    "ccsetup": Preset(
        "C",
        "Use it for the steps of a [workflow](../how-to/run-a-workflow.md) of an agent. ccsetup has no link of its own.",
        [Value("a transient failure", lambda p: p.calls.layers[0], "Transient Recovery", "C2")],
    ),
    "stdiobus": Preset(
        "S",
        "Use it for an MCP client whose server delegates to agents: `rb.reconnecting(…, rb.presets.stdiobus)` follows the two lists of names.",
        [
            Value(
                "operations that may be repeated",
                lambda p: p.idempotent,
                "which operations are safe to repeat",
                "S8",
            ),
            Value(
                "operations that may be repeated if the error is marked retryable",
                lambda p: p.idempotent_if_marked,
                "which operations are safe to repeat",
                "S8",
            ),
            Value(
                "calls",
                lambda p: p.calls,
                "no delays are specified, so they are those of `default`",
                "S9",
            ),
        ],
    ),
    "gasoline": Preset(
        "G",
        "Use it for the daemon of a browser extension, and for commands that run in a page.",
        [
            Value(
                "waits before reconnecting",
                lambda p: p.reconnect.backoff,
                "Exponential Backoff Schedule",
                "G2",
            ),
            Value(
                "the same after a timeout",
                lambda p: p.reconnect.rules["CONN_TIMEOUT"].backoff,
                "Network Errors",
                "G8",
            ),
            Value("calls", lambda p: p.calls.layers[0], "Exponential Backoff Schedule", "G2"),
            Value("the circuit", lambda p: p.calls.layers[1], "Circuit Breaker Defaults", "G2"),
            Value("tool `execute_js`", _tool("execute_js"), "Execute JS Timeout Example", "G4"),
            *(
                Value(f"tool `{name}`", _tool(name), "Timing Constants", "G1")
                for name in (
                    "default",
                    "query",
                    "async_command",
                    "startup",
                    "poll",
                    "health",
                    "long_handler",
                )
            ),
        ],
    ),
    "openviber": Preset(
        "V",
        "Use it for an agent that talks to its board, to models of several providers, and to tools.",
        [
            Value(
                "waits before reconnecting",
                lambda p: p.reconnect.backoff,
                "4, Reconnection Strategy",
                "V7",
            ),
            Value(
                "attempts to reconnect, and what follows them",
                lambda p: f"{p.reconnect.attempts}, {p.reconnect.on_exhausted}",
                "4, Reconnection Strategy",
                "V7",
            ),
            Value("detection of a dead peer", lambda p: p.heartbeat, "8, Crash Detection", "V13"),
            Value(
                "whether the server deduplicates",
                lambda p: p.dialect.dedupes,
                "4, Idempotency",
                "V9",
            ),
            Value("calls of a model", lambda p: p.calls.layers[0], "2, Retry Policy", "V1"),
            Value("calls of a local model", _tool("local"), "2, Provider-Specific Behavior", "V2"),
            *(
                Value(f"tool `{name}`", _tool(name), "3, Timeout Handling", "V5")
                for name in ("default", "shell_command", "web_scrape", "browser_action")
            ),
        ],
    ),
}


def _shown(value: object) -> str:
    return f"`{value}`" if isinstance(value, str) else f"`{value!r}`"


def _source(name: str) -> str:
    """The part of the module behind its heading."""
    _, *parts = re.split(r"^# ---- (\w+): .*\n", inspect.getsource(ready), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))[name].strip()


def preset_page(name: str) -> str:
    """The text of docs/presets/NAME.md."""
    preset, about = getattr(rb.presets, name), ABOUT[name]
    whose = SOURCES[about.letter] if about.letter else "The recommended policy"
    rows = (
        (value.about, _shown(value.read(preset)), value.section, value.row)
        for value in about.values
    )
    return "\n".join(
        [
            f"# `presets.{name}`",
            "",
            "Generated by `python -m tests.pages`; edit tests/reference_presets.py or the package instead.",
            "",
            f"{whose}. {about.use} Values that are not listed are those of [`presets.default`](default.md)."
            if about.letter
            else f"{whose}. {about.use}",
            "",
            "See [how to use a preset](../how-to/use-a-preset.md), and how to change a number of it.",
            "",
            *table(
                "what | value | section of the specification"
                if about.letter
                else "what | value | whose numbers",
                [row[:3] for row in rows],
            ),
            "",
            "Promised and tested: ["
            + ", ".join(
                sorted(
                    {value.row for value in about.values}, key=lambda row: (row[0], int(row[1:]))
                )
            )
            + "](../reference/promises.md).",
            "",
            "## Source",
            "",
            "`resilient_bridge/presets/ready.py`:",
            "",
            "```py",
            _source(name),
            "```",
            "",
        ]
    )
