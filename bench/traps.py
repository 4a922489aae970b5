"""Well-known traps of retries, circuits and time limits, for this package and its alternatives.

    python bench/traps.py

Prints a Markdown table: the library passes, fails, or has no such feature (empty). Each trap is one function below, run in the same
way for every library; its docstring says what is expected. Real seconds pass, about one per circuit and trap.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
import time
import warnings
from contextlib import suppress

import _trapped
from _measure import table
from _peers import PACKAGES
from _trapped import LIBRARIES, SHORT, Library, Server


async def half_open_admits_one(library: Library) -> bool:
    """Of 20 concurrent calls after the open time, one reaches the server."""
    server = Server()
    call = library.circuit(2, SHORT)(server.function())
    await server.down(call, 3)
    await asyncio.sleep(SHORT * 1.1)
    server.reached, server.seconds = 0, 0.02
    await asyncio.gather(*(call() for _ in range(20)), return_exceptions=True)
    return server.reached == 1


async def cancelled_probe_is_neutral(library: Library) -> bool:
    """A probe that is cancelled neither closes the circuit nor blocks it: the next call is the probe, and the one after its failure is refused."""
    server = Server()
    call = library.circuit(3, SHORT)(server.function())
    await server.down(call, 4)
    await asyncio.sleep(SHORT * 1.1)
    server.seconds = 30
    await _cancelled(call)
    server.seconds = server.reached = 0
    await server.down(call, 2)
    return server.reached == 1


async def cancelled_call_is_neutral(library: Library) -> bool:
    """After failure, failure, cancelled, failure the next failure is the fourth in a row, and opens the circuit."""
    server = Server()
    call = library.circuit(4, 60)(server.function())
    await server.down(call, 2)
    server.seconds = 30
    await _cancelled(call)
    server.seconds = 0
    await server.down(call, 1)
    server.reached = 0
    await server.down(call, 3)
    return server.reached == 1


async def late_success_does_not_close(library: Library) -> bool:
    """A call from before the outage that ends well while the circuit is open leaves it open."""
    server = Server()
    call = library.circuit(2, 60)(server.function())
    server.seconds, server.error = 0.05, None
    old = asyncio.create_task(call())
    await asyncio.sleep(0.01)
    server.seconds, server.error = 0, ConnectionRefusedError
    await server.down(call, 2)
    await old
    server.reached = 0
    await server.down(call, 1)
    return server.reached == 0


async def async_function_opens(library: Library) -> bool:
    """Failures of an `async def` open the circuit."""
    server = Server()
    call = library.on_async(2, 60)(server.function())
    await server.down(call, 6)
    return server.reached == 2


async def refusal_is_a_new_error(library: Library) -> bool:
    """Two rejections are two exceptions: the traceback of a shared object grows, and leaks between calls."""
    server = Server()
    call = library.circuit(2, 60)(server.function())
    await server.down(call, 3)
    errors = [await server.error_of(call) for _ in range(2)]
    return errors[0] is not errors[1] and not isinstance(errors[0], ConnectionRefusedError)


async def generator_is_repeated(library: Library) -> bool:
    """A generator that fails before its first item is retried."""
    calls = 0

    def numbers():
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionRefusedError
        yield from (1, 2)

    return list(library.retry_sync(3)(numbers)()) == [1, 2]


async def generator_does_not_replay(library: Library) -> bool:
    """A generator that fails later is not restarted, because its items would be yielded twice."""
    seen = []

    def numbers():
        yield 1
        raise ConnectionRefusedError

    with suppress(Exception):
        for number in library.retry_sync(3)(numbers)():
            seen.append(number)  # noqa: PERF402 -- the items before the error count
    return seen == [1]


async def nested_retries_do_not_multiply(library: Library) -> bool:
    """Three functions of three attempts each, one calling the other, call the server 3 times, not 27."""
    server = Server()
    call = server.function()
    for _ in range(3):
        call = library.retry(3)(_around(call))
    await server.down(call, 1)
    return server.reached == 3


async def obeys_retry_after(library: Library) -> bool:
    """A server that asks for ten minutes is not asked again at once."""
    server = Server(_trapped.rate_limited(600))
    call = library.retry_all(2)(server.function())
    await server.down(call, 1)
    return server.reached == 1


async def attempt_1100(library: Library) -> bool:
    """The wait before attempt 1,100 of an exponential schedule with a cap of a minute is a number, and at most that cap."""
    return 0 <= library.wait(1100) <= 60


async def errors_in_a_group(library: Library) -> bool:
    """A failure in an ExceptionGroup, as a TaskGroup raises it, is retried."""
    server = Server(ExceptionGroup("", [ConnectionRefusedError()]))
    await server.down(library.retry(3)(server.function()), 1)
    return server.reached == 3


async def awaitable_from_sync(library: Library) -> bool:
    """A sync function that returns an awaitable is retried or refused, not silently called once."""
    server = Server()
    inner = server.function()

    def call():
        return inner()

    try:
        await library.retry(3)(call)()
    except ConnectionRefusedError:
        return server.reached == 3
    except Exception:  # noqa: BLE001 -- refused
        return True
    return False


async def deadline_bounds_the_call(library: Library) -> bool:
    """A limit of 0.1 s for the whole call ends an attempt that takes a second."""
    server = Server(None)
    server.seconds = 1
    call = library.deadline(0.1)(server.function())
    began = time.monotonic()
    with suppress(Exception):
        await call()
    return time.monotonic() - began < 0.5


async def cancelled_in_a_wait(library: Library) -> bool:
    """Cancelled while it waits for its next attempt, it is over at once."""
    server = Server()
    call = library.retry(3, 5.0)(server.function())
    began = time.monotonic()
    await _cancelled(call)
    return time.monotonic() - began < 1 and server.reached == 1


async def repeats_have_a_budget(library: Library) -> bool:
    """While everything fails, 200 calls of four attempts make fewer than 300 with the library's defaults."""
    server = Server()
    call = library.retry(4)(server.function())
    await server.down(call, 200)
    return server.reached < 300


async def history_of_attempts(library: Library) -> bool:
    """The last error is the call's own, and has the errors of the attempts before it."""
    errors = [ConnectionRefusedError("one"), ConnectionResetError("two"), BrokenPipeError("three")]
    server = Server(list(errors))
    error = await server.error_of(library.retry(3)(server.function()))
    return error is errors[2] and library.history(error) == 2


async def _cancelled(call) -> None:
    """Start a call, and cancel it where it waits."""
    task = asyncio.ensure_future(call())
    await asyncio.sleep(0.02)
    task.cancel()
    with suppress(BaseException):
        await task


def _around(call):
    @functools.wraps(call)
    async def outer():
        return await call()

    return outer


TRAPS = {
    "half-open lets one through, not 20": (half_open_admits_one, "circuit"),
    "a cancelled probe neither heals nor blocks": (cancelled_probe_is_neutral, "circuit"),
    "a cancelled call counts neither way": (cancelled_call_is_neutral, "circuit"),
    "a late success does not close an open circuit": (late_success_does_not_close, "circuit"),
    "`async def` opens its circuit": (async_function_opens, "on_async"),
    "each refusal is an error of its own": (refusal_is_a_new_error, "circuit"),
    "a generator that fails at once is repeated": (generator_is_repeated, "retry_sync"),
    "one that fails later is not replayed": (generator_does_not_replay, "retry_sync"),
    "nested retries make 3 calls, not 27": (nested_retries_do_not_multiply, "retry"),
    "never earlier than Retry-After says": (obeys_retry_after, "retry_all"),
    "attempt 1,100 has a wait": (attempt_1100, "wait"),
    "an error in a group counts as one": (errors_in_a_group, "retry"),
    "an awaitable from a sync function is no success": (awaitable_from_sync, "retry"),
    "a deadline ends the call": (deadline_bounds_the_call, "deadline"),
    "cancelled in a wait, over at once": (cancelled_in_a_wait, "retry"),
    "repeats have a budget by default": (repeats_have_a_budget, "retry"),
    "the last error is yours, with its history": (history_of_attempts, "retry"),
}


async def asked(trap, library: Library) -> str:
    """Return the mark of one library at one trap."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a coroutine that a library has lost
        try:
            async with asyncio.timeout(20):
                return "✓" if await trap(library) else "✗"
        except Exception as error:  # noqa: BLE001 -- it does not even run
            print(f"{library.name}, {trap.__name__}: {error!r}", file=sys.stderr)
            return "✗"


async def main() -> None:
    """Run the traps, then print."""
    marks: dict[str, dict[str, str]] = {}
    for name, (trap, wants) in TRAPS.items():
        able = [library for library in LIBRARIES if getattr(library, wants) is not None]
        found = await asyncio.gather(*(asked(trap, library) for library in able))
        marks[name] = dict(zip((library.name for library in able), found, strict=True))
    names = [library.name for library in LIBRARIES]
    rows = [[name, *(found.get(library, "") for library in names)] for name, found in marks.items()]
    table("Traps", ["", *names], rows, PACKAGES)
    print("\nexpected:")
    for name, (trap, _) in TRAPS.items():
        print(f"- {name}: {inspect.getdoc(trap)}")


if __name__ == "__main__":
    asyncio.run(main())
