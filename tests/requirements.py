"""Every promise of the five specifications and beyond them, as data: what is proven, and what is not there yet.

Rule: a promise keeps its id for ever. `python -m tests.requirements` prints docs/reference/promises.md from these rows;
tests/test_requirements.py holds the rows against the tests that carry `@pytest.mark.requirement(id)`.
"""

from __future__ import annotations

import sys
from typing import Literal, NamedTuple


class Requirement(NamedTuple):
    """One promise: `proven` if some test shows its behaviour to a user, `later` if no release has it yet."""

    id: str
    promise: str
    status: Literal["proven", "later"]

    @property
    def source(self) -> str:
        """The specification that the promise comes from."""
        return SOURCES[self.id[0]]


SOURCES = {
    "R": "ReCursor: a WebSocket bridge between an app and an agent",
    "C": "ccsetup: recovery for multi-step agent workflows",
    "S": "stdio Bus: typed errors between MCP clients, agents and AI providers",
    "G": "Gasoline: a browser extension and its local daemon",
    "V": "OpenViber: an agent runtime and its board",
    "X": "Beyond the five: other bridges, other clients, production",
}

_PROVEN = frozenset(
    "R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R16 R17 R18 R19 C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 S1 S2 S3 S4 S5 S6 S7 S8 S9 S10 S11 G1 G2 G3 G4 G5 G6 G7 G8 G9 G10 V1 V2 V3 V4 V5 V6 V7 V8 V9 V10 V11 V12 V13 V14 V15 V16 X1 X2 X3 X4 X5 X6 X7 X8 X9 X10 X11 X13".split()
)

_PROMISES = {
    "R1": "every failure becomes one typed record whose code has one of seven prefixes: CONN_ AUTH_ PROTO_ SESS_ TOOL_ HOOK_ SYS_",
    "R2": "severity decides what happens: log; also a metric; also a notice; also an alert and an open circuit; the session ends",
    "R3": "a recoverable close reconnects after 1, 2, 5, 10, 30 s and asks for what it missed; an unrecoverable one fails; running out is a typed, reported state",
    "R4": "the bridge keeps a session for 5 min after a drop; after that SESS_NOT_FOUND, and the client joins afresh and reports it",
    "R5": "a failed TLS handshake names the reason, the expiry and the remedy, and is never retried; a SHA-256 pin works on a self-signed peer",
    "R6": "after CONN_TIMEOUT: 1 s, then 2 s on the cached address, then 5 s with a fresh look-up, then exponential from 10 s",
    "R7": "an invalid message is answered with every violation at once (field, constraint, received); strict on what is sent, lenient on what is read",
    "R8": "a message out of phase is named with what was expected, what was received and the phase",
    "R9": "SESS_NOT_FOUND comes with suggestions, also as the body of an HTTP error",
    "R10": "sessions move created, active, paused, closed (error, resumable); only a paused resumable one resumes, with its checkpoint",
    "R11": "a failed tool reports exit code, stderr, stdout, duration, and whether and how often it may be retried, by the table of causes",
    "R12": "tools are bounded: bash 300 s, read_file 10 s, edit_file 30 s, search 60 s, and the call really ends",
    "R13": "the seven hook events are validated, and the answer carries the field errors",
    "R14": "the replay buffer holds 100 KB and 30 min and answers `since` correctly under overflow, age and equal timestamps",
    "R15": "a circuit opens after 5 failures, for 60 s, and half-opens",
    "R16": "sessions persist (identity, directory, times, checkpoint) and survive a restart",
    "R17": "recovery of a client: 5 tries at 1 s times the attempt's number, synchronise from the last message received, then flush what was queued",
    "R18": "error metrics are labelled category, code, severity, source, session_id, user_agent",
    "R19": "alerts, warning and critical: error rate 5/15 %, reconnection failures 10/50 a minute, session drops 5/20, hook failures 20/100",
    "C1": "failures are transient, permanent, corruption or partial, by the listed patterns and exit codes; no match is permanent; the decision is logged",
    "C2": "transient: the same call again after 2, 4, 8 s, then escalated to permanent; a late success is logged",
    "C3": "permanent: the whole context is recorded with secrets masked; optional work is skipped with a warning; required work saves, reports and halts",
    "C4": "ranked suggestions, with near-miss paths and backups where a file is missing",
    "C5": "corruption: parse, validate, find orphans; restore a valid backup, else start afresh and report what was lost; then back up again",
    "C6": "partial: resume after the last phase whose artifacts verify; a completed phase never runs again",
    "C7": "before every change of the state file its one backup is written; both writes are atomic",
    "C8": "the checkpoint file has the specified format",
    "C9": "the wrapper works before, during and after each operation: checkpoint, classify, retry, skip, restore, back up",
    "C10": "it acts on tool failure, network error, interrupted session and corrupt state",
    "S1": "errors have the categories CONFIG AUTH UPSTREAM TRANSPORT TIMEOUT PROTOCOL INTERNAL, each with its default retryability",
    "S2": "errors map to MCP's JSON-RPC codes and back, with type, retryable and sessionValid; anything else is -32603 and not retryable",
    "S3": "the in-process scenarios, seen from the client: not started, unknown agent, full, unknown session, agent failed, no agents",
    "S4": "the worker scenarios: start failed, request failed, timed out (retryable), malformed answer",
    "S5": "backpressure: over the concurrency limit is retryable; over the byte limit is refused and not sent",
    "S6": "the error tables of three AI providers hold on the exceptions that their SDKs really raise",
    "S7": "a failure report has category, message, retryability, session validity and ways to recover, and reads well without a trace",
    "S8": "which calls may be repeated without asking, and which only when marked",
    "S9": "the session id is kept on every failure; no false success, no wrapped-away error, no dropped warning, no endless retry",
    "S10": "an unknown exception is INTERNAL and not retryable",
    "S11": "a health check after a failure tells whether the bridge is ready",
    "G1": "its timing constants are policy values: query 2 s, command 30 s, start 4 s, poll 1-2 s, health 0.5 s, long handler 35 s",
    "G2": "delays 0, 1, 2, 4, 8, then 30 s; a circuit of 5 failures and 30 s half-opens with one probe and states its reasons",
    "G3": "a local daemon starts fast: probe, spawn if absent, wait up to 4 s, safe against races; else an answer from the cache that says so",
    "G4": "timeouts escalate 2, 5, 30 s; the last one reports while the peer goes on",
    "G5": "a peer that goes away is noticed and its process reaped",
    "G6": "asynchronous commands: correlation id, pending to complete, timeout or expired, polling, a hint for each outcome",
    "G7": "the state of a connection has four dimensions whose invariants are checked; a violation is logged with diagnostics",
    "G8": "each errno and each execution error has its hint",
    "G9": "a peer that is starting or stopping (503) is distinguished from one that is unreachable, and from one that is ready (200)",
    "G10": "a debug mode shows connection, circuit, polling, escalation and correlation; settings come from the environment",
    "V1": "retries come from configuration: 3 calls, base 1 s, cap 30 s, linear, exponential or jittered, a list of errors",
    "V2": "per provider: when rate limited, Retry-After, else 60 s; a local provider at once",
    "V3": "401, 400, an exceeded context and a refused content fail at once",
    "V4": "after repeated failure another model, never silently: the switch is acknowledged",
    "V5": "tools are bounded: 30 s unless said otherwise for one of them",
    "V6": "a tool's failure is returned as data: type, message, recoverable, suggestion",
    "V7": "reconnects after 1, 2, 4, 8, 16 s, then disconnected mode, and the user is notified",
    "V8": "while down, requests in flight fail and are not repeated; results queue and are delivered; the heartbeat resumes at once",
    "V9": "every message with an effect has an idempotency key, the same on every resend, inside a window of 5 min",
    "V10": "configuration is validated at the start, every error has its path, and nothing starts on a bad file",
    "V11": "a spend budget warns at 80 % and pauses at 100 % until approved or cancelled",
    "V12": "context overflow is estimated before sending, compacted if allowed, else an error with the numbers and a suggestion",
    "V13": "a dead peer is noticed by an unclean close, a silent heartbeat (30 s) or a failed health check; work is sent again with its key",
    "V14": "session logs are JSON lines, only ever appended",
    "V15": "degradation follows a ladder, and each step is reported",
    "V16": "error reports have type, message, recoverable, context, suggestion and timestamp; logs are structured JSON lines",
    "X1": "one session engine for any bridge: a dialect maps other envelopes, names and kinds of position",
    "X2": "resuming in the four ways bridges use: asked in-band, asked at the connect, pushed, or fetched out of band; one merge, one verdict",
    "X3": "a bridge that refuses, ignores or does not know the messages of the join still works; what it cannot do is reported once, and nothing is sent twice to a bridge that does not recognise a repeat",
    "X4": "`resilient-bridge doctor` shows what a server can guarantee, and prints the dialect or the warning that follows",
    "X5": "`resilient-bridge mcp` runs in front of an MCP server: the client's session stays open while the server crashes or is redeployed",
    "X6": "through it no tool runs twice without a report: one stated outcome for every call",
    "X7": "it is transparent: everything the protocol defines passes both ways",
    "X8": "policies, bridges and the sidecar from TOML, YAML, environment or a dict; all errors at once; reloaded without losing state",
    "X9": "metrics and traces by the field's conventions, structured logs, alert thresholds in the process and as rules; a successful call is counted and timed; without a listener telemetry costs nothing",
    "X10": "an incident can be inspected: one self-contained page from a session log",
    "X11": "documentation as a site: search, pages by task, an API reference, migration from other libraries",
    "X12": "Linux, macOS and Windows; CPython 3.11 to 3.14; the lowest declared version of each dependency (Linux on 3.11 to 3.13 and the floors are tested, 3.14 by imports and calls, CPython for Windows by a sample under Wine; on Windows itself and on macOS nothing was run)",
    "X13": "a seed repeats everything: times, waits, ids, order, in every kind of virtual world",
}

REQUIREMENTS = tuple(
    Requirement(row, promise, "proven" if row in _PROVEN else "later") for row, promise in _PROMISES.items()
)


def page() -> str:
    """The text of docs/reference/promises.md."""
    proven = sum(row.status == "proven" for row in REQUIREMENTS)
    lines = [
        "# Promises",
        "",
        "Generated by `python -m tests.requirements`; edit tests/requirements.py instead.",
        "",
        f"{proven} of {len(REQUIREMENTS)} promises are proven by tests: `grep -rn 'requirement(\"R3\")' tests` finds those of R3.",
        "The others are not in this release.",
    ]
    for source in SOURCES.values():
        lines += ["", f"## {source}", "", "| id | promise | status |", "|---|---|---|"]
        lines += [
            f"| {row.id} | {row.promise} | {'proven' if row.status == 'proven' else 'not yet'} |"
            for row in REQUIREMENTS
            if row.source == source
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
