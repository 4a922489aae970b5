"""One run: messages to a server that confirms nothing, which stops reading and is killed; what is lost is compared with what was reported.

Rule: the judge knows what the server had read (its own notes) and what the client said (one event, the log, its receipts), and nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator

import attrs

import resilient_bridge as rb
from tests.bridges.foreign import quick
from tests.bridges.kills.far_end import far_end


@attrs.define
class Tally:
    """What became of the messages of some runs."""

    runs: int = 0
    sent: int = 0
    read: int = 0
    lost: int = 0
    unknown: int = 0  # of the lost, those whose outcome was reported as unknown
    reached: int = 0  # of the lost, those that were reported as perhaps unread
    reported: int = 0  # all that were reported, the ones that had been read included
    wrong: list[str] = attrs.Factory(list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            *(
                getattr(self, field.name) + getattr(other, field.name)
                for field in attrs.fields(Tally)
            )
        )


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "in doubt" in record.getMessage():
            self.lines.append(record.getMessage())


async def run(kind: str, seed: int) -> Tally:
    """Messages at random times, a server that reads some of them, a kill at a random time."""
    rng = random.Random(seed)
    most = rng.choice((1, 5, 20, 60, 150, 10_000))
    doubts: list[rb.events.OutboundInDoubt] = []
    sends: dict[str, rb.bridge.Receipt] = {}
    losses: list[rb.events.Disconnected] = []
    warnings, logger = _Warnings(), logging.getLogger("resilient_bridge")
    logger.addHandler(warnings)
    try:
        async with far_end(kind, most) as server:
            client = rb.BridgeClient(
                server.url, dialect=rb.dialects.plain, policy=quick(), on_doubt=doubts.append
            )
            async with client, asyncio.TaskGroup() as tasks:
                tasks.create_task(_listen(client.events(), losses))
                await client.wait_ready(10)
                killing = asyncio.ensure_future(_kill(server, rng.uniform(0.0, 1.5)))
                for number in range(rng.choice((20, 60, 200, 700))):
                    receipt = await client.send(
                        {"n": number, "more": "x" * rng.choice((0, 50, 2_000))}
                    )
                    sends[str(number)] = receipt
                    if rng.random() < 0.1:
                        await asyncio.sleep(rng.uniform(0.0, 0.1))
                await killing
                async with asyncio.timeout(20):
                    while client.state is rb.bridge.BridgeState.READY:
                        await asyncio.sleep(0.005)
                await client.aclose(drain=0)
            read = [str(json.loads(line)["n"]) for line in await server.read()]
    finally:
        logger.removeHandler(warnings)
    return _judged(f"{kind} {seed}", sends, read, doubts, warnings.lines, losses=len(losses))


async def _listen(
    events: AsyncIterator[rb.events.Event], losses: list[rb.events.Disconnected]
) -> None:
    losses.extend([event async for event in events if isinstance(event, rb.events.Disconnected)])


async def _kill(server: object, after: float) -> None:
    await asyncio.sleep(after)
    await server.kill()  # type: ignore[attr-defined]


def _judged(
    name: str,
    sends: dict[str, rb.bridge.Receipt],
    read: list[str],
    doubts: list[rb.events.OutboundInDoubt],
    lines: list[str],
    *,
    losses: int,
) -> Tally:
    handed = {number for number, receipt in sends.items() if receipt.sends}
    lost = handed - set(read)
    unknown = {
        n for n in sends if any(sends[n].idempotency_key in doubt.unknown_keys for doubt in doubts)
    }
    reached = {
        n for n in sends if any(sends[n].idempotency_key in doubt.reached_keys for doubt in doubts)
    }
    wrong = []
    if outside := lost - unknown - reached:
        wrong.append(f"lost, and not reported: {sorted(outside, key=int)}")
    if len(read) != len(set(read)):
        wrong.append("a message arrived twice")
    if not set(read) <= handed:
        wrong.append("a message arrived that was never handed out")
    if len(doubts) > losses or len(lines) != len(doubts):
        wrong.append(f"{len(doubts)} events and {len(lines)} warnings for {losses} losses")
    numbers = sum(doubt.unknown for doubt in doubts), sum(doubt.reached for doubt in doubts)
    if numbers != (len(unknown), len(reached)):
        wrong.append(f"{numbers} reported, and {len(unknown), len(reached)} named")
    if {sends[n].state for n in unknown} - {"unknown"} or {
        sends[n].state for n in handed - unknown
    } - {"written"}:
        wrong.append("a receipt says something else than the event")
    if {sends[n].state for n in sends.keys() - handed} - {"dropped"}:
        wrong.append("a receipt of what never left says something else")
    return Tally(
        1, len(handed), len(read), len(lost), len(lost & unknown), len(lost & reached), len(unknown | reached),
        [f"{name}: {text}" for text in wrong],
    )  # fmt: skip
