"""Row 26: the Retry-After of a refused upgrade. A valid number is a lower bound of the wait; anything else is ignored.

Rule: no value may reach a timer as NaN or infinity, because that stops all timers of the loop.
"""

from __future__ import annotations

import asyncio
import email.utils
import itertools

import pytest

import resilient_bridge as rb
from tests.internals.telemetry import ReconnectScheduled
from tests.internals.testing import EPOCH, server_listener
from tests.rows import each_row
from tests.threats.watching import Watch, simulated


GARBAGE = [
    "-1", "+1", "1.", ".5", "1,0", "nan", "NaN", "inf", "-inf", "1e309", "²", "1_000", "0x10", "", " ", "soon", "1 2", "1,2",
    "Mon, 99 Foo 2026 11:30:12 GMT", "2026-01-01T00:00:30Z", "1e3", "--", "9" * 5_000 + "x", "\t", "5s",
]  # fmt: skip
TEN_YEARS = "315360000"


@each_row("status", [429, 503])
@each_row("header", ["20", "0", "1.0", "20.5", "120", "\t42 "])
@simulated
async def test_row_26_retry_after_is_a_lower_bound(server, status, header):
    """The wait is at least the seconds in Retry-After, with or without a fraction, whatever the schedule says."""
    async with Watch(server.url) as watch:
        await watch.ready()
        server.behave(reject_upgrade=status, retry_after=header)
        await server.cut("abort")
        await watch.until(lambda: len(server.attempt_times) >= 4, 600)
        refused = server.attempt_times[1:4]
        bound = float(header)
        for before, after in itertools.pairwise(refused):
            assert after - before >= bound
        (waits,) = {tuple(watch.waits[1:3])}
        assert all(bound <= wait <= bound + 30 for wait in waits)
        server.behave(reject_upgrade=None, retry_after=None)
        await watch.recovered(2, within=200)


@pytest.mark.parametrize("form", ["imf", "rfc850", "asctime"])
@simulated
async def test_row_26_retry_after_as_a_date(server, form):
    """The three HTTP date forms are read by the server's own clock, however wrong ours is, and in any time zone."""
    loop = asyncio.get_running_loop()
    loop.wall_offset = 1e8
    async with Watch(server.url) as watch:
        await watch.ready()
        at = EPOCH + loop.time() + 90
        day = email.utils.formatdate(at, usegmt=True)
        names, rest = day[:3], day[5:].split()
        text = {
            "imf": day,
            "rfc850": f"{names}sday, {rest[0]}-{rest[1]}-{rest[2][2:]} {rest[3]} GMT",
            "asctime": f"{names} {rest[1]} {int(rest[0]):2d} {rest[3]} {rest[2]}",
        }[form]
        server.behave(reject_upgrade=503, retry_after=text)
        await server.cut("abort")
        await watch.until(lambda: len(watch.waits) >= 2, 60)
        assert 60 <= watch.waits[1] <= 90


@each_row("status", [429, 503])
@each_row("header", GARBAGE, ids=lambda text: repr(text)[:24])
@simulated
async def test_row_26_garbage_is_no_number(server, status, header):
    """Any other value is ignored: the schedule decides, and every wait is a finite number."""
    async with Watch(server.url) as watch:
        await watch.ready()
        server.behave(reject_upgrade=status, retry_after=header)
        await server.cut("abort")
        await watch.until(lambda: len(watch.waits) >= 4, 300)
        assert all(0 < wait <= 30 for wait in watch.waits)
        if status == 429:
            assert (
                min(watch.waits[1:]) >= 5
            )  # without a hint it still waits longer than after a plain loss
        codes = {
            event.failure.details.get("http_status") for event in watch.of(ReconnectScheduled)[1:]
        }
        assert codes == {status}
        server.behave(reject_upgrade=None, retry_after=None)
        await watch.recovered(2, within=200)


@simulated
async def test_row_26_the_millisecond_form(server):
    """`retry-after-ms` beats Retry-After, in a refused upgrade as anywhere."""
    as_json = server_listener._json

    def with_milliseconds(*answer):
        response = as_json(*answer)
        response.headers["Retry-After-Ms"] = "45500"
        return response

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_listener, "_json", with_milliseconds)
        await refused_for_45_seconds(server)


async def refused_for_45_seconds(server):
    """The header in seconds says seven."""
    async with Watch(server.url) as watch:
        await watch.ready()
        server.behave(reject_upgrade=503, retry_after="7")
        await server.cut("abort")
        await watch.until(lambda: len(watch.waits) >= 2, 60)
        assert watch.waits[1] == 45.5


@pytest.mark.parametrize("header", [TEN_YEARS, "9" * 30, "Fri, 01 Jan 2100 00:00:00 GMT"])
@simulated
async def test_row_26_ten_years(server, header):
    """If a server asks for ten years, the client gives up with a typed error that has the requested wait."""
    async with Watch(server.url) as watch:
        await watch.ready()
        receipt = await watch.client.send("note", {"n": 1})
        await receipt.confirmed(10)
        server.behave(reject_upgrade=503, retry_after=header)
        await server.cut("abort")
        await watch.until(lambda: watch.client.state == "FAILED", 60)
        with pytest.raises(rb.BridgeError) as caught:
            await watch.client.wait_ready(1)
        failure = caught.value.failure
        assert failure.stopped == "retry_after"
        assert failure.retry_after > 86_400
        assert "stopped: retry_after" in failure.explain()


@pytest.mark.parametrize("longest", [60, 3_600])
@simulated
async def test_row_26_the_longest_wait_is_the_users(server, longest):
    """Up to `max_retry_after` the client waits for the Retry-After, above it gives up."""
    policy = rb.presets.default.evolve(reconnect=rb.bridge.Reconnect(max_retry_after=longest))
    for header, state in ((longest, "READY"), (longest + 1, "FAILED")):
        async with Watch(server.url, policy=policy) as watch:
            await watch.ready()
            server.behave(reject_upgrade=429, retry_after=str(header))
            await server.cut("abort")
            await watch.until(lambda: len(watch.waits) >= 2 or watch.client.state == "FAILED", 60)
            server.behave(reject_upgrade=None, retry_after=None)
            await watch.until(lambda: watch.client.state == state, longest + 60)  # noqa: B023


@simulated
async def test_row_26_a_user_may_cut_the_wait_short(server):
    """`reconnect_now()` tries at once, also during a wait that the server asked for."""
    async with Watch(server.url) as watch:
        await watch.ready()
        server.behave(reject_upgrade=503, retry_after="3600")
        await server.cut("abort")
        await watch.until(lambda: 3_600 in watch.waits, 60)
        server.behave(reject_upgrade=None, retry_after=None)
        watch.client.reconnect_now()
        await watch.recovered(2, within=5)


@simulated
async def test_row_26_other_timers_keep_running(server):
    """With a Retry-After of NaN, other sleeps of the same loop all end on time."""
    server.behave(reject_upgrade=429, retry_after="nan")
    async with Watch(server.url):
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.gather(*(asyncio.sleep(1 + n / 10) for n in range(20)))
        assert loop.time() - started < 3.1
        server.behave(reject_upgrade=None, retry_after=None)
        await asyncio.sleep(40)
