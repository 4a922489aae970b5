"""Logs made by a seed, line by line: links that are lost and come back, calls, circuits, budgets, alerts, and an MCP sidecar."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import heappop, heappush
from random import Random
from typing import Any


BEGIN = 1_795_519_800.0  # 2026-11-24T11:30:00Z


def line(at: float, event: str, **fields: Any) -> bytes:
    """A line as a SessionLog writes it."""
    stamp = (
        datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    return json.dumps({"at": stamp, "event": event, **fields}).encode() + b"\n"


def failure(code: str, message: str, hint: str = "") -> dict[str, Any]:
    """A failure as its `to_dict()`, as far as a report reads it."""
    return {
        "code": code,
        "message": message,
        "severity": "error",
        "suggestions": [hint] if hint else [],
    }


RESET = failure("CONN_RESET", "connection reset by peer", "reconnect and ask for what was missed")
REFUSED = failure("CONN_REFUSED", "connection refused", "check that the server is running")
TIMEOUT = failure("TOOL_TIMEOUT", "timed out after 10 s", "give it more time")


def a_link(name: str, rng: Random, seconds: float, often: float) -> Iterator[tuple[float, bytes]]:
    """One link that is up, lost every so many seconds on average, and comes back after some attempts."""
    session = f"{rng.getrandbits(32):08x}-aaaa"
    at, state, queued = BEGIN + rng.random(), "IDLE", 0

    def to(new: str, reason: str) -> tuple[float, bytes]:
        nonlocal state
        previous, state = state, new
        depth = {"queued": queued, "unconfirmed": rng.randrange(3), "unread": rng.randrange(5)}
        named = {"bridge": name, "session_id": session}
        return at, line(
            at, "StateChanged", **named, previous=previous, state=new, reason=reason, **depth
        )

    def event_line(event: str, **fields: Any) -> tuple[float, bytes]:
        return at, line(at, event, bridge=name, session_id=session, **fields)

    for new, reason in (
        ("CONNECTING", "user"),
        ("AUTHENTICATING", "connected"),
        ("JOINING", "authenticated"),
        ("READY", "joined"),
    ):
        yield to(new, reason)
        at += 0.01 + rng.random() / 20
    while (at := at + rng.expovariate(1 / often)) < BEGIN + seconds:
        yield event_line("Disconnected", reason="connection_lost", failure=RESET)
        yield to("BACKOFF", "connection_lost")
        for attempt, wait in enumerate((1, 2, 5, 10, 30, 30, 30), 1):
            yield event_line(
                "ReconnectScheduled",
                attempt=attempt,
                wait=wait,
                reason="connection_lost",
                failure=REFUSED,
            )
            at, queued = at + wait, queued + rng.randrange(wait + 1)
            yield to("CONNECTING", "retry")
            at += 0.02 + rng.random()
            if rng.random() < 0.5:
                break
            yield to("BACKOFF" if attempt < 5 else "SUSPENDED", "connect_refused")
        for new in ("AUTHENTICATING", "JOINING", "REPLAYING"):
            yield to(new, "connected")
            at += 0.05
        verdict = rng.choice(("RECOVERED", "RECOVERED", "RECOVERED", "GAP", "UNKNOWN"))
        yield event_line(
            "Resumed",
            verdict=verdict,
            reason="buffer_overflow",
            replayed=rng.randrange(20),
            since=None,
            until=None,
        )
        queued = 0
        yield to("READY", "flushed")
        if verdict == "UNKNOWN":
            yield (
                at,
                line(
                    at,
                    "MessageUndelivered",
                    outcome="unknown",
                    bridge=name,
                    type="note",
                    key=f"{rng.getrandbits(64):016x}",
                    reason="expired",
                ),
            )


def calls(rng: Random, seconds: float, each: float) -> Iterator[tuple[float, bytes]]:
    """Calls of three names, a circuit around one, a budget, an alert."""
    at, spent, third = BEGIN, 0.0, seconds / 3
    marks = [
        (
            third,
            line(
                BEGIN + third,
                "CircuitChanged",
                key="search",
                state="open",
                reason="failures",
                retry_after=60,
                failure=RESET,
            ),
        ),
        (
            third,
            line(
                BEGIN + third,
                "AlertChanged",
                state="raised",
                rule="error_rate",
                level="critical",
                value=0.31,
                threshold=0.15,
                failure=None,
            ),
        ),
        (
            third * 1.3,
            line(
                BEGIN + third * 1.3,
                "CircuitChanged",
                key="search",
                state="half_open",
                reason="time",
            ),
        ),
        (
            third * 1.32,
            line(
                BEGIN + third * 1.32,
                "CircuitChanged",
                key="search",
                state="closed",
                reason="probes",
            ),
        ),
        (
            third * 1.8,
            line(
                BEGIN + third * 1.8,
                "AlertChanged",
                state="cleared",
                rule="error_rate",
                level="critical",
                value=0.01,
                remaining="",
            ),
        ),
        (
            third * 2,
            line(
                BEGIN + third * 2,
                "SpendChanged",
                budget="tokens",
                state="warning",
                spent="8.10",
                limit="10",
            ),
        ),
        (
            third * 2.5,
            line(
                BEGIN + third * 2.5,
                "SpendChanged",
                budget="tokens",
                state="paused",
                spent="10.02",
                limit="10",
            ),
        ),
        (
            third * 2.6,
            line(
                BEGIN + third * 2.6,
                "SpendChanged",
                budget="tokens",
                state="approved",
                spent="10.02",
                limit="20",
            ),
        ),
    ]
    yield from ((BEGIN + after, text) for after, text in marks)
    while (at := at + rng.expovariate(1 / each)) < BEGIN + seconds:
        name, is_bad = (
            rng.choice(("search", "fetch_page", "tool:write_file")),
            third < at - BEGIN < third * 1.3,
        )
        fails = rng.random() < (0.4 if is_bad else 0.02)
        took = rng.lognormvariate(-2, 1) + 5 * fails
        spent += took
        if fails and rng.random() < 0.7:
            yield (
                at,
                line(
                    at,
                    "RetryScheduled",
                    name=name,
                    attempt=2,
                    wait=1.5,
                    failure=TIMEOUT,
                    permission="idempotent",
                ),
            )
        outcome = "failed" if fails else "ok"
        fields = {
            "attempts": 1 + fails,
            "seconds": round(took, 4),
            "waited": 1.5 * fails,
            "key": name,
        }
        yield (
            at,
            line(
                at,
                "CallFinished",
                name=name,
                outcome=outcome,
                **fields,
                failure=TIMEOUT if fails else None,
            ),
        )


def sidecar(rng: Random, seconds: float) -> Iterator[tuple[float, bytes]]:
    """A sidecar's events: its times are numbers."""

    def event_line(at: float, event: str, **fields: Any) -> tuple[float, bytes]:
        return at, json.dumps({"at": round(at, 6), "event": event, **fields}).encode() + b"\n"

    at, number, restarts = BEGIN, 0, 0
    yield event_line(at, "server_ready", restarts=0)
    yield event_line(at + 0.01, "tools_known", repeated=["search"])
    while (at := at + rng.expovariate(0.5)) < BEGIN + seconds:
        number += 1
        lost = rng.random() < 0.06
        outcome = "unknown" if lost else rng.choice(("answered",) * 20 + ("failed", "not_executed"))
        why = {"reason": "connection_lost"} if lost else {}
        yield event_line(at, "call_finished", call=number, method="tools/call", outcome=outcome, name=rng.choice(("order", "search")), **why,
                   sends=1, was_sent=True, seconds=round(rng.expovariate(10), 6))  # fmt: skip
        if lost:
            restarts += 1
            yield event_line(at, "server_lost", reason="exit code 137", wait=1.0)
            at += 1 + rng.random() * 4
            yield event_line(at, "server_ready", restarts=restarts)
            if rng.random() < 0.3:
                yield event_line(at, "list_changed", list="tools/list")


def log(
    links: int = 1,
    *,
    seed: int = 1,
    seconds: float = 600,
    often: float = 120,
    each: float = 2.0,
    mcp: bool = False,
) -> Iterator[bytes]:
    """All of that in the order of time, which costs no memory: `links` of them, `each` seconds a call."""
    rng = Random(seed)
    sources = [
        a_link("agent" if links == 1 else f"agent-{n}", Random(seed + n), seconds, often)
        for n in range(links)
    ]
    sources.append(iter(sorted(calls(rng, seconds, each))) if each else iter(()))
    sources.append(sidecar(rng, seconds) if mcp else iter(()))
    ahead: list[tuple[float, int, bytes]] = []
    for index, source in enumerate(sources):
        for at, text in source:
            heappush(ahead, (at, index, text))
            break
    while ahead:
        _, index, text = heappop(ahead)
        yield text
        for at, following in sources[index]:
            heappush(ahead, (at, index, following))
            break
