"""P19: what the sidecar adds to a tool call, against none in between and against relays that others wrote, in one run.

    python bench/mcp_latency.py [ROUNDS [NAME]]      # with a name: that relay alone, without the goals, and few calls

Three shapes: a command behind standard input and output (the main case), a server at a URL behind the same, and a command behind streamable HTTP. In
each round every relay of a shape has its turn, in a shuffled order: 20 calls to warm up, then 300 in a row, then 50 in flight four times, then
a result of 20 MB; started anew in each round, which gives the time to the first byte. Then the memory of 10,000 calls and of 200 restarts.
The small server is `_mcp_server.py`, and a direct client is one whose command or URL is that server itself.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import queue
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from _mcp_relays import RELAYS, Upstream, end_tree, install, listening, target_of, versions
from _measure import holds, rounds_asked, table
from _processes import resident


WARM, CALLS, ABREAST, LARGE = 20, 300, 50, 20_000_000
MOST_CALLS, RESTARTS = 10_000, 200
OPENED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "0"},
}
SHAPES = {
    ("stdio", "stdio"): ["resilient-bridge", "FastMCP proxy", "mcp-snoop"],
    ("stdio", "HTTP"): ["resilient-bridge", "mcp-remote", "supergateway", "mcp-proxy (PyPI)"],
    ("HTTP", "stdio"): ["resilient-bridge", "mcp-proxy (npm)", "supergateway"],
}
MODELS = {
    "FastMCP proxy",
    "mcp-proxy (PyPI)",
    "mcp-proxy (npm)",
}  # they parse into models of an SDK, and write anew
TAPS = {
    "mcp-snoop"
}  # they copy lines from pipe to pipe, have no session of their own, and end with the server
KEYS = ["median", "p95", "50", "20 MB", "start"]
MEMORY = [
    ("stdio", "stdio", "resilient-bridge"),
    ("stdio", "stdio", "FastMCP proxy"),
    ("stdio", "HTTP", "resilient-bridge"),
    ("stdio", "HTTP", "mcp-remote"),
    ("HTTP", "stdio", "resilient-bridge"),
]


class Pipes:
    """A command's pipes, a line a message, without threads: what is measured is what is in between."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.pid = self.process.pid

    def send(self, *messages):
        """Write them at once."""
        self.process.stdin.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))
        self.process.stdin.flush()

    def read(self):
        """The next answer, and how many bytes it has; what a server says unasked is passed over."""
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise ConnectionError("the output ended")
            if len(line) > 1_000_000:
                return {"result": {"content": []}}, len(line)
            message = json.loads(line)
            if "id" in message and "method" not in message:
                return message, len(line)

    def exchange(self, messages):
        """Send requests, and read an answer for each."""
        self.send(*messages)
        return [self.read() for _ in messages]

    def close(self):
        """End it."""
        self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(3)


class Http:
    """Streamable HTTP over connections that are kept, one for each request in flight."""

    def __init__(self, url):
        self._url = urlsplit(url)
        self._headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        self._work, self._done = queue.SimpleQueue(), queue.SimpleQueue()
        self._own = self._connect()
        for _ in range(ABREAST):
            threading.Thread(target=self._serve, daemon=True).start()

    def send(self, *messages):
        """Post notifications."""
        for message in messages:
            self._post(self._own, message)

    def exchange(self, messages):
        """Post requests, all at once, and read an answer for each."""
        if len(messages) == 1:
            return [self._post(self._own, messages[0])]
        for message in messages:
            self._work.put(message)
        return [self._done.get(timeout=60) for _ in messages]

    def close(self):
        """End the threads and the session."""
        for _ in range(ABREAST):
            self._work.put(None)
        self._own.request("DELETE", self._url.path, headers=self._headers)
        self._own.getresponse().read()
        self._own.close()

    def _connect(self):
        connection = http.client.HTTPConnection(self._url.hostname, self._url.port, timeout=60)
        connection.connect()
        connection.sock.setsockopt(6, 1, 1)  # TCP_NODELAY
        return connection

    def _serve(self):
        connection = None
        while (message := self._work.get()) is not None:
            connection = connection or self._connect()
            self._done.put(self._post(connection, message))
        if connection:
            connection.close()

    def _post(self, connection, message):
        connection.request("POST", self._url.path, json.dumps(message).encode(), self._headers)
        response = connection.getresponse()
        body = response.read()
        if session := response.headers.get("Mcp-Session-Id"):
            self._headers["Mcp-Session-Id"] = session
            self._headers["MCP-Protocol-Version"] = OPENED["protocolVersion"]
        if response.status >= 400:
            raise ConnectionError(f"HTTP {response.status}: {body[:100]!r}")
        if not body or len(body) > 1_000_000:
            return {"result": {"content": []}}, len(body)
        lines = [
            line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 8
        ]
        return json.loads(lines[-1] if lines else body), len(body)


def request(number, method, params):
    """A request as a message."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def calls(count, name="old", **arguments):
    """Tool calls, numbered on."""
    calls.number += count
    numbers = range(calls.number - count, calls.number)
    return [request(each, "tools/call", {"name": name, "arguments": arguments}) for each in numbers]


calls.number = 100


def right(answers):
    """AssertionError unless each is a good result."""
    for message, _ in answers:
        assert not message.get("result", {"isError": True}).get("isError"), message


@contextmanager
def opened(target):
    """A client whose session is open; ends what it started."""
    client = Http(target) if isinstance(target, str) else Pipes(target)
    try:
        right(client.exchange([request(1, "initialize", OPENED)]))
        yield client
    finally:
        if isinstance(client, Pipes):
            end_tree(client.pid, client.close)
        else:
            with suppress(Exception):
                client.close()


def turn(target):
    """One relay's turn: seconds by what was measured."""
    found, first = {}, time.perf_counter()
    with opened(target) as client:
        found["start"] = time.perf_counter() - first
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        right(client.exchange([request(2, "tools/list", {})]))
        for _ in range(WARM):
            right(client.exchange(calls(1)))
        each = []
        for _ in range(CALLS):
            began = time.perf_counter()
            right(client.exchange(calls(1)))
            each.append(time.perf_counter() - began)
        found["median"], found["p95"] = statistics.median(each), sorted(each)[int(0.95 * CALLS)]
        began = time.perf_counter()
        for _ in range(4):
            right(client.exchange(calls(ABREAST)))
        found["50"] = (time.perf_counter() - began) / 4
        began = time.perf_counter()
        found["20 MB"] = _large(client) * (time.perf_counter() - began)
        found["all"] = time.perf_counter() - first
    return found


def _large(client):
    """1 if the whole of a large result comes, else NaN."""
    try:
        ((message, size),) = client.exchange(calls(1, "large", bytes=LARGE))
    except (OSError, http.client.HTTPException) as error:
        message, size = error, 0
    if size > LARGE:
        return 1
    print(f"  instead of {LARGE / 1e6:.0f} MB: {str(message)[:200]}")
    return math.nan


def measure_rounds(rounds, folder):
    """Shape -> name -> what was measured -> a number a round."""
    found, rng = {}, random.Random(1)
    for number in range(rounds):
        for shape, names in SHAPES.items():
            order = ["direct", *names]
            rng.shuffle(order)
            for name in order:
                began = time.perf_counter()
                for key, value in _turn_of(shape, name, folder).items():
                    found.setdefault(shape, {}).setdefault(name, {}).setdefault(key, []).append(
                        value
                    )
                print(
                    f"  round {number + 1}, {name}, {shape}: {time.perf_counter() - began:.1f} s",
                    flush=True,
                )
    return found


def _turn_of(shape, name, folder):
    upstream = Upstream(folder / "-".join(shape), port=None if shape[1] == "stdio" else 0)
    try:
        if name == "direct":
            return turn(upstream.target)
        relay = next(
            each for each in RELAYS if (each.front, each.back, each.name) == (*shape, name)
        )
        if relay.front == "stdio":
            return turn(relay.command(upstream.target, None))
        began = time.perf_counter()
        with target_of(relay, upstream.target) as target:
            found, waited = turn(target), time.perf_counter() - began
            return {**found, "start": found["start"] + waited - found["all"]}
    finally:
        upstream.close()


def shown(shape, found):
    """The rows of a shape: medians of the rounds in ms, and quotients to direct, each round with its own."""
    rows = []
    for name in ["direct", *SHAPES[shape]]:
        row = [name]
        for key in KEYS:
            low = statistics.median(found[name][key]) * 1000
            if math.isnan(low):
                row.append("fails")
                continue
            if name == "direct" or (key, shape[1]) == (
                "start",
                "HTTP",
            ):  # a server at a URL runs already
                row.append(f"{low:,.2f}")
                continue
            quotients = [a / b for a, b in zip(found[name][key], found["direct"][key], strict=True)]
            row.append(f"{low:,.2f} ({statistics.median(quotients):.1f})")
        rows.append(row)
    return rows


def goals(shape, found):
    """P19: what ours adds, against the least that another adds, and against half of what those through models add."""
    rows = []
    for key in ("median", "p95", "50"):
        added = {
            name: statistics.median(
                a - b for a, b in zip(found[name][key], found["direct"][key], strict=True)
            )
            * 1000
            for name in SHAPES[shape]
        }
        ours = added.pop("resilient-bridge")
        best = min(added.keys() - TAPS, key=added.get)
        rows.append([key, ours, f"{added[best]:.2f} ({best})", _judged(ours, added[best])])
        rows += [
            [key, ours, f"{added[name]:.2f} ({name}, a tap)", _judged(ours, added[name])]
            for name in added.keys() & TAPS
        ]
        models = [name for name in added if name in MODELS]
        rows += [
            [key, ours, f"{added[name] / 2:.2f} (half of {name})", _judged(ours, added[name] / 2)]
            for name in models
        ]
    return rows


def _judged(value, goal):
    return holds(value, goal) if goal > 0 else "the other adds nothing"


def memory(front, back, name, folder, scale):
    """Resident megabytes after a tenth of the calls and at the end, and the same for restarts; how many calls failed after one."""
    relay = next(
        each for each in RELAYS if (each.front, each.back, each.name) == (front, back, name)
    )
    upstream = Upstream(folder / f"memory-{name}-{back}", port=None if back == "stdio" else 0)
    sizes, failed = [], 0
    try:
        with _opened_with_pid(relay, upstream) as (client, pid):
            client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            for count in (MOST_CALLS // 10 // scale, MOST_CALLS * 9 // 10 // scale):
                for _ in range(count):
                    right(client.exchange(calls(1)))
                sizes.append(resident(pid) / 1e6)
            for count in (RESTARTS // 10 // scale, RESTARTS * 9 // 10 // scale):
                for _ in range(count):
                    upstream.kill()
                    upstream.start()
                    failed += _failures(client)
                sizes.append(resident(pid) / 1e6)
    finally:
        upstream.close()
    return [name, f"{front} ← {back}", *sizes, failed]


@contextmanager
def _opened_with_pid(relay, upstream):
    if relay.front == "stdio":
        with opened(relay.command(upstream.target, None)) as client:
            yield client, client.pid
    else:
        with listening(relay, upstream.target) as (url, process), opened(url) as client:
            yield client, process.pid


def _failures(client):
    """How many calls fail until the server is there again, 20 at most; then a few that must not."""
    for count in range(20):
        with suppress(AssertionError):
            right(client.exchange(calls(1)))
            for _ in range(4):
                right(client.exchange(calls(1)))
            return count
    raise ConnectionError("the server did not come back")


def main():
    """Measure, and print a table for each shape, one for the goals and one for memory."""
    rounds, only = rounds_asked(3), sys.argv[2] if len(sys.argv) > 2 else ""
    for names in SHAPES.values():
        names[:] = [name for name in names if only in ("", name)]
    asked = [each for each in MEMORY if only in ("", each[2])]
    if only != "resilient-bridge":
        install()
        print(f"{datetime.now(UTC):%Y-%m-%d}: {versions()}; load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        found = measure_rounds(rounds, Path(folder))
        scale = 200 if only else 1 if rounds > 1 else 20
        sizes = [_remembered(*each, Path(folder), scale) for each in asked]
    heads = ["one call", "p95", "50 in flight", "20 MB", "start to first byte"]
    for shape in SHAPES:
        title = f"{shape[0]} ← {shape[1]}: milliseconds (times direct)"
        table(title, ["", *heads], shown(shape, found[shape]), ("mcp",))
        if only:
            continue
        table(
            f"P19, {shape[0]} ← {shape[1]}: what is added, in ms",
            ["", "ours", "goal", ""],
            goals(shape, found[shape]),
            ("mcp",),
        )
    head = [
        "relay",
        "client ← server",
        "1,000 calls",
        "10,000 calls",
        "20 restarts",
        "200 restarts",
        "calls that failed",
    ]
    table("Resident megabytes after", head, sizes, ("mcp",))
    print(f"\nload {os.getloadavg()[0]:.1f}")


def _remembered(front, back, name, folder, scale):
    began = time.perf_counter()
    try:
        row = memory(front, back, name, folder, scale)
    except Exception as error:  # noqa: BLE001 -- a relay may fail in any way: that is its row
        row = [name, f"{front} ← {back}", f"failed: {error!r}"[:60], "", "", "", ""]
    print(f"  memory of {name}: {row} {time.perf_counter() - began:.1f} s", flush=True)
    return row


if __name__ == "__main__":
    main()
