"""The dialects and the doubles that speak them, as cases of `schedules`."""

from __future__ import annotations

from typing import Any

import resilient_bridge as rb
from tests.bridges.dialects.schedules import Case
from tests.bridges.doubles.agno import Agno
from tests.bridges.doubles.centrifugo import Centrifugo
from tests.bridges.doubles.homemade import Homemade
from tests.bridges.doubles.jsonrpc import JsonRpc
from tests.bridges.doubles.jupyter import Jupyter
from tests.bridges.doubles.mattermost import Mattermost
from tests.bridges.doubles.openhands import LegacySocket, SessionSocket
from tests.bridges.doubles.recursor import Recursor
from tests.bridges.doubles.recursor_live import RecursorLive
from tests.bridges.doubles.slack_socket_mode import SlackSocketMode
from tests.bridges.doubles.socketio import SocketIO


d = rb.dialects


def _text(number: int) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": f"mine {number}"}]}


def _mine(effect: Any) -> int | None:
    """The number in a message of ours, wherever the system puts it."""
    words = str(effect)
    at = words.find("mine ")
    digits = "".join(c for c in words[at + 5 : at + 8] if c.isdigit()) if at >= 0 else ""
    return int(digits) if digits else None


def _start_workflow(double: Any) -> Any:
    """Once: another start is another run, and the server shows a run to whoever started it, or asks for it."""

    async def on_connect(link: Any) -> None:
        if "run-1" not in double.runs:
            await link.send(
                {"action": "start-workflow", "workflow_id": "w", "session_id": "s", "message": "go"}
            )
        elif not link.record.positions:  # cut before the first event of it came
            await link.send({"action": "reconnect", "run_id": "run-1", "workflow_id": "w"})

    return on_connect


CASES = [
    Case(
        "openhands", lambda rng: SessionSocket(rng, key="k"), lambda _: d.openhands, path="/sockets/session/main",
        token="k", message=lambda n: (_text(n),), effect=_mine, exact=True, recovers=True,
    ),
    Case(
        "openhands_legacy", lambda rng: LegacySocket(rng, key="k"), lambda _: d.openhands_legacy,
        path="/sockets/events/main", token="k", message=lambda n: (_text(n),), effect=_mine,
    ),
    Case(
        "openhands_legacy with live events between those of a replay", lambda rng: LegacySocket(rng, key="k", pause=0.05),
        lambda _: d.openhands_legacy, path="/sockets/events/main", token="k", message=lambda n: (_text(n),), effect=_mine,
        unordered_after_timeout=True,
    ),
    Case(
        "sequence", lambda rng: Homemade(rng, contiguous=True, names="timestamp"),
        lambda _: d.sequence(field="seq", ask="last_seq"), exact=True,
    ),
    Case(
        "sequence without ids and times", lambda rng: Homemade(rng, contiguous=True),
        lambda _: d.sequence(field="seq", ask="last_seq"), exact=True,
    ),
    Case(
        "sequence in a frame, with an end, a reset and an epoch",
        lambda rng: Homemade(
            rng, ask="frame", hello=True, epoch="epoch", end_marker="replay_end", gap_frame="gap", registers="first"
        ),
        lambda _: d.sequence(
            field="seq", ask={"type": "resume", "last_seq": "{position}"}, end="replay_end", reset="gap",
            hello="hello", epoch="epoch", start=0,
        ),
        exact=True,
    ),
    Case(
        "sequence with holes", lambda rng: Homemade(rng, contiguous=False, on_disk=True, names="id"),
        lambda _: d.sequence(field="seq", ask="last_seq", contiguous=False),
    ),
    Case(
        "last_event_id",
        lambda rng: Homemade(rng, kind="id", field="id", since="last_event_id", end_marker="end", gap_frame="gap"),
        lambda _: d.last_event_id(field="id", end="end", reset="gap"),
    ),
    Case(
        "since",
        lambda rng: Homemade(rng, kind="time", field="timestamp", since="since", inclusive=True, on_disk=True),
        lambda _: d.since(id=None),
    ),
    Case(
        "agno", lambda rng: Agno(rng, token="t", database="works"), lambda _: d.agno(workflow_id="w"), path="/workflows/ws", token="t",
        on_connect=_start_workflow, is_ready=lambda double: "run-1" in double.runs, server_faults=False, channels=("run-1",), exact=True,
    ),
    Case(
        "agno that misses events between its replay and its live ones",
        lambda rng: Agno(rng, database="works", registers_after=0.5), lambda _: d.agno(workflow_id="w"),
        path="/workflows/ws", on_connect=_start_workflow, is_ready=lambda double: "run-1" in double.runs, channels=("run-1",), server_faults=False, exact=True,
    ),
    Case(
        "socketio", SocketIO, lambda _: d.socketio(),
        path="/socket.io/?EIO=4&transport=websocket",
    ),
    Case(
        "socketio without recovery", lambda rng: SocketIO(rng, recovery=False), lambda _: d.socketio(recovery=False),
        path="/socket.io/?EIO=4&transport=websocket",
    ),
    Case(
        "jupyter", Jupyter, lambda _: d.jupyter(session="s"),
        url=lambda double, base: f"{base}/api/kernels/{double.kernel}/channels?session_id=s",
        server_faults=False,
    ),
    Case("jsonrpc", JsonRpc, lambda _: d.jsonrpc),
    Case("plain", JsonRpc, lambda _: d.plain),
    Case(
        "recursor", Recursor, lambda _: d.recursor, token="secret",
        message=lambda n: ("chat", {"text": f"mine {n}"}), effect=_mine,
    ),
    Case(
        "recursor with server_id and message_ack", lambda rng: Recursor(rng, answers=True), lambda _: d.recursor, token="secret",
        message=lambda n: ("chat", {"text": f"mine {n}"}), effect=_mine, recovers=True,
    ),
    Case("recursor_live", lambda rng: RecursorLive(rng, token="t"), lambda _: d.recursor_live, token="t"),
    Case(
        "mattermost", Mattermost, lambda _: d.mattermost, path="/api/v4/websocket", token="secret",
    ),
    Case(
        "slack_socket_mode", SlackSocketMode, lambda _: d.slack_socket_mode,
        url=lambda double, base: lambda: base + double.new_path(), reorders=True,
    ),
    Case(
        "centrifugo", Centrifugo, lambda double: d.centrifugo(double.channel),
        path="/connection/websocket?format=json", channels=("news",),
        message=lambda n: ("chat", {"text": f"mine {n}"}), effect=_mine,
    ),
]  # fmt: skip
