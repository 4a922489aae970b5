"""`assert_sent_at_most_once`: run a user's tool or client against a faulty HTTP server.

The server listens on loopback and fails in each way of `HTTPFault`. Rule: the server's record
decides. The effect of a request is counted there before a byte of the answer is sent, whatever
answer the caller gets.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import attrs

from ..calls import Outcome
from ..failure import BridgeError, Executed
from ..failure.teaching import taught
from .faulty_http import HTTPFault, HTTPServer


_MOST_PLACES: Final = 8  # requests of one call at which each fault is tried


@taught
def assert_sent_at_most_once(
    call: Callable[[str], Any],
    *,
    allowed: int = 1,
    faults: Collection[HTTPFault] = tuple(HTTPFault),
    answer: object = None,
) -> None:
    """Run `call(url)` once without a fault, and then once for each fault at each of its first eight
    requests; AssertionError if anything was done too often.

        def charge(url: str) -> None:
            with httpx.Client(transport=rb.HTTPTransport(trust_env=False)) as client:
                client.post(f"{url}/charge", json={"amount": 1})

        with rb.testing.virtual_time():
            rb.testing.assert_sent_at_most_once(charge)

    `call` sends its requests to `url`, the address of a server of 127.0.0.1 without a slash at the
    end. Make clients inside of it: an async one runs in a new event loop, and `url` differs each
    time. A request has an effect unless its method is GET, HEAD, OPTIONS or TRACE. `allowed`: how
    often one `call` may do the same (method and path). `faults`: which of `HTTPFault` to try.
    `answer`: the JSON that a sound request is answered with; `{"ok": true}` by default.

    An exception of a `call` with a fault is no failure. A BridgeError or an Outcome with `executed`
    NO, although something was done, is an AssertionError too. Without a fault every exception is
    raised, and a `call` that does nothing is an AssertionError. Policies wait in real time, except
    inside `virtual_time()`.
    """
    sound = _run(call, [], answer)
    if sound.error is not None:
        raise sound.error
    if not sound.effects:
        raise AssertionError(
            f"wanted a call with an effect, got {sound.requests or 'no'} requests without one"
        )
    wrong = sound.contradictions("nothing failed", allowed)
    for fault in faults:
        for index in range(1, min(sound.requests, _MOST_PLACES) + 1):
            of = f" {index} of {sound.requests}" if sound.requests > 1 else ""
            ended = _run(call, [*[200] * (index - 1), fault], answer)
            wrong += ended.contradictions(f"request{of}: {fault.value}", allowed)
    if wrong:
        raise AssertionError("\n".join(wrong))


@attrs.frozen
class _Seen:
    """The result of one run: effects by method and path, requests, and the call's end."""

    effects: Counter[str]
    requests: int
    result: object
    error: Exception | None

    def contradictions(self, what: str, allowed: int) -> list[str]:
        wrong = [
            f"{what}: {effect} was done {count} times, wanted at most {allowed}"
            for effect, count in self.effects.items()
            if count > allowed
        ]
        if self.effects and self._tells_not_run():
            done = ", ".join(self.effects)
            wrong.append(f"{what}: the caller was told that it did not run, but {done} was done")
        return wrong

    def _tells_not_run(self) -> bool:
        # A bare error of an HTTP library is not checked: it is about the last request only.
        report = self.error if isinstance(self.error, BridgeError) else self.result
        failure = report.failure if isinstance(report, (BridgeError, Outcome)) else None
        return failure is not None and failure.executed is Executed.NO


def _run(call: Callable[[str], Any], answers: list[int | HTTPFault], body: object) -> _Seen:
    """Run it once, in a new thread with the caller's context and without its event loop."""
    with HTTPServer(*answers, body=body) as server, ThreadPoolExecutor(1) as thread:
        result, error = thread.submit(
            contextvars.copy_context().run, _ended, call, server.url
        ).result()
        return _Seen(server.effects.copy(), len(server.seen), result, error)


def _ended(call: Callable[[str], Any], url: str) -> tuple[object, Exception | None]:
    try:
        result = call(url)
        return (asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result), None
    except Exception as error:  # noqa: BLE001 -- it is judged
        return None, error


async def _awaited(result: Any) -> object:
    return await result
