"""Gasoline MCP: a browser extension and its local daemon. Delays exact, no jitter."""

from __future__ import annotations

from ..calls.breaker.value import Breaker
from ..calls.policy import Policy
from ..calls.retry.value import Retry
from ..calls.timeout.value import Timeout
from ..protocol.policies.reconnect import Reconnect
from ..values.backoff import Backoff
from ..values.rule import Rule
from .bridge_policy import BridgePolicy


_BACKOFF = Backoff.steps(0, 1, 2, 4, 8, 30)

# "Don't retry immediately": the same without its first wait
_LATE = Rule(backoff=Backoff.steps(1, 2, 4, 8, 30))

gasoline = BridgePolicy(
    reconnect=Reconnect(
        backoff=_BACKOFF,
        rules={"CONN_TIMEOUT": _LATE, "CONN_HEARTBEAT_TIMEOUT": _LATE},
        attempts=6,
        on_exhausted="suspend",
        retry_certificates=False,
    ),
    calls=Policy(
        Retry(
            attempts=6,
            backoff=_BACKOFF,
            rules={
                "CONN_REFUSED": Rule(attempts=1),
                "CONN_TIMEOUT": _LATE,
                "SYS_TIMEOUT": _LATE,
                "TOOL_TIMEOUT": _LATE,
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
