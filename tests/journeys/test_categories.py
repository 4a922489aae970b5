"""The seven categories, as a user of the client gets them; and a starting peer distinguished from a missing one."""

from __future__ import annotations

import asyncio
from typing import Any

import attrs
import pytest

import resilient_bridge as rb
from tests.rows import each_row

from .journey import Journey, simulated


ONCE = rb.presets.default.evolve(
    reconnect=attrs.evolve(rb.presets.default.reconnect, first_connect="raise")
)


async def first_failure(server: Any, **options: Any) -> rb.Failure:
    """Return the failure that `wait_ready` raises if the first connect is not retried."""
    async with Journey(server, policy=ONCE, **options) as journey:
        with pytest.raises(rb.BridgeError) as caught:
            await journey.ready()
        raised, known = caught.value.failure, journey.client.health().failure
        assert (raised.code, raised.message) == (known.code, known.message)
        assert (
            raised.details["session_id"] == journey.client.session_id
        )  # S9: the error names its session
    return caught.value.failure


@pytest.mark.requirement("S1")
def test_config_is_refused_where_it_is_written():
    """CONFIG: a wrong argument raises ConfigError at once; it is a ValueError, names the field, and is not retryable."""
    with pytest.raises(rb.ConfigError, match=r"BridgeClient\.url") as caught:
        rb.BridgeClient("http://127.0.0.1/")
    assert caught.value.failure.category is rb.Category.CONFIG
    assert not caught.value.failure.retryable
    assert isinstance(caught.value, ValueError)


@pytest.mark.requirement("S1")
@each_row(
    ("behaviour", "code", "category", "retryable"),
    [
        ({"auth_error": "AUTH_FORBIDDEN"}, "AUTH_FORBIDDEN", "AUTH", False),
        ({"auth_error": "INVALID_TOKEN"}, "AUTH_INVALID_TOKEN", "AUTH", False),
        ({"auth_error": "TOKEN_EXPIRED"}, "AUTH_TOKEN_EXPIRED", "AUTH", None),
        ({"reject_upgrade": 401}, None, "AUTH", False),
        ({"reject_upgrade": 429}, "SYS_RATE_LIMITED", "UPSTREAM", True),
        ({"reject_upgrade": 503}, None, "UPSTREAM", True),
        ({"reject_upgrade": 501}, None, "UPSTREAM", False),
        ({"ignored": frozenset({"auth"})}, "CONN_TIMEOUT", "TIMEOUT", True),
        ({"accept_then_close": 1002}, None, "PROTOCOL", False),
        ({"accept_then_close": 1011}, "CONN_WEBSOCKET_CLOSED", "UPSTREAM", True),
        ({"accept_then_close": 1001}, "CONN_WEBSOCKET_CLOSED", "TRANSPORT", True),
    ],
)
@simulated
async def test_what_the_bridge_does_has_its_category(server, behaviour, code, category, retryable):
    """AUTH, UPSTREAM, TIMEOUT, PROTOCOL, TRANSPORT: category, code and retryability of the failure that the client raises."""
    server.behave(**behaviour)
    failure = await first_failure(server)
    assert failure.category is rb.Category[category]
    assert code in {None, failure.code}
    assert retryable in {None, failure.retryable}
    assert failure.message


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(
    ("door", "name", "code", "category"),
    [
        ("refuse", None, "CONN_REFUSED", "TRANSPORT"),
        ("accept_close", None, None, "TRANSPORT"),
        ("blackhole", None, "CONN_TIMEOUT", "TIMEOUT"),
        (None, "gone.example", "CONN_DNS_FAILED", "TRANSPORT"),
        (None, "hangs.example", "CONN_TIMEOUT", "TIMEOUT"),
        (None, "no.route.example", "CONN_UNREACHABLE", "TRANSPORT"),
    ],
)
@simulated
async def test_what_the_network_does_has_its_category(server, door, name, code, category):
    """TRANSPORT and TIMEOUT: refused, dropped, unanswered, no such name, a resolver that hangs, no route; within 10 s, retryable."""
    loop: Any = asyncio.get_running_loop()
    loop.network.names |= {
        "gone.example": (),
        "hangs.example": "hang",
        "no.route.example": ("10.1.2.3",),
    }
    loop.network.roads["10.1.2.3"] = "unreachable"
    await asyncio.sleep(0.1)
    if door is not None:
        loop.network.shut(door, 10_000)
    port = server.url.rpartition(":")[2]
    start = loop.time()
    failure = await first_failure(server, **({"url": f"ws://{name}:{port}"} if name else {}))
    assert loop.time() - start <= 10.1
    assert failure.category is rb.Category[category]
    assert code in {None, failure.code}
    assert failure.retryable


@pytest.mark.requirement("S1")
@simulated
async def test_internal_errors_of_the_bridge_reach_the_caller(server):
    """INTERNAL: the bridge's own failure is raised by the request that caused it; the client goes on."""

    def fail(message: Any) -> None:
        raise ValueError("boom")

    server.on_request = fail
    async with Journey(server) as journey:
        await journey.ready()
        with pytest.raises(rb.BridgeError) as caught:
            await journey.client.request("git_status_request", {})
        assert caught.value.failure.category is rb.Category.INTERNAL
        assert caught.value.failure.code == "SYS_INTERNAL_ERROR"
        assert journey.client.state == "READY"


@pytest.mark.requirement("S1")
@simulated
async def test_every_kind_of_loss_is_typed_in_the_events(server):
    """Each failure in an event has a category, a code and a message; none is a bare exception."""
    async with Journey(server, policy=rb.presets.openviber) as journey:
        await journey.ready()
        for how in ("abort", "fin", "close"):
            await server.cut(how)
            await asyncio.sleep(0.5)
            await journey.ready()
        await server.restart(down=3)
        await asyncio.sleep(0.5)
        await journey.ready()
        failures = [
            e.failure
            for e in (
                *journey.of(rb.events.Disconnected),
                *journey.of(rb.events.ReconnectScheduled),
            )
        ]
        assert len(failures) >= 8
        for failure in failures:
            assert isinstance(failure, rb.Failure)
            assert failure.category in {rb.Category.TRANSPORT, rb.Category.UPSTREAM}
            assert failure.code.startswith(("CONN_", "SYS_"))
            assert failure.message


@pytest.mark.requirement("G9")
@simulated
async def test_a_starting_bridge_is_distinguished_from_a_missing_one(server):
    """A 503 on the upgrade, a refused and an unanswered connect have three codes; it is READY as soon as it answers 101."""
    quick = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(
            backoff=rb.Backoff.constant(1), attempts=None, connect_timeout=2
        )
    )
    async with Journey(server, policy=quick) as journey:
        await journey.ready()
        fields: dict[str, tuple[str, str]] = {}
        for situation in ("starting", "stopped", "unreachable"):
            if situation == "starting":
                server.behave(starting_for=15.0)
                await server.restart()
            elif situation == "stopped":
                server.behave(starting_for=0.0)
                await server.cut("abort", seconds=5)
            else:
                await server.cut("abort")
                journey.loop.network.shut("blackhole", 5)
            await asyncio.sleep(9 if situation == "starting" else 4)
            assert journey.client.state != "READY"
            last = journey.of(rb.events.ReconnectScheduled)[-1]
            assert journey.client.health().reason in {last.reason, "retry"}
            fields[situation] = (last.reason, last.failure.code)
            await journey.ready()
        assert fields["starting"][0] == "upgrade_rejected(503)"
        assert fields["stopped"] == ("connect_refused", "CONN_REFUSED")
        assert fields["unreachable"] == ("timeout", "CONN_TIMEOUT")
        assert len({code for _, code in fields.values()}) == 3
