"""One outgoing message: its size, its age, its one outcome."""

from __future__ import annotations

import pytest

from resilient_bridge.protocol import Entry, EntryState, Now


def _entry(frame="{}", **options):
    return Entry(1, "id", "key", "note", frame, **options)


@pytest.mark.parametrize(("frame", "size"), [("abc", 3), ("ü", 2), ("😀", 4), ("", 0)])
def test_the_size_is_what_goes_on_the_wire(frame, size):
    """Bytes of UTF-8, because the bound is in bytes."""
    assert _entry(frame).size == size


def test_the_age_starts_when_it_is_first_handed_out():
    """A second hand-out does not make it younger: the server's window began with the first."""
    entry = _entry()
    assert entry.age(Now(1e6, 1e6)) == 0
    entry.write(Now(10, 1000), 1)
    entry.write(Now(100, 1090), 2)
    assert (entry.age(Now(110, 1100)), entry.generation, entry.state) == (
        100,
        2,
        EntryState.WRITTEN,
    )


@pytest.mark.parametrize(
    ("mono", "wall", "expired"), [(14, 14, False), (15, 14, True), (14, 15, True), (16, 0, True)]
)
def test_a_ttl_ends_by_either_clock(mono, wall, expired):
    """A machine that slept has aged, and so has one whose wall clock stood still."""
    entry = _entry(expires=Now(15, 15))
    assert entry.is_expired(Now(mono, wall)) is expired
    assert not _entry().is_expired(Now(1e9, 1e9))


def test_the_repr_shows_no_payload():
    """Type, key and state."""
    assert repr(_entry('{"secret":1}')) == "<Entry 1 note queued key=key>"
