"""The ladder that tests of degradation go down, and the failures that take it there."""

from __future__ import annotations

from resilient_bridge.agent import Degradation
from resilient_bridge.failure import Failure


LIMITED = Failure.of("SYS_RATE_LIMITED")
LOST = Failure.of("CONN_RESET")


def browse(**options):
    """The seed's ladder, whose modes may follow one that may have run."""
    return Degradation(
        "browse", "browser", "web_scrape", "text", **{"may_have_run": True, **options}
    )


def steps(events):
    """What the events say, without their times."""
    return [(event.previous, event.mode) for event in events]
