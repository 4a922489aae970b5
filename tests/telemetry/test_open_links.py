"""Which clients and links health and metrics show: those whose owner lives in this process."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import resilient_bridge as rb
from tests.adapters.link_peers import World, quick


def _shown():
    """The names of the links that both endpoints show."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    exporter = rb.telemetry.prometheus.install(registry=registry)
    try:
        scrape = generate_latest(registry).decode()
    finally:
        exporter.close()
    names = [link["name"] for link in rb.telemetry.health_app().status()["links"]]
    assert all(f'bridge_ready{{bridge="{name}"}}' in scrape for name in names)
    return names


@pytest.mark.real
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["client", "link"])
async def test_t01_a_forked_worker_does_not_show_the_links_of_its_parent(kind):
    """Loaded before the fork (gunicorn --preload): both endpoints answer in the worker, and name what is there."""
    if kind == "client":
        link = rb.BridgeClient("ws://127.0.0.1:9/", name="the parent's")
    else:
        link = rb.reconnecting(World().factory, quick(), name="the parent's")
    async with link:
        assert "the parent's" in _shown()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(20)
                code = (
                    0
                    if _shown() == [] and rb.telemetry.health_app().status()["status"] == "ready"
                    else 2
                )
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert "the parent's" in _shown()


def test_t01_a_link_whose_loop_is_closed_is_not_shown():
    """Nobody closed it, and nothing can move it any more: it says nothing about this process."""
    clients = []

    async def main():
        link = rb.BridgeClient("ws://127.0.0.1:9/", name="left behind")
        clients.append(await link.__aenter__())
        assert "left behind" in _shown()

    asyncio.run(main())
    assert "left behind" not in _shown()
