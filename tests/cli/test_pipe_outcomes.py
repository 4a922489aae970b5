"""`pipe --store`: what the store records as final was written to stderr before, so a kill in between leaves it to the next run."""

from __future__ import annotations

from argparse import Namespace

import pytest

from resilient_bridge import BridgeClient
from resilient_bridge.testing import BridgeServer
from tests.bridges.doubles.clients import until
from tests.internals.cli import pipe
from tests.internals.stores import Sends


pytestmark = pytest.mark.real


def arguments(url, store):
    """Those of `pipe URL --store FILE`, with an input that has ended."""
    return Namespace(
        url=url, store=store, token_env=None, dialect=None, preset="default", session=None, pin=None, events=None, receipts=None, drain=10.0, keep_open=False,
    )  # fmt: skip


async def test_an_outcome_is_final_only_once_its_line_is_written(capfd, tmp_path, monkeypatch):
    """Three sends of an earlier run, which no server will confirm: each is named on stderr before the store forgets it."""
    store = str(tmp_path / "p.db")
    async with BridgeServer(acks="none") as server:
        host, port = server.address
        async with BridgeClient(server.url, store=store) as bridge:
            await bridge.wait_ready(10)
            server.behave(acks="none", never_pong=True)
            for n in range(3):
                await bridge.send("tool_result", {"n": n}, idempotency_key=f"k{n}")
            await until(lambda: len(server.received) == 3)
            await bridge.aclose(drain=0)
    written, at_the_end, settle = [], {}, Sends.settle

    def settled(self, entry):
        written.append(capfd.readouterr().err)
        at_the_end[entry.key] = "".join(written)
        return settle(self, entry)

    monkeypatch.setattr(Sends, "settle", settled)
    async with BridgeServer(host=host, port=port) as server:
        assert await pipe._run(arguments(server.url, store), None, None) == pipe.UNCONFIRMED
    assert sorted(at_the_end) == ["k0", "k1", "k2"]
    for key, text in at_the_end.items():
        assert f"earlier: not confirmed: key {key}: " in text
