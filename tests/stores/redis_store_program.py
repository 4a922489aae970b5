"""A process that owns a store in Redis: it accepts three sends, says so, and waits to be killed. Arguments: url, name, lease."""

from __future__ import annotations

import asyncio
import sys

from resilient_bridge.stores import RedisStore
from tests.stores.port_suite import now, send


async def main(url: str, name: str, lease: str) -> None:
    store = RedisStore(url, name=name, lease=float(lease))
    await store.open(now())
    for n in (1, 2, 3):
        await store.put(send(n))
    await store.mark(2, now().wall)
    print("accepted", flush=True)  # noqa: T201 -- whoever kills it waits for that
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
