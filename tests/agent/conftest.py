"""What several tests of agents start from: an empty project, the file of a budget, a daemon to start."""

from __future__ import annotations

import pytest

from .daemon_bed import DaemonBed


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory in a project, above whose root no test looks."""
    (tmp_path / "pyproject.toml").touch()
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


@pytest.fixture
def path(tmp_path):
    """The file of a spend budget, not written yet."""
    return tmp_path / "state" / "spend.json"


@pytest.fixture
def bed(tmp_path):
    """A directory with a daemon's program, whose processes end with the test."""
    with DaemonBed(tmp_path) as bed:
        yield bed
