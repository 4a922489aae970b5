"""The kinds of call that campaigns make. Rule: each gives the tally of one seed, in as many calls as it is asked for."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import httpx2
import openai

import resilient_bridge as rb
from tests.adapters import test_link_campaign, test_stdio_campaign
from tests.campaigns.far_end import QUICK, Call, Far, Tally
from tests.peers.nginx import nginx
from tests.peers.running import mcp_server


Kind = Callable[[int, int], Awaitable[Tally]]
FORMS = {"POST": False, "PATCH": False, "PUT": True, "POST with a key": True}


def _calls(far: Far, number: int, *, share: float = 0.25) -> list[Call]:
    """So many calls, of which this share may be repeated."""
    return [Call(f"s{far.seed}n{n}", far.rng("may", n).random() < share) for n in range(number)]


async def _requests(far: Far, number: int, client: Any) -> Tally:
    async def make(call: Call) -> Any:
        forms = [form for form, may in FORMS.items() if may == call.may_repeat]
        method, _, keyed = far.rng("form", call.key).choice(forms).partition(" ")
        headers = {"Idempotency-Key": call.key} if keyed else {}
        return await client.request(method, f"/?key={call.key}", headers=headers, content=b"x" * 99)

    return await far.play(_calls(far, number), make)


async def http11(seed: int, number: int) -> Tally:
    """HTTPTransport under httpx and httpx2: resets, refusals, cut answers, 408, 429, 503."""
    library = (httpx, httpx2)[seed % 2]
    ours = rb.HTTPTransport(QUICK)
    async with (
        Far(seed) as far,
        library.AsyncClient(transport=ours, base_url=far.url("")) as client,
    ):
        return await _requests(far, number, client)


async def http2(seed: int, number: int) -> Tally:
    """The same over HTTP/2, behind an nginx that ends each connection after seven requests."""
    library = (httpx, httpx2)[seed % 2]
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Far(seed) as far,
            nginx(Path(folder), far.front.port, http="keepalive_requests 7;") as front,
        ):
            inner = library.AsyncHTTPTransport(http2=True, verify=front.trust, trust_env=False)
            transport = rb.HTTPTransport(QUICK, inner)
            async with library.AsyncClient(
                transport=transport, base_url=front.secure_url("")
            ) as client:
                return await _requests(far, number, client)


async def redirects(seed: int, number: int) -> Tally:
    """POSTs that are answered by 303, 307 and 308, half of them to a dead host: under HTTPTransport, and of a wrapped client."""
    async with Far(seed, rate=0.3) as far:
        options = {"base_url": far.url(""), "follow_redirects": True, "trust_env": False}
        async with (
            httpx2.AsyncClient(transport=rb.HTTPTransport(QUICK), **options) as ours,
            httpx2.AsyncClient(**options) as bare,
        ):
            wrapped = rb.wrap(bare, QUICK, methods={"post"})

            async def make(call: Call) -> Any:
                call.hears_of_all = far.rng("client", call.key).random() < 0.5
                client = wrapped if call.hears_of_all else ours
                return await client.post(f"/moved?key={call.key}", content=b"x")

            return await far.play(_calls(far, number, share=0), make)


async def sdk(seed: int, number: int) -> Tally:
    """A wrapped AsyncOpenAI: batches, which may run once, and model calls."""
    async with (
        Far(seed) as far,
        openai.AsyncOpenAI(api_key="k", base_url=far.url("/v1"), timeout=20) as bare,
    ):
        wrapped = rb.wrap(bare, QUICK)

        async def make(call: Call) -> Any:
            named = {"extra_query": {"key": call.key}}
            if call.may_repeat:
                words = [{"role": "user", "content": "hi"}]
                return await wrapped.chat.completions.create(model="m", messages=words, **named)
            return await wrapped.batches.create(
                input_file_id="f", endpoint="/v1/responses", completion_window="24h", **named
            )

        return await far.play(_calls(far, number), make)


async def mcp_http(seed: int, number: int) -> Tally:
    """`reconnecting` over an MCP server behind a proxy that resets, cuts, refuses and answers 404, 408, 429, 503."""
    with tempfile.TemporaryDirectory() as folder:
        async with mcp_server(ledger=Path(folder) / "ledger") as server:
            mode = "legacy" if seed % 2 else "auto"
            outcomes, _, _, met = await test_link_campaign.play(
                server, seed, number, callers=8, mode=mode, rate=0.5
            )
            keys = server.ledger.keys
            allowed = {"done": {1}, "not run": {0}, "unknown": {0, 1}, "answered": {0, 1}}
            wrong = [
                f"seed {seed}, {key}: told {reported}, ran {keys.count(key)} times"
                for key, reported in outcomes.reported.items()
                if keys.count(key) not in allowed.get(reported, set())
            ]
            return Tally(number, min(number, met.total()), met.total(), 0, wrong)


async def mcp_stdio(seed: int, number: int) -> Tally:
    """`reconnecting` over the pipes of a child that is killed, crashes, stops reading, ends in the middle of a line and writes noise."""
    tally, rounds = (
        Tally(),
        max(1, number // (test_stdio_campaign.ROUNDS * test_stdio_campaign.CALLERS)),
    )
    with tempfile.TemporaryDirectory() as folder:
        for part in range(rounds):
            own = seed * 1_000 + part
            run = test_stdio_campaign.Campaign(own, Path(folder) / f"{own}", random.Random(own))
            await run.run()
            ran = {call.key: run.noted[f"ran {call.key}"] for call in run.calls}
            faulted = sum(bool(call.fault or call.round) for call in run.calls)
            wrong = [
                f"seed {own}, {call.key}: {why}"
                for call in run.calls
                if (why := call.fault_of(ran[call.key], run.noted[f"saw {call.key}"]))
                not in {"", "not repeated"}
            ]
            repeated = sum(count > 1 for count in ran.values())
            tally = tally + Tally(len(run.calls), faulted, run.faults.total(), repeated, wrong)
    return tally


async def tools(seed: int, number: int) -> Tally:
    """Tools of a Toolbox that charge and then send a mail, over plain httpx: an error that leaves a tool says that it may have run."""
    async with (
        Far(seed, rate=0.3) as far,
        httpx.AsyncClient(base_url=far.url(""), trust_env=False) as http,
    ):
        box = rb.agent.Toolbox(policy=QUICK)

        async def steps(key: str) -> str:
            for path in (f"/charge?key={key}", f"/mail?of={key}"):
                (await http.post(path, content=b"x")).raise_for_status()
            return key

        box.tool(idempotent=False, name="once")(steps)
        box.tool(idempotent=True, name="again")(steps)

        async def make(call: Call) -> rb.calls.Outcome[Any]:
            return await box.call("again" if call.may_repeat else "once", {"key": call.key})

        return await far.play(_calls(far, number), make)


async def phases(seed: int, number: int) -> Tally:
    """Phases of a Workflow whose tools place an order and then fail in the words of corruption and partial failure, or on the wire."""
    texts = [
        "Unexpected token < in JSON",
        "Operation incomplete",
        "State mismatch",
        "Invalid JSON",
        "",
    ]
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Far(seed, rate=0.3) as far,
            httpx.AsyncClient(base_url=far.url(""), trust_env=False) as http,
        ):
            box = rb.agent.Toolbox(policy=QUICK)

            async def order(key: str) -> str:
                (await http.post(f"/order?key={key}", content=b"x")).raise_for_status()
                if text := far.rng("text", key).choice(texts):
                    far.struck[key] += 1
                    raise RuntimeError(text)
                return key

            box.tool(idempotent=False, name="order")(order)

            async def make(call: Call) -> Any:
                flow = rb.agent.Workflow(Path(folder) / f"{call.key}.json", tools=box)

                @flow.phase
                async def buy(phase: Any) -> None:
                    await phase.call("order", {"key": call.key})

                call.hears_of_all = False  # a report is no verdict on one call
                report = await flow.run()
                if report.status != "completed":
                    raise RuntimeError(report.status)
                return report

            return await far.play(_calls(far, number, share=0), make)


KINDS: dict[str, Kind] = {
    "HTTP/1.1": http11,
    "HTTP/2": http2,
    "redirects": redirects,
    "wrapped SDK": sdk,
    "MCP over HTTP": mcp_http,
    "MCP over stdio": mcp_stdio,
    "tools": tools,
    "phases": phases,
}
