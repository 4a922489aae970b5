"""OpenHands' agent server with one conversation, whose model is a web server in this process that always answers `ok`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from aiohttp import web

from tests.bridges.servers.install import program
from tests.bridges.servers.process import ServerProcess, started
from tests.peers.ports import HOST, Port


KEY = "k"
PUBLISHED = "published "  # how the text of `publish` begins
COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 0,
    "model": "fake",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


async def _complete(request: web.Request) -> web.Response:
    return web.json_response(COMPLETION)


class OpenHandsServer(ServerProcess):
    """`url` is the session socket, without a position; `legacy_url` the older one."""

    name = "openhands"

    def __init__(self, folder: Path) -> None:
        """Choose the conversation's id."""
        super().__init__(folder)
        self.key = KEY
        self.conversation = str(uuid4())
        self._model = Port()
        self._sockets = TemporaryDirectory(prefix="rb-tmux-")  # a long path of sockets is not taken
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The session socket of the conversation; clients add `?after_seq=N`."""
        return f"ws://{HOST}:{self.port}/sockets/session/{self.conversation}"

    @property
    def legacy_url(self) -> str:
        """The socket of the conversation that resumes by time."""
        return f"ws://{HOST}:{self.port}/sockets/events/{self.conversation}"

    def command(self) -> list[str]:
        """Its own command."""
        return [program(self.name, "agent-server"), "--host", HOST, "--port", str(self.port)]

    def environment(self) -> dict[str, str]:
        """All its files in the server's folder, nothing that it would fetch, nothing it would start besides."""
        folders = {
            "OH_CONVERSATIONS_PATH": "conversations",
            "OH_WORKSPACE_PATH": "project",
            "OH_BASH_EVENTS_DIR": "bash",
            "OH_CONVERSATION_WORKTREE_ROOT": "worktrees",
        }
        plain = {
            "SESSION_API_KEY": self.key,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OH_ENABLE_VSCODE": "false",
            "OH_PRELOAD_TOOLS": "false",
            "DO_NOT_TRACK": "1",
            "TMUX_TMPDIR": self._sockets.name,
        }
        return plain | {name: str(self.folder / path) for name, path in folders.items()}

    async def answers(self) -> bool:
        """Whether it is ready for conversations."""
        return (await self.http("GET", "/ready")).is_success

    async def start(self) -> None:
        """Start it, with its model; the conversation is made the first time, and read from disk later."""
        if self._runner is None:
            app = web.Application()
            app.add_routes([web.post("/v1/chat/completions", _complete)])
            self._runner = web.AppRunner(app, shutdown_timeout=0.1)
            await self._runner.setup()
            await web.SockSite(self._runner, self._model.listen()).start()
        await super().start()
        if not (await self._api("GET", "")).is_success:
            await self._create()

    async def new_conversation(self) -> None:
        """Begin another conversation, with an empty log; both urls are those of the new one from now on."""
        self.conversation = str(uuid4())
        await self._create()

    async def publish(self, number: int) -> None:
        """Add a user's message that the agent does not answer, as another client would: two stored events, or three after a run."""
        await self.say(f"{PUBLISHED}{number}", run=False)

    async def say(self, text: str, *, run: bool) -> None:
        """Add a user's message over REST."""
        content = [{"type": "text", "text": text}]
        body = {"role": "user", "content": content, "run": run}
        (await self._api("POST", "/events", json=body)).raise_for_status()

    async def status(self) -> str:
        """What the agent does: `running`, `finished`, `idle`."""
        return (await self._api("GET", "")).raise_for_status().json()["execution_status"]

    async def events(self) -> list[dict]:
        """The log of the conversation, read from disk."""
        files = (self.folder / "conversations").glob("*/events/event-*.json")
        return [json.loads(file.read_text()) for file in sorted(files)]

    async def ledger(self) -> list[str]:
        """The text of each user's message that is stored, those of `publish` left out."""
        stored = [event for event in await self.events() if event["kind"] == "MessageEvent"]
        texts = [
            event["llm_message"]["content"][0]["text"]
            for event in stored
            if event["source"] == "user"
        ]
        return [text for text in texts if not text.startswith(PUBLISHED)]

    async def close(self) -> None:
        """Kill it, and end its model."""
        await super().close()
        if self._runner is not None:
            await self._runner.cleanup()
        self._model.close()
        self._sockets.cleanup()

    async def _create(self) -> None:
        llm = {
            "model": "openai/fake",
            "api_key": "k",
            "usage_id": "agent",
            "num_retries": 0,
            "base_url": f"http://{HOST}:{self._model.number}/v1",
        }
        body = {
            "conversation_id": self.conversation,
            "agent": {"kind": "Agent", "llm": llm, "tools": []},
            "workspace": {"kind": "LocalWorkspace", "working_dir": str(self.folder / "project")},
            "autotitle": False,
        }
        answer = await self.http("POST", "/api/conversations", headers=self._headers(), json=body)
        assert answer.is_success, answer.text

    async def _api(self, method: str, path: str, **options):
        return await self.http(
            method,
            f"/api/conversations/{self.conversation}{path}",
            headers=self._headers(),
            **options,
        )

    def _headers(self) -> dict[str, str]:
        return {"X-Session-API-Key": self.key}


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[OpenHandsServer]:
    """A server with an empty conversation."""
    async with started(OpenHandsServer, folder) as server:
        yield server
