"""Calls of openai's and anthropic's wrapped clients against a provider that fails by a seed: no batch, no upload and no raw POST
ran twice, model calls were repeated as they may be, and so was whatever provably did not run.

Rule: see `campaigns`; a failure prints how to replay it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import attrs
import httpx2
import openai
import pytest

import resilient_bridge as rb
from tests.adapters.campaigns import ATTEMPTS, Call, Campaign
from tests.adapters.http_clients import QUICK, Kind
from tests.samples import IS_ALL


pytestmark = [pytest.mark.real, pytest.mark.sample, pytest.mark.timeout(180)]

WORDS = [{"role": "user", "content": "hi"}]
ONCE = {
    "openai": {
        "batch": lambda client, **how: client.batches.create(
            input_file_id="f", endpoint="/v1/responses", completion_window="24h", **how
        ),
        "conversation": lambda client, **how: client.conversations.create(**how),
        "tuning": lambda client, **how: client.fine_tuning.jobs.create(
            model="m", training_file="f", **how
        ),
    },
    "anthropic": {
        "batch": lambda client, **how: client.messages.batches.create(requests=[], **how),
        "cancel": lambda client, **how: client.messages.batches.cancel("b", **how),
    },
}
AGAIN = {
    "openai": {
        "chat": lambda client, **how: client.chat.completions.create(
            model="m", messages=WORDS, **how
        ),
        "embedding": lambda client, **how: client.embeddings.create(model="m", input="hi", **how),
    },
    "anthropic": {
        "message": lambda client, **how: client.messages.create(
            model="m", messages=WORDS, max_tokens=9, **how
        )
    },
}


def raw(client: Any, *, extra_query: Mapping[str, object]) -> Any:
    """A path without a method of its own."""
    return client.post("/effects", cast_to=object, body={}, options={"params": extra_query})


@attrs.frozen(repr=False)
class Client:
    """One of the four classes, and what is called on it."""

    made: type[Any]

    @property
    def sdk(self) -> str:
        """Whose it is."""
        return self.made.__module__.partition(".")[0]

    @property
    def is_async(self) -> bool:
        """Whether its calls are awaited."""
        return self.made.__name__.startswith("Async")

    def __repr__(self) -> str:
        """The id of a test."""
        return self.made.__name__

    @property
    def once(self) -> dict[str, Callable[..., Any]]:
        """Calls that must not run twice, by name."""
        return {**ONCE[self.sdk], "raw": raw}

    @asynccontextmanager
    async def wrapped(self, run: Campaign, **options: Any):
        """A wrapped client of the campaign's server, each attempt of which is noted."""
        kind = Kind(httpx2, self.is_async)
        plain = httpx2.AsyncClient if self.is_async else httpx2.Client
        http = plain(transport=run.watch(kind.inner(), is_async=self.is_async))
        base = run.server.url("/v1" if self.sdk == "openai" else "")
        own = self.made(base_url=base, api_key="sk-secret", http_client=http, timeout=20)
        try:
            yield rb.wrap(own, QUICK, **options)
        finally:
            await own.close() if self.is_async else own.close()


CLIENTS = [
    Client(made)
    for made in (openai.AsyncOpenAI, openai.OpenAI, anthropic.AsyncAnthropic, anthropic.Anthropic)
]
CALLS = 304 if IS_ALL else 160

_done: dict[str, Campaign] = {}


async def campaign(client: Client, **options: Any) -> Campaign:
    """The calls of one client; made once if there are no options."""
    if repr(client) in _done and not options:
        return _done[repr(client)]
    replay = f"replay: pytest tests/adapters/test_wrap_campaign.py -k {client!r}]"
    run = Campaign(50_000 + CLIENTS.index(client), replay)
    forms = {**client.once, **client.once, **AGAIN[client.sdk]}
    weighed = [*client.once, *client.once, *AGAIN[client.sdk]]
    names = [run.rng("form", n).choice(weighed) for n in range(CALLS)]
    calls = [
        Call(f"n{n}", name, may_repeat=name not in client.once) for n, name in enumerate(names)
    ]
    async with run.server, client.wrapped(run, **options) as own:

        async def make(call: Call) -> object:
            query = {"key": call.key}
            if client.is_async:
                return await forms[call.form](own, extra_query=query)
            return await asyncio.to_thread(forms[call.form], own, extra_query=query)

        await run.run(calls, make)
        await run.run_refused("raw", make)
    if not options:
        _done[repr(client)] = run
    return run


@pytest.mark.requirement("S6", "S9", "V9")
@pytest.mark.parametrize("client", CLIENTS, ids=repr)
async def test_what_a_wrapped_client_repeats_on_a_bad_day(client):
    """Half of what arrives is struck, and some rounds find nobody listening; each caller is told what is true."""
    run = await campaign(client)
    run.judge()
    once = [call for call in run.calls.values() if not call.may_repeat]
    assert {call.reported for call in once} >= {"done", "unknown"}
    assert {call.form for call in once if len(call.met) > 1} == set(client.once)
    assert any(call.reported == "done" and "refused" in call.met for call in once)


async def test_the_judge_notices_what_runs_twice():
    """A client that is told that every call may run twice repeats them, and the campaign finds calls that did."""
    run = await campaign(CLIENTS[0], idempotent=True)
    with pytest.raises(AssertionError, match=r"(?s)ran twice.*replay"):
        run.judge()


async def test_hundreds_of_faults_were_injected():
    """So many were really met by calls of wrapped clients, of every kind."""
    faults: Counter[str] = Counter()
    ends: set[tuple[str, int]] = set()
    for client in CLIENTS:
        run = await campaign(client)
        faults += run.faults
        ends.update(
            (call.reported, len(call.met)) for call in run.calls.values() if not call.may_repeat
        )
    assert faults.total() >= (1_000 if IS_ALL else 500), faults
    assert min(faults.values()) >= (20 if IS_ALL else 10), faults
    assert len(faults) == 10, faults
    assert (
        "not run",
        ATTEMPTS,
    ) in ends  # every request of a call was refused or turned away, and the last one provably
    assert {reported for reported, _ in ends} == {"done", "unknown", "not run"}
