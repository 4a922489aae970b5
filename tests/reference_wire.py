"""The page of the wire protocol. Rule: every frame on it was sent by the client, or by the embedded bridge, in a simulated run.

A tap in `websockets` notes each text frame of both ends; ids are replaced by short ones, in the order in which they appear.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from unittest.mock import patch

from websockets.client import ClientProtocol
from websockets.protocol import Protocol

import resilient_bridge as rb

from .reference_layout import page, table


Step = Callable[[rb.BridgeClient, rb.testing.BridgeServer], Awaitable[Any]]

ENVELOPE = [
    (
        "`type`",
        "the type of the message, in snake case; the answer to a type that ends in `_request` ends in `_response`",
    ),
    (
        "`id`",
        "a UUID; an answer has the id of its request. Messages that the bridge originates may have none",
    ),
    (
        "`timestamp`",
        "ISO 8601 with a time zone; a replay is requested by it. Messages that the bridge originates may have none",
    ),
    ("`payload`", "an object; its `idempotency_key` is the same on every resend"),
]

TYPES = [
    ("client", "`auth`", "the first frame of each connection: `token`"),
    ("bridge", "`connection_ack`", "the token is accepted: `server_id`, `active_sessions`"),
    ("bridge", "`connection_error`", "the token is refused: `code`, `message`, `recoverable`"),
    ("client", "`session_join`", "`session_id`, and whether to `resume` the session"),
    ("bridge", "`session_joined`", "`session_id`; `dedupes`: a known key is not processed again"),
    ("client", "`heartbeat_ping`", "15 s after the last one, and with the join"),
    ("bridge", "`heartbeat_pong`", "must come within 10 s, else the link is lost"),
    (
        "client",
        "`request_replay`",
        "`since`: a timestamp, inclusive; without it, everything that the bridge holds",
    ),
    (
        "bridge",
        "`replay_buffer`",
        "`messages`, objects or texts, in order; also sent without a request after a session was joined again",
    ),
    ("bridge", "`message_ack`", "`message_id`, `status`: `applied` or `already_processed`"),
    (
        "bridge",
        "`error`",
        "`code`, `message`, and details: `violations`, `suggestions`, `request_type`",
    ),
    (
        "both",
        "any other",
        "a message of your program: `send`, `request` and `async for` of the client, `push` of the embedded bridge",
    ),
]


class Scene(NamedTuple):
    """What is done, under which heading, and what is to be known about the frames."""

    head: str
    about: str
    step: Step


async def _connect(bridge: rb.BridgeClient, _server: rb.testing.BridgeServer) -> None:
    await bridge.wait_ready()


async def _send(bridge: rb.BridgeClient, _server: rb.testing.BridgeServer) -> None:
    receipt = await bridge.send("tool_result", {"tool_call_id": "t1", "content": "ok"})
    await receipt.confirmed(timeout=10)


async def _request(bridge: rb.BridgeClient, _server: rb.testing.BridgeServer) -> None:
    await bridge.request("git_status_request", {}, timeout=10)


async def _push(bridge: rb.BridgeClient, server: rb.testing.BridgeServer) -> None:
    await server.push("claude_event", {"text": "one"})
    await anext(aiter(bridge))


async def _cut(bridge: rb.BridgeClient, server: rb.testing.BridgeServer) -> None:
    await server.cut("abort")
    receipt = await bridge.send("tool_result", {"tool_call_id": "t2", "content": "ok"})
    await server.push("claude_event", {"text": "two"})
    await anext(aiter(bridge))
    await receipt.confirmed(timeout=10)


async def _expire(bridge: rb.BridgeClient, server: rb.testing.BridgeServer) -> None:
    await server.restart(lose_sessions=True)
    events = bridge.events()
    while not isinstance(await anext(events), rb.events.Resumed):
        pass
    await bridge.wait_ready()


SCENES = [
    Scene(
        "Connect and join",
        "The client sends a ping with the join. Its answer proves that the link carries frames both ways.",
        _connect,
    ),
    Scene(
        "`send`",
        "`message_ack` confirms the receipt. To a bridge that sends none the client sends a ping: the pong proves that the bridge read what was sent before.",
        _send,
    ),
    Scene("`request`", "The answer has the id of the request.", _request),
    Scene(
        "A message of the bridge",
        "It is delivered, and its timestamp is the position of the client.",
        _push,
    ),
    Scene(
        "The connection is cut, and both ends have messages to send",
        "The client joins the session again and asks for what came since the last message that it has, less an overlap (`Replay.overlap`, 300 s). It looks for that "
        "message in the answer and delivers what follows it; the verdict is RECOVERED. Then it sends the waiting messages. A message that had been sent before has the same id "
        "and the same key again. Frames that were in flight when the connection was cut are shown, too.",
        _cut,
    ),
    Scene(
        "The bridge has lost the session",
        "`SESS_NOT_FOUND` does not end the client: it joins a new session, and the verdict is GAP(new_session).",
        _expire,
    ),
]


def frames() -> dict[str, list[tuple[str, str]]]:
    """Run every scene, one after the other on one client, and return who sent which frame in it."""
    found: dict[str, list[tuple[str, str]]] = {scene.head: [] for scene in SCENES}
    now = SCENES[0].head
    names: dict[str, str] = {}
    plain = Protocol.send_text

    def short(text: str) -> str:
        pattern = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
        return re.sub(
            pattern, lambda uuid: names.setdefault(uuid[0], f"uuid-{len(names) + 1}"), text
        )

    def noted(protocol: Protocol, data: bytes, fin: bool = True) -> None:
        sender = "client" if isinstance(protocol, ClientProtocol) else "bridge"
        found[now].append((sender, short(bytes(data).decode())))
        plain(protocol, data, fin)

    async def main(server: rb.testing.BridgeServer) -> None:
        nonlocal now
        async with rb.BridgeClient(server.url, token="secret", session_id="session-1") as bridge:
            for scene in SCENES:
                now = scene.head
                await scene.step(bridge, server)

    with patch.object(Protocol, "send_text", noted):
        rb.testing.simulate(main, seed=1)
    return found


def wire_page() -> str:
    """The text of docs/reference/wire.md."""
    captured = frames()
    scenes = [
        [
            f"## {scene.head}",
            "",
            scene.about,
            "",
            "```text",
            *(f"{sender}  {text}" for sender, text in captured[scene.head]),
            "```",
        ]
        for scene in SCENES
    ]
    return page(
        "Wire protocol of `BridgeClient`",
        [
            "This page shows what goes over the WebSocket between a `BridgeClient` and a bridge that speaks ReCursor's protocol, the default of the client. The frames are from one",
            "simulated run against the embedded bridge of `rb.testing`. Other servers speak [other dialects](../dialects/index.md). The client does without features that a server",
            "does not answer.",
            "",
            "Each frame is a JSON text. The client is strict in what it sends and lenient in what it reads.",
            "",
            *table("field | what it is", ENVELOPE),
        ],
        ["## Types", "", *table("sender | type | content", TYPES)],
        *scenes,
        [
            "## How it ends",
            "",
            "`aclose()` sends a close frame with 1000. [States](states.md) lists what the other close codes mean. A bridge that ends the session closes with 4404, and with",
            "4409 if another connection has taken it.",
        ],
    )
