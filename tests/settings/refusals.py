"""Every wrong value and the text that refuses it: constructors of policies, and `rb.load()`.

    python -m tests.settings.refusals > tests/settings/refusals.txt      # in a commit that changes nothing else

Each parameter of each constructor, and each key of docs/reference/settings.md, is given each of WRONG; what is accepted has no row.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import resilient_bridge as rb
from resilient_bridge import bridge
from tests.strategies import LAYERS, needed


PAGE = Path(__file__).parents[2] / "docs/reference/settings.md"
GOLDEN = Path(__file__).with_suffix(".txt")
WRONG_IN_A_FILE: list[Any] = [
    None, True, -1, 0, float("nan"), "", "soon", "1", ["CONN_RESET", 5], {"busy": 5},
]  # fmt: skip
WRONG = [*WRONG_IN_A_FILE, int]
MORE: list[Any] = [  # for those whose fields are of all kinds
    1.5, 1e12, "10s", [], {}, {429: 5}, len, timedelta(seconds=-1), Exception("no class"),
]  # fmt: skip
FIRST: dict[Any, tuple[Any, ...]] = {  # what a constructor needs besides
    **{kind: needed(kind) for kind in LAYERS}, rb.Policy: (rb.Retry(),),
    rb.Breaker.consecutive: (5,), rb.Timeout.escalating: (1, 2), rb.Backoff.constant: (1,), rb.Backoff.linear: (1,),
    rb.Backoff.exponential: (1,), rb.Backoff.decorrelated: (1,), rb.Backoff.steps: (1, 2), rb.BridgeClient: ("ws://127.0.0.1:1/",),
    rb.HTTPTransport: (), rb.agent.Toolbox: (), rb.reconnecting: (len,),
}  # fmt: skip
VALUES = [
    *LAYERS, rb.RetryBudget, rb.Policy, rb.Rule,
    rb.Breaker.consecutive, rb.Timeout.escalating,
    rb.Backoff.constant, rb.Backoff.linear, rb.Backoff.exponential, rb.Backoff.decorrelated, rb.Backoff.steps,
    bridge.Reconnect, bridge.Heartbeat, bridge.Outbox, bridge.Inbox, bridge.Replay, bridge.Dialect, bridge.BridgePolicy,
    rb.BridgeClient, rb.HTTPTransport, rb.agent.Toolbox, rb.reconnecting,
]  # fmt: skip
DOCUMENTS: list[Any] = [  # what no single key says
    {"preset": "recursr"}, {"retries": 3}, {"bridge": {"token": "s3cr3t"}}, {"policies": {"a": {}}}, {"policies": {"a": {"retri": {}}}},
    {"policies": {"a": {"retry": {}, "timeout": "1s", "order": ["retry"]}}}, {"tools": {"run": {"idempotent": "yes"}}},
    {"tools": {"default_timeout_ms": -1}}, {"tools": {"per_tool": {"saw": "x"}}}, {"reconnect": {"grace": 1, "grace_ms": 1}},
    {"reconnect": {"rules": {"429": {"attempt": 1}}}}, {"retry": {"rules": {"busy": {}}}}, {"dialect": "plane"},
    {"dialect": "sequence(field='seq')"}, {"retry": {"backoff": "exponental(1)"}}, {"retry": {"backoff": "steps()"}},
    {"retry": {"backoff": {"shape": "steps", "seconds": []}}}, {"outbox": {"max_bytes": "8 mebi"}}, {"debug": "pins"},
    {"breaker": {"rate": 1.5, "window": "soon", "probes": 0}}, {"kind": "Retri"}, {"model": 5}, {"skills": "one"},
    {"providers": {"openai": "api.openai.com"}}, {"policies": {"a": {"retry": {}, "state": "env:NO_SUCH_VARIABLE"}}},
]  # fmt: skip
VARIABLES = [
    {"RESILIENT_BRIDGE_RETRY__ATTEMPTS": "0"}, {"RESILIENT_BRIDGE_RETRY__ATTEMTS": "3"},
    {"RESILIENT_BRIDGE_RECONNECT__GRACE": "soon"}, {"RESILIENT_BRIDGE_POLICIES__A__TIMEOUT": "x"}, {"RESILIENT_BRIDGE_": "1"},
]  # fmt: skip


def _refusal(make: Callable[[], Any]) -> str:
    """The text of the error, "" without one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            make()
        except Exception as error:  # noqa: BLE001 -- which, is in the row
            if not isinstance(error, rb.ConfigError | TypeError):
                return type(error).__name__  # Python's words, which each version chooses anew
            text = f"{type(error).__name__}: {error}".replace("\n", " | ")
            if "pip install" in text:
                return ""  # what is installed decides
            return re.sub(r" at 0x[0-9a-f]+", "", text)
    return ""


def _keys() -> dict[str, list[str]]:
    """The keys of each table, as the reference page has them."""
    tables: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            keys = tables.setdefault(line.removeprefix("## "), [])
        elif (key := re.match(r"\| `(\w+)` \|", line)) and tables:
            keys.append(key[1])
    return tables


Make = Callable[[Any], object]


def _of_constructors() -> Iterator[tuple[str, Make]]:
    for make in VALUES:
        first, parameters = FIRST.get(make, ()), inspect.signature(make).parameters
        for number, (name, parameter) in enumerate(parameters.items()):
            call = f"{make.__qualname__}({name}=)"
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                yield call, make
            else:
                others = first[:number] if number < len(first) else first
                yield call, lambda value, make=make, name=name, others=others: make(*others, **{name: value})  # fmt: skip
        yield f"{make.__qualname__}(attemts=)", lambda value, make=make, first=first: make(*first, attemts=value)  # fmt: skip


def _of_load() -> Iterator[tuple[str, Make]]:
    tables = _keys()
    tops = dict(
        re.findall(r"^\| `(\w+)` \|.*\[(\w+)\]\(#\w+\) \|$", PAGE.read_text(), re.MULTILINE)
    )
    for top, kind in tops.items():
        for key in tables.get(kind, ()):
            yield f"load({top}.{key}=)", lambda value, top=top, key=key: rb.load({top: {key: value}})  # fmt: skip
        yield f"load({top}=)", lambda value, top=top: rb.load({top: value})
    for kind in ("Backoff", "Rule", "RetryBudget", "Policy", "End", "Positions"):
        for key in tables.get(kind, ()):
            yield f"load(kind={kind}, {key}=)", lambda value, kind=kind, key=key: rb.load({"kind": kind, key: value})  # fmt: skip


def _merged(call: str, make: Make, values: list[Any]) -> Iterator[str]:
    """A row for each text: the values that it refuses; `got …` stands for their repr."""
    refused: dict[str, list[str]] = {}
    for value in values:
        text, shown = _refusal(lambda value=value: make(value)), repr(value)
        if text:
            refused.setdefault(text.replace(f"got {shown}", "got …"), []).append(shown)
    for text, shown_values in refused.items():
        yield f"{call}\t{', '.join(shown_values)}\t{text}"


def rows() -> list[str]:
    """A line for each text, and the values that are refused by it."""
    found = [
        row
        for call, make in _of_constructors()
        for row in _merged(
            call, make, [*WRONG, *MORE] if call.startswith(("Retry(", "Breaker(")) else WRONG
        )
    ]
    found += [row for call, make in _of_load() for row in _merged(call, make, WRONG_IN_A_FILE)]
    found += [row for document in DOCUMENTS for row in _merged("load()", rb.load, [document])]
    found += [row for variables in VARIABLES for row in _merged("load(env=)", lambda env: rb.load({}, env=env), [variables])]  # fmt: skip
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(rows()) + "\n")
