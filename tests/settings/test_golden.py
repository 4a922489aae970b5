"""What settings say of documents is what the golden files have, to the byte: errors with their lines, `explain`, `dump`, the schema."""

from __future__ import annotations

import difflib

import pytest

from .golden import DATA, files


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    return files(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", ["documents.txt", "shown.txt", "schema.txt"])
def test_the_texts_are_those_of_the_file(now, name):
    """`python -m tests.settings.golden` writes the files; a commit that changes one changes nothing else."""
    before = (DATA / name).read_text()
    different = difflib.unified_diff(before.splitlines(), now[name].splitlines(), n=0, lineterm="")
    assert now[name] == before, "\n".join([*different][:20])
