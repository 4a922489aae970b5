"""What several tests of workflows begin with: who listens."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge import events


@pytest.fixture
def heard():
    """The events of this test."""
    found: list[events.Event] = []
    with rb.listen(found.append):
        yield found
