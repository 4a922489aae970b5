"""Write openhands_frames.jsonl: the frames of a real OpenHands server, as a plain client hears them. `python -m tests.bridges.servers.recording`.

Two connections on each of its sockets: connect, a message, a cut, and a resume; and what it says to nonsense. One line for each frame, with
the socket, the connection, the way ("up" is ours) and the frame. Long texts are shortened, and what names this machine is replaced.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bridges.servers import openhands
from tests.bridges.servers.wire import Wire, until, wire


FILE = Path(__file__).with_name("openhands_frames.jsonl")
LONGEST = 120  # characters of a text
MESSAGE = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
NONSENSE = {"role": "user", "content": 7}


class Recorder:
    """The lines of the file."""

    def __init__(self, server: openhands.OpenHandsServer) -> None:
        """Nothing is recorded yet."""
        self.server = server
        self.lines: list[str] = []
        self._connections = 0

    @asynccontextmanager
    async def connected(self, socket: str, url: str):
        """A connection of which every frame is recorded; what is said first is who we are."""
        self._connections += 1
        number = self._connections
        query = url.partition("?")[2]

        def note(way: str, frame: Any) -> Any:
            line = {
                "socket": socket,
                "connection": number,
                "query": query,
                "way": way,
                "frame": self._clean(frame),
            }
            self.lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")))
            return frame

        async with wire(url, decode=lambda text: note("down", json.loads(text))) as client:
            say = client.say

            async def noted(frame: Any) -> Wire:
                return await say(note("up", frame))

            client.say = noted
            await client.say({"type": "auth", "session_api_key": self.server.key})
            yield client

    def _clean(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._clean(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._clean(inner) for inner in value]
        if isinstance(value, str):
            value = value.replace(str(self.server.folder), "/server")
            value = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", value)
            return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
        return value


def _event(frame: Any) -> dict[str, Any]:
    return frame.get("event", frame)


def _text(frame: Any) -> str | None:
    event = _event(frame)
    return (
        event["llm_message"]["content"][0]["text"] if event.get("kind") == "MessageEvent" else None
    )


async def _session(recorder: Recorder) -> None:
    """The session socket: an empty log, a message and its answer, a cut, and a resume one event early."""
    server = recorder.server
    async with recorder.connected("session", server.url) as client:
        await client.hear_until(lambda frame: frame["type"] == "sync")
        await client.say(MESSAGE)
        last = (await client.hear_until(lambda frame: _text(frame) == "ok"))[-1]["seq"]
        client.cut()
    await until(server.status, "finished")
    await server.publish(1)
    async with recorder.connected("session", f"{server.url}?after_seq={last - 1}") as client:
        await client.hear_until(lambda frame: frame["type"] == "transient")
        await server.publish(2)
        await client.hear_until(lambda frame: _text(frame) == "published 2")
        await client.say(NONSENSE)
        await client.hear_until(lambda frame: frame["type"] == "error")
    async with recorder.connected("session", f"{server.url}?after_seq=999") as client:
        await client.hear_until(lambda frame: frame["type"] == "transient")


async def _legacy(recorder: Recorder) -> None:
    """The legacy socket: the same, with times."""
    server = recorder.server
    async with recorder.connected("legacy", server.legacy_url) as client:
        await client.hear_until(lambda frame: frame.get("key") == "full_state")
        await client.say(MESSAGE)
        last = (await client.hear_until(lambda frame: _text(frame) == "ok"))[-1]["timestamp"]
        client.cut()
    await until(server.status, "finished")
    await server.publish(1)
    query = f"resend_mode=since&after_timestamp={last}"
    async with recorder.connected("legacy", f"{server.legacy_url}?{query}") as client:
        await client.hear_until(lambda frame: _text(frame) == "published 1")
        await server.publish(2)
        await client.hear_until(lambda frame: _text(frame) == "published 2")
        await client.say(NONSENSE)
        await client.hear_until(lambda frame: frame["kind"] == "ServerErrorEvent")


async def main() -> None:
    """Record both sockets, each on a conversation of its own."""
    with TemporaryDirectory() as folder:
        async with openhands.running(Path(folder)) as server:
            recorder = Recorder(server)
            await _session(recorder)
            await server.new_conversation()
            await _legacy(recorder)
    FILE.write_text("".join(f"{line}\n" for line in recorder.lines))
    sys.stdout.write(f"{FILE}: {len(recorder.lines)} frames, {FILE.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    asyncio.run(main())
