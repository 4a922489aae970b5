"""Scripted answers, streams and errors in the formats of OpenAI, Anthropic and Google.

Rule: a Turn says what happens, independent of the provider; a dialect encodes it in the provider's format. No socket here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import attrs


Failing = Literal[
    "unauthorized",
    "rate_limited",
    "quota",
    "server_error",
    "unavailable",
    "overloaded",
    "context_length",
]


@attrs.frozen(kw_only=True)
class Turn:
    """The answer to one request: `failing` without `ending` is an error status, an `ending` comes within a stream."""

    text: str = "one two three"
    failing: Failing | None = None
    headers: tuple[tuple[str, str], ...] = ()
    status: int | None = None
    ending: Literal["error", "cut", "reset", "stall", "polite"] | None = None
    after: int = 0

    @classmethod
    def answered(cls, text: str = "one two three") -> Turn:
        """Answer with that text; streamed, each word is an item."""
        return cls(text=text)

    @classmethod
    def refused(
        cls,
        failing: Failing,
        *,
        status: int | None = None,
        retry_after: float | str | None = None,
        retry_after_ms: float | None = None,
        should_retry: bool | None = None,
    ) -> Turn:
        """Refuse, by the status that the provider uses for it unless one is given. Google tells seconds in the body too."""
        fields = {
            "retry-after": None if retry_after is None else str(retry_after),
            "retry-after-ms": None if retry_after_ms is None else str(retry_after_ms),
            "x-should-retry": None if should_retry is None else str(should_retry).lower(),
        }
        headers = tuple((name, value) for name, value in fields.items() if value is not None)
        return cls(failing=failing, status=status, headers=headers)

    @classmethod
    def failed(cls, failing: Failing = "overloaded", *, after: int = 0) -> Turn:
        """Start a stream with status 200, and report an error in it after `after` items; after 0, as its first event."""
        return cls(failing=failing, ending="error", after=after)

    @classmethod
    def cut(cls, *, after: int = 0, reset: bool = False) -> Turn:
        """End the connection after `after` items of a stream: by a plain close, or a reset."""
        return cls(ending="reset" if reset else "cut", after=after)

    @classmethod
    def ended_early(cls, *, after: int) -> Turn:
        """Send `after` items of a stream and end it cleanly, but without `[DONE]`, finish reason or last event."""
        return cls(ending="polite", after=after)

    @classmethod
    def stalled(cls, *, after: int = 0) -> Turn:
        """Send `after` items of a stream, and then nothing until the client disconnects."""
        return cls(ending="stall", after=after)


class Dialect(Protocol):
    """Encodes a Turn in the format of one provider."""

    def refusal(self, turn: Turn) -> tuple[int, Any]:
        """Status and body."""
        ...

    def whole(self, turn: Turn, n: int) -> Any:
        """The body of an answer that is no stream."""
        ...

    def events(
        self, turn: Turn, n: int
    ) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]:
        """The opening, one event per item, and the end of a stream."""
        ...

    def error(self, turn: Turn) -> bytes:
        """The event of an error amid a stream."""
        ...


def _event(value: Any, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + f"data: {json.dumps(value)}\n\n".encode()


class OpenAI:
    """Chat completions."""

    _refusals: dict[Failing, tuple[int, str, str | None, str]] = {  # noqa: RUF012  # read only
        "unauthorized": (
            401,
            "invalid_request_error",
            "invalid_api_key",
            "Incorrect API key provided",
        ),
        "rate_limited": (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests"),
        "quota": (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota",
        ),
        "server_error": (
            500,
            "server_error",
            None,
            "The server had an error while processing your request",
        ),
        "unavailable": (503, "server_error", None, "The engine is currently overloaded"),
        "overloaded": (
            503,
            "server_error",
            "server_is_overloaded",
            "Our servers are currently overloaded",
        ),
        "context_length": (
            *(400, "invalid_request_error", "context_length_exceeded"),
            "This model's maximum context length is 8192 tokens",
        ),
    }

    def refusal(self, turn: Turn) -> tuple[int, Any]:
        status, kind, code, message = self._refusals[turn.failing or "server_error"]
        return status, {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def _body(self, kind: str, n: int, choice: dict[str, Any]) -> dict[str, Any]:
        choices = [{"index": 0, "finish_reason": None, **choice}]
        return {
            "id": f"r{n}",
            "object": kind,
            "created": 1,
            "model": "gpt-test",
            "choices": choices,
        }

    def whole(self, turn: Turn, n: int) -> Any:
        message = {"role": "assistant", "content": turn.text}
        usage = {"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4}
        return {
            **self._body("chat.completion", n, {"message": message, "finish_reason": "stop"}),
            "usage": usage,
        }

    def events(
        self, turn: Turn, n: int
    ) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]:
        def chunk(**choice: Any) -> bytes:
            return _event(self._body("chat.completion.chunk", n, choice))

        words = [chunk(delta={"content": word}) for word in _words(turn)]
        opening = [chunk(delta={"role": "assistant", "content": ""})]
        return opening, words, [chunk(delta={}, finish_reason="stop"), b"data: [DONE]\n\n"]

    def error(self, turn: Turn) -> bytes:
        return _event(self.refusal(turn)[1])


class Anthropic:
    """Messages."""

    _refusals: dict[Failing, tuple[int, str, str]] = {  # noqa: RUF012  # read only
        "unauthorized": (401, "authentication_error", "invalid x-api-key"),
        "rate_limited": (429, "rate_limit_error", "This request would exceed your rate limit"),
        "quota": (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API",
        ),
        "server_error": (500, "api_error", "Internal server error"),
        "unavailable": (503, "api_error", "Service unavailable"),
        "overloaded": (529, "overloaded_error", "Overloaded"),
        "context_length": (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
        ),
    }

    def refusal(self, turn: Turn) -> tuple[int, Any]:
        status, kind, message = self._refusals[turn.failing or "server_error"]
        return status, {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_1",
        }

    def _message(self, n: int, content: list[Any], stop: str | None) -> dict[str, Any]:
        usage = {"input_tokens": 1, "output_tokens": 3}
        fixed = {"type": "message", "role": "assistant", "model": "claude-test", "usage": usage}
        return {
            "id": f"r{n}",
            **fixed,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
        }

    def whole(self, turn: Turn, n: int) -> Any:
        return self._message(n, [{"type": "text", "text": turn.text}], "end_turn")

    def events(
        self, turn: Turn, n: int
    ) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]:
        def event(name: str, **fields: Any) -> bytes:
            return _event({"type": name, **fields}, name)

        opening = [
            event("message_start", message=self._message(n, [], None)),
            event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        ]
        words = [
            event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
            for word in _words(turn)
        ]
        ended = {"stop_reason": "end_turn", "stop_sequence": None}
        end = [
            event("content_block_stop", index=0),
            event("message_delta", delta=ended, usage={"output_tokens": 3}),
            event("message_stop"),
        ]
        return opening, words, end

    def error(self, turn: Turn) -> bytes:
        return _event(self.refusal(turn)[1], "error")


class Google:
    """generateContent."""

    _refusals: dict[Failing, tuple[int, str, str]] = {  # noqa: RUF012  # read only
        "unauthorized": (400, "INVALID_ARGUMENT", "API key not valid"),
        "rate_limited": (
            429,
            "RESOURCE_EXHAUSTED",
            "Resource has been exhausted (e.g. check quota)",
        ),
        "quota": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota"),
        "server_error": (500, "INTERNAL", "An internal error has occurred"),
        "unavailable": (503, "UNAVAILABLE", "The service is currently unavailable"),
        "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later"),
        "context_length": (
            400,
            "INVALID_ARGUMENT",
            "The input token count (2000000) exceeds the maximum",
        ),
    }

    def refusal(self, turn: Turn) -> tuple[int, Any]:
        status, name, message = self._refusals[turn.failing or "server_error"]
        details: list[dict[str, Any]] = []
        google = "type.googleapis.com/google.rpc"
        if turn.failing == "unauthorized":
            details.append({"@type": f"{google}.ErrorInfo", "reason": "API_KEY_INVALID"})
        if turn.failing == "quota":
            violation = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}
            details.append({"@type": f"{google}.QuotaFailure", "violations": [violation]})
        if (seconds := dict(turn.headers).get("retry-after")) is not None:
            details.append({"@type": f"{google}.RetryInfo", "retryDelay": f"{seconds}s"})
        return status, {
            "error": {
                "code": turn.status or status,
                "message": message,
                "status": name,
                "details": details,
            }
        }

    def _part(self, n: int, text: str, finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {
            "content": {"role": "model", "parts": [{"text": text}]},
            "index": 0,
        }
        if finish:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "responseId": f"r{n}", "modelVersion": "gemini-test"}

    def whole(self, turn: Turn, n: int) -> Any:
        return self._part(n, turn.text, "STOP")

    def events(
        self, turn: Turn, n: int
    ) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[bytes]]:
        return (
            [],
            [_event(self._part(n, word)) for word in _words(turn)],
            [_event(self._part(n, "", "STOP"))],
        )

    def error(self, turn: Turn) -> bytes:
        return _event(self.refusal(turn)[1])


def _words(turn: Turn) -> list[str]:
    first, *rest = turn.text.split(" ")
    return [first, *(f" {word}" for word in rest)]
