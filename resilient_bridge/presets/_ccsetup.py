"""ccsetup's error recovery for calls: which failures are transient, and how they are repeated.

Delays exact, no jitter.
"""

from __future__ import annotations

from ..calls.policy import Policy
from ..calls.retry.value import Retry
from ..protocol.policies.reconnect import Reconnect
from ..values.backoff import Backoff
from .bridge_policy import BridgePolicy


ccsetup = BridgePolicy(
    reconnect=Reconnect(retry_certificates=False),
    calls=Policy(Retry(attempts=4, backoff=Backoff.steps(2, 4, 8), budget=None)),
)
"""ccsetup: a transient failure is repeated after 2, 4 and 8 s with the same parameters.

Then it is permanent; every other failure is permanent at once. No budget bounds the retries of
calls that fail together. Restoring and resuming (corruption, partial) are steps of a workflow, not
of a call. The link is as in `default`, except that no foreign certificate is tried again.
"""
