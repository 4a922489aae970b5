"""The reference pages that are printed from the package itself: states, errors, events.

Rule: what the package knows is read from it, and only words are written here. `python -m tests.pages` writes
each page; tests/test_pages.py holds it against the file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping

from resilient_bridge import events
from resilient_bridge import failure as errors
from resilient_bridge.bridge import Dialect
from resilient_bridge.failure import classify_close
from tests.internals.failure import EXITS, upgrade_finding
from tests.internals.protocol import LossAction, meaning
from tests.internals.telemetry import link_events, work_events

from .reference_executed import executed_page
from .reference_layout import mermaid, page, table
from .reference_metrics import metrics_page
from .reference_settings import settings_page
from .reference_wire import wire_page


STATES = {
    "IDLE": "is created and not started: `async with` starts it",
    "CONNECTING": "makes one attempt: DNS, TCP, TLS and the upgrade, under one deadline (`Reconnect.connect_timeout`)",
    "AUTHENTICATING": "is connected, has sent `auth` and waits for the answer",
    "JOINING": "asks for the session, and sends the first ping together with the join",
    "REPLAYING": "has asked for what it missed; live messages are held until the verdict",
    "FLUSHING": "has the verdict; live delivery goes on, and messages that were queued while disconnected are sent",
    "READY": "receives and sends messages",
    "BACKOFF": "has lost the link and waits for the time of the next attempt",
    "SUSPENDED": "is in BACKOFF and has reported the outage: the attempts are used up, or the outage lasts longer than the grace; attempts go on by the schedule",
    "FAILED": "has ended because of a failure, not by `aclose()`; every operation raises that failure",
    "DRAINING": "is in `aclose()`: it still sends what is queued, for a bounded time",
    "CLOSING": "closes the connection, for a bounded time, and then aborts it",
    "CLOSED": "has ended; no task and no socket is left",
}

REASONS = {
    "user": "your program asked for it: the start, or `aclose()`",
    "connected": "the upgrade succeeded",
    "authenticated": "the server accepted the credentials",
    "joined": "the server has read the join and did not refuse it",
    "merged": "the join has its verdict",
    "flushed": "everything that was queued when flushing began has been sent",
    "retry": "the wait is over, or `reconnect_now()` ended it",
    "closed": "the connection is closed",
    "connection_lost": "the link ended without a close frame",
    "peer_closed": "the server closed: `peer_closed(1012, service restart)`",
    "heartbeat_timeout": "a ping was not answered in time",
    "suspected_sleep": "the clocks show that this machine slept, and the link did not answer the probe",
    "probe_unanswered": "`reconnect_now()` was called while connected, and the link did not answer the probe",
    "health_check_failed": "your `health_check` did not return true, and the link did not answer the probe either",
    "connect_refused": "no server listens at the address",
    "connect_failed": "no connection was made, for another cause",
    "dns": "the host name could not be resolved",
    "tls": "the TLS handshake failed",
    "timeout": "the attempt took longer than `connect_timeout`",
    "upgrade_rejected": "the server answered the upgrade with an HTTP status: `upgrade_rejected(503)`, or with a redirect elsewhere: `upgrade_rejected(redirect)`",
    "auth_expired": "the token has expired",
    "auth_rejected": "the credentials were refused",
    "session_lost": "the server does not know the session, or has closed it",
    "superseded": "another connection has taken the session",
    "protocol_error": "one end broke the protocol",
    "replay_timeout": "the replay did not come within `Replay.timeout`; the verdict was reached without it",
    "overflow": "the inbox is full, so the client dropped the link and will ask for the rest as a replay",
    "poison": "a message that this client sent is suspected of killing the link: `poison(tool_result)`",
    "rate_capped": "accepted connections died too soon, so the wait is longer than the schedule's",
    "grace_passed": "the outage has lasted longer than the session's grace",
    "exhausted": "`Reconnect.attempts` are used up, and the policy says raise",
    "config": "the client cannot work as configured",
    "internal_error": "a defect of this client: please report it",
}

ACTIONS = {
    LossAction.RECONNECT: "BACKOFF, then another attempt",
    LossAction.REFRESH: "the credentials are requested again, once before READY; if they are refused again, or are plain values, FAILED",
    LossAction.NEW_SESSION: "another attempt, with a new session: GAP(new_session)",
    LossAction.FAIL: "FAILED",
}
ALSO = {LossAction.FAIL: ", and whatever is [`fatal`](severity.md)"}

ABOUT_PREFIX = {
    "CONN_": "the link",
    "AUTH_": "the credentials",
    "PROTO_": "the messages",
    "SESS_": "the session",
    "TOOL_": "what the agent runs",
    "HOOK_": "what the agent reports",
    "SYS_": "all other failures, here or at the server",
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
    return ", ".join(
        f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run))  # noqa: RUF001 -- a range
        for run in runs
    )


def _by_action(
    of: Mapping[int, LossAction] | Mapping[str, LossAction],
) -> dict[LossAction, list[int | str]]:
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
        status: meaning(upgrade_finding(status).failure(), _SUPERSEDED)
        for status in range(300, 600)
    }


NO_LOSS_BY_ITSELF = {"CONN_UPGRADE_REJECTED", "CONN_NOT_CONNECTED", "CONN_RECONNECT_EXHAUSTED"}
"""Codes of a link that no loss has by itself: it has a status, or is no loss."""


def codes() -> dict[str, LossAction]:
    """What a link's own failure means where neither a close code nor a status says more."""
    met = [
        code for code in errors.CODES if code.startswith(_LINK) and code not in NO_LOSS_BY_ITSELF
    ]
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
        "Connection states, and what a loss means",
        [
            "`bridge.state` is one of these states. Every change emits the event `StateChanged(previous, state, reason)`."
        ],
        ["```mermaid", mermaid(), "```"],
        table("state | the client", ((f"`{name}`", text) for name, text in STATES.items())),
        [
            "## Reasons",
            "",
            "The reason of a change of state, up to the first parenthesis.",
            "",
            *table("reason | because", ((f"`{name}`", text) for name, text in REASONS.items())),
        ],
        [
            "## What a loss means",
            "",
            "A rule in `Reconnect.rules` takes precedence over these tables: after a failure that it matches the client tries again.",
            "",
            "The first table is about close frames of the server. After a loss without a close frame, or after a close by this client, the client always tries",
            "again. After 1012 and 1013 the wait is the one that the server names, or at least 5 s.",
            "",
            *_numbers(closes()),
        ],
        [
            "The next table is about an HTTP status instead of the upgrade. `Retry-After` is a lower bound of the wait; after a 429 without one the wait is at",
            "least 5 s. A `Retry-After` beyond `Reconnect.max_retry_after` ends in FAILED. A body that says SESS_NOT_FOUND counts as 4404.",
            "",
            *_numbers(statuses()),
        ],
        [
            "The last table is about failures that have neither. A certificate that fails verification ends in FAILED (but see below); a handshake that was interrupted does not.",
            "A programming error (NameError, TypeError, ValueError, KeyError …) of the code that opens a connection ends in FAILED. After errors of the system",
            "and of the network, timeouts, and unknown errors the client tries again.",
            "",
            *table(
                "what happened | what follows",
                (
                    (
                        ", ".join(f"`{code}`" for code in found[action]) + ALSO.get(action, ""),
                        ACTIONS[action],
                    )
                    for action in LossAction
                ),
            ),
        ],
        [
            "### After READY, an answer may be a captive portal's",
            "",
            "A link that was READY has proved its URL and its credentials. If a later dial is answered by an HTTP status that is FAILED above (not 401), or by a",
            "redirect elsewhere, something else than the server may have answered: a captive portal, a proxy, an ingress between two deployments. The client then",
            "tries again by its schedule. These answers do not use up `attempts`; they end in FAILED, with the last one, when they have come for `grace` and at least",
            "`attempts` times (`attempts=None`: for `grace`), whatever `on_exhausted` says. What is queued stays queued until then, and in a durable store after it. A",
            "close code and a `connection_error` come from a server that accepted the connection: the tables above hold. 511 is never about the server: it is tried",
            "again on a first connect too, and uses up no attempts.",
            "",
            "A certificate that is not trusted, self-signed or for another host, and a peer that speaks no TLS, count as such answers while",
            "`Reconnect.retry_certificates` is on: it is in `presets.default`, and off in the presets of specifications. Never with `pin=`, and never for a",
            "certificate that has expired or was revoked. Nothing is sent before TLS is verified.",
            "",
            "Over `ws://` no token follows such an answer. `BridgeClient(url)` first dials without token, without headers that may hold a secret and without such",
            "fields of the query; only when a WebSocket server accepts that dial, or answers 401, it dials as before. A token that goes into a message is sent after an",
            "accepted upgrade anyway. It does the same after an answer that is no handshake of WebSocket. A `reconnecting` link over websockets' `connect`, and an EventSource, whose requests would carry credentials over `ws://` or",
            "`http://`, end at once instead. With `BridgeClient.over` and other clients the headers are yours.",
        ],
        [
            "When the server says that another connection has taken the session (close code 4409, or `Dialect.superseded`), the client is FAILED and does not",
            "try to get the session back. There is one exception: if the other connection may be the client's own, lost before the server noticed, it joins",
            "once more.",
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
                    "code | meaning | category | severity | retryable | ran? | raised as | first thing to do",
                    rows,
                ),
            ]
        )
    return page(
        "Error codes",
        [
            "Every failure has one code, and the tables show the fields that the code sets. A single failure may have other values, if more is known about it",
            "(a 503 may have a `retry_after`). `rb.classify(error)` returns the `Failure` of any exception; `error.failure` is that of a `BridgeError`. The",
            "exception classes are in `rb.errors`, and the most common ones also in `rb`.",
            "",
            "*Retryable*: a repeat of the same call can help. *Ran?*: whether the server can have acted on the call (`failure.executed`).",
            "A server may send a code that is not listed here but has one of these prefixes. It is treated like one listed code of that prefix.",
            "How to use it: [read a failure](../how-to/read-a-failure.md).",
        ],
        *parts,
        [
            "## Exit codes",
            "",
            "These are exit codes of a process, as the shell and sysexits number them; for a signal the code is 128 plus its number. *Once* means that",
            '`details["max_retries"]` is 1. Any other code has the meaning that the program gives it: `TOOL_EXECUTION_FAILED`, not retryable unless its error',
            "output says so.",
            "",
            *table(
                "exit code | meaning | code | category | retryable | ran?",
                map(_exit_row, sorted(EXITS)),
            ),
        ],
        [
            "## JSON-RPC and MCP",
            "",
            "The error's `data` (`type`, `retryable`, `sessionValid`, `retryAfter`, `code`) takes precedence over its number. A number that is not listed is",
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
                "category | JSON-RPC code",
                ((f"`{name}`", code) for name, code in errors.MCP_CODES.items()),
            ),
        ],
    )


def records() -> list[type[events.Event]]:
    """The event classes, in the order of the source."""
    return [
        value
        for room in (link_events, work_events)
        for value in vars(room).values()
        if inspect.isclass(value)
        and issubclass(value, events.Event)
        and value.__module__ == room.__name__
    ]


def _fields(record: type[events.Event]) -> str:
    fields = record.__annotations__.items()
    return ", ".join(f"`{name}: {kind}`" for name, kind in fields if name in record._defaults)


def event_page() -> str:
    """The text of docs/reference/events.md."""
    return page(
        "Events: the reference",
        [
            "`with rb.listen(fn):` calls `fn` with the events of every client and policy of this process. It runs in the thread and the task that emit the event, so",
            "it must be quick. `bridge.events()` is an async iterator over the events of one client. No event carries an argument, a payload or a secret.",
            "",
            "The logger `resilient_bridge` of the standard library logs the important events, with or without a listener: waits over 1 s, `Suspended`, `FellBack`,",
            "`CallLeftBehind` and opened circuits as warnings, and `GaveUp` by its [severity](severity.md). To switch it off, set its level or",
            '`logging.getLogger("resilient_bridge").disabled = True`.',
        ],
        [
            "```python",
            "import resilient_bridge as rb",
            "",
            "",
            "def show(event: rb.events.Event) -> None:",
            "    match event:",
            "        case rb.events.Resumed(verdict=rb.bridge.Verdict.RECOVERED, replayed=replayed):",
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
            "Each event has `at: datetime`, with a time zone, and `bridge: str`, the name of the client or link that it is about (`BridgeClient(name=)`,",
            "`reconnecting(name=)`; empty for a client or link without a name, and for all other events). The table lists the other fields; `vars(event)` returns all of them.",
            "",
            *table(
                "event | what happened | fields",
                (
                    (
                        f"`{one.__name__}`",
                        " ".join((inspect.getdoc(one) or "").split()),
                        _fields(one),
                    )
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
                            "under its name; a failure as its `to_dict()`, an enum as its value, a time in ISO 8601, money as text; "
                            "a secret as `[redacted]`; a text of more than 500 characters is cut"
                        ),
                    ),
                    (
                        "`lost`",
                        "only in the `StoreChanged` of the log itself: how many lines could not be written",
                    ),
                    (
                        "`cut`",
                        "instead of the fields, for an event whose line is longer than 64 KiB",
                    ),
                ),
            ),
            "",
            "Lines that a program writes itself (`SessionLog.write`) have `at` and the fields that it passed, and no `event`. New keys may be added; the meaning of a key",
            "does not change. The first line of `pipe --events` is `Started`, with `version`, `python` and `command`.",
        ],
        ["States and reasons are in [states](states.md), failures in [errors](errors.md)."],
    )


PAGES: dict[str, Callable[[], str]] = {
    "states": states, "errors": error_page, "events": event_page, "executed": executed_page,
    "settings": settings_page, "metrics": metrics_page, "wire": wire_page,
}  # fmt: skip
