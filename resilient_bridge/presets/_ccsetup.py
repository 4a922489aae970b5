"""ccsetup's error recovery, as far as a call goes: what is transient, and how it is repeated.

Delays exact, no jitter.
"""

from __future__ import annotations

from ..calls.policy import Policy
from ..calls.retry.value import Retry
from ..values.backoff import Backoff
from .bridge_policy import BridgePolicy


ccsetup = BridgePolicy(calls=Policy(Retry(attempts=4, backoff=Backoff.steps(2, 4, 8), budget=None)))
"""ccsetup: a transient failure is repeated after 2, 4 and 8 s, with the same parameters, then it is permanent.

Everything else is permanent at once. No budget bounds the retries of calls that fail together.
Restoring and resuming (corruption, partial) are steps of a workflow, not of a call. The link is as
in `default`.
"""
