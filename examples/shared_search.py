"""Twenty agents ask the same: one request is made, and a slow one is raced.

Every third request of the server hangs. The Hedge sends it again after a second; the
answer to the first agent is everybody's, and an old one is better than none when the
server is down.

    $ python examples/shared_search.py
    20 agents, 2 requests, 1.1 s: 3 hits
    the server is down: 3 hits, 30 s old
"""

import asyncio

import resilient_bridge as rb


asked = 0
is_down = False

policy = rb.Policy(
    rb.Deadline(30),
    rb.calls.Share(key=lambda tenant, query: (tenant, query), stale_for=600),
    rb.Retry(attempts=2, backoff=rb.Backoff.constant(0.1)),
    rb.calls.Hedge(after=1, budget=0.5),
)


@policy(idempotent=True)
async def search(tenant: str, query: str) -> list[str]:
    global asked
    asked += 1
    if is_down:
        raise ConnectionRefusedError(111, "connection refused")
    await asyncio.sleep(20 if asked % 3 == 1 else 0.1)
    return [f"{query} {number} of {tenant}" for number in range(3)]


async def agents() -> None:
    global is_down, asked
    loop = asyncio.get_running_loop()
    await search("warm up", "so that one request in two may be a second one")
    asked, started = 0, loop.time()
    answers = await asyncio.gather(*(search("acme", "news") for _ in range(20)))
    seconds, hits = loop.time() - started, answers[0]
    print(f"{len(answers)} agents, {asked} requests, {seconds:.1f} s: {len(hits)} hits")
    await asyncio.sleep(30)
    is_down = True
    hits, answer = await search("acme", "news"), rb.calls.current_answer()
    if answer is not None and answer.stale:
        print(f"the server is down: {len(hits)} hits, {answer.age:.0f} s old")


def main() -> None:
    rb.testing.simulate(lambda _: agents())  # only here: nobody waits for real seconds


if __name__ == "__main__":
    main()
