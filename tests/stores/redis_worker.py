"""A second process of the tests of RedisState: does what it is told, a line of JSON each way.

Rule: it is a program of its own, as a worker of somebody's would be. Commands: `fail N`, `call N`,
`race N` (from so many threads and tasks at once), `ended` (how many of those have), `free` (the others), `repeat N` (failing calls of
two attempts each), `state`, `isolate`, `reset`. Each answer says what came of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import resilient_bridge as rb
from resilient_bridge.stores import RedisState
from tests.internals.telemetry import muted
from tests.peers.zygote import PYTHON


ROOT = Path(__file__).parents[2]


class Down(Exception):  # noqa: N818
    """What the other side does."""


class Program:
    """The functions of one process that shares what `settings` say."""

    def __init__(self, state: RedisState, settings: dict[str, Any]) -> None:
        self.failing = False
        self.gate = threading.Event()
        self.gate.set()
        breaker = rb.Breaker.consecutive(
            settings.get("failures", 5),
            open_for=settings.get("open_for", 30),
            lease=settings.get("lease", 30),
            key=settings["key"],
        )
        retry = rb.Retry(attempts=1, on=Down, budget=None)
        policy = rb.Policy(retry, breaker, state=state)
        budget = rb.RetryBudget(
            ratio=settings.get("ratio", 0), floor=settings.get("floor", 10), key=settings["key"]
        )
        repeats = rb.Policy(
            rb.Retry(attempts=2, on=Down, backoff=rb.Backoff.constant(0), budget=budget),
            state=state,
        )
        self.circuit = rb.calls.circuit(policy)
        may = policy(idempotent=True)  # what it does is counted, and is harmless twice
        self.sync, self.task = may(self._sync), may(self._task)
        self.repeated = repeats(idempotent=True)(self._fail)
        self.attempts = 0
        self.came: list[str] = []  # how the calls of a race ended, so far
        self.racing: list[threading.Thread] = []

    def _sync(self) -> str:
        self.gate.wait(10)
        if self.failing:
            raise Down
        return "ok"

    async def _task(self) -> str:
        while not self.gate.is_set():
            await asyncio.sleep(0.005)
        if self.failing:
            raise Down
        return "ok"

    def _fail(self) -> None:
        self.attempts += 1
        raise Down

    def calls(self, number: int, *, failing: bool) -> dict[str, int]:
        """Call so many times, one after the other."""
        self.failing = failing
        return dict(Counter(_outcome(rb.capture(self.sync)) for _ in range(number)))

    def race(self, number: int) -> str:
        """Call from so many threads and as many tasks at once; those that are let in stay until `free`."""
        self.failing = False
        self.gate.clear()
        self.came = []
        begin = threading.Barrier(number + 1)

        def call() -> None:
            begin.wait()
            self.came.append(_outcome(rb.capture(self.sync)))

        async def one() -> None:
            self.came.append(_outcome(await rb.capture(self.task)))

        async def tasks() -> None:
            begin.wait()
            await asyncio.gather(*(one() for _ in range(number)))

        self.racing = [threading.Thread(target=call) for _ in range(number)]
        self.racing.append(threading.Thread(target=lambda: asyncio.run(tasks())))
        for thread in self.racing:
            thread.start()
        return "begun"

    def free(self) -> dict[str, int]:
        """Let those end that were let in; return how all ended."""
        self.gate.set()
        for thread in self.racing:
            thread.join()
        return dict(Counter(self.came))

    def repeats(self, number: int) -> dict[str, int]:
        """Make so many calls that fail, and are repeated if the budget says so."""
        before = self.attempts
        for _ in range(number):
            rb.capture(self.repeated)
        return {"repeats": self.attempts - before - number}


def _outcome(outcome: Any) -> str:
    return "ok" if outcome.failure is None else str(outcome.failure.code)


class Worker:
    """The other end, in the test: `worker.ask("call", 3)`; `send` and `answer` where several go at once."""

    def __init__(self, **settings: Any) -> None:
        self._process = subprocess.Popen(
            [*PYTHON, __file__, json.dumps(settings)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, command: str, number: int = 1) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command} {number}\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the second process has ended"
        return json.loads(line)

    def ask(self, command: str, number: int = 1) -> Any:
        self.send(command, number)
        return self.answer()

    def kill(self) -> None:
        """End it in the middle of everything (SIGKILL)."""
        self._process.kill()

    def __enter__(self) -> Self:
        assert self.answer() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # the end of its loop
        try:
            code = self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
        assert kind is not None or code in (0, -signal.SIGKILL)


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main(settings: dict[str, Any]) -> None:
    """Obey until the input ends."""
    state = RedisState(settings["url"], **settings.get("options", {}))
    program = Program(state, settings)
    answers: dict[str, Any] = {
        "call": lambda n: program.calls(n, failing=False),
        "fail": lambda n: program.calls(n, failing=True),
        "race": program.race,
        "ended": lambda _: len(program.came),
        "free": lambda _: program.free(),
        "repeat": program.repeats,
        "state": lambda _: program.circuit.state,
        "isolate": lambda _: program.circuit.isolate(),
        "reset": lambda _: program.circuit.reset(),
    }
    _say("ready")
    with muted():  # nothing on the test's stderr
        for line in sys.stdin:
            command, number = line.split()
            _say(answers[command](int(number)))
    state.close()
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
