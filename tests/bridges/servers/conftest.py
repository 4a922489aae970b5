"""The tests of this folder start servers that others wrote: a marker of their own, and a session (`nox -s servers`)."""

from __future__ import annotations

from pathlib import Path

import pytest


HERE = Path(__file__).parent
WITHOUT = {"test_recording.py"}  # frames of a server, and no server


def pytest_collection_modifyitems(items):
    """Mark what is in this folder."""
    for item in items:
        if HERE in item.path.parents and item.path.name not in WITHOUT:
            item.add_marker(pytest.mark.server)
