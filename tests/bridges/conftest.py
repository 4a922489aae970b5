"""A journey's stage: one of the two bridges, a fault proxy before it, a client that is watched. All of it on loopback."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from resilient_bridge.testing import FaultProxy
from tests.bridges.peers import BRIDGES, missing
from tests.threats.watching import Watch, quick


class Stage:
    """`bridge`, `proxy`, and `client(...)` for a watched client that goes through the proxy."""

    def __init__(self, bridge, proxy):
        self.bridge = bridge
        self.proxy = proxy

    @asynccontextmanager
    async def client(self, *, policy=None, ready=True, **options):
        """A client through the proxy, READY unless told otherwise."""
        async with Watch(self.proxy.url("/ws"), policy=policy or quick(), **options) as watch:
            if ready:
                await watch.ready(10)
            yield watch

    async def payloads(self, kind):
        """The payloads that the bridge applied of one type, without their keys."""
        return [
            {name: value for name, value in message["payload"].items() if name != "idempotency_key"}
            for message in await self.bridge.received()
            if message["type"] == kind
        ]


@pytest.fixture(params=BRIDGES)
async def stage(request):
    """Both bridges, one after the other; a missing one is skipped with its reason."""
    if (reason := missing(request.param)) is not None:
        pytest.skip(reason)
    async with AsyncExitStack() as stack:
        bridge = await stack.enter_async_context(BRIDGES[request.param]())
        proxy = await stack.enter_async_context(FaultProxy("127.0.0.1", bridge.port))
        yield Stage(bridge, proxy)
