"""Traps of exceptions: frozen ones, ones that are sent elsewhere, and rejections that are taken for something else."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import attrs
import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, everywhere
from tests.rows import each_row


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    """Refuses every attribute, `__traceback__` included."""

    why: str = "frozen"


@everywhere
def test_redress_a_frozen_exception_comes_out_as_itself(form):
    """A frozen dataclass, given up on, is raised as it is, with its history; redress raises FrozenInstanceError instead."""
    error = FrozenError()
    server = Server(always=error)
    with form.world():
        get = rb.Policy(at_once(attempts=2, on=FrozenError))(form.of(server.get), idempotent=True)
        with pytest.raises(FrozenError) as raised:
            form.run(get)
    assert raised.value is error
    assert server.calls == 2
    assert rb.classify(error).stopped == "attempts"


@pytest.mark.parametrize(
    "around",
    [
        rb.testing.virtual_time,
        rb.testing.disabled,
        rb.testing.record,
        lambda: rb.testing.inject(rb.resilient),
        lambda: rb.calls.circuit("frozen"),
    ],
    ids=["virtual_time", "disabled", "record", "inject", "circuit"],
)
def test_redress_a_frozen_exception_passes_through_our_context_managers(around):
    """`@contextmanager` sets `__traceback__` from Python, which a frozen class refuses: ours let it through as it is."""
    with pytest.raises(FrozenError), around():
        raise FrozenError


@each_row(
    "made_by", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"]
)
@each_row("name", ["open", "full", "throttled", "timeout", "deadline", "config"])
def test_redress_our_errors_survive_pickle_and_copy(name, made_by):
    """Each is the same public class with the same failure on the other side; kw_only attrs exceptions raise TypeError there."""
    error = RAISED[name]()
    again = made_by(error)
    assert type(again).__name__ == type(error).__name__
    assert isinstance(again, PUBLIC[name])
    assert attrs.evolve(again.failure, cause=None) == attrs.evolve(error.failure, cause=None)
    assert str(again) == str(error)


def raised_by(call):
    """The error that a call ends in."""
    with pytest.raises(rb.BridgeError) as caught:
        call()
    return caught.value


def _open():
    get = rb.Policy(rb.Breaker())(Server().get)
    rb.calls.circuit(get).isolate()
    return raised_by(get)


def _full():
    policy = rb.Policy(rb.Bulkhead(1))
    return policy.call(lambda: raised_by(lambda: policy.call(Server().get)))


def _throttled():
    get = rb.Policy(rb.RateLimit(1, per=3600))(Server().get)
    get()
    return raised_by(get)


def _late():
    inner = rb.Policy(rb.Deadline(5))(Server().get)
    with rb.testing.virtual_time() as clock:

        @rb.Policy(rb.Deadline(1))
        def outer():
            clock.advance(2)
            inner()

        return raised_by(outer)


RAISED = {
    "open": _open,
    "full": _full,
    "throttled": _throttled,
    "timeout": lambda: rb.errors.AttemptTimeoutError(
        rb.Failure.of("SYS_TIMEOUT", "timed out after 1 s")
    ),
    "deadline": _late,
    "config": lambda: raised_by(lambda: rb.Timeout(-1)),
}
PUBLIC = {
    "open": rb.CircuitOpenError,
    "full": rb.errors.BulkheadFullError,
    "throttled": rb.errors.ThrottledError,
    "timeout": rb.errors.AttemptTimeoutError,
    "deadline": rb.DeadlineExceededError,
    "config": rb.ConfigError,
}


@pytest.mark.parametrize("name", ["open", "full", "throttled"])
def test_interlock_a_rejection_is_no_leaf_of_a_client_library(name):
    """A rejection is none of the errors that retry predicates name (ConnectError, ReadTimeout, ConnectionError, TimeoutError): else
    they would loop on an open circuit (interlock 2.7).
    """
    assert not isinstance(RAISED[name](), OSError | TimeoutError | httpx.TransportError)
