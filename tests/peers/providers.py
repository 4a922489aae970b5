"""A local server for the OpenAI, Anthropic and Google SDKs, with as much of each API as they need to answer, stream and fail.

Rule: the script says what happens; the path of the request selects the provider's format.
`async with Providers() as server: server.script(Turn.refused("rate_limited", retry_after=1)); AsyncOpenAI(base_url=server.openai)`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from tests.peers.http_fault import HttpFault
from tests.peers.http_wire import Answer, BreakError, Request
from tests.peers.scripted_answers import Anthropic, Dialect, Google, OpenAI, Turn


async def _stream(dialect: Dialect, turn: Turn, n: int) -> AsyncGenerator[bytes, None]:
    opening, words, end = dialect.events(turn, n)
    events = [*opening, *words, *end]
    if turn.ending is not None:
        events = [*opening, *words[: turn.after]] if turn.after else []
    for event in events:
        yield event
    if turn.ending == "error":
        yield dialect.error(turn)
    elif turn.ending == "stall":
        await asyncio.Event().wait()
    elif turn.ending not in (None, "polite"):
        raise BreakError(reset=turn.ending == "reset")


class Providers(HttpFault):
    """The server. `openai`, `anthropic`, `google` are the addresses for the SDKs; `requests` and `log` are what arrived.

    What is not scripted is answered with three words. The faults of HttpFault (`strike`, `decide`) strike here too.
    """

    def __init__(self) -> None:
        """Nothing is scripted yet."""
        super().__init__(self._answer)
        self._script: deque[Turn] = deque()

    @property
    def openai(self) -> str:
        """`base_url` of openai's clients."""
        return self.url("/openai/v1")

    @property
    def anthropic(self) -> str:
        """`base_url` of anthropic's clients."""
        return self.url("/anthropic")

    @property
    def google(self) -> str:
        """`HttpOptions(base_url=…)` of google-genai's clients."""
        return self.url("/google")

    def script(self, *answers: Turn) -> None:
        """Add the answers to the next requests, one each, in order."""
        self._script.extend(answers)

    def _answer(self, request: Request) -> Answer:
        path = request.path.partition("?")[0]
        body = request.json() or {}
        dialect: Dialect
        if path.endswith("/chat/completions"):
            dialect, is_stream = OpenAI(), bool(body.get("stream"))
        elif path.endswith("/v1/messages"):
            dialect, is_stream = Anthropic(), bool(body.get("stream"))
        elif path.endswith((":generateContent", ":streamGenerateContent")):
            dialect, is_stream = Google(), path.endswith(":streamGenerateContent")
        else:
            return Answer.of({"error": {"message": f"no such path: {path}"}}, 404)
        turn = self._script.popleft() if self._script else Turn()
        assert is_stream or turn.ending is None, (
            "wanted a request for a stream, got one for a whole answer"
        )
        if turn.failing is not None and turn.ending is None:
            status, body = dialect.refusal(turn)
            return Answer.of(body, turn.status or status, **dict(turn.headers))
        if is_stream:
            return Answer(
                200, _stream(dialect, turn, request.n), {"content-type": "text/event-stream"}
            )
        return Answer.of(dialect.whole(turn, request.n))
