"""Traps around the half-open circuit: how many probes are admitted, what a lost or hung probe does, which outcomes count."""

from __future__ import annotations

import asyncio
import threading

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, everywhere, http_error, settle
from tests.rows import each_row


class Abandoned(BaseException):
    """Ends a call without being an Exception, like gevent.Timeout or trio.Cancelled."""


@pytest.mark.parametrize("probes", [1, 3])
async def test_polly_216_half_open_admits_exactly_its_probes(probes):
    """Of 20 callers at once exactly `probes` are admitted; hyx, circuitbreaker, aiobreaker and purgatory admit all 20 (Polly#216)."""
    entered = 0
    gate = asyncio.Event()

    @rb.Policy(rb.Breaker.consecutive(1, open_for=10, probes=probes))
    async def get(*, fails=False):
        nonlocal entered
        if fails:
            raise ConnectionRefusedError
        entered += 1
        await gate.wait()

    with rb.testing.virtual_time() as clock:
        with pytest.raises(ConnectionRefusedError):
            await get(fails=True)
        clock.advance(10)
        callers = [asyncio.create_task(get()) for _ in range(20)]
        await settle()
        assert entered == probes
        gate.set()
        results = await asyncio.gather(*callers, return_exceptions=True)
    assert sum(isinstance(result, rb.CircuitOpenError) for result in results) == 20 - probes
    assert rb.calls.circuit(get).state == "closed"


def test_polly_216_half_open_admits_exactly_its_probes_across_threads():
    """Of 20 threads one is admitted, 19 are rejected (threat 25)."""
    together, outcomes = threading.Barrier(20), []
    hold = threading.Event()

    @rb.Policy(rb.Breaker.consecutive(1, open_for=0))
    def get(*, fails=False):
        if fails:
            raise ConnectionRefusedError
        outcomes.append("in")
        hold.wait(10)

    def call():
        together.wait()
        try:
            get()
        except rb.CircuitOpenError:
            outcomes.append("out")
            if outcomes.count("out") == 19:
                hold.set()

    with pytest.raises(ConnectionRefusedError):
        get(fails=True)
    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["in"] + ["out"] * 19


async def test_interlock_a_hung_probe_does_not_wedge_half_open():
    """A probe that hangs loses its permit when its lease ends; interlock stays half-open for as long as it hangs."""
    hang = asyncio.Event()

    @rb.Policy(rb.Breaker.consecutive(1, open_for=10, lease=30))
    async def get(what):
        if what == "fail":
            raise ConnectionRefusedError
        if what == "hang":
            await hang.wait()
        return what

    with rb.testing.virtual_time() as clock:
        with pytest.raises(ConnectionRefusedError):
            await get("fail")
        clock.advance(10)
        hung = asyncio.create_task(get("hang"))
        await settle()
        with pytest.raises(rb.CircuitOpenError) as rejected:
            await get("well")
        assert 0 < rejected.value.retry_after <= 1  # and not None, which tells a caller nothing
        clock.advance(30)
        assert await get("well") == "well"
        assert rb.calls.circuit(get).state == "closed"
        hang.set()
        assert await hung == "hang"
    assert rb.calls.circuit(get).state == "closed"


@everywhere
def test_redress_a_lost_probe_does_not_wedge_half_open(form):
    """A probe that ends in a BaseException returns its permit at once; in redress it is lost for ever."""
    server = Server(ConnectionRefusedError("down"), Abandoned(), None)
    with form.world():
        get = rb.Policy(rb.Breaker.consecutive(1, open_for=0))(form.of(server.get))
        with pytest.raises(ConnectionRefusedError):
            form.run(get)
        with pytest.raises(Abandoned):
            form.run(get)
        assert rb.calls.circuit(get).state == "half_open"
        assert form.run(get) == "ok"
        assert rb.calls.circuit(get).state == "closed"


async def test_failsafe_go_391_outcomes_of_older_calls_do_not_add_permits():
    """Calls admitted while it was closed free no permit when they end in half-open; failsafe-go adds one for each."""
    releases = {name: asyncio.Event() for name in ("old", "probe")}

    @rb.Policy(rb.Breaker.consecutive(1, open_for=10))
    async def get(what):
        if what == "fail":
            raise ConnectionRefusedError
        await releases[what].wait()
        return what

    with rb.testing.virtual_time() as clock:
        old = [asyncio.create_task(get("old")) for _ in range(3)]
        await settle()
        with pytest.raises(ConnectionRefusedError):
            await get("fail")
        clock.advance(10)
        probe = asyncio.create_task(get("probe"))
        await settle()
        releases["old"].set()
        assert await asyncio.gather(*old) == ["old"] * 3
        with pytest.raises(rb.CircuitOpenError):
            await get("probe")
        assert rb.calls.circuit(get).state == "half_open"
        releases["probe"].set()
        assert await probe == "probe"
    assert rb.calls.circuit(get).state == "closed"


class NotFoundHereError(Exception):
    """An error that the caller ignores."""


@everywhere
@each_row("ignored", [NotFoundHereError("no such thing"), 404], ids=["listed", "a 404"])
def test_smallrye_320_an_ignored_failure_does_not_reopen_half_open(form, ignored):
    """A probe with an ignored failure leaves it half-open and returns its permit; redress reopens on a 404."""
    error = http_error(404) if ignored == 404 else ignored
    server = Server(ConnectionRefusedError("down"), error, None)
    breaker = rb.Breaker.consecutive(1, open_for=0, ignore=NotFoundHereError)
    with form.world():
        get = rb.Policy(breaker)(form.of(server.get))
        with pytest.raises(ConnectionRefusedError):
            form.run(get)
        with pytest.raises(type(error)):
            form.run(get)
        assert rb.calls.circuit(get).state == "half_open"
        assert form.run(get) == "ok"
        assert rb.calls.circuit(get).state == "closed"
