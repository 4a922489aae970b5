"""OpenViber's error handling: an agent runtime and its board. Delays exact, no jitter."""

from __future__ import annotations

from ..calls.policy import Policy
from ..calls.retry.value import Retry
from ..calls.timeout.value import Timeout
from ..protocol.policies.dialect import Dialect
from ..protocol.policies.heartbeat import Heartbeat
from ..protocol.policies.reconnect import Reconnect
from ..values.backoff import Backoff
from ..values.rule import Rule
from .bridge_policy import BridgePolicy


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
