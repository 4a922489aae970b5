"""What settings say of whole documents, to the byte: `python -m tests.settings.golden` writes tests/settings/data.

Rule: these files are a net under changes of the code, so a commit that changes one changes nothing else, and its message lists
each first difference and why. What refuses a single wrong value is in refusals.txt.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import resilient_bridge as rb
from tests.internals.protocol import End, Positions
from tests.internals.settings import (
    LAYERS,
    TABLES,
    TOP,
    ClientSettings,
    fields_of,
    schema,
)
from tests.strategies import needed


DATA = Path(__file__).parent / "data"


def search(*_: object) -> bool:
    """A function that settings can name."""
    return True


NAMES: dict[str, Any] = {"search": search, "Busy": OSError}
WRONG: tuple[Any, ...] = (True, math.nan, "30sec", [], {})
VALUES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        rb.Backoff, rb.Rule, rb.RetryBudget, *LAYERS.values(), rb.bridge.Reconnect, rb.bridge.Heartbeat, rb.bridge.Outbox,
        rb.bridge.Inbox, rb.bridge.Replay, rb.bridge.Dialect, Positions, End, rb.bridge.BridgePolicy, *TABLES.values(), TOP["agent"],
    )
}  # fmt: skip
NEEDED: dict[str, dict[str, Any]] = {
    "Backoff": {"shape": "exponential", "seconds": (1.0,), "cap": 30},
    "End": {"means": "auth", "code": "gone"},
    "Sidecar": {"command": ("server",)},
    "AgentSettings": {"model": "a/b", "name": "n"},
}
"""The fields that a value cannot be made without, with right values; of a layer see `_whole`."""
AT: dict[str, tuple[str | int, ...]] = {
    **{kind.__name__: (key,) for key, kind in (*LAYERS.items(), *TABLES.items())},
    **{name.title(): (name,) for name in ("reconnect", "heartbeat", "outbox", "inbox", "replay", "dialect")},
    "Backoff": ("retry", "backoff"),
    "Rule": ("retry", "rules", "transient"),
    "RetryBudget": ("policies", "a", "retry", "budget"),
    "Positions": ("dialect", "positions"),
    "End": ("dialect", "ends", 0),
    "AgentSettings": (),
    "BridgePolicy": (),
}  # fmt: skip
"""Where a document has a value."""
RICH = """\
preset = "recursor"
model = "a/b"
name = "n"
fallback_model = "c/d"
idempotent = ["read"]
debug = "circuit"

[retry]
attempts = 4
on = ["transient", 429, "5xx", "UPSTREAM", "openai:RateLimitError", "/quota/i", "Busy"]
on_result = "search"
backoff = "steps(0, 1, then=exponential(2, cap=60))"
max_retry_after_ms = 1500
budget = {ratio = 0.5, floor = 2}

[retry.rules]
CONN_RESET = {attempts = 2, backoff = "1s", before = "search"}
429 = {backoff = {shape = "linear", seconds = 1}}

[breaker]
window = "60s"
open_for = 10
slow_after = "500ms"

[timeout]
seconds = [1, "2s"]

[fallback]
ladder = "search"
may_have_run = true

[reconnect]
grace = "5 min"
backoff = "linear(1, cap=2)"

[outbox]
max_bytes = "1MiB"

[dialect]
auth = "login"
superseded = [4001]
ends = [{means = "auth", code = "gone"}]

[tools]
per_tool = {bash = 300000}

[tools.search]
idempotent = true
timeout = 3

[policies.slow]
order = ["timeout", "retry"]
name = "slow"
timeout = 9
retry = {max_attempts = 3, base_delay_ms = 10, backoff = "jittered"}

[providers]
openai = "https://api.openai.com/v1?key=x"

[bridge]
url = "wss://host/ws"
headers = {x = "y", authorization = "env:HOME"}
token = "env:HOME"
on_gap = "search"

[alerts]
error_rate = [0.1, 0.5]
window = "60s"

[mcp]
url = "https://host/mcp"
timeouts = {read = "2s"}
rates = {read = 3}
concurrency = {read = 2}
headers = {x = "y"}

[budget]
limit_usd = 3

[effects]
path = "/tmp/effects.db"
verify = {pay = "search"}
"""
"""A document that uses every kind of field."""
MANY = """\
preset = "recursr"
modell = 1
debug = "cals"
[retry]
attempts = 0
on = ["transiant", 429]
atempts = 3
backoff = "exponental(1)"
budget = {ratio = -1, flor = 2}
[retry.rules]
CONN_RESETT = {attempts = 2}
429 = {attempts = 0, before = "serch"}
[reconnect]
on_exhausted = "suspent"
grace = "soon"
grace_ms = 5
[dialect]
ends = [
  {means = "auth", code = "gone"},
  {means = "out", code = "gone"},
]
[tools.search]
idempotent = "yes"
[policies.slow]
idempotent = true
order = ["retry"]
timeout = 0
[bridge]
url = "wss://user:secret@host/ws"
token = "t0p"
headers = {authorization = "Bearer t0p"}
[mcp]
url = "ftp://host"
timeouts = {read = "-2s"}
rates = {read = 0}
[providers]
openai = "https://me:t0p@host"
"""
"""A document with many mistakes, some of them beside each other."""


def outcome(make: Callable[[], object]) -> str:
    """What a call returns, as its repr, or the text of its error; one line."""
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 -- its class and its text are what is kept
        text = f"{type(error).__name__}: {error}"
    else:
        text = f"= {made!r}"
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "nan" if isinstance(value, float) and math.isnan(value) else json.dumps(value)


def documents(folder: Path) -> Iterator[str]:
    """Whole documents with a wrong value in every field of a table: all problems at once, with their lines."""
    path = folder / "golden.toml"
    texts = {"rich": RICH, "many": MANY}
    for name, kind in VALUES.items():
        at = AT[name]
        if all(isinstance(key, str) for key in at):
            head = f"[{'.'.join(map(str, at))}]\n" if at else ""
            for wrong in WRONG:
                texts[f"{name} {wrong!r}"] = head + "".join(
                    f"{field.name} = {_toml(wrong)}\n" for field in fields_of(kind)
                )
    for title, text in texts.items():
        path.write_text(text)
        found = outcome(lambda: rb.load(path, names=NAMES)).replace(str(path), "golden.toml")
        yield f"{title}:"
        yield from (f"  {line}" for line in found.split("\\n"))
    for name, kind in VALUES.items():
        if kind not in {ClientSettings, *TABLES.values(), TOP["agent"]} or kind is rb.mcp.Sidecar:
            for wrong in ("x", [], {"kind": "Retry"}):
                yield f"load({wrong!r}, {name}) | {outcome(lambda: rb.load({'value': wrong}, kind))}"  # noqa: B023


def shown(folder: Path) -> Iterator[str]:
    """What `explain` and `dump` say of presets, defaults and a document that uses every kind of field."""
    path = folder / "golden.toml"
    path.write_text(RICH)
    sources: dict[str, Any] = {name: {"preset": name} for name in rb.presets.__all__}
    for title, source in {"nothing": {}, **sources, "rich": path}.items():
        config = rb.load(source, names=NAMES, env={"RESILIENT_BRIDGE_INBOX__MAX_MESSAGES": "7"})
        yield f"{title}:"
        for line in config.explain():
            yield f"  {line.path} = {line.value!r} ({line.source.replace(str(path), 'golden.toml')})"
        yield f"  warnings {config.warnings!r}"
        yield f"  dump of the bridge {outcome(lambda: rb.settings.dump(config.bridge, names=NAMES))}"  # noqa: B023
        for name, policy in config.policies.items():
            yield f"  dump of {name} {outcome(lambda: rb.settings.dump(policy, names=NAMES))}"  # noqa: B023
    for name, kind in VALUES.items():
        made = outcome(lambda: rb.settings.dump(_whole(kind), names=NAMES))  # noqa: B023
        yield f"dump of {name} {made}"
        yield f"dump of {name} without names {outcome(lambda: rb.settings.dump(_whole(kind)))}"  # noqa: B023


def _whole(kind: type) -> object:
    if kind in LAYERS.values():
        return kind(*(search if each is len else 2 for each in needed(kind)))
    return kind(**NEEDED.get(kind.__name__, {}))


def _lines(path: str, node: Any) -> Iterator[str]:
    """A line for each part of a schema that fits on one."""
    text = json.dumps(node)
    if len(text) <= 160 or not isinstance(node, dict | list):
        yield f"{path} {text}"
        return
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node):
        yield from _lines(f"{path}.{key}", inner)


def files(folder: Path) -> dict[str, str]:
    """The text of each golden file; documents are written into `folder`."""
    return {
        "documents.txt": "\n".join(documents(folder)) + "\n",
        "shown.txt": "\n".join(shown(folder)) + "\n",
        "schema.txt": "\n".join(_lines("", schema())) + "\n",
    }


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, text in files(Path(folder)).items():
            DATA.joinpath(name).write_text(text)
            sys.stdout.write(f"{name}: {text.count(chr(10))} lines, {len(text)} characters\n")
