"""Ready-made policies: `default` is recommended, each other follows a published specification.

Rule: only numbers and names of the specification stand here. Delays are exact, without jitter,
unless the specification says otherwise.
"""

from __future__ import annotations

from ..calls.breaker.value import Breaker
from ..calls.policy import Policy
from ..calls.retry.value import Retry
from ..calls.timeout.value import Timeout
from ..protocol.policies.dialect import Dialect
from ..protocol.policies.heartbeat import Heartbeat
from ..protocol.policies.reconnect import Reconnect
from ..values.backoff import Backoff
from ..values.rule import Rule
from .bridge_policy import BridgePolicy


# ---- default: the recommended one, for an unknown server -----------------------------------------


default = BridgePolicy()
"""Recommended: reconnects within 0.5 s, then at random, up to 30 s, without end.

After 5 failed attempts or 5 minutes it reports SUSPENDED and continues.

Heartbeat 15 + 10 s; 1,000 messages or 8 MiB each way; resends within 270 s of the 5-minute window.
"""


# ---- recursor: a WebSocket bridge between an app and an agent ------------------------------------


recursor = BridgePolicy(
    reconnect=Reconnect(
        backoff=Backoff.steps(1, 2, 5, 10, 30),
        rules={
            "CONN_TIMEOUT": Rule(
                backoff=Backoff.steps(1, 2, 5, then=Backoff.exponential(10, cap=60, jitter="none"))
            ),
        },
        attempts=5,
        on_exhausted="raise",
        reuse_address_on=(2,),
        retry_certificates=False,
    ),
    calls=Policy(
        Retry(
            attempts=4,
            backoff=Backoff.exponential(1, jitter="none"),
            rules={"SYS_RATE_LIMITED": Rule(backoff=Backoff.exponential(1, jitter="full"))},
            budget=None,
        ),
        Breaker.consecutive(5, open_for=60),
    ),
    tools={
        "bash": Policy(Timeout(300, thread=True)),
        "read_file": Policy(Timeout(10, thread=True)),
        "edit_file": Policy(Timeout(30, thread=True)),
        "search": Policy(Timeout(60, thread=True)),
    },
)
"""ReCursor: reconnects after 1, 2, 5, 10, 30 s, then fails with a typed error and an event.

After a connect timeout it waits 1, 2 (on the cached address), 5 (fresh DNS), then 10 s doubling. A
session is kept 5 minutes. Heartbeat 15 s, answered within 10 s. Calls: 3 retries, exponential; with
jitter after a rate limit; out of memory once; not found or not permitted never. 5 failures in a row
open a circuit for 60 s. Tools: bash 300, read_file 10, edit_file 30, search 60 s.
"""


# ---- ccsetup: error recovery for calls: which failures are transient, and how they are repeated --


ccsetup = BridgePolicy(
    reconnect=Reconnect(retry_certificates=False),
    calls=Policy(Retry(attempts=4, backoff=Backoff.steps(2, 4, 8), budget=None)),
)
"""ccsetup: a transient failure is repeated after 2, 4 and 8 s with the same parameters.

Then it is permanent; every other failure is permanent at once. No budget bounds the retries of
calls that fail together. Restoring and resuming (corruption, partial) are steps of a workflow, not
of a call. The link is as in `default`, except that no foreign certificate is tried again.
"""


# ---- stdiobus: the stdio Bus MCP bridge: which operations may be repeated ------------------------


stdiobus = BridgePolicy(
    reconnect=Reconnect(retry_certificates=False),
    idempotent=("bridge_health", "agents_discover", "sessions_status", "sessions_close"),
    idempotent_if_marked=(
        "sessions_create",
        "sessions_prompt",
        "sessions_cancel",
        "tasks_delegate",
    ),
)
"""stdio Bus: retryable failures are repeated a bounded number of times.

The specification names no delays, so they are those of `default`, without the
attempts after a foreign certificate. `idempotent` operations may
always be repeated; those in `idempotent_if_marked` only if the error itself says `retryable: true`,
or if nothing can have run. A link obeys both by the names of tools and methods:
`rb.reconnecting(…, rb.presets.stdiobus)`.
"""


# ---- gasoline: Gasoline MCP, a browser extension and its local daemon ----------------------------


_GASOLINE_STEPS = Backoff.steps(0, 1, 2, 4, 8, 30)

# "Don't retry immediately": the same without its first wait
_GASOLINE_LATE = Rule(backoff=Backoff.steps(1, 2, 4, 8, 30))

gasoline = BridgePolicy(
    reconnect=Reconnect(
        backoff=_GASOLINE_STEPS,
        rules={"CONN_TIMEOUT": _GASOLINE_LATE, "CONN_HEARTBEAT_TIMEOUT": _GASOLINE_LATE},
        attempts=6,
        on_exhausted="suspend",
        retry_certificates=False,
    ),
    calls=Policy(
        Retry(
            attempts=6,
            backoff=_GASOLINE_STEPS,
            rules={
                "CONN_REFUSED": Rule(attempts=1),
                "CONN_TIMEOUT": _GASOLINE_LATE,
                "SYS_TIMEOUT": _GASOLINE_LATE,
                "TOOL_TIMEOUT": _GASOLINE_LATE,
            },
            budget=None,
        ),
        Breaker.consecutive(5, open_for=30),
        Timeout(2, thread=True),
    ),
    tools={
        "default": Policy(Timeout.escalating(2, 5, 30, thread=True)),
        "query": Policy(Timeout(2, thread=True)),
        "async_command": Policy(Timeout(30, thread=True)),
        "execute_js": Policy(
            Retry(attempts=3, backoff=Backoff.constant(0), budget=None),
            Timeout.escalating(2, 5, 30, thread=True),
        ),
        "startup": Policy(Timeout(4, thread=True)),
        "poll": Policy(
            Retry(attempts=30, backoff=Backoff.linear(1, cap=2, jitter="none"), budget=None)
        ),
        "health": Policy(Timeout(0.5, thread=True)),
        "long_handler": Policy(Timeout(35, thread=True)),
    },
)
"""Gasoline MCP: a browser extension and its local daemon.

Delays 0, 1, 2, 4, 8, then 30 s. 5 failures in a row open a circuit for 30 s; then it has one
probe. After a timeout the first wait is 1 s and not 0. A refused connection is not repeated: no
daemon listens there. Query 2 s, async command 30,
start-up 4, poll every 1 to 2, health 0.5, a long handler 35 s.

`execute_js`, and in a Toolbox every tool that is not named here, escalates from 2 to 5 and to 30 s:
a Toolbox runs it once, and reports after 2 and after 5 s that it is pending.
"""


# ---- openviber: an agent runtime and its board ---------------------------------------------------


openviber = BridgePolicy(
    reconnect=Reconnect(
        backoff=Backoff.exponential(1, cap=16, jitter="none"),
        attempts=5,
        on_exhausted="suspend",
        retry_certificates=False,
    ),
    heartbeat=Heartbeat(timeout=30),
    dialect=Dialect(dedupes=True),
    calls=Policy(
        Retry(
            attempts=3,
            backoff=Backoff.exponential(1, cap=30, jitter="none"),
            rules={"SYS_RATE_LIMITED": Rule(backoff=Backoff.constant(60))},
            budget=None,
        )
    ),
    tools={
        "local": Policy(Retry(attempts=3, backoff=Backoff.constant(0), budget=None)),
        "default": Policy(Timeout(30, thread=True)),
        "shell_command": Policy(Timeout(120, thread=True)),
        "web_scrape": Policy(Timeout(60, thread=True)),
        "browser_action": Policy(Timeout(45, thread=True)),
    },
)
"""OpenViber: reconnects after 1, 2, 4, 8, 16 s, then reports SUSPENDED and continues.

SUSPENDED is its disconnected mode. A heartbeat unanswered for 30 s ends the connection. The server
deduplicates, so resends keep their key and stay inside its 5 minutes.

Model calls: 3 attempts, after 1 and 2 s (at most 30 s), without a budget. After a rate limit a call
waits as the provider says, else 60 s. `tools["local"]`, for a local provider, repeats without a
wait. A failure that no repeat can help is raised at once. Tools: 30 s, a shell 120, a scrape 60, a
browser 45.
"""
