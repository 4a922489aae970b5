"""Any valid value of each public class, over all of its fields: what a field takes is asked of its validator."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache

import attrs
from hypothesis import strategies as st

import resilient_bridge as rb
from tests.internals.protocol import End, Positions
from tests.internals.settings import AlertSettings, forms_of
from tests.internals.settings import fields as kinds
from tests.strategies import LAYERS


def busy(*_: object) -> bool:
    """A function that settings can name."""
    return True


def other(*_: object) -> float:
    """Another one."""
    return 1.0


class BusyError(Exception):
    """A class that settings can name."""


NAMES = {"busy": busy, "other": other, "Busy": BusyError}

seconds = st.floats(0.001, 3600) | st.integers(1, 3600) | st.sampled_from([1e-3, 1 / 3, 0.1 + 0.2])
names = st.text("abcdefghijklmnop_-XYZ09.é", min_size=1, max_size=8)
words = st.sampled_from(["abc", "tool_result", "x-1"])
whats = (
    st.sampled_from([*rb.Kind, *rb.Category])
    | st.sampled_from(["CONN_RESET", "TOOL_TIMEOUT", "SYS_RATE_LIMITED", "HOOK_VALIDATION_FAILED"])
    | st.integers(-32768, 599)
    | st.sampled_from([TimeoutError, ConnectionResetError, Exception, BusyError, busy])
    | st.sampled_from([rb.named("openai", "RateLimitError"), rb.named("a", "B")])
    | st.sampled_from([re.compile("quota"), re.compile("a/b", re.IGNORECASE), re.compile("^x$", re.MULTILINE | re.DOTALL)])
)  # fmt: skip
count = st.integers(1, 10**6)


@st.composite
def backoffs(draw, deep: int = 2):
    """A schedule of any shape; now and then one that no constructor makes."""
    shape = draw(st.sampled_from(["constant", "linear", "exponential", "decorrelated", "steps"]))
    jitter = draw(st.sampled_from(["none", "full", "equal"]))
    base = draw(seconds)
    if shape == "steps":
        then = draw(st.none() | backoffs(deep - 1)) if deep else None
        return rb.Backoff.steps(
            *draw(st.lists(seconds, min_size=1, max_size=4)), then=then, jitter=jitter
        )
    if shape == "constant":
        return rb.Backoff.constant(base, jitter=jitter)
    cap, factor = draw(seconds.filter(bool)), draw(st.floats(1, 9) | st.integers(1, 9))
    return rb.Backoff(shape=shape, seconds=(base,), factor=factor, cap=cap, jitter=jitter)


def _plain(owner: type, field: attrs.Attribute) -> st.SearchStrategy:
    """What fields take that have no mark: few, and each by its name."""
    return {
        ("Dialect", "dedupes"): st.sampled_from([True, False, "stated"]),
        ("Dialect", "close_code"): st.integers(1000, 4999),
        ("Dialect", "pings"): st.just(False),
        ("Positions", "proof"): st.sampled_from([None, "session"]),
        ("End", "close"): st.none() | st.integers(1000, 4999) | st.just((4000, 4009)),
        ("Sidecar", "headers"): st.dictionaries(
            words, st.sampled_from(["env:TOKEN", "b c"]), max_size=2
        ),
        ("Sidecar", "env"): st.dictionaries(words, words, max_size=2),
        ("Sidecar", "check"): st.dictionaries(names, names, max_size=2),
        ("Sidecar", "verify"): st.dictionaries(names, names, max_size=2),
        ("Sidecar", "concurrency"): st.dictionaries(names, count, max_size=2),
        ("End", "status"): st.none() | st.integers(100, 599),
    }[owner.__name__, field.name]


def _numbers(owner: type, name: str) -> st.SearchStrategy:
    least = {"factor": 1.0, "ratio": 0.0, "floor": 0.0}.get(name, 0.01)
    return st.floats(
        max(least, 0.01) if name == "floor" else least, 1.0 if name in {"rate", "budget"} else 50.0
    )


def of_field(owner: type, field: attrs.Attribute) -> st.SearchStrategy:
    """A valid value of a field."""
    form, name = forms_of(owner)[field.name], field.name
    if form.kind is kinds.AS_WRITTEN:
        return _plain(owner, field)
    if form.kind is kinds.VALUE:
        inner = (
            policies()
            if form.of is rb.Policy
            else backoffs()
            if form.of is rb.Backoff
            else values(form.of)
        )
    elif form.kind is kinds.VALUES:
        inner = st.lists(values(form.of), max_size=2).map(tuple)
    else:
        inner = {
            kinds.SECONDS: lambda: st.lists(seconds, min_size=1, max_size=3).map(tuple) if name == "seconds" and owner is rb.Timeout
            else seconds.filter(lambda n: n >= 1) if owner is AlertSettings else seconds,
            kinds.SPAN: lambda: count | st.timedeltas(timedelta(microseconds=1), timedelta(days=10**6)),
            kinds.NUMBER: lambda: _numbers(owner, name),
            kinds.BYTES: lambda: count,
            kinds.COUNT: lambda: st.integers(0 if name in {"queue", "overlap"} else 1, 10**6),
            kinds.FLAG: st.booleans,
            kinds.WORD: lambda: st.sampled_from(form.words or ("x",)),
            kinds.TEXT: lambda: words,
            kinds.KEY: lambda: words | st.sampled_from([busy, other]),
            kinds.PAIR: lambda: st.tuples(st.floats(0, 0.5), st.floats(0.5, 1) | st.just(1)),
            kinds.TEXTS: lambda: st.lists({"superseded": st.integers(1000, 4999), "reuse_address_on": st.integers(1, 9)}.get(name, words), max_size=3).map(tuple),
            kinds.WAIT: backoffs,
            kinds.WHATS: lambda: st.lists(whats, max_size=3, unique=True),
            kinds.RULES: lambda: st.dictionaries(whats, values(rb.Rule), max_size=2),
            kinds.FUNCTION: lambda: st.sampled_from([busy, other]),
            kinds.SECONDS_BY_NAME: lambda: st.dictionaries(names, seconds, max_size=2),
            kinds.FUNCTIONS: lambda: st.lists(st.sampled_from([busy, other]), min_size=1, max_size=2),
            kinds.VALUES_BY_NAME: lambda: st.dictionaries(names, policies() if form.of is rb.Policy else values(form.of), max_size=2),
        }[form.kind]()  # fmt: skip
    return st.none() | inner if form.is_optional else inner


SKIPPED = {
    # functions of dialects come from `rb.dialects`; what goes with them needs them
    "Dialect": "decode encode positions resume waits_for_hello login pings silence answers confirms echo acknowledges acknowledge_within",
    "Positions": "contiguous overlap ends proof",
    "AdaptiveLimit": "least",  # at most `most`
    "Breaker": "minimum",
}  # fmt: skip


@cache
def values(kind: type) -> st.SearchStrategy:
    """A valid value of a class, over its fields."""
    if kind is rb.Policy:
        return policies()
    if kind is rb.Backoff:
        return backoffs()
    if kind is rb.Fallback:
        rungs = st.lists(st.sampled_from([busy, other]), min_size=1, max_size=2, unique=True)
        return st.builds(
            lambda ladder, on, ask, may: rb.Fallback(*ladder, on=on, acknowledge=ask, may_have_run=may),
            rungs, st.lists(whats, max_size=2, unique=True), st.none() | st.just(busy), st.booleans(),
        )  # fmt: skip
    skipped = SKIPPED.get(kind.__name__, "").split()
    fields = {
        field.name: of_field(kind, field)
        for field in attrs.fields(kind)
        if field.init and field.name not in skipped
    }
    if kind is rb.Breaker:
        fields["open_for"] = backoffs()
    made = (
        st.fixed_dictionaries({}, optional=fields)
        if all(f.default is not attrs.NOTHING for f in attrs.fields(kind))
        else st.fixed_dictionaries(fields)
    )
    return made.map(lambda fields: _tidy(kind, fields))


def _tidy(kind: type, fields: dict) -> object:
    """Fields that a class allows only beside others, put right."""
    if kind is rb.bridge.Dialect:
        if fields.get("pong", "") is None:
            fields["ping"] = None
        if fields.get("replay", "") is None:
            fields["request_replay"] = None
    if kind is rb.RetryBudget and not fields.get("ratio", 1) and not fields.get("floor", 1):
        fields["floor"] = 1
    if kind is End and not any(fields.get(name) for name in ("close", "status", "code")):
        fields["code"] = "gone"
    if kind is rb.mcp.Sidecar:
        fields |= {"command": ("some-server", "-x"), "url": None}
    if kind is Positions and fields.get("interleaves"):
        fields |= {"order": "time", "ends": "stated"}
    if kind is Positions and fields.get("names_log"):
        fields["per_channel"] = True
    if kind is rb.bridge.Reconnect:
        fields.pop("rules", None)
    return kind(**fields)


@st.composite
def policies(draw):
    """A Policy of any layers, in any order that is allowed, mostly the usual one."""
    kinds = draw(st.lists(st.sampled_from(LAYERS), min_size=1, max_size=4, unique=True))
    order = kinds if draw(st.booleans()) else [kind for kind in LAYERS if kind in kinds]
    if rb.Fallback in order and rb.Retry in order:
        order = [kind for kind in order if kind is not rb.Fallback]
    if rb.Fallback in order or rb.Retry in order:  # of which it stands inside, and outside
        order = [kind for kind in order if kind is not rb.calls.Share]
    if rb.Retry in order and rb.AdaptiveLimit in order:
        order = [rb.Retry, *(kind for kind in order if kind is not rb.Retry)]
    order = sorted(order, key=lambda kind: kind.only_innermost)
    return rb.Policy(*(draw(values(kind)) for kind in order), name=draw(st.none() | names))


KINDS = (*LAYERS, rb.Backoff, rb.Rule, rb.RetryBudget, rb.Policy, rb.bridge.BridgePolicy, rb.bridge.Reconnect, rb.bridge.Heartbeat,
         rb.bridge.Outbox, rb.bridge.Inbox, rb.bridge.Replay, rb.bridge.Dialect, Positions, End, rb.mcp.Sidecar, AlertSettings)  # fmt: skip
