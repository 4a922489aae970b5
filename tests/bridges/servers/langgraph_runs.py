"""LangGraph in the fifty runs: the stream of a run of a graph, taken up again by `Last-Event-ID` with `rb.links.EventSource`.

While the server lives, nothing is missing. Ended by SIGTERM it runs the graph again under the same id, with another log of it, which it begins
with its `metadata` event; ended by SIGKILL it knows the run no more, and says so in an `error` event with status 200. Its ids are times, so that
a log that began anew goes on behind the old position, and only these two events tell. Events of one millisecond have one id, and now and then one
is sent twice: from then on a loss is reported as UNKNOWN(repeated_event_id). If the cut itself stands between two events of one id, the server
does not send the second again; no reader can see that, so the runs count it for themselves.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import httpx

import resilient_bridge as rb
from tests.bridges.servers.judging import Heard, order_problems
from tests.bridges.servers.line_faults import AT_ONCE
from tests.bridges.servers.sse_runs import READ_TIMEOUT, StreamRun


class LangGraphRun(StreamRun):
    """Each stream is a run of the graph on a thread of its own."""

    name = "langgraph"

    def __init__(self, server: Any, seed: int) -> None:
        """No run of the graph yet."""
        super().__init__(server, seed)
        self.markers: list[str] = []
        self.again: list[str] = []  # those whose server was restarted

    async def begin(self) -> None:
        """A run, and its first event."""
        self.stream: list[Any] = []
        self.numbers: dict[int, str] = {}  # and their ids
        self.has_shared_ids = False  # whether an id came for the second time
        self.logs = 0  # how often its log has begun
        self.is_gone = self.is_over = False
        self.markers.append(f"{self.seed}-{len(self.markers)}")
        await self.server.start_run(self.markers[-1])

    def source(self, client: httpx.AsyncClient) -> rb.links.EventSource:
        """All of it: an id of -1 is before the first event."""
        return rb.links.EventSource(
            client,
            self.through_proxy(self.server.url),
            last_event_id="-1",
            reconnect=AT_ONCE,
            read_timeout=READ_TIMEOUT,
            on_gap=self.report,
        )

    def take(self, event: Any) -> bool:
        """A number, the begin of a log, or the end of the run."""
        body = json.loads(event.data)
        if event.type == "error":
            self.is_gone = True
            self.stream.append(rb.bridge.Gap(rb.bridge.Verdict.GAP, None, None, body["message"]))
            return False
        if event.type == "metadata":
            self.logs += 1
            if self.logs > 1:
                self.stream.append(rb.bridge.Gap(rb.bridge.Verdict.GAP, None, None, "another log"))
            return True
        if body["number"] == 0:
            self.is_over = True
            return False
        number = body["number"]
        self.has_shared_ids |= event.id in self.numbers.values()
        if self.numbers.get(number) == event.id:
            self.seen.verdicts["sent twice"] += 1
            return True
        self.stream.append(Heard((number,)))
        self.numbers[number] = event.id
        self.seen.delivered += 1
        return True

    def take_gap(self, gap: rb.bridge.Gap) -> None:
        """None is expected while the server lives."""
        self.stream.append(gap)
        if not (self.has_restarted or (self.has_shared_ids and gap.reason == "repeated_event_id")):
            self.wrong(f"{gap.verdict}({gap.reason}), and the server held everything")

    def has(self, number: int) -> bool:
        """It was read."""
        return number in self.numbers

    async def recover(self) -> None:
        """Another run if this one is gone; the same one, with another log, if the server runs it again."""
        logs = self.logs
        self.again.append(self.markers[-1])
        await self.until(lambda: self.is_gone or self.logs > logs)
        self.seen.verdicts["run gone" if self.is_gone else "another log"] += 1
        if self.is_gone:
            await self._judge()
            await self.shut()
            await self.open()

    async def finish(self) -> None:
        """End the run of the graph, and read its last event."""
        await self.server.offer(0)
        await self.until(lambda: self.is_over)
        await self._judge()

    async def _judge(self) -> None:
        unseen = await self._behind_shared_ids() if {*self.published} - {*self.numbers} else set()
        self.seen.verdicts["lost behind a shared id"] += len(unseen)
        published = [number for number in self.published if number not in unseen]
        for problem in order_problems(self.stream, None, published, lambda published, _: published):
            self.wrong(problem)
        if not self.has_restarted and {*self.numbers} != {*published}:
            self.wrong(f"{sorted({*published} - {*self.numbers})} did not arrive")
        ran = Counter(await self.server.ledger())
        for marker in self.markers:
            if ran[marker] != 1 and marker not in self.again:
                self.wrong(f"{marker} ran {ran[marker]} times")

    async def _behind_shared_ids(self) -> set[int]:
        """Numbers that were not read, and have the id of one that was: by the server's log, if it still has it."""
        answer = await self.server.http(
            "GET", httpx.URL(self.server.url).path, headers={"Last-Event-ID": "-1"}
        )
        ids: dict[int, str] = {}
        number = None
        for line in answer.text.splitlines():
            if line.startswith("data: "):
                number = json.loads(line.removeprefix("data: ")).get("number")
            elif line.startswith("id: ") and number is not None:
                ids[number] = line.removeprefix("id: ")
        read = {*self.numbers.values()}
        return {
            number for number, ident in ids.items() if number not in self.numbers and ident in read
        } - {0}


KIND = LangGraphRun
