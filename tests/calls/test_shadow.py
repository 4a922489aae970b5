"""`Breaker(shadow=True)`: it counts, opens, closes and says so, and rejects no call."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.calls import Breaker


SHADOW = Breaker.consecutive(2, open_for=30, shadow=True)


def down(calls):
    def fetch():
        calls.append(None)
        raise ConnectionRefusedError

    return fetch


@pytest.mark.requirement("X18")
def test_it_opens_and_every_call_is_made():
    calls, heard = [], []
    with rb.testing.virtual_time(), rb.listen(heard.append):
        fetch = rb.Policy(SHADOW)(down(calls), name="shadow.fetch")
        for _ in range(5):
            with pytest.raises(ConnectionRefusedError):
                fetch()
    assert len(calls) == 5
    circuit = rb.calls.circuits()["shadow.fetch"]
    assert (circuit.state, circuit.is_shadow) == ("open", True)
    assert "a shadow: rejects no call" in repr(circuit)
    changed = [event for event in heard if isinstance(event, events.CircuitChanged)]
    assert [(event.state, event.is_shadow) for event in changed] == [("open", True)]
    assert "as a shadow, which rejects no call" in changed[0].__text__()
    spared = [event for event in heard if isinstance(event, events.ShadowRejected)]
    assert [event.failure.code for event in spared] == ["SYS_CIRCUIT_OPEN"] * 3
    assert spared[0].key == "shadow.fetch"
    assert not [event for event in heard if isinstance(event, events.CallRejected)]


def test_it_goes_round_as_a_circuit_that_rejects():
    """What is called while it is open counts nowhere; the probe after its open time decides."""
    broken = [True]

    def fetch():
        if broken[0]:
            raise ConnectionRefusedError

    with rb.testing.virtual_time() as time:
        call = rb.Policy(SHADOW)(fetch)
        circuit = rb.calls.circuit(call)
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                call()
        broken[0] = False
        call()
        assert circuit.state == "open"  # it was called, and would have been rejected
        time.advance(31)
        call()
        assert circuit.state == "closed"


def test_a_retry_beside_it_goes_on():
    """A circuit that would reject the repeat ends the call; a shadow does not."""
    calls = []
    retry = rb.Retry(attempts=4, backoff=rb.Backoff.constant(0))
    with rb.testing.virtual_time(), pytest.raises(ConnectionRefusedError) as caught:
        rb.Policy(retry, SHADOW)(down(calls), idempotent=True)()
    assert len(calls) == 4
    assert "4 calls" in caught.value.__notes__[0]


def test_a_block_under_its_handle_runs():
    with rb.testing.virtual_time():
        call = rb.Policy(SHADOW)(down([]))
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                call()
        with rb.calls.circuit(call):
            pass


def test_by_hand_it_rejects():
    """`isolate()` is an order: a shadow obeys it."""
    call = rb.Policy(SHADOW)(down([]))
    rb.calls.circuit(call).isolate()
    with pytest.raises(rb.CircuitOpenError):
        call()
    assert "rejects no call" in str(call.explain())
