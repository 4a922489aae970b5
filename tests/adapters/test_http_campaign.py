"""Thousands of requests on bad days, by seeds: nothing ran twice without permission, and what provably did not run was repeated.

Rule: see `campaigns`; a failure prints how to replay it.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

import resilient_bridge as rb
from tests.adapters.campaigns import ATTEMPTS, Call, Campaign
from tests.adapters.http_clients import KINDS, QUICK, Kind, each_kind
from tests.samples import IS_ALL, some


pytestmark = [pytest.mark.real, pytest.mark.sample, pytest.mark.timeout(180)]

METHODS = ["GET", "PUT", "DELETE", "POST", "POST", "POST", "PATCH", "POST with a key"]
ONCE = {"POST", "PATCH"}
SEEDS = some([1, 2, 3], 1)
REQUESTS = 304  # of each kind of client, for each seed

_done: dict[tuple[str, int], Campaign] = {}


async def campaign(kind: Kind, seed: int) -> Campaign:
    """The requests of one seed, made once."""
    if (repr(kind), seed) in _done:
        return _done[repr(kind), seed]
    replay = f"replay: pytest tests/adapters/test_http_campaign.py -k '{kind} and {seed}'"
    run = Campaign(1_000 * KINDS.index(kind) + seed, replay)
    forms = [run.rng("form", n).choice(METHODS) for n in range(REQUESTS)]
    calls = [Call(f"n{n}", form, may_repeat=form not in ONCE) for n, form in enumerate(forms)]
    inner = run.watch(kind.inner(), is_async=kind.is_async)
    async with run.server, kind.client(rb.HTTPTransport(QUICK, inner)) as client:

        async def make(call: Call) -> object:
            verb, _, keyed = call.form.partition(" ")
            headers = {"Idempotency-Key": call.key} if keyed else {}
            content = None if verb in {"GET", "DELETE"} else b"x" * 99
            url = run.server.url(f"/?key={call.key}")
            return await client.request(verb, url, headers=headers, content=content)

        await run.run(calls, make)
        await run.run_refused("POST", make)
    _done[repr(kind), seed] = run
    return run


@pytest.mark.requirement("S9", "V9")
@pytest.mark.parametrize("seed", SEEDS)
@each_kind
async def test_hundreds_of_requests_on_a_bad_day(kind, seed):
    """Half of what arrives is struck, and some rounds find nobody listening; each caller is told what is true."""
    run = await campaign(kind, seed)
    run.judge()
    assert {call.reported for call in run.calls.values()} >= {"done", "unknown"}
    assert any(call.reported == "done" and "refused" in call.met for call in run.calls.values())
    keys = defaultdict(set)
    for exchange in run.server.log:
        keys[exchange.request.path].add(exchange.request.headers.get("idempotency-key"))
    assert all(len(sent) == 1 for sent in keys.values())  # the same on every resend


async def test_the_judge_notices_what_runs_twice():
    """A key permits the repeat of a POST: where the campaign takes none for permitted, it finds requests that ran twice."""
    run, kind = Campaign(5, "replay: this test"), KINDS[1]
    transport = rb.HTTPTransport(QUICK, run.watch(kind.inner(), is_async=True))
    async with run.server, kind.client(transport) as client:

        async def post(call: Call) -> object:
            return await client.post(
                run.server.url(f"/?key={call.key}"), headers={"Idempotency-Key": "k"}
            )

        await run.run([Call(f"n{n}", "POST", may_repeat=False) for n in range(80)], post)
    with pytest.raises(AssertionError, match=r"(?s)ran twice.*replay"):
        run.judge()


async def test_thousands_of_faults_were_injected():
    """The promise is about thousands: so many were really met over HTTP alone, of every kind; a third of them in a sample."""
    faults: Counter[str] = Counter()
    ends: set[tuple[str, int]] = set()
    for kind in KINDS:
        for seed in SEEDS:
            run = await campaign(kind, seed)
            faults += run.faults
            ends.update((call.reported, len(call.met)) for call in run.calls.values())
    assert faults.total() >= (3_000 if IS_ALL else 1_000), faults
    assert min(faults.values()) >= (100 if IS_ALL else 33), faults
    assert len(faults) == 10, faults
    assert (
        "not run",
        ATTEMPTS,
    ) in ends  # every request of a call was refused or turned away, and the last one provably
    assert {reported for reported, _ in ends} == {"done", "unknown", "not run"}
