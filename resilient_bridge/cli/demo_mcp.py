"""`resilient-bridge demo --mcp`: tool calls through a sidecar to an MCP server that dies.

Rule: the server is the trap, which shares no code with the sidecar; its ledger on disk says what
ran, whatever the client was told.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from .. import Backoff, Breaker
from ..adapters.sidecar import message
from ..adapters.sidecar.options import Sidecar
from ..adapters.sidecar.outcomes import PREFIX
from ..adapters.sidecar.serving import running_relay
from ..testing import mcp_trap_ledger
from ..testing.mcp_trap import Trap
from ..testing.mcp_trap_plan import TrapStrike
from .demo_table import READ, Call, Screen, until


if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from ..adapters.sidecar.message import Key, Message


_PATIENCE: Final = 15.0  # seconds for what takes far less
_TOOLS: Final = {"order": {"item": "tea"}, "put": {"key": "tea", "value": "green"}, READ: {}}
_CALLS: Final = (  # what happens before the call, its tool, and what the trap does with each send
    ("killed", "order", "answer"),
    ("", "order", "before"),
    ("", "order", "after"),
    ("", "order", "middle"),
    ("", "order", "hang"),
    ("", READ, "after,answer"),
    ("", "put", "before,answer"),
    ("away", "order", ""),
)
_GOOD: Final = ("", "order", "answer")
_HELLO: Final = {
    "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "resilient-bridge demo", "version": "0"},
}  # fmt: skip


async def play(rng: random.Random, seed: int, screen: Screen) -> dict[str, Any]:
    """Make the calls in an order that `rng` decides; return the totals."""
    plan = [_GOOD, *rng.sample(_CALLS, len(_CALLS)), _GOOD]
    screen.show(
        f"An MCP client, the sidecar, and a server that dies: {len(plan)} tool calls, seed {seed}.",
        "",
    )
    screen.row(Call.FORM, tuple(Call.FORM))
    calls, broken = list[Call](), list[str]()
    with TemporaryDirectory(prefix="resilient-bridge-demo-") as folder:
        file = Path(folder, "ledger", "effects.jsonl")
        file.parent.mkdir()
        trap = Trap(file, plan=",".join(steps for _, _, steps in plan if steps))
        client = Client(trap)
        screen.live = lambda: f"call {len(calls) + 1} of {len(plan)}: {client.note}"
        try:
            await client.ask("initialize", _HELLO)
            client.relay.receive(client, message.notification("notifications/initialized"))
            for act, tool, _ in plan:
                if screen.stopped.is_set():
                    break
                calls.append(await client.call(act, tool, f"{tool}-{len(calls) + 1}"))
                screen.row(Call.FORM, calls[-1].cells)
        except TimeoutError as error:
            broken.append(f"ended early: {error}")
        finally:
            await client.relay.close()
        found = totals(calls, trap)
    return found | {"seed": seed, "broken": [*found["broken"], *broken]}


def totals(calls: list[Call], trap: Trap) -> dict[str, Any]:
    """Compare what the client was told with the ledger of the trap, as it is at the end."""
    counts = Counter(call.outcome for call in calls)
    twice = [effect.marker for effect in trap.repeats()]
    unsaid = [
        call.marker for call in calls if call.outcome == "not_executed" and trap.ran(call.marker)
    ]
    writes = [call for call in calls if call.outcome == "answered" and call.tool != READ]
    never = [call.marker for call in writes if not trap.ran(call.marker)]
    found = {
        "ran twice without permission": twice,
        "said not executed, but ran": unsaid,
        "said answered, but never ran": never,
    }
    return {
        "calls": calls,
        "sent": len(calls),
        **{outcome: counts[outcome] for outcome in ("answered", "unknown", "not_executed")},
        "restarted": sum(call.is_restarted for call in calls),
        "starts": trap.starts(),
        "ran_twice": len(twice),
        "ran_unsaid": len(unsaid),
        "never_ran": len(never),
        "unknown_ran": sum(
            call.outcome == "unknown" and trap.ran(call.marker) > 0 for call in calls
        ),
        "broken": [f"{what}: {', '.join(markers)}" for what, markers in found.items() if markers],
    }


class Client:
    """A client of the relay, in its event loop. `note` is the last change of the server, in words."""

    def __init__(self, trap: Trap) -> None:
        sidecar = Sidecar(
            command=trap.command,
            patience=3,
            timeouts={"order": 2},
            idempotent=("put",),
            backoff=Backoff.steps(0, then=Backoff.constant(0.2)),
            circuit=Breaker.consecutive(99),
        )
        self.note, self.is_up = "the server starts", False
        self.relay = running_relay(sidecar, self._on_note)
        self.relay.connect(self)
        self._trap, self._finished = trap, dict[str, Any]()
        self._answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def deliver(self, message: Message, request: Key | None) -> None:
        """Take the answer to the one request that is open; the trap sends nothing else that matters."""
        del request
        if message.is_answer and not self._answer.done():
            self._answer.set_result(message)

    def drop(self, request: Key) -> None:
        """Do nothing: this client cancels no request."""

    def _on_note(self, record: Mapping[str, Any], line: str) -> None:
        self.note = line.partition(";")[0] or self.note
        if record["event"] in {"server_ready", "server_lost"}:
            self.is_up = record["event"] == "server_ready"
        elif record["event"] == "call_finished":
            self._finished = dict(record)

    async def ask(self, method: str, params: Mapping[str, Any]) -> Message:
        """Send a request, and return its answer. Raises TimeoutError."""
        self._answer = asyncio.get_running_loop().create_future()
        self.relay.receive(self, message.request(method, method, params))
        if not await until(self._answer.done, _PATIENCE):
            raise TimeoutError(f"an answer to {method} expected within {_PATIENCE:g} s, got none")
        return self._answer.result()

    async def call(self, act: str, tool: str, marker: str) -> Call:
        """Call a tool, after the server has been killed, or cannot be started any more, if `act` says so."""
        await until(lambda: self.is_up, _PATIENCE)
        file = self._trap.ledger
        starts, before = (mcp_trap_ledger.records(file, event) for event in ("start", "call"))
        gone = file.parent.with_name("gone")
        if act == "away":
            file.parent.rename(gone)  # a server without its ledger ends at once
        if act:
            with suppress(ProcessLookupError):
                os.kill(starts[-1]["pid"], getattr(signal, "SIGKILL", signal.SIGTERM))
            await until(lambda: not self.is_up, _PATIENCE)
        answer = await self.ask(
            "tools/call", {"name": tool, "arguments": {"marker": marker, **_TOOLS[tool]}}
        )
        if act == "away":
            gone.rename(file.parent)
        strikes = [
            TrapStrike(one["strike"])
            for one in mcp_trap_ledger.records(file, "call")[len(before) :]
        ]
        return Call(
            server=act or (strikes[0].value if strikes else "away"),
            tool=tool,
            marker=marker,
            seconds=self._finished["seconds"],
            ran=sum(strike.has_effect for strike in strikes),
            sends=self._finished["sends"],
            outcome=self._finished["outcome"],
            is_restarted=f"{PREFIX}/restarted" in answer.result.get("_meta", {}),
        )
