"""Accept messages while the bridge is away, and deliver them after a restart.

With `store=` a message is on disk before `send` returns. The first client below cannot
reach the server, and ends. The second one, which could be another process on another
day, delivers the stored message. The idempotency key makes the server process it once,
whatever happens.

    $ python examples/offline_outbox.py
    first run: queued
    second run: delivered order-42
"""

import asyncio
import tempfile
from pathlib import Path

import resilient_bridge as rb


async def first_run(url: str, path: Path) -> None:
    async with rb.BridgeClient(
        url, token="secret", session_id="shop", store=path
    ) as bridge:
        receipt = await bridge.send(
            "order", {"item": "book"}, idempotency_key="order-42"
        )
        print("first run:", receipt.state)


async def second_run(url: str, path: Path) -> None:
    async with rb.BridgeClient(
        url, token="secret", session_id="shop", store=path
    ) as bridge:
        receipt = bridge.receipt("order-42")
        assert receipt is not None
        await receipt.confirmed(timeout=30)


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "bridge.db"
        server = rb.testing.BridgeServer(token="secret")
        await server.start()
        url = server.url
        await server.aclose()  # the server is down
        await first_run(url, path)
        await server.start()
        await second_run(url, path)
        print("second run: delivered", server.received[0]["payload"]["idempotency_key"])
        await server.aclose()


if __name__ == "__main__":
    asyncio.run(main())
