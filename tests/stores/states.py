"""What the tests of state files share: three values, a check, and files in every condition."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.internals.stores import Document, read_document, write_document


ONE, TWO, THREE = {"phase": "plan"}, {"phase": "build"}, {"phase": "test"}
EPOCH = datetime(2026, 3, 20, 14, 32, tzinfo=UTC)


def is_state(value):
    """The check of these tests: an object with a phase."""
    if not isinstance(value["phase"], str):
        raise TypeError("expected a phase")


def backup_of(path):
    return path.with_name(path.name + ".backup")


def value_in(path):
    return read_document(path.read_bytes()).value


def damage(path):
    path.write_bytes(path.read_bytes()[:-20])


def write(path, **stated):
    """A document as another version of the program may have left it."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(write_document(Document(**{"version": 1, "saved_at": EPOCH, **stated})))
