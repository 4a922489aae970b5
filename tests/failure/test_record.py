"""The record on an exception: kept by any exception, read by `classify`, and nothing else changes."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import attrs
import httpx
import pytest

from resilient_bridge.failure import Failure, Record, attach, classify, error_for, record_of


EARLIER = (Failure.of("CONN_REFUSED"), Failure.of("CONN_RESET"))
RECORD = Record(EARLIER, "attempts", 3, 1.5, "gave up after 3 calls in 1.5 s: attempts used up")


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    """Refuses every setattr."""

    reason: str = "x"


@attrs.frozen
class FrozenAttrsError(Exception):
    """The same, of attrs."""

    reason: str = "x"


class SlottedError(Exception):
    """Says it has slots; an exception has a dictionary all the same."""

    __slots__ = ("reason",)


class HiddenError(Exception):
    """Hides what it has."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __setattr__(self, name, value):
        raise RuntimeError(name)


ERRORS = [FrozenError, FrozenAttrsError, SlottedError, HiddenError, ValueError, OSError, KeyError]


@pytest.mark.parametrize("make", ERRORS)
def test_any_exception_keeps_its_record(make):
    """Frozen, slotted, hiding, built in: kept, read, replaced; `classify` tells history and reason."""
    error = make()
    assert record_of(error) is None
    assert attach(error, Record())
    assert attach(error, RECORD)
    assert record_of(error) is RECORD
    failure = classify(error)
    assert (failure.history, failure.stopped) == (EARLIER, "attempts")
    assert "attempt 2: connection reset (TRANSPORT)\nstopped: attempts" in failure.explain()


def test_what_cannot_keep_one_says_so():
    """A property in the way: False, and nothing raised; what a stranger put there is no record."""

    class GuardedError(Exception):
        @property
        def __resilience__(self):
            raise RuntimeError("mine")

    assert not attach(GuardedError(), RECORD)
    stranger = ValueError("x")
    stranger.__resilience__ = "theirs"
    assert record_of(stranger) is None
    assert classify(stranger).history == ()


def test_our_own_errors_and_groups_tell_it_too():
    """A BridgeError keeps its failure, and classify adds the history; a wrapper hands on that of what it wraps."""
    ours = error_for(Failure.of("SYS_TIMEOUT"))
    attach(ours, RECORD)
    assert (classify(ours).history, classify(ours).stopped) == (EARLIER, "attempts")
    assert ours.failure.history == ()
    group = ExceptionGroup("g", [ValueError("x")])
    attach(group, RECORD)
    assert classify(group).history == EARLIER
    below = ConnectionRefusedError(111, "x")
    attach(below, RECORD)
    above = httpx.ConnectError("x")
    above.__cause__ = below
    assert classify(above).history == EARLIER


def test_the_record_travels():
    """Pickled and copied with the exception, ours and theirs."""
    for error in (error_for(Failure.of("CONN_RESET")), ValueError("x")):
        attach(error, RECORD)
        error.add_note("note")
        for clone in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert record_of(clone) == RECORD
            assert clone.__notes__ == ["note"]
