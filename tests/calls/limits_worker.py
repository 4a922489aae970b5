"""A process that shares an adaptive limit with others: `limits_worker URL STATE AGENTS CALLS START NAME`.

STATE is a file, or the URL of a Redis.
Its agents make their calls one after another; each line of its output is a status, or an error.
"""

from __future__ import annotations

import asyncio
import sys

import httpx

import resilient_bridge as rb


def say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def state_of(text: str) -> rb.stores.RedisState | rb.stores.MachineState:
    if text.startswith("redis://"):
        return rb.stores.RedisState(text, timeout=1)
    return rb.stores.MachineState(text)


async def main(url: str, state: str, agents: int, calls: int, start: int | None) -> None:
    limit = rb.AdaptiveLimit(key="quota", start=start, most=start)
    policy = rb.Policy(rb.Retry(attempts=2), limit, state=state_of(state))

    async with httpx.AsyncClient(timeout=60) as client:

        @policy(idempotent=True)
        async def ask(number: str) -> httpx.Response:
            return await client.post(url, content=number)

        async def agent(name: str) -> None:
            for call in range(calls):
                try:
                    say((await ask(f"{name}.{call}")).status_code)
                except Exception as error:  # noqa: BLE001 -- it is counted
                    say(repr(error))

        name = sys.argv[-1]
        say("ready")
        await asyncio.gather(*(agent(f"{name}.{number}") for number in range(agents)))


if __name__ == "__main__":
    url, state, agents, calls, start, _ = sys.argv[1:]
    asyncio.run(main(url, state, int(agents), int(calls), int(start) or None))
