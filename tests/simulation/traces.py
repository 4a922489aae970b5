"""What is seen of whole runs of the campaign, and the golden files that hold it.

    python -m tests.simulation.traces show SEED
    python -m tests.simulation.traces write         # in a commit that changes nothing else

Seen are, with the virtual time: log lines, events with what they say, deliveries, gaps, and when a run has ended what came of each
send, the frames that the bridge received, and all metrics. No class that is not public, no id and no key: these are drawn, and drawing
one more is no change of behaviour.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

import resilient_bridge as rb
from tests.internals.testing import Simulation

from .scenario import Scenario


HERE = Path(__file__).parent
HASHES, WHOLE = HERE / "traces_hashes.txt", HERE / "traces_whole.jsonl"
SEEDS = range(1, 201)
SHOWN = range(1, 201, 10)
#: The fields of events that are compared: what they say, whatever their classes are made of.
FIELDS = frozenset(
    "previous state reason queued attempt attempts wait verdict replayed failure type outcome sends unknown reached messages "
    "name seconds feature level by waited remaining".split()
)


class Traced(Scenario):
    """A run of the campaign that writes down what is seen of it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seen: list[Any] = []
        self.registry = CollectorRegistry()
        delivered = self.ledger.delivered

        def deliver(message: Any) -> None:
            flags = [name for name in ("replayed", "redelivered", "maybe_duplicate") if getattr(message, name)]  # fmt: skip
            self.see("delivered", message.type, message.payload["n"], *flags)
            delivered(message)

        self.ledger.delivered = deliver  # type: ignore[method-assign]

    def see(self, what: str, *facts: Any) -> None:
        """Write down what happens now."""
        self.seen.append([round(asyncio.get_running_loop().time(), 3), what, *map(plain, facts)])

    def _on_event(self, event: Any) -> None:
        self.see("event", type(event).__name__, reported(event))
        super()._on_event(event)

    async def _on_gap(self, gap: rb.bridge.Gap) -> None:
        self.see("gap", gap.verdict, gap.reason, gap.missing)
        await super()._on_gap(gap)

    async def main(self, server: Any) -> None:
        """The run, with its metrics, and what came of it."""
        with rb.telemetry.prometheus.install(registry=self.registry):
            await super().main(server)
            for sample in sorted(self._samples()):
                self.seen.append(sample)
        self.seen.append(["sends", [[number, receipt.state] for number, receipt in self.receipts]])
        frames = [[each.get("type"), each.get("payload") or {}] for each in server.frames]
        self.seen.append(["frames", [[kind, payload.get("n", payload.get("r"))] for kind, payload in frames]])  # fmt: skip

    def _samples(self) -> list[Any]:
        return [
            ["metric", sample.name, json.dumps(sample.labels, sort_keys=True), round(sample.value, 3)]
            for family in self.registry.collect()
            for sample in family.samples
            if sample.value and sample.name.endswith(("_total", "_count", "_sum"))
        ]  # fmt: skip


def plain(value: Any) -> Any:
    """A value as it is compared."""
    if isinstance(value, rb.Failure):
        return f"{value.code}: {value.message}"
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return value if value is None or isinstance(value, bool | int) else str(value)


class _Lines(logging.Handler):
    def __init__(self, see: Callable[..., None]) -> None:
        super().__init__(logging.DEBUG)
        self.see = see

    def emit(self, record: logging.LogRecord) -> None:
        self.see("log", record.levelname, record.getMessage())


@contextmanager
def lines_to(see: Callable[..., None]) -> Iterator[None]:
    """Hand the lines of the log to `see`, and to nobody else."""
    logger, handler = logging.getLogger("resilient_bridge"), _Lines(see)
    before = logger.level, logger.propagate, logger.disabled
    logger.setLevel(logging.DEBUG)
    logger.propagate = logger.disabled = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate, logger.disabled = before[1:]


def reported(event: Any) -> dict[str, Any]:
    """What an event says, of the fields that are compared."""
    fields = {name: plain(value) for name, value in vars(event).items() if name in FIELDS}
    return dict(sorted(fields.items()))


def trace(seed: int) -> list[Any]:
    """What is seen of one run, as JSON gives it back."""
    traced = Traced(seed)
    with lines_to(traced.see):
        Simulation(seed, traced.plan.faults, max_steps=2_000_000, orders="fifo").run(traced.main)
    return json.loads(json.dumps(traced.seen))


def digest(seen: list[Any]) -> str:
    """The first half of the SHA-256 of a trace."""
    return hashlib.sha256(json.dumps(seen, separators=(",", ":")).encode()).hexdigest()[:32]


def golden() -> dict[int, str]:
    """The digests that the file has."""
    rows = (line.split() for line in HASHES.read_text().splitlines())
    return {int(seed): digested for seed, digested in rows}


def golden_whole() -> dict[int, list[Any]]:
    """The traces that are kept in full, a line of the file each."""
    rows = (json.loads(line) for line in WHOLE.read_text().splitlines())
    return {row["seed"]: row["seen"] for row in rows}


def main(words: list[str]) -> int:
    """One of the commands of this file's docstring."""
    match words:
        case ["show", seed]:
            sys.stdout.writelines(f"{json.dumps(line)}\n" for line in trace(int(seed)))
        case ["write"]:
            traces = {seed: trace(seed) for seed in SEEDS}
            HASHES.write_text("".join(f"{seed} {digest(seen)}\n" for seed, seen in traces.items()))
            WHOLE.write_text("".join(f"{json.dumps({'seed': seed, 'seen': traces[seed]})}\n" for seed in SHOWN))  # fmt: skip
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
