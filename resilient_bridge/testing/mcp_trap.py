"""A trap for blind repeats: an MCP server that dies before, during and after a call, and a ledger on disk of what its tools did.

    python -m resilient_bridge.testing.mcp_trap --ledger effects.jsonl --seed 7             over standard input and output
    python -m resilient_bridge.testing.mcp_trap --ledger effects.jsonl --http 7777          streamable HTTP on loopback
    python -m resilient_bridge.testing.mcp_trap --ledger effects.jsonl --check              what was done twice; 1 if anything was

Rule: standard library only. The ledger is the judge, whatever the client was answered.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import mcp_trap_ledger
from .mcp_trap_ledger import TrapEffect
from .mcp_trap_plan import Plan, TrapStrike, steps_of


_AWAY = 0.2  # seconds for which the port refuses after a death


@dataclass(frozen=True, init=False)
class Trap:
    """A server to test an MCP client, proxy or agent with. `command` starts it, `http()` runs it in
    this process, and the ledger records what was done.

        def test_an_order_is_made_once(tmp_path: Path) -> None:
            trap = rb.mcp.Trap(tmp_path / "ledger.jsonl", plan=["after"])
            run_my_client(trap.command)
            trap.assert_no_repeats()

    Its tools are `order` (a write), `put` (an idempotent write, which says so) and `list_orders` (a
    read, which says so). The writes take a `marker`: another one for each thing that your client
    wants done. Each call takes the next step of the plan, also after a restart.
    """

    ledger: Path
    plan: Plan

    def __init__(
        self,
        ledger: Path | str,
        *,
        seed: int = 0,
        rate: float = 0.5,
        plan: str | Iterable[TrapStrike | str] = (),
    ) -> None:
        """Write to the file `ledger`, which need not exist.

        `plan`: what happens to the first, second, … call (`TrapStrike`, its names, or
        "after,before"); later ones are answered. Without a plan a call is struck with the
        probability `rate`, as drawn from `seed`. ValueError names what is wrong with it.
        """
        if not 0 <= rate <= 1:
            raise ValueError(f"rate: wanted 0 to 1, got {rate!r}")
        object.__setattr__(self, "ledger", Path(ledger).absolute())
        object.__setattr__(self, "plan", Plan(seed, rate, steps_of(plan)))

    @property
    def command(self) -> tuple[str, ...]:
        """The command of the server over standard input and output."""
        plan = (
            ["--plan", ",".join(step.value for step in self.plan.steps)] if self.plan.steps else []
        )
        module = (
            sys.executable,
            "-m",
            "resilient_bridge.testing.mcp_trap",
            "--ledger",
            str(self.ledger),
        )
        return (*module, "--seed", str(self.plan.seed), "--rate", str(self.plan.rate), *plan)

    @contextmanager
    def http(self, port: int = 0, *, away: float = _AWAY) -> Generator[str, None, None]:
        """Run the server over streamable HTTP in threads of this process while the block lasts; the
        value is its URL.

        `port`: of 127.0.0.1; any, if 0. `away`: for how many seconds it refuses connections after a
        death.
        """
        from .mcp_trap_http import TrapOverHTTP

        with TrapOverHTTP(self.ledger, self.plan, port, away) as server:
            yield server.url

    def effects(self) -> list[TrapEffect]:
        """Return what the tools did, in order."""
        return mcp_trap_ledger.effects(self.ledger)

    def ran(self, marker: str) -> int:
        """Return how often something was done with this marker: compare it with what your client
        says.
        """
        return sum(effect.marker == marker for effect in self.effects())

    def repeats(self) -> list[TrapEffect]:
        """Return the effects that are harmful repeats.

        These are each `order` with a marker that was ordered before, and each `put` that undid a
        later one: its marker was put before, and something else to the same key in between.
        """
        return mcp_trap_ledger.repeats(self.effects())

    def strikes(self) -> Counter[TrapStrike]:
        """Return how often each thing happened to a call, `ANSWER` included."""
        calls = mcp_trap_ledger.records(self.ledger, "call")
        return Counter(TrapStrike(call["strike"]) for call in calls)

    def starts(self) -> int:
        """Return how often the server was started, or came back over HTTP."""
        return len(mcp_trap_ledger.records(self.ledger, "start"))

    def assert_no_repeats(self) -> None:
        """AssertionError if anything was done again, or if no tool was called at all."""
        if not self.strikes():
            raise AssertionError("wanted calls of the trap's tools, got none: nothing was tried")
        wrong = [
            f"call {effect.call}: {effect.tool} {effect.marker!r} was done again ({self.ran(effect.marker)} times in all)"
            for effect in self.repeats()
        ]
        if wrong:
            raise AssertionError("\n".join(wrong))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server, or check the ledger, as the command line says; return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        trap = Trap(asked.ledger, seed=asked.seed, rate=asked.rate, plan=asked.plan or ())
        if asked.check:
            return _check(trap)
        if asked.http is not None:
            with trap.http(asked.http, away=asked.away) as url:
                sys.stdout.write(f"{url}\n")
                sys.stdout.flush()
                threading.Event().wait()
        from .mcp_trap_stdio import serve_stdio

        serve_stdio(trap.ledger, trap.plan)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m resilient_bridge.testing.mcp_trap",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--ledger", required=True, metavar="FILE", help="what the tools did, one JSON a line"
    )
    parser.add_argument("--seed", type=int, default=0, help="which calls fail, and how")
    parser.add_argument(
        "--rate", type=float, default=0.5, help="how many of them, 0 to 1 (default 0.5)"
    )
    names = ", ".join(kind.value for kind in TrapStrike)
    parser.add_argument(
        "--plan", metavar="STEP,…", help=f"instead of a seed, one step a call: {names}"
    )
    parser.add_argument(
        "--http", type=int, metavar="PORT", help="streamable HTTP on 127.0.0.1; 0: any port"
    )
    parser.add_argument(
        "--away", type=float, default=_AWAY, metavar="SECONDS", help="how long it is gone over HTTP"
    )
    parser.add_argument("--check", action="store_true", help="judge the ledger, and serve nothing")
    return parser


def _check(trap: Trap) -> int:
    strikes = ", ".join(f"{strike.value} {count}" for strike, count in trap.strikes().items())
    sys.stdout.write(f"{len(trap.effects())} effects; calls: {strikes or 'none'}\n")
    try:
        trap.assert_no_repeats()
    except AssertionError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write("nothing was done twice\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
