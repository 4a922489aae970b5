"""Where the tests of suggestions look at a disk."""

from __future__ import annotations

import pytest


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty working directory in a project, above whose root no test looks."""
    (tmp_path / "pyproject.toml").touch()
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project
