"""The reference page of settings: every key, printed from the values themselves. See tests/reference.py."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

import attrs

import resilient_bridge as rb
from tests.internals.settings import (
    AS_WRITTEN,
    LAYERS,
    PREFIX,
    TABLES,
    TOP,
    WORDS_OF,
    Form,
    default_of,
    fields_of,
    forms_of,
)
from tests.internals.values import shown

from .reference_layout import page, table


BEFORE_TABLE = {
    "dialect": "the name of a [dialect](../dialects/index.md), `\"plain\"`; a call as in code, `\"sequence(field='seq', ask='last_seq')\"`; or ",
}
PLAIN = {
    "dedupes": '`true`, `false` or `"stated"`',
    "pings": '`true`, `false` or `"in_order"`',
    "pin": "`sha256:` and 64 hexadecimal digits, or a list of such texts",
    "close": "a close code, or the first and last of a range",
    "status": "an HTTP status, or the first and last of a range",
    "proof": '`"session"` or `"barrier"`',
    "headers": "a table of texts; secrets as `env:NAME` or `file:PATH`",
    "env": "a table of texts",
    "check": "a table: a tool, and the tool that shows what it did",
    "verify": "a table: a tool, and the read tool that is asked what became of a call in doubt",
    "ignore": "a list of arguments, or a table of such lists by name",
    "concurrency": "a table of whole numbers by tool",
    "close_code": "a close code from 1000 to 4999",
}


def _takes(name: str, form: Form) -> str:
    if form.kind is AS_WRITTEN:
        return PLAIN[name]
    if form.words:
        return ", ".join(f'`"{word}"`' for word in form.words)
    link = f"[{form.of.__name__}](#{form.of.__name__.lower()})"
    shorter = {rb.Backoff: "a schedule", rb.Policy: "policies"}
    return form.kind.words.format(shorter.get(form.of, link))


def _default(field: attrs.Attribute) -> str:
    value = default_of(field)
    if value is attrs.NOTHING:
        return "required"
    return "nothing" if value is None else f"`{shown(value)}`"


def _rows(kind: type) -> Iterator[tuple[str, str, str]]:
    for field in fields_of(kind):
        yield f"`{field.name}`", _takes(field.name, forms_of(kind)[field.name]), _default(field)


def _with_nested(*groups: Iterable[type]) -> dict[type, None]:
    """Each group of classes, and then those of their fields; a schedule and a policy are explained elsewhere."""
    found: dict[type, None] = {}
    for group in groups:
        kinds = [*group]
        for kind in kinds:
            nested = [form.of for form in forms_of(kind).values()]
            kinds += [
                each for each in nested if each not in {object, rb.Backoff, rb.Policy, *kinds}
            ]
        found |= dict.fromkeys(kinds)
    return found


def _table(kind: type) -> list[str]:
    words = WORDS_OF.get(kind, ())
    also = (
        ["", f"Also {', '.join(f'`{word}`' for word in words)}, as specifications print them."]
        if words
        else []
    )
    return [
        f"## {kind.__name__}",
        "",
        _first(kind),
        "",
        *table("key | takes | default", _rows(kind)),
        *also,
    ]


def _first(kind: type) -> str:
    """The first paragraph of its docstring, as prose."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def settings_page() -> str:
    """docs/reference/settings.md."""
    link = {name: form.of for name, form in forms_of(rb.bridge.BridgePolicy).items()}
    parts = [(name, kind) for name, kind in link.items() if kind not in {object, rb.Policy}]
    top = [
        ("`preset`", "the name of a [preset](../how-to/use-a-preset.md), as the base for all other keys"),
        *((f"`{name}`", f"{BEFORE_TABLE.get(name, '')}the table [{kind.__name__}](#{kind.__name__.lower()})") for name, kind in parts),
        *((f"`{name}`", f"a layer of the bridge's calls: [{kind.__name__}](#{kind.__name__.lower()})") for name, kind in LAYERS.items()),
        ("`calls`", "the same layers, as one policy"),
        ("`policies.NAME`", "a policy: any of the layers, `order`, `name`, `preset`, `state` (a Redis URL, the path of a MachineState, as `~/limits`, or `env:NAME`)"),
        ("`tools.NAME`", "the policy of one tool, with `idempotent` and `required`; beside the names, `tools` takes `default_timeout_ms` and `per_tool`"),
        ("`idempotent`, `idempotent_if_marked`", "lists of operations"),
        *((f"`{name}`", f"the table [{kind.__name__}](#{kind.__name__.lower()})") for name, kind in TABLES.items()),
        ("`debug`", '[debug mode](../how-to/logs.md#debug-mode): its kinds with commas or as a list, `true` or `"*"` for all'),
        ("`providers.NAME`", "the URL of a provider, for `resilient-bridge check --providers`"),
        *((f"`{name}`", f"[of an agent](#agentsettings): {_takes(name, form)}") for name, form in forms_of(TOP["agent"]).items() if name != "tools"),
    ]  # fmt: skip
    return page(
        "Settings: every key",
        [
            "This page lists every key. [Configure from a file](../how-to/configure-from-a-file.md) shows how each is written, with whole examples. The name of an",
            f"environment variable is `{PREFIX}` and the path of the key in capitals, with two underscores for each dot.",
        ],
        ["## The top of a document", "", *table("key | holds", top)],
        *(
            _table(kind)
            for kind in _with_nested(
                LAYERS.values(), dict(parts).values(), TABLES.values(), TOP.values()
            )
        ),
    )
