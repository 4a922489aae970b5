"""A process that shares an adaptive limit with others: `limits_worker URL FILE AGENTS CALLS [START]`.

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


async def main(url: str, file: str, agents: int, calls: int, start: int | None) -> None:
    limit = rb.AdaptiveLimit(key="quota", start=start, most=start)
    state = rb.stores.MachineState(file)
    policy = rb.Policy(rb.Retry(attempts=2), limit, state=state)

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
    url, file, agents, calls, start, _ = sys.argv[1:]
    asyncio.run(main(url, file, int(agents), int(calls), int(start) or None))
