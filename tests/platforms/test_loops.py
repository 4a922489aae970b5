"""Other event loops: uvloop, whose handles are not asyncio's, and trio, which gets an error that says what works."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib.util import find_spec

import pytest

import resilient_bridge as rb


pytestmark = pytest.mark.requirement("X12")


class PlainHandle:
    """What can be cancelled, and says nothing of its time."""

    def __init__(self, timer):
        self.cancel, self.cancelled, self._source_traceback = timer.cancel, timer.cancelled, None


class PlainHandles(asyncio.SelectorEventLoop):
    """As uvloop, whose timers are such handles where they are due within half a millisecond; here all of them are."""

    def call_at(self, when, callback, *args, context=None):
        return PlainHandle(super().call_at(when, callback, *args, context=context))


async def _survives_a_cut():
    async with rb.testing.BridgeServer() as server:
        port = int(server.url.rpartition(":")[2].partition("/")[0])
        async with (
            rb.testing.FaultProxy("127.0.0.1", port) as proxy,
            rb.BridgeClient(proxy.url("/ws"), policy=rb.presets.recursor) as client,
        ):
            for number in range(20):
                if number % 7 == 3:
                    proxy.apply(rb.testing.Fault.abort())
                await client.send("note", {"n": number})
            await (await client.send("note", {"n": 20})).confirmed(timeout=20)
        return [frame["payload"]["n"] for frame in server.received]


SERVER = """
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "die":
        os._exit(1)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": os.getpid()}), flush=True)
"""


async def _survives_the_end_of_a_child():
    async with rb.reconnecting(rb.links.stdio(sys.executable, "-c", SERVER)) as peer:
        first = await peer.request("pid", {})
        with pytest.raises(rb.BridgeError):
            await peer.request("die", {})
        return first != await peer.request("pid", {})


UVLOOP = pytest.param(
    "uvloop", marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="no uvloop")
)


@pytest.mark.real
@pytest.mark.skipif(find_spec("uvloop") is None, reason="no uvloop")
def test_a_child_process_lives_on_uvloop():
    """Its pipes are no files that Python knows; each start of a child ended with AttributeError."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_survives_the_end_of_a_child())


@pytest.mark.real
@pytest.mark.parametrize("make", [PlainHandles, UVLOOP])
def test_a_client_lives_on_uvloop(make):
    """It ended with AttributeError when a timer that was due already was asked for its time."""
    if make == "uvloop":
        import uvloop

        make = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=make) as runner:
        assert runner.run(_survives_a_cut()) == list(range(21))


# ---- trio ------------------------------------------------------------------------------------------------------------

TRIO = """
import sys
import anyio, trio
import resilient_bridge as rb

async def fails(): raise ConnectionResetError(104, "reset")
async def works(): return 1
async def client():
    async with rb.BridgeClient("ws://127.0.0.1:1"): pass
async def stream():
    yield 1

P = rb.Policy
refused = {
    "Timeout or Deadline": [P(rb.Timeout(5))(works), P(rb.Deadline(5))(works)],
    "Retry": [P(rb.Retry(attempts=2))(fails, idempotent=True)],
    "BridgeClient": [client],
}
limited = P(rb.RateLimit(1, per=100, max_wait=1000))(works)
for run in (trio.run, lambda f: anyio.run(f, backend="trio")):
    for name, calls in refused.items():
        for call in calls:
            try:
                run(call)
            except rb.ConfigError as error:
                assert str(error).startswith(name + ": wanted asyncio"), error
                assert "a task of trio" in str(error) and "a sync function" in str(error), error
            else:
                raise AssertionError(name)

    assert run(lambda: trio.to_thread.run_sync(P(rb.Retry(attempts=2))(lambda: 3, idempotent=True))) == 3
trio.run(limited)
try:
    trio.run(limited)
except rb.ConfigError as error:
    assert str(error).startswith("RateLimit: wanted asyncio"), error
print("as told")
"""


@pytest.mark.campaign  # `nox -s loops` has trio; beside hypothesis, importing it warns
@pytest.mark.skipif(find_spec("trio") is None, reason="no trio")
def test_trio_gets_an_error_that_says_what_works():
    """In trio, and in anyio over it: ConfigError that names asyncio, wherever something would have to wait; sync functions work."""
    done = subprocess.run([sys.executable, "-c", TRIO], capture_output=True, text=True, check=False)
    assert done.stdout == "as told\n", done.stderr


def test_without_any_loop_the_error_says_so():
    """The same error names what was found: nothing that runs."""
    coroutine = rb.Policy(rb.Timeout(5))(_survives_a_cut)()
    with pytest.raises(
        rb.ConfigError, match=r"Timeout or Deadline: wanted asyncio.*got 'no running event loop'"
    ):
        coroutine.send(None)
