"""What relays of the Model Context Protocol do when the server dies, is redeployed, or says something unusual: ours and those of others.

    python bench/mcp_relays.py [--only NAME]

A small server with effects that are counted on disk stands behind each relay, and a client that knows only messages in front of it. Crash before a call:
killed after a good call, at a URL away for 5 s, and called at once. Crash after the effect: it ends before it answers, back after 0.5 s; or
only the event stream is cut. Redeploy: killed, 20 calls wait for it, back after 1 s with another tool. Features: the rows of
`bench/mcp_features/feature_rows.py` that arrive as they were sent. Every wait ends after 20 s. Real seconds pass, about four minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from _mcp_relays import RELAYS, Upstream, end_tree, install, target_of, versions
from _measure import table
from _processes import until
from mcp_features import feature_rows, row_table
from mcp_features.feature_rows import COMMAND, problems
from mcp_features.raw_client import Pipes, connect


LONGEST = 20.0  # seconds for one answer
NOTICE = 8.0  # seconds for a notice that the list of tools changed
ABREAST = 3  # relays at a time: they mostly wait


class Session:
    """A client of a relay, and what it was answered in few words."""

    def __init__(self, target):
        self._target = target
        self.client = connect(target)
        self.client.initialize(version="2025-06-18")

    def begin(self, name="order", **arguments):
        """Send a call; a future, or what went wrong at once."""
        try:
            return self.client.begin("tools/call", {"name": name, "arguments": arguments})
        except OSError as error:
            return error

    def end(self, call, seconds=LONGEST):
        """What it was answered."""
        if isinstance(call, OSError):
            return "the relay has ended"
        try:
            return words_of(call.result(seconds))
        except TimeoutError:
            return f"no answer in {seconds:g} s"
        except OSError as error:
            if "output ended" in str(error):
                return "the relay ended"
            return str(error)[:60].split(": b", maxsplit=1)[0]

    def call(self, name="order", **arguments):
        """Call, and wait."""
        return self.end(self.begin(name, **arguments))

    def afterwards(self, name="order"):
        """How two calls go when the server is there; over HTTP in a new session too, as a client may open one."""
        found = [self.call(name) for _ in range(2)]
        text = "works" if found == ["answered"] * 2 else found[1]
        if found[0] != found[1] == "answered":
            text = f"{found[0]}; then works"
        if isinstance(self._target, str) and found[1] != "answered":
            with suppress(Exception), session(self._target) as other:
                text += (
                    "; a new session works"
                    if other.call(name) == "answered"
                    else "; a new session too"
                )
        return text

    def close(self):
        """End the client, and the relay that is its command."""
        if isinstance(self.client, Pipes):
            end_tree(self.client.process.pid, self.client.close)
        else:
            with suppress(Exception):
                self.client.close()


@contextmanager
def session(target):
    """A session, closed at the end."""
    opened = Session(target)
    try:
        yield opened
    finally:
        opened.close()


def words_of(answer):
    """An answer in few words."""
    if "error" in answer:
        return f'error {answer["error"]["code"]} "{answer["error"]["message"][:40]}"'
    result = answer["result"]
    text = "".join(str(item.get("text", "")) for item in result.get("content", ()))
    for words in ("OUTCOME UNKNOWN", "NOT EXECUTED"):
        if text.startswith(words):
            return words
    return f'isError "{text[:40]}"' if result.get("isError") else "answered"


@contextmanager
def behind(relay, folder):
    """The small server, and a session of a client with a relay in between."""
    upstream = Upstream(folder, port=None if relay.back == "stdio" else 0)
    try:
        with target_of(relay, upstream.target) as target, session(target) as client:
            yield upstream, client
    finally:
        upstream.close()


def later(seconds, work):
    """Do it in a while, in a thread that can be joined."""
    timer = threading.Timer(seconds, work)
    timer.start()
    return timer


def crash_before(relay, folder):
    """What the call is answered that comes when the server has just been killed; how often it ran; what comes next."""
    with behind(relay, folder) as (upstream, client):
        assert client.call() == "answered"
        upstream.kill()
        timer = later(5, upstream.start)
        began, before = time.monotonic(), upstream.count("effects", "order")
        answer, seconds = client.call(), time.monotonic() - began
        timer.join()
        ran = upstream.count("effects", "order") - before
        return [
            f"{answer} ({seconds:.1f} s)" if seconds < LONGEST else answer,
            ran,
            client.afterwards(),
        ]


def crash_after(relay, folder):
    """The same for a call that ran before the server died."""
    with behind(relay, folder) as (upstream, client):
        assert client.call() == "answered"
        began, call = time.monotonic(), client.begin(then="die")
        until(lambda: upstream.count("effects", "order") > 1, LONGEST)
        upstream.kill()
        timer = later(0.5, upstream.start)
        answer, seconds = client.end(call), time.monotonic() - began
        timer.join()
        ran = upstream.count("effects", "order") - 1
        return [
            f"{answer} ({seconds:.1f} s)" if seconds < LONGEST else answer,
            ran,
            client.afterwards(),
        ]


def cut(relay, folder):
    """The same for a call whose event stream was cut before its answer; the server lives."""
    if relay.back == "stdio":
        return ["", "", ""]
    with behind(relay, folder) as (upstream, client):
        assert client.call() == "answered"
        began = time.monotonic()
        answer, seconds = client.call(then="cut"), time.monotonic() - began
        ran = upstream.count("effects", "order") - 1
        return [
            f"{answer} ({seconds:.1f} s)" if seconds < LONGEST else answer,
            ran,
            client.afterwards(),
        ]


def redeploy(relay, folder):
    """20 calls answered well, how often they ran, sessions opened for them, notices, the list, the new tool, the log level."""
    with behind(relay, folder) as (upstream, client):
        with suppress(TimeoutError, OSError):
            client.client.request("logging/setLevel", {"level": "warning"}, seconds=5)
        assert client.call("old") == "answered"
        before = {line: upstream.count("seen", line) for line in ("initialize", "logging/setLevel")}
        upstream.kill()
        upstream.rename("order", "large", "new")
        timer = later(1, upstream.start)
        calls = [client.begin() for _ in range(20)]
        end = time.monotonic() + LONGEST
        answers = [client.end(call, max(0.0, end - time.monotonic())) for call in calls]
        timer.join()
        changed = "notifications/tools/list_changed"
        client.client.wait_for(lambda: bool(client.client.notified(changed)), NOTICE)
        time.sleep(1)
        since = {line: upstream.count("seen", line) - count for line, count in before.items()}
        try:
            tools = client.client.request("tools/list", {}, seconds=LONGEST)["result"]["tools"]
            listed = "new" if "new" in [tool["name"] for tool in tools] else "old"
        except (TimeoutError, OSError, KeyError):
            listed = "none"
        return [
            answers.count("answered"),
            upstream.count("effects", "order"),
            since["initialize"],
            len(client.client.notified(changed)),
            listed,
            client.call("new"),
            "yes" if since["logging/setLevel"] else "no",
        ]


class Respelled(threading.local):
    """The rows, of the relay in this thread, that differ only in how a number is spelled: JavaScript writes 1 for 1.0."""

    def __init__(self):
        self.names = set()

    def same(self, found, wanted):
        """In place of the rows' own comparison: a number is its value, and what was spelled anew is noted."""
        try:
            row_table.same(found, wanted)
        except AssertionError:
            if found != wanted:
                raise
            frames = traceback.extract_stack()
            self.names |= {frame.name for frame in frames} & set(row_table.ROWS)


RESPELLED = Respelled()


def features(relay, _folder):
    """How many rows arrive as they were sent; how many if 1 is as good as 1.0; the names of those that then remain."""
    RESPELLED.names = set()
    with subprocess.Popen(
        [*COMMAND, "--http", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        url = server.stdout.readline().strip()
        with target_of(relay, list(COMMAND) if relay.back == "stdio" else url) as target:
            try:
                found = problems(target)
            except Exception as error:  # noqa: BLE001 -- a relay that does not end with its input
                return [f"failed: {error}", "", ""]
        server.communicate("")
    lost = [name for name, problem in found.items() if problem]
    good, sent = len(found) - len(lost), RESPELLED.names - set(lost)
    return [f"{good - len(sent)} of {len(found)}", good, ", ".join(lost)]


SCENARIOS = {
    crash_before: ("Crash before a call (1)", ["answer", "ran", "afterwards"]),
    crash_after: ("Crash after the effect (2)", ["answer", "ran", "afterwards"]),
    cut: ("An event stream that is cut after the effect (2)", ["answer", "ran", "afterwards"]),
    redeploy: (
        "Redeploy with another tool (4)",
        [
            "of 20 answered",
            "ran",
            "initialize",
            "list_changed",
            "tools/list",
            "new tool",
            "log level again",
        ],
    ),
    features: (
        "Features that pass unchanged (5)",
        ["as sent", "but for 1.0 as 1", "changed or lost"],
    ),
}


def tried(relay, scenario, folder):
    """A scenario's cells, or what went wrong with it."""
    began = time.monotonic()
    name = f"{RELAYS.index(relay)}-{scenario.__name__}"  # no blanks: supergateway parts its command at them
    try:
        cells = scenario(relay, folder / name)
    except Exception as error:  # noqa: BLE001 -- a relay may fail in any way: that is its row
        head = SCENARIOS[scenario][1]
        cells = [f"failed: {type(error).__name__} {error}"[:80], *[""] * (len(head) - 1)]
    print(
        f"  {scenario.__name__} {relay.name}: {cells} {time.monotonic() - began:.1f} s", flush=True
    )
    return cells


def main():
    """Run every scenario with every relay, and print a table for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", metavar="NAME")
    parser.add_argument("--scenario", default="", metavar="NAME")
    asked = parser.parse_args()
    feature_rows.same = RESPELLED.same
    relays = [relay for relay in RELAYS if asked.only in f"{relay.name} {relay.front} {relay.back}"]
    scenarios = [scenario for scenario in SCENARIOS if asked.scenario in scenario.__name__]
    if any(relay.is_foreign for relay in relays):
        install()
        print(f"{datetime.now(UTC):%Y-%m-%d}: {versions()}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(ABREAST) as threads:
        found = {
            (scenario, number): threads.submit(tried, relay, scenario, Path(folder))
            for scenario in scenarios
            for number, relay in enumerate(relays)
        }
        cells = {key: future.result() for key, future in found.items()}
    for scenario in scenarios:
        title, head = SCENARIOS[scenario]
        rows = [
            [relay.name, f"{relay.front} ← {relay.back}", *cells[scenario, number]]
            for number, relay in enumerate(relays)
            if cells[scenario, number][0] != ""
        ]
        table(title, ["relay", "client ← server", *head], rows, ("mcp",))


if __name__ == "__main__":
    main()
