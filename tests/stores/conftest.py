"""What several tests of stores begin with: who listens, and a state file that holds something."""

from __future__ import annotations

import pytest

from resilient_bridge import events
from resilient_bridge.stores import StateFile
from resilient_bridge.telemetry import listen
from tests.stores.states import ONE, TWO, is_state


@pytest.fixture
def heard():
    """The events of this test."""
    found: list[events.Event] = []
    with listen(found.append):
        yield found


@pytest.fixture
def file(path):
    """A state file that holds TWO, with ONE as its backup."""
    made = StateFile(path, version=1, check=is_state)
    made.save(ONE)
    made.save(TWO)
    return made
