"""ReCursor's error handling specification: a WebSocket bridge between an app and an agent.

Delays exact, no jitter except after a rate limit.
"""

from __future__ import annotations

from ..calls.breaker.value import Breaker
from ..calls.policy import Policy
from ..calls.retry.value import Retry
from ..calls.timeout.value import Timeout
from ..protocol.policies.reconnect import Reconnect
from ..values.backoff import Backoff
from ..values.rule import Rule
from .bridge_policy import BridgePolicy


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
