"""Simulations: a program and a bridge in virtual time, with faults; leftovers are errors.

Rule: a run is determined by its seed and its faults alone. It is clean only if nothing is left
over: no task, no open link, no error that asyncio would merely log.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from contextvars import Context, copy_context
from copy import copy
from functools import partial
from typing import Any, Final, TypeVar, overload

from ..failure import config_error
from ..failure.teaching import taught
from .faults import FaultRun, Faults
from .loop import SimulatedLoop
from .orders import ORDERS, Orders, SeededOrders
from .server import BridgeServer
from .shrinking import shrunk
from .stdlib import stdlib_follows
from .timeline import SimulationError, stream, waiting_at
from .worlds import enter_simulation


T = TypeVar("T")
Server = TypeVar("Server")

_ENDS: Final = (KeyboardInterrupt, SystemExit)
_SETTLE: Final = 1.0  # virtual seconds in which cancelled tasks and closed links may end
# runs between two full collections: errors in cyclic garbage are found late, but are found
_COLLECT_EVERY: Final = 64


@overload
def simulate(
    main: Callable[[BridgeServer], Coroutine[Any, Any, T]],
    /,
    *,
    seed: int = 0,
    faults: Faults | None = None,
    orders: Orders = "seeded",
    shrink: bool = False,
    patch_stdlib: bool = False,
) -> T: ...


@overload
def simulate(
    main: Callable[[], Coroutine[Any, Any, T]],
    /,
    *,
    server: None,
    seed: int = 0,
    faults: Faults | None = None,
    orders: Orders = "seeded",
    shrink: bool = False,
    patch_stdlib: bool = False,
) -> T: ...


@overload
def simulate(
    main: Callable[[Server], Coroutine[Any, Any, T]],
    /,
    *,
    server: Callable[..., AbstractAsyncContextManager[Server]],
    seed: int = 0,
    faults: Faults | None = None,
    orders: Orders = "seeded",
    shrink: bool = False,
    patch_stdlib: bool = False,
) -> T: ...


@taught
def simulate(
    main: Callable[..., Coroutine[Any, Any, T]],
    /,
    *,
    seed: int = 0,
    faults: Faults | None = None,
    server: Callable[..., AbstractAsyncContextManager[Any]] | None = BridgeServer,
    orders: Orders = "seeded",
    shrink: bool = False,
    patch_stdlib: bool = False,
) -> T:
    """Run `await main(server)` in virtual time, with a bridge that already listens, and return its
    result.

        async def main(server: rb.testing.BridgeServer) -> str:
            async with rb.BridgeClient(server.url) as bridge:
                receipt = await bridge.send("note", {"text": "hello"})
                return await receipt.confirmed()
        print(rb.testing.simulate(main, seed=7))      # applied

    The loop, the network, the package's clocks, random numbers and ids are simulated, and the
    `random` module is seeded: the same arguments give the same run. `server` makes the bridge: it
    is called with `wall=` and `rng=` and returns an async context manager, as `BridgeServer` and
    `functools.partial(LogBridge, field="seq")` do; a fault of the bridge happens only if the bridge
    has a method for it. With `server=None` there is none, and `main` is called without arguments.

    `orders` says which task goes on when several could: "seeded" draws it, so that other seeds try
    other orders; "pct" draws few switches, and so lets one task get far ahead of the others;
    "fifo" is asyncio's own order. Callbacks keep asyncio's order in each of them, and a task that
    yields with `sleep(0)` lets the others go first.

    `shrink=True`, of a run in the order "seeded" that fails: `main` is run again, at most 300
    times, with fewer and fewer differences from asyncio's own order, as long as it raises an error
    of the same class; a note of the error names the last of them, and which task ran before which.

    `patch_stdlib=True` makes the rest of the program follow the seed: `time.time`, `monotonic`,
    `perf_counter` and `sleep`, `os.urandom`, and with it `uuid4` and `secrets`. Names imported by
    `from time import ...` and `datetime.now` stay real.

    What `main` raises is raised, with a note that names the run. Raises `SimulationError` if it
    leaves tasks, open links or errors behind, `SimDeadlock` if nothing can run any more,
    `SimOverrun` if it exceeds its limit of steps or virtual seconds; ConfigError for another word
    in `orders`. Call it from a plain function, not from a coroutine.
    """
    simulation = Simulation(seed, faults, server=server, orders=orders, patch_stdlib=patch_stdlib)
    return simulation.shrinking(main) if shrink else simulation.run(main)


class Simulation:
    """One run and its results.

    `server` makes the bridge, as BridgeServer does: called with `wall` and `rng`, it returns an
    async context manager. After `run()`: `trace_hash`, `virtual_seconds`, `steps`, `faults_fired`
    (count by kind), `loop`.
    """

    _runs = 0
    _strays: Final[list[str]] = []

    def __init__(
        self,
        seed: int = 0,
        faults: Faults | None = None,
        *,
        server: Callable[..., AbstractAsyncContextManager[Any]] | None = BridgeServer,
        max_steps: int = 10_000_000,
        max_seconds: float = 604_800.0,
        orders: Orders = "seeded",
        patch_stdlib: bool = False,
    ) -> None:
        if orders not in tuple(ORDERS):
            raise config_error("simulate.orders", f"one of {', '.join(ORDERS)}", orders)
        self.seed = seed
        self.faults = faults
        self.orders = orders
        self.virtual_seconds = 0.0
        self.loop: SimulatedLoop | None = None
        self.faults_fired: Mapping[str, int] = {}
        self._server = server
        self._patch_stdlib = patch_stdlib
        self._limits: dict[str, Any] = {
            "max_steps": max_steps,
            "max_seconds": max_seconds,
            "orders": orders,
        }
        self._problems: list[str] = []

    def __repr__(self) -> str:
        return f"Simulation(seed={self.seed}, faults={self.faults!r}, orders={self.orders!r})"

    @property
    def trace_hash(self) -> str:
        """A digest of every noted event (`Timeline.note`), with its virtual time; empty before the
        run.
        """
        return "" if self.loop is None else self.loop.trace_hash()

    @property
    def steps(self) -> int:
        return 0 if self.loop is None else self.loop.steps

    def run(self, main: Callable[..., Coroutine[Any, Any, T]]) -> T:
        """Run once on a new loop; see `simulate` for the result and the errors."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            msg = "simulate() has a loop of its own: call it from a plain function, not within a running loop"
            raise SimulationError(msg)
        label = f"seed={self.seed}, faults={self.faults!r}, orders={self.orders!r}"
        self.loop = loop = SimulatedLoop(seed=self.seed, label=label, **self._limits)
        self._problems = []
        patched = stdlib_follows(loop, stream(self.seed, "stdlib"))
        with _reproducible(self.seed), patched if self._patch_stdlib else nullcontext():
            try:
                result = self._drive(loop, main)
            except BaseException as error:
                error.add_note(f"in {self!r} after {loop.time():.3f} virtual seconds")
                raise
            loop.strays = Simulation._strays
            Simulation._runs += 1
            if Simulation._runs % _COLLECT_EVERY == 0:
                gc.collect()
        self._judge()
        return result

    def shrinking(self, main: Callable[..., Coroutine[Any, Any, T]]) -> T:
        """Run once; if that fails, run again with fewer switches, and note the last of them."""
        if self.orders != "seeded":
            raise config_error("simulate.shrink", "orders='seeded'", self.orders)
        try:
            return self.run(main)
        except _ENDS:
            raise
        except BaseException as error:
            again = copy(self)
            again._limits = {**self._limits}  # noqa: SLF001 - its own
            error.add_note(shrunk(partial(again._failure, main), type(error)))  # noqa: SLF001 - its own
            raise

    def _failure(
        self,
        main: Callable[..., Coroutine[Any, Any, Any]],
        orders: Callable[[random.Random], SeededOrders],
    ) -> BaseException | None:
        self._limits["orders"] = orders
        try:
            self.run(main)
        except _ENDS:
            raise
        except BaseException as error:  # noqa: BLE001 - pytest has such, too
            return error
        return None

    def _drive(self, loop: SimulatedLoop, main: Callable[..., Coroutine[Any, Any, T]]) -> T:
        runner = asyncio.Runner(loop_factory=lambda: loop)
        try:
            result = runner.run(self._scenario(loop, main))
        except BaseException:
            with suppress(SimulationError):  # the first failure is the one to report
                runner.close()
            raise
        try:
            runner.close()
        except SimulationError as error:
            self._problems.append(f"what was left did not end when cancelled: {error}")
        return result

    async def _scenario(
        self, loop: SimulatedLoop, main: Callable[..., Coroutine[Any, Any, T]]
    ) -> T:
        async with self._made_server(loop) as server:
            fault_run = FaultRun(self.faults or Faults(script=()), loop, server)
            self.faults_fired = fault_run.fired
            try:
                result = await loop.create_task(
                    main() if self._server is None else main(server),
                    name="main",
                    context=self._environment(loop),
                )
            finally:
                self.virtual_seconds = loop.time()
                await fault_run.finish()
            await asyncio.sleep(_SETTLE)
            for link in loop.network.links:
                if not link.up.sender.is_gone:
                    self._problems.append(f"open link: {link!r}")
        await asyncio.sleep(_SETTLE)
        this = asyncio.current_task()
        for task in sorted(asyncio.all_tasks(), key=hash):
            if task is not this:
                self._problems.append(f"leaked task: {waiting_at(task)}")
        self._problems += [f"error in the loop: {text}" for text in loop.errors]
        return result

    def _made_server(self, loop: SimulatedLoop) -> AbstractAsyncContextManager[Any]:
        if self._server is None:
            return nullcontext()
        return self._server(wall=loop.true_time, rng=stream(self.seed, "server"))

    def _environment(self, loop: SimulatedLoop) -> Context:
        """Return the context where client and policies use this run's clocks and random streams."""
        context = copy_context()
        context.run(
            enter_simulation, loop, stream(self.seed, "policies"), stream(self.seed, "user")
        )
        return context

    def _judge(self) -> None:
        problems, strays = [*self._problems], Simulation._strays
        problems += [f"left by an earlier run: {text}" for text in strays]
        strays.clear()
        if problems:
            lines = "".join(f"\n  {problem}" for problem in problems)
            msg = f"{self!r} left {len(problems)} thing(s) behind:{lines}"
            raise SimulationError(msg)


@contextmanager
def _reproducible(seed: int) -> Generator[None]:
    """Seed the random module, which libraries use, and stop automatic garbage collection."""
    state, collects = random.getstate(), gc.isenabled()
    gc.disable()
    random.seed(f"{seed}/random")
    try:
        yield
    finally:
        random.setstate(state)
        if collects:
            gc.enable()
