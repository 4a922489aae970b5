"""The recommended policy for a call about which nothing is known."""

from __future__ import annotations

from typing import Final

from .adaptive.value import AdaptiveLimit
from .breaker.value import Breaker
from .policy import Policy
from .retry.value import Retry


resilient: Final = Policy(Retry(), Breaker())
"""Ready to decorate with: five calls at most, transient failures only, within a budget, and a breaker. No time limit: that
belongs to the operation; `resilient.replace(Deadline(60))` adds one."""

of_one_request: Final = resilient.replace(AdaptiveLimit())
"""The same where one call is one request, as at an HTTP client: there a refusal costs time, and no attempt."""
