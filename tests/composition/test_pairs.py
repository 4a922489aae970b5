"""Two layers together: `capture`, the circuit and the event of the end agree on how a call ended, whatever it raised or returned."""

from __future__ import annotations

from itertools import combinations

import httpx

import resilient_bridge as rb
from tests.rows import each_row


LAYERS = {
    "deadline": rb.Deadline(60),
    "fallback": rb.Fallback(lambda: "other", may_have_run=True),
    "retry": rb.Retry(attempts=2, backoff=rb.Backoff.constant(1)),
    "bulkhead": rb.Bulkhead(1),
    "rate limit": rb.RateLimit(100, per=1),
    "breaker": rb.Breaker.consecutive(2),
}
ENDS = {"works": None, "raises": ConnectionResetError, "returns 503": 503}


@each_row("end", ENDS)
@each_row("pair", list(combinations(LAYERS, 2)), ids=" x ".join)
def test_every_pair_sees_one_end(pair, end):
    """A failure that is raised and one that is returned are the same to every layer and every reader."""
    ended, seen = ENDS[end], []

    def call():
        if isinstance(ended, int):
            return httpx.Response(ended)
        if ended is not None:
            raise ended
        return "result"

    with rb.testing.virtual_time(), rb.listen(seen.append):
        function = rb.Policy(*(LAYERS[name] for name in pair))(call, idempotent=True)
        outcome = rb.capture(function)
        circuit = rb.calls.circuit(function).state if "breaker" in pair else None
    (finished,) = (event for event in seen if isinstance(event, rb.events.CallFinished))
    calls = 2 if "retry" in pair and ended is not None else 1
    text = "ok" if ended is None else "fell_back" if "fallback" in pair else "failed"
    assert (finished.outcome, finished.attempts) == (text, calls)
    assert outcome.ok == (text != "failed")
    assert circuit in (None, "open" if calls == 2 else "closed")
