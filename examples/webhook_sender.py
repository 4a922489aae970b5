"""Webhooks with a dead-letter list: each is processed at most once per key.

A receiver that hangs up may have processed the call. It is repeated all the same,
because every attempt has the same key. A delivery that fails for good is kept as a dead
letter, with the reason.

    $ python examples/webhook_sender.py
    evt-1: delivered in 2 attempts
    evt-2: kept for later: SYS_UPSTREAM_REJECTED, after 1 attempt
    evt-3: delivered in 1 attempt
    processed once each: evt-1 evt-3
"""

import asyncio

import httpx

import resilient_bridge as rb


processed: list[str] = []
hung_up: set[str] = set()


def receiver(request: httpx.Request) -> httpx.Response:
    """Play the receiver: it hangs up after evt-1 is processed, and rejects evt-2."""
    key = request.headers["Idempotency-Key"]
    if key == "evt-2":
        return httpx.Response(422, text="unknown event")
    if key not in processed:
        processed.append(key)
    if key == "evt-1" and key not in hung_up:
        hung_up.add(key)
        raise httpx.ReadError("connection reset", request=request)
    return httpx.Response(204)


delivery = rb.Policy(
    rb.Deadline(300),
    rb.Retry(attempts=5, backoff=rb.Backoff.exponential(2, cap=60)),
    rb.Timeout(10),
)


async def main() -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(receiver)) as client:

        @delivery(idempotent=True)
        async def deliver(key: str) -> None:
            headers = {"Idempotency-Key": key}
            url = "https://receiver.example/hook"
            response = await client.post(url, headers=headers)
            response.raise_for_status()

        for key in ("evt-1", "evt-2", "evt-3"):
            outcome = await rb.capture(deliver, key)
            tries = f"{outcome.attempts} attempt{'s' if outcome.attempts > 1 else ''}"
            if outcome.failure is None:
                print(f"{key}: delivered in {tries}")
            else:
                print(f"{key}: kept for later: {outcome.failure.code}, after {tries}")
    print("processed once each:", *processed)


if __name__ == "__main__":
    with rb.testing.virtual_time():  # only here: do not wait between repeats
        asyncio.run(main())
