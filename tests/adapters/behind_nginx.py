"""What the tests behind nginx share: clients of both libraries and versions of HTTP, and what their callers were told."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import httpx2
import pytest

import resilient_bridge as rb
from tests.adapters.campaigns import outcome_of


LIBRARIES = pytest.mark.parametrize(
    "library", [httpx, httpx2], ids=lambda library: library.__name__
)
VERSIONS = pytest.mark.parametrize("is_http2", [False, True], ids=["HTTP/1.1", "HTTP/2"])
QUICK = rb.Policy(rb.Retry(attempts=6, backoff=rb.Backoff.constant(0.01), budget=None))


def client_of(library: Any, front: Any, *, is_http2: bool, policy: rb.Policy | None = QUICK) -> Any:
    """An async client of that library: `policy` None for a bare one."""
    inner = library.AsyncHTTPTransport(http2=is_http2, verify=front.trust, trust_env=False)
    transport = inner if policy is None else rb.HTTPTransport(policy, inner)
    base = front.secure_url("") if is_http2 else front.url("")
    return library.AsyncClient(transport=transport, base_url=base, timeout=20)


async def as_error_record(work: Any) -> str:
    """What the caller of a call was told: done, unknown, not run."""
    try:
        answer = await work
    except Exception as error:  # noqa: BLE001 -- of whichever library; what is told by it is judged
        return outcome_of(error)
    return "done" if answer.status_code == 200 else outcome_of(answer)


async def in_parallel(number: int, make: Any, *, callers: int = 4) -> dict[str, Any]:
    """Make so many calls, four at a time; what came of each, by its key."""
    keys = iter([f"n{n}" for n in range(number)])
    came: dict[str, Any] = {}

    async def work() -> None:
        for key in keys:
            came[key] = await make(key)

    await asyncio.gather(*(work() for _ in range(callers)))
    return came
