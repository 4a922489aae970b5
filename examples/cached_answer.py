"""Answer from a cache when the service is down, and say that it is old.

The Fallback is never silent: it emits an event and logs a warning. While the circuit is
open the service is not called at all.

    $ python examples/cached_answer.py
    EUR 1.08
    EUR 1.08 (from the cache)
    EUR 1.08 (from the cache)
    asked 4 times, fell back 2 times
"""

import resilient_bridge as rb


cache: dict[str, float] = {}
asked = 0


def from_cache(currency: str) -> tuple[float, bool]:
    return cache[currency], True


policy = rb.Policy(
    rb.Fallback(from_cache, may_have_run=True),
    rb.Retry(attempts=3, backoff=rb.Backoff.constant(1)),
    rb.Breaker.consecutive(3, open_for=60),
)


@policy(idempotent=True)
def rate(currency: str) -> tuple[float, bool]:
    """Return a rate, and whether it is old."""
    global asked
    asked += 1
    if asked > 1:
        raise ConnectionRefusedError(111, "connection refused")
    cache[currency] = 1.08
    return cache[currency], False


def main() -> None:
    # only here: do not wait, and count
    with rb.testing.virtual_time(), rb.testing.record() as events:
        for _ in range(3):
            value, is_old = rate("EUR")
            print(f"EUR {value}{' (from the cache)' if is_old else ''}")
    fallbacks = sum(isinstance(event, rb.events.FellBack) for event in events)
    print(f"asked {asked} times, fell back {fallbacks} times")


if __name__ == "__main__":
    main()
