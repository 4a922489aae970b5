"""The reference pages that are printed from the package itself: states, errors, events.

Rule: what the package knows is read from it, and only words are written here. `python -m tests.reference states` prints
docs/reference/states.md; tests/test_reference.py holds each page against the file.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping

from resilient_bridge import Dialect, errors, events
from resilient_bridge.classification import classify_close
from tests.internals.classification import EXITS, status_finding
from tests.internals.protocol import LossAction, meaning, mermaid
from tests.internals.telemetry import alert_events, call_events, debug_events, work_events

from .reference_executed import executed_page
from .reference_layout import page, table
from .reference_metrics import metrics_page
from .reference_settings import settings_page
from .reference_wire import wire_page


STATES = {
    "IDLE": "made, and not started: `async with` starts it",
    "CONNECTING": "one attempt: DNS, TCP, TLS and the upgrade, under one deadline (`Reconnect.connect_timeout`)",
    "AUTHENTICATING": "connected; `auth` is sent and its answer awaited",
    "JOINING": "the session is asked for, with the first ping in the same burst",
    "REPLAYING": "what was missed is asked for; live messages are held until the verdict",
    "FLUSHING": "the verdict is there, live delivery goes on, and what was queued while down is sent",
    "READY": "messages flow both ways",
    "BACKOFF": "the link is lost; the next attempt has its time",
    "SUSPENDED": "BACKOFF, told to the user: attempts used up, or the outage outlived the grace; the schedule goes on",
    "FAILED": "the end that is not the user's; every operation raises its failure",
    "DRAINING": "`aclose()`: what is queued still goes, bounded",
    "CLOSING": "the goodbye, bounded, then an abort",
    "CLOSED": "the end; no task and no socket is left",
}

REASONS = {
    "user": "you asked for it: the start, or `aclose()`",
    "connected": "the upgrade succeeded",
    "authenticated": "the server accepted the credentials",
    "joined": "the server has read the join and did not refuse it",
    "merged": "the join has its verdict",
    "flushed": "all that was queued when flushing began has been handed out",
    "retry": "the wait is over, or was cut short by `reconnect_now()`",
    "closed": "the goodbye has ended",
    "connection_lost": "the link ended without a close frame",
    "peer_closed": "the server closed: `peer_closed(1012, service restart)`",
    "heartbeat_timeout": "a ping was not answered in time",
    "suspected_sleep": "the clocks say that this machine slept, and the link did not answer the probe",
    "probe_unanswered": "`reconnect_now()` while connected, and the link did not answer the probe",
    "health_check_failed": "your `health_check` did not say yes, and the link did not answer the probe either",
    "connect_refused": "nobody listens there",
    "connect_failed": "no connection, for another cause",
    "dns": "the host name could not be resolved",
    "tls": "the TLS handshake failed",
    "timeout": "the attempt took longer than `connect_timeout`",
    "upgrade_rejected": "an HTTP status instead of the upgrade: `upgrade_rejected(503)`",
    "auth_expired": "the token has expired",
    "auth_rejected": "the credentials were refused",
    "session_lost": "the server does not know the session, or has closed it",
    "superseded": "another connection has taken the session",
    "protocol_error": "one end broke the protocol",
    "replay_timeout": "the replay was not there within `Replay.timeout`: the verdict came without it",
    "overflow": "the inbox is full, so the link was dropped to have the rest replayed",
    "poison": "a message of ours is suspected of killing the link: `poison(tool_result)`",
    "rate_capped": "connections that were accepted died too soon: the wait is longer than the schedule's",
    "grace_passed": "the outage has outlived the session's grace",
    "exhausted": "`Reconnect.attempts` are used up, and the policy says raise",
    "config": "it cannot work as configured",
    "internal_error": "a defect of this client: please report it",
}

ACTIONS = {
    LossAction.RECONNECT: "BACKOFF, then another attempt",
    LossAction.REFRESH: "credentials are asked for again, once until READY; then, or if they are plain values, FAILED",
    LossAction.NEW_SESSION: "another attempt, with a new session: GAP(new_session)",
    LossAction.FAIL: "FAILED",
}

ABOUT_PREFIX = {
    "CONN_": "the link",
    "AUTH_": "who we are",
    "PROTO_": "what was said",
    "SESS_": "the session",
    "TOOL_": "what the agent runs",
    "HOOK_": "what the agent reports",
    "SYS_": "all the rest, ours or theirs",
}

_SUPERSEDED = Dialect().superseded
_LINK = ("CONN_", "AUTH_", "SESS_", "PROTO_INVALID_FRAME")


def _ranges(numbers: Iterable[int]) -> str:
    """The numbers, with each run of more than two as a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)  # noqa: RUF001 - a range


def _by_action(of: Mapping[int, LossAction] | Mapping[str, LossAction]) -> dict[LossAction, list[int | str]]:
    found: dict[LossAction, list[int | str]] = {action: [] for action in LossAction}
    for what, action in of.items():
        found[action].append(what)
    return found


def closes() -> dict[int, LossAction]:
    """What each close code of the peer means, by asking the core."""
    return {
        code: meaning(classify_close(code, "", "peer"), _SUPERSEDED)
        for code in [*range(1000, 1016), *range(3000, 5000)]
    }


def statuses() -> dict[int, LossAction]:
    """What each HTTP status in place of the upgrade means, by asking the core."""
    return {
        status: meaning(status_finding(status, upgrade=True).failure(), _SUPERSEDED)
        for status in range(300, 600)
    }


NO_LOSS_BY_ITSELF = {"CONN_UPGRADE_REJECTED", "CONN_NOT_CONNECTED", "CONN_RECONNECT_EXHAUSTED"}
"""Codes of a link that no loss has by itself: it has a status, or is no loss."""


def codes() -> dict[str, LossAction]:
    """What a link's own failure means where neither a close code nor a status says more."""
    met = [code for code in errors.CODES if code.startswith(_LINK) and code not in NO_LOSS_BY_ITSELF]
    return {code: meaning(errors.Failure.of(code), _SUPERSEDED) for code in met}


def _numbers(of: dict[int, LossAction]) -> list[str]:
    rows = []
    for action, numbers in _by_action(of).items():
        listed = _ranges(number for number in numbers if isinstance(number, int))
        if listed:
            rows.append((listed, ACTIONS[action]))
    return table("what came | what follows", rows)


def states() -> str:
    """The text of docs/reference/states.md."""
    found = _by_action(codes())
    return page(
        "states",
        "States, reasons, and what a loss means",
        [
            "`bridge.state` is one of these; every change is the event `StateChanged(previous, state, reason)`."
        ],
        ["```mermaid", mermaid(), "```"],
        table("state | the client", ((f"`{name}`", text) for name, text in STATES.items())),
        [
            "## Reasons",
            "",
            "What a change of state gives as its reason, up to the first parenthesis.",
            "",
            *table("reason | because", ((f"`{name}`", text) for name, text in REASONS.items())),
        ],
        [
            "## What a loss means",
            "",
            "A rule in `Reconnect.rules` stands above these tables: a failure that it matches is tried again.",
            "",
            "A close frame of the server. A loss without one is always tried again, and so is one that we closed.",
            "After 1012 and 1013 the wait is the server's hint, or at least 5 s.",
            "",
            *_numbers(closes()),
        ],
        [
            "An HTTP status in place of the upgrade. `Retry-After` is a lower bound of the wait; after a 429 without one it is at least",
            "5 s. A hint beyond `Reconnect.max_retry_after` is FAILED. A body that says SESS_NOT_FOUND counts as 4404.",
            "",
            *_numbers(statuses()),
        ],
        [
            "A failure that has neither. A certificate that fails verification is FAILED; a handshake that was cut short is not. A programming",
            "error (NameError, TypeError, ValueError, KeyError …) of the code that opens a connection is FAILED; errors of the system",
            "and of the network, timeouts, and what nobody knows are tried again.",
            "",
            *table(
                "what happened | what follows",
                (
                    (", ".join(f"`{code}`" for code in found[action]), ACTIONS[action])
                    for action in LossAction
                ),
            ),
        ],
        [
            "A session that the server says is taken over (close code 4409, or `Dialect.superseded`) is FAILED and never fought for,",
            "with one exception: where the other connection may be our own, lost before the server noticed, the client joins once more.",
        ],
    )


def _raised(code: str) -> str:
    return f"`{type(errors.error_for(errors.Failure.of(code))).__name__}`"


def _verdict(failure: errors.Failure) -> tuple[object, ...]:
    again = "yes" if failure.retryable else "no"
    once = failure.details.get("max_retries") == 1
    return (failure.code, failure.category, "once" if once else again, failure.executed)


def _exit_row(code: int) -> tuple[object, ...]:
    failure = EXITS[code].failure()
    return (code, failure.message, *_verdict(failure))


def _rpc_row(number: int) -> tuple[object, ...]:
    return (number, *_verdict(errors.Failure.from_mcp({"code": number})))


def error_page() -> str:
    """The text of docs/reference/errors.md."""
    parts: list[list[str]] = []
    for prefix, about in ABOUT_PREFIX.items():
        rows = [
            (
                f"`{code}`",
                row.summary,
                row.category,
                row.severity,
                "yes" if row.retryable else "no",
                row.executed,
                _raised(code),
                row.hint,
            )
            for code, row in errors.CODES.items()
            if code.startswith(prefix)
        ]
        parts.append(
            [
                f"## {prefix}: {about}",
                "",
                *table(
                    "code | says | category | severity | retryable | ran? | raised as | first thing to do",
                    rows,
                ),
            ]
        )
    return page(
        "errors",
        "Errors",
        [
            "Every failure has one code. The code decides what is written here; what is known of the single case may override a",
            "field (a 503 may bring a `retry_after`). `rb.classify(error)` gives the `Failure` of any exception, and `error.failure` is",
            "that of a `BridgeError`. What is raised stands in `rb.errors`, the errors of a first week in `rb` as well.",
            "",
            "*Retryable*: repeating the same call can help. *Ran?*: can the other side have acted on it (`failure.executed`).",
            "A code with one of these prefixes that is not listed, because a server made it up, is treated like its nearest relative.",
            "How to use it: [read a failure](../how-to/read-a-failure.md).",
        ],
        *parts,
        [
            "## Exit codes",
            "",
            'Of a process, as the shell and sysexits number them; a signal counts as 128 and its number. *Once*: `details["max_retries"]`',
            "is 1. Any other code is the program's own: `TOOL_EXECUTION_FAILED`, not retryable unless its error output says so.",
            "",
            *table("exit code | meaning | code | category | retryable | ran?", map(_exit_row, sorted(EXITS))),
        ],
        [
            "## JSON-RPC and MCP",
            "",
            "The error's `data` (`type`, `retryable`, `sessionValid`, `retryAfter`, `code`) beats its number; any other number is",
            '`SYS_INTERNAL_ERROR`. "Session not found" and "Session terminated" under -32600 or -32002 are `SESS_NOT_FOUND`.',
            "",
            *table("number | code | category | retryable | ran?", map(_rpc_row, errors.RPC_CODES)),
        ],
        [
            "## Categories",
            "",
            "`failure.to_mcp()` uses these JSON-RPC codes.",
            "",
            *table(
                "category | JSON-RPC code", ((f"`{name}`", code) for name, code in errors.MCP_CODES.items())
            ),
        ],
    )


def records() -> list[type[events.Event]]:
    """The event classes, in the order of the source."""
    return [
        value
        for room in (events, call_events, alert_events, debug_events, work_events)
        for value in vars(room).values()
        if inspect.isclass(value) and issubclass(value, events.Event) and value.__module__ == room.__name__
    ]


def _fields(record: type[events.Event]) -> str:
    return ", ".join(f"`{name}: {kind}`" for name, kind in record.__annotations__.items())


def event_page() -> str:
    """The text of docs/reference/events.md."""
    return page(
        "events",
        "Events",
        [
            "`with rb.listen(fn):` calls `fn` with the events of every client and policy of this process, in the thread and the task that",
            "emits: be quick. `bridge.events()` is an async iterator over those of one client. No event carries an argument, a payload or a",
            "secret. The stdlib logger `resilient_bridge` has what somebody has to hear, whoever listens: waits over 1 s, `Suspended`, `FellBack`,",
            "`ThreadLeftBehind` and circuits that open as warnings, `GaveUp` by its [severity](severity.md). Its switch is its level, or",
            '`logging.getLogger("resilient_bridge").disabled = True`.',
        ],
        [
            "```python",
            "import resilient_bridge as rb",
            "",
            "",
            "def show(event: rb.events.Event) -> None:",
            "    match event:",
            "        case rb.events.Resumed(verdict=rb.Verdict.RECOVERED, replayed=replayed):",
            '            print(f"back, {replayed} messages late")',
            "        case rb.events.Resumed(verdict=verdict, reason=reason):",
            '            print(f"back, but {verdict}: {reason}")',
            "        case rb.events.Suspended(attempts=attempts):",
            '            print(f"disconnected after {attempts} attempts, still trying")',
            "",
            "",
            "with rb.listen(show):",
            "    ...  # your program",
            "```",
        ],
        [
            "Each has `at: datetime`, with its time zone, `bridge: str`, the name of the client or link that it is about (`BridgeClient(name=)`,",
            "`reconnecting(name=)`; empty for one without a name, and for all other events), and what follows; `vars(event)` has all of them:",
            "",
            *table(
                "event | says | fields",
                (
                    (f"`{one.__name__}`", " ".join((inspect.getdoc(one) or "").split()), _fields(one))
                    for one in records()
                ),
            ),
        ],
        [
            "## As a line of JSON",
            "",
            "`rb.stores.SessionLog(path)` and `resilient-bridge pipe --events FILE` write each event as one object on one line, in this order:",
            "",
            *table(
                "key | value",
                (
                    ("`at`", "when, in ISO 8601, to the millisecond, in UTC"),
                    ("`event`", "the name of the event, as in the table above"),
                    ("`bridge`", "only if the client or link has a name"),
                    (
                        "each field",
                        (
                            "by its name; a failure as its `to_dict()`, an enum as its word, another time in ISO 8601, money as text; "
                            "a secret as `[redacted]`, a text of more than 500 characters cut"
                        ),
                    ),
                    (
                        "`lost`",
                        "only in the `StoreRecovered` of the log itself: how many lines could not be written",
                    ),
                    ("`cut`", "in the place of the fields of an event whose line is longer than 64 KiB"),
                ),
            ),
            "",
            "Lines that a program writes itself (`SessionLog.write`) have `at` and whatever it said, and no `event`. Keys may be added, and none",
            "changes its meaning. The first line of `pipe --events` is `Started`, with `version`, `python` and `command`.",
        ],
        ["States and reasons are in [states](states.md), failures in [errors](errors.md)."],
    )


PAGES: dict[str, Callable[[], str]] = {
    "states": states, "errors": error_page, "events": event_page, "executed": executed_page,
    "settings": settings_page, "metrics": metrics_page, "wire": wire_page,
}  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(PAGES[sys.argv[1]]())
