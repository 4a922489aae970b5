"""Read a feed of numbered events, and know what is missing.

The server numbers its events, and `{"last_seq": …}` asks it for the events after that
number. One line describes this to the client, which does the rest.

    $ python examples/numbered_feed.py
    1 price 10
    2 price 11
    3 price 12
    4 price 13
"""

import asyncio
from functools import partial

import resilient_bridge as rb


FEED = rb.dialects.sequence(field="seq", ask="last_seq")


async def read(url: str, until: int) -> None:
    async with rb.BridgeClient(url, dialect=FEED, on_gap=print) as bridge:
        async for message in bridge:
            print(message.raw["seq"], "price", message.raw["price"])
            if message.raw["seq"] == until:
                return


async def market(server: rb.testing.LogBridge) -> None:
    """Play the server: it cuts after two events, and two more happen meanwhile."""
    reader = asyncio.create_task(read(server.url, until=4))
    await asyncio.sleep(1)
    await server.push({"price": 10})
    await server.push({"price": 11})
    await asyncio.sleep(1)
    await server.cut("abort")
    await server.push({"price": 12})
    await server.push({"price": 13})
    await reader


if __name__ == "__main__":
    rb.testing.simulate(
        market,
        seed=1,
        server=partial(rb.testing.LogBridge, field="seq", ask="last_seq"),
    )
