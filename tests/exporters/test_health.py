"""`rb.telemetry.health_app()`: 200 while all is ready, 503 while something starts, is away or stops; asked by an HTTP client that is not ours."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import sys
import threading

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import BridgeServer, simulate
from tests.internals.agent import spend_budget
from tests.internals.exporters import health


@contextlib.asynccontextmanager
async def serving_on_a_port(app):
    """Serve it with uvicorn, and give its URL."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(20):
        while not server.started:
            await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/health"
    server.should_exit = True
    await asyncio.wait_for(serving, 20)


async def ask(app, method="GET", path="/health"):
    """Ask as a load balancer does."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
        return await client.request(method, path)


@pytest.mark.requirement("X9", "G9")
async def test_it_follows_the_clients_of_the_process():
    """Starting is 503, ready is 200, away is 503 with its cause; a client that is closed is no longer there."""
    app = rb.telemetry.health_app()
    before = await ask(app)
    assert (before.status_code, before.json()["status"], before.json()["links"]) == (
        200,
        "ready",
        [],
    )
    async with BridgeServer() as server:
        await server.cut("abort", seconds=60)
        async with rb.BridgeClient(server.url, name="agent") as bridge:
            starting = await ask(app)
            assert (starting.status_code, starting.json()["status"]) == (503, "starting")
            async with asyncio.timeout(20):
                while bridge.state is not rb.bridge.BridgeState.BACKOFF:
                    await asyncio.sleep(0.01)
            away = await ask(app)
            (link,) = away.json()["links"]
            assert (away.status_code, away.json()["status"]) == (503, "down")
            assert (link["name"], link["state"]) == ("agent", "BACKOFF")
            assert link["failure"]["code"] in ("CONN_REFUSED", "CONN_RESET")
            await bridge.aclose(drain=0)
    after = await ask(app)
    assert (after.status_code, after.json()["links"]) == (200, [])


def test_a_client_that_is_ready_is_listed_with_its_queues():
    """In virtual time: ready, then down with what waits, then ready again."""

    async def main(server):
        app = rb.telemetry.health_app()
        async with rb.BridgeClient(server.url, name="agent", token="t0ken-s3cret-abc") as bridge:
            await bridge.wait_ready()
            assert app.status()["status"] == "ready"
            await server.cut("abort", seconds=20)
            while bridge.state is rb.bridge.BridgeState.READY:
                await asyncio.sleep(0.1)
            await bridge.send("note", {})
            status = app.status()
            (link,) = status["links"]
            assert (status["status"], link["queued"], link["unconfirmed"], link["unread"]) == (
                "down",
                1,
                0,
                0,
            )
            assert "t0ken-s3cret-abc" not in json.dumps(status)
            assert bridge.session_id not in json.dumps(status)
            await bridge.wait_ready(120)
            assert app.status()["status"] == "ready"

    simulate(main)


@pytest.mark.requirement("X9")
async def test_circuits_budgets_and_alerts_are_shown_and_change_nothing(monkeypatch):
    """An open circuit is another service that is ill; secrets in keys are masked."""
    monkeypatch.setattr(
        health, "_MOST", 1_000_000
    )  # whatever other tests have left in this process
    budget = rb.agent.SpendBudget(10, name="tokens", mode="soft")
    budget.spend(4)

    @rb.Policy(
        rb.Retry(attempts=1, budget=rb.RetryBudget(key="retries")),
        rb.Breaker.consecutive(1, open_for=60, key="https://user:hunter22@prices-of-health/"),
    )(idempotent=True)
    def prices():
        raise ConnectionResetError(104, "reset")

    rb.capture(prices)
    with rb.telemetry.Alerts() as alerts:
        emit(rb.events.GaveUp(name="bridge", failure=rb.Failure.of("PROTO_VIOLATION")))
        answer = await ask(rb.telemetry.health_app())
        assert alerts.active()
    body = answer.json()
    assert answer.status_code == 200
    assert "hunter22" not in answer.text
    assert [one["state"] for one in body["circuits"] if "prices-of-health" in one["key"]] == [
        "open"
    ]
    assert {"name": "tokens", "state": "RUNNING", "spent": "4", "limit": "10"} in body[
        "spend_budgets"
    ]
    assert [one["remaining"] for one in body["retry_budgets"] if one["key"] == "retries"] != []
    assert body["alerts"] == [{"rule": "failure", "level": "critical"}]
    rb.calls.circuit(prices).reset()


async def test_circuits_that_are_open_are_shown_first():
    """Of more than are shown, those that matter."""

    @rb.Policy(rb.Breaker.consecutive(1, open_for=60, key="zz last of all"))
    def down():
        raise ConnectionResetError(104, "reset")

    rb.capture(down)
    rb.calls.circuit("aa first of all")
    shown = rb.telemetry.health_app().status()["circuits"]
    states = [one["state"] for one in shown]
    assert states == sorted(states, key=lambda state: state == "closed")
    assert "open" in states
    rb.calls.circuit(down).reset()


async def test_a_link_is_shown_under_its_public_name():
    """A class of a program's own under its own; what stands behind `reconnecting` as Reconnecting."""

    class Agent(rb.BridgeClient):
        pass

    @contextlib.asynccontextmanager
    async def connected():
        yield object()

    client = Agent("ws://127.0.0.1:1/ws", name="a")
    async with client, rb.reconnecting(connected, name="b"):
        links = rb.telemetry.health_app().status()["links"]
        assert {link["name"]: link["kind"] for link in links} == {"a": "Agent", "b": "Reconnecting"}


async def test_a_store_that_refuses_is_shown(tmp_path):
    """While the store of a client has failed, its row says so."""
    async with (
        BridgeServer() as server,
        rb.BridgeClient(server.url, store=tmp_path / "bridge.db", name="agent") as bridge,
    ):
        await bridge.wait_ready(20)
        bridge._driver.store_failed(rb.errors.StoreError(rb.Failure.of("SYS_STORE_UNAVAILABLE")))
        (link,) = rb.telemetry.health_app().status()["links"]
        assert link["store_failed"]
        bridge._driver.store_works()
        (link,) = rb.telemetry.health_app().status()["links"]
        assert not link["store_failed"]


@pytest.mark.real
async def test_the_stores_of_clients_are_listed_by_a_real_server(tmp_path):
    """Over uvicorn: its sort and name without folders, open or failed, and how much waits in it; memory is no store."""
    app, path = rb.telemetry.health_app(), tmp_path / "bridge.db"
    async with (
        BridgeServer() as bridge_server,
        serving_on_a_port(app) as url,
        httpx.AsyncClient() as http,
    ):
        assert (await http.get(url)).json()["stores"] == []
        async with (
            rb.BridgeClient(bridge_server.url, name="memory"),
            rb.BridgeClient(bridge_server.url, store=path, name="agent") as bridge,
        ):
            await bridge.wait_ready(20)
            row = {
                "store": "<SQLiteStore bridge.db open>",
                "link": "agent",
                "state": "open",
                "queued": 0,
                "unconfirmed": 0,
            }
            assert (await http.get(url)).json()["stores"] == [row]
            await bridge_server.cut("abort", seconds=60)
            async with asyncio.timeout(20):
                while bridge.state is rb.bridge.BridgeState.READY:
                    await asyncio.sleep(0.01)
            await bridge.send("note", {})
            bridge._driver.store_failed(
                rb.errors.StoreError(rb.Failure.of("SYS_STORE_UNAVAILABLE"))
            )
            answer = await http.get(url)
            assert answer.json()["stores"] == [{**row, "state": "failed", "queued": 1}]
            assert str(tmp_path) not in answer.text
            bridge._driver.store_works()
            await bridge.aclose(drain=0)
        assert (await http.get(url)).json()["stores"] == []


async def test_a_process_that_stops_says_so_first():
    """503 before anything is closed, so that no more work is sent there; as the ASGI server's shutdown does."""
    app = rb.telemetry.health_app()
    app.is_stopping = True
    answer = await ask(app)
    assert (answer.status_code, answer.json()["status"]) == (503, "stopping")
    answers, messages = [], [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    other = rb.telemetry.health_app()

    async def receive():
        return messages.pop(0)

    async def send(message):
        answers.append(message["type"])

    await other({"type": "lifespan"}, receive, send)
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert other.is_stopping


@pytest.mark.parametrize("path", ["/", "/health", "/live/x"])
async def test_any_path_answers_and_nothing_is_cached(path):
    """It can be mounted anywhere; HEAD has no body; a POST is refused."""
    app = rb.telemetry.health_app()
    assert (await ask(app, path=path)).headers["cache-control"] == "no-store"
    head = await ask(app, "HEAD", path)
    assert (head.status_code, head.content) == (200, b"")
    assert (await ask(app, "POST", path)).status_code == 405


async def test_asking_listens_to_nothing():
    """A process that is only asked pays for no events."""
    from tests.internals.telemetry import HUB

    before = HUB.listening
    await ask(rb.telemetry.health_app())
    assert HUB.listening == before


@pytest.mark.real
@pytest.mark.requirement("G9")
async def test_a_real_server_shows_it_to_our_own_probe():
    """uvicorn serves it, and the probe of `Daemon` reads 200 as ready and 503 after it as stopping."""
    app = rb.telemetry.health_app()
    async with serving_on_a_port(app) as url:
        daemon = rb.agent.Daemon("true", health=url)
        assert await daemon.health() is rb.agent.DaemonHealth.READY
        app.is_stopping = True
        assert await daemon.health() is rb.agent.DaemonHealth.STOPPING


def test_budgets_may_be_made_while_somebody_asks():
    """In another thread, at any moment; a budget that nobody has any more is not shown."""
    made, errors, interval = [], [], sys.getswitchinterval()

    def make():
        try:
            made.extend(rb.agent.SpendBudget(10, name="made meanwhile") for _ in range(3_000))
        except Exception as error:  # noqa: BLE001 -- whatever it is, the test says it
            errors.append(error)

    rb.agent.SpendBudget(10)
    app, thread = rb.telemetry.health_app(), threading.Thread(target=make)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        while thread.is_alive():
            app.status()
    finally:
        thread.join()
        sys.setswitchinterval(interval)
    assert errors == []
    assert len([book for book in spend_budget.books() if book.name == "made meanwhile"]) == 3_000
    made.clear()
    gc.collect()
    assert [book for book in spend_budget.books() if book.name == "made meanwhile"] == []
