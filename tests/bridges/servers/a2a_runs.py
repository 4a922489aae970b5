"""A2A in the fifty runs: the artifacts of a task, read by `rb.links.EventSource` that subscribes again after each loss.

There are no ids and no cursor: each new connection is told as UNKNOWN(no_event_id) in its place, and begins with a snapshot of the task, which
replaces what the reader had. While the server lives, no snapshot lacks what was there before, and live artifacts go on behind it. A task that
the server has forgotten is answered by an error that is no stream, which ends the reader.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx

import resilient_bridge as rb
from tests.bridges.servers import a2a
from tests.bridges.servers.line_faults import AT_ONCE
from tests.bridges.servers.sse_runs import READ_TIMEOUT, StreamRun


class A2ARun(StreamRun):
    """Each stream is a task."""

    name = "a2a"

    def __init__(self, server: Any, seed: int) -> None:
        """No task yet."""
        super().__init__(server, seed)
        self.markers: list[str] = []

    async def begin(self) -> None:
        """A task that is worked on."""
        self.numbers: list[int] = []
        self.has_snapshot = self.is_after_gap = self.is_gone = self.is_over = False
        self.markers.append(f"{self.seed}-{len(self.markers)}")
        self.task = await self.server.begin_task(self.markers[-1])

    def source(self, client: httpx.AsyncClient) -> rb.links.EventSource:
        """The subscription is a POST, and sent on each attempt."""
        return rb.links.EventSource(
            client,
            self.through_proxy(self.server.url),
            method="POST",
            headers=a2a.HEADERS,
            content=json.dumps(a2a.question("SubscribeToTask", id=self.task)),
            reconnect=AT_ONCE,
            read_timeout=READ_TIMEOUT,
            on_gap=self.report,
        )

    def take(self, event: Any) -> bool:
        """A snapshot, an artifact, or the end of the task."""
        result = json.loads(event.data)["result"]
        if "task" in result:
            self._take_snapshot(
                [int(each["artifactId"]) for each in result["task"].get("artifacts", ())]
            )
        elif "artifactUpdate" in result:
            self._take_number(int(result["artifactUpdate"]["artifact"]["artifactId"]))
        elif result["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED":
            self.is_over = True
            return False
        return True

    def _take_snapshot(self, numbers: list[int]) -> None:
        if self.has_snapshot and not self.is_after_gap:
            self.wrong("a snapshot came again, and no gap was reported before it")
        if self.numbers != numbers[: len(self.numbers)]:
            self.wrong(f"the snapshot {numbers} does not go on from {self.numbers}")
        self.seen.verdicts["snapshot"] += self.has_snapshot
        self.has_snapshot, self.is_after_gap = True, False
        self.seen.delivered += len(numbers) - len(self.numbers)
        self.numbers = numbers

    def _take_number(self, number: int) -> None:
        if number in self.numbers:  # it came into the snapshot while we subscribed
            self.seen.verdicts["in the snapshot already"] += 1
            return
        self.numbers.append(number)
        self.seen.delivered += 1

    def take_gap(self, gap: rb.bridge.Gap) -> None:
        """One before each snapshot but the first."""
        if gap.verdict is not rb.bridge.Verdict.UNKNOWN:
            self.wrong(f"{gap.verdict}({gap.reason}), and nobody can know")
        self.is_after_gap = True

    def ended(self, error: rb.BridgeError) -> bool:
        """The server has forgotten the task."""
        self.is_gone = self.has_restarted and error.failure.code == "PROTO_INVALID_FRAME"
        return self.is_gone

    def has(self, number: int) -> bool:
        """It was read."""
        return number in self.numbers

    async def recover(self) -> None:
        """The reader has been ended; another task."""
        await self.until(lambda: self.is_gone)
        self.seen.verdicts["task gone"] += 1
        self._judge()
        await self.shut()
        await self.open()

    async def finish(self) -> None:
        """Complete the task, read that, and hold what was read against the task itself."""
        await self.server.offer(0)
        await self.until(lambda: self.is_over)
        self._judge()
        task = (await self.server.ask("GetTask", id=self.task))["result"]
        held = [int(each["artifactId"]) for each in task["artifacts"]]
        if not self.numbers == held == self.published:
            self.wrong(
                f"{self.published} were published, {held} are in the task, {self.numbers} were read"
            )
        ran = Counter(await self.server.ledger())
        for marker in self.markers:
            if ran[marker] != 1:
                self.wrong(f"{marker} ran {ran[marker]} times")

    def _judge(self) -> None:
        """What was read is the beginning of what was published."""
        if self.numbers != self.published[: len(self.numbers)]:
            self.wrong(f"{self.numbers} were read of {self.published}")


KIND = A2ARun
