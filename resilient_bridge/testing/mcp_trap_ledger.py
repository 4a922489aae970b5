"""The effects of the trap's tools, on disk: one line of JSON for each start, call and effect.

Rule: a line is written in one piece before a byte of the answer is sent, and outlives every
process. A restarted server finds the next step of the plan by the number of calls in the ledger.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class TrapEffect:
    """One effect of a tool of the trap.

        trap = rb.mcp.Trap("ledger.jsonl")
        for effect in trap.effects():
            print(effect.tool, effect.marker, effect.call)

    `call`: the number of the call, from 0. `at`: seconds since 1970. `key`: what `put` wrote to.
    """

    tool: str
    marker: str
    call: int
    at: float
    key: str = ""


def append(file: Path, event: str, **fields: Any) -> None:
    """Append a line with one `write` and O_APPEND, so that lines of processes do not mix."""
    # in ASCII: a lone surrogate, too
    line = json.dumps({"event": event, "at": time.time(), **fields})
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(number, line.encode() + b"\n")
    finally:
        os.close(number)


def records(file: Path, event: str) -> list[dict[str, Any]]:
    """Return the lines of this kind, in order; none if the file does not exist yet."""
    if not file.exists():
        return []
    # split as `append` joins: str.splitlines() also ends a line at characters that JSON leaves as they are
    lines = (json.loads(line) for line in file.read_bytes().split(b"\n") if line)
    return [line for line in lines if line["event"] == event]


def effects(file: Path) -> list[TrapEffect]:
    return [
        TrapEffect(line["tool"], line["marker"], line["call"], line["at"], line.get("key", ""))
        for line in records(file, "effect")
    ]


def repeats(done: Iterable[TrapEffect]) -> list[TrapEffect]:
    """Return the effects that were repeated and should not have been.

    A second `order` with a marker is one. A second `put` with a marker is one only if something
    else was put to that key in between: until then a repeat changes nothing, and the tool says so
    by `idempotentHint`.
    """
    seen: set[tuple[str, str]] = set()
    last: dict[str, str] = {}  # by key: the marker of the last put
    wrong: list[TrapEffect] = []
    for effect in done:
        name = effect.tool, effect.marker
        is_harmless = effect.tool == "put" and last.get(effect.key) == effect.marker
        if name in seen and not is_harmless:
            wrong.append(effect)
        seen.add(name)
        if effect.tool == "put":
            last[effect.key] = effect.marker
    return wrong
