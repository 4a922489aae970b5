"""Lives of a program that asks for one effect, each ended where it is wanted to be: at any line of the gate, the ledger or the file.

    python -m tests.stores.effects_lives        reads one JSON object a line, answers each with one line

Each life is a fork of this process. `door`: how it asks. `stop_at`: the number of the line of ours at which it ends; 0: none. `stop`:
"kill" (SIGKILL) or "stop" (SIGSTOP: it is alive, and does nothing, until its parent kills it). The effect is a line in `effects`, which
`verify` looks at. What the caller got is written to `got` at once, so that a life that was killed later has it.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import resilient_bridge as rb
from resilient_bridge.agent import Toolbox, Workflow
from resilient_bridge.stores import NOT_RUN, Effects, Ran
from tests.adapters.sidecar.harness import Harness, result_text, tool


ROOT = Path(rb.__file__).parent
TRACED = tuple(
    str(ROOT / each)
    for each in (
        "calls/effects.py",
        "stores/effects.py",
        "stores/sqlite",
        "adapters/sidecar/effects.py",
        "agent/workflow",
    )
)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Lines:
    """Counts the lines of ours that run, and ends the process at one of them."""

    def __init__(self, stop_at: int, stop: str) -> None:
        self.passed = 0
        self._stop_at = stop_at
        self._signal = signal.SIGKILL if stop == "kill" else signal.SIGSTOP

    def point(self) -> None:
        self.passed += 1
        if self.passed == self._stop_at:
            os.kill(os.getpid(), self._signal)

    def trace(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(TRACED):
            return None
        if event in ("line", "return"):
            self.point()
        return self.trace


class Life:
    """One process: a shop whose payments are lines of a file."""

    def __init__(self, wanted: dict[str, Any], lines: Lines) -> None:
        self.wanted, self.lines = wanted, lines
        self.paid = Path(wanted["root"]) / "paid"

    def pay(self, order: str, amount: int = 1) -> str:
        self.lines.point()
        with self.paid.open("a") as file:
            file.write(f"{order} {amount}\n")
        self.lines.point()
        return self.receipt()

    def receipt(self) -> str:
        return "paid A-7 12"

    def find(self, call: Any) -> Any:
        """What became of it: the shop knows."""
        found = self.paid.exists() and "A-7 12\n" in self.paid.read_text()
        return Ran(self.receipt()) if found else NOT_RUN

    def effects(self) -> Effects:
        verify = {"pay": self.find} if self.wanted["verifies"] else None
        return Effects(Path(self.wanted["root"]) / "effects.db", verify=verify)

    # ---- the doors: each returns what the caller got

    def policy(self) -> str:
        policy = rb.Policy(rb.Retry(attempts=3))
        pay = policy(idempotent=False, effects=self.effects(), name="pay")(self.pay)
        return pay(**self.wanted["arguments"])

    def policy_async(self) -> str:
        async def pay(order: str, amount: int = 1) -> str:
            return self.pay(order, amount)

        policy = rb.Policy(rb.Retry(attempts=3), rb.Timeout(60))
        guarded = policy(idempotent=False, effects=self.effects(), name="pay")(pay)
        return asyncio.run(guarded(**self.wanted["arguments"]))

    def toolbox(self) -> str:
        toolbox = Toolbox(effects=self.effects())

        @toolbox.tool
        async def pay(order: str, amount: int = 1) -> str:
            return self.pay(order, amount)

        async def main() -> str:
            outcome = await toolbox.call("pay", json.dumps(self.wanted["arguments"]))
            if outcome.error is not None:
                raise outcome.error
            return outcome.value

        return asyncio.run(main())

    def phase(self) -> str:
        toolbox = Toolbox(effects=self.effects())
        root = Path(self.wanted["root"])
        flow = Workflow(root / "state.json", name="shop", root=root, tools=toolbox)
        got: list[str] = []

        @toolbox.tool
        async def pay(order: str, amount: int = 1) -> str:
            return self.pay(order, amount)

        @flow.phase(name="pay")
        async def paying(phase: Any) -> None:
            got.append(await phase.call("pay", self.wanted["arguments"]))
            self.lines.point()
            (root / "receipt").write_text(got[0])

        report = asyncio.run(flow.run())
        if report.status == "completed":  # perhaps by an earlier life
            return (root / "receipt").read_text()
        ran = "ALREADY RAN" in str(report.errors)
        details = {"first": "ran" if ran else "unknown"}
        failure = rb.Failure.of("SYS_EFFECT_HELD", report.explain(), details=details)
        raise rb.errors.EffectHeldError(failure)

    def sidecar(self) -> str:
        path = str(Path(self.wanted["root"]) / "effects.db")
        verify = {"pay": "find"} if self.wanted["verifies"] else {}
        harness = Harness(ledger=Effects(path), effects=path, verify=verify)
        harness.now += self.wanted["seconds"]
        schema = {"properties": {"order": {}, "amount": {"default": 1}}}
        harness.tools = [
            tool("pay") | {"inputSchema": schema},
            tool("find", readOnlyHint=True) | {"inputSchema": schema},
        ]

        def call(request: Any) -> dict[str, Any]:
            if request.params["name"] == "find":
                found = self.find(None)
                text = found.answer if isinstance(found, Ran) else ""
            else:
                text = self.pay(**request.params["arguments"])
            return {"content": [{"type": "text", "text": text}]}

        harness.auto["tools/call"] = call
        client = harness.client().open()
        client.ask(1, "tools/call", {"name": "pay", "arguments": self.wanted["arguments"]})
        text = result_text(client.answer(1))
        if text.startswith("paid"):
            return text
        code = client.answer(1).result["_meta"]["io.github.resilient-bridge/reason"]
        first = {"identical_ran": "ran", "identical_in_doubt": "unknown"}.get(code, "unreadable")
        failure = rb.Failure.of("SYS_EFFECT_HELD", text, details={"first": first})
        raise rb.errors.EffectHeldError(failure)


def live(wanted: dict[str, Any]) -> dict[str, Any]:
    """One life, in this process; what it came to."""
    if wanted.get("limit"):  # bytes of a file: a full disk
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (wanted["limit"], wanted["limit"]))
    lines = Lines(wanted["stop_at"], wanted["stop"])
    life = Life(wanted, lines)
    with rb.testing.virtual_time(start=START + timedelta(seconds=wanted["seconds"])):
        threading.settrace(lines.trace)
        sys.settrace(lines.trace)
        try:
            got = {"answer": getattr(life, wanted["door"])()}
        except rb.errors.EffectHeldError as error:
            got = {"held": error.failure.details["first"]}
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
    Path(wanted["root"], "got").write_text(json.dumps(got))
    lines.point()
    return got | {"lines": lines.passed}


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    stopped: dict[int, int] = {}  # processes that are stopped, with the ends of their pipes
    for line in sys.stdin:
        wanted = json.loads(line)
        if wanted.get("end"):  # of one that is stopped
            os.kill(wanted["end"], signal.SIGKILL)
            os.waitpid(wanted["end"], 0)
            os.close(stopped.pop(wanted["end"]))
            tell(json.dumps({"killed": 9}))
            continue
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            try:
                came_to = live(wanted)
            except BaseException as error:  # noqa: BLE001 -- the parent says it
                came_to = {"error": f"{type(error).__name__}: {error}"}
            os.write(writing, json.dumps(came_to).encode())
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            stopped[child] = reading
            tell(json.dumps({"stopped": child}))
            continue
        with os.fdopen(reading) as answer:
            stated = answer.read()
        tell(stated or json.dumps({"killed": os.WTERMSIG(status)}))


if __name__ == "__main__":
    main()
