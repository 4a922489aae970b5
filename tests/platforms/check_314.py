"""What is checked on CPython 3.14 without sockets, threads and processes: names load, and calls do what they do elsewhere. Run by pyodide_314.mjs."""

from __future__ import annotations

import sys
import warnings
from inspect import ismodule


async def main() -> str:
    """Return one line that says what was checked; raises for what is wrong."""
    warnings.simplefilter("error")
    import resilient_bridge as rb

    loaded = 0
    modules = [one for name in rb.__all__ if ismodule(one := getattr(rb, name))]
    for room in (rb, *modules):
        for name in room.__all__:
            getattr(room, name)
            loaded += 1
    calls = 0

    async def flaky() -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionResetError(104, "reset")
        return "done"

    quick = rb.Retry(attempts=4, backoff=rb.Backoff.constant(0.01))
    assert await rb.Policy(quick, rb.Timeout(5), rb.Breaker())(flaky, idempotent=True)() == "done"
    assert calls == 3
    outcome = await rb.capture(rb.Policy(rb.Retry(attempts=1))(_fails, idempotent=True))
    assert outcome.failure.code == "CONN_REFUSED", outcome
    try:
        rb.Retry(attempts=0)
    except rb.ConfigError as error:
        assert "attempts" in str(error)
    else:
        raise AssertionError("attempts=0 was accepted")
    version = ".".join(map(str, sys.version_info[:3]))
    return f"CPython {version} ({sys.platform}): {loaded} names loaded, 4 calls and a refusal as elsewhere"


async def _fails() -> None:
    raise ConnectionRefusedError(111, "refused")
