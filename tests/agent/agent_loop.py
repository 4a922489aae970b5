"""The agent loop of docs/how-to/write-an-agent-loop.md, run from the page, with the real SDKs and a scripted HTTP edge.

Rule: no code of the loop is repeated here. Every request that reaches a provider is in `asked`, whatever its outcome.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import anthropic
import httpx2
import openai

import resilient_bridge as rb


PAGE = Path(__file__).parents[2] / "docs/how-to/write-an-agent-loop.md"
PROVIDER_ERRORS = {
    "quota": {"message": "You exceeded your current quota", "code": "insufficient_quota"},
    "too long": {
        "message": "maximum context length is 8192 tokens",
        "code": "context_length_exceeded",
    },
    "prompt too long": {
        "message": "prompt is too long: 9000 tokens > 8000",
        "type": "invalid_request_error",
    },
    "key": {"message": "Incorrect API key provided: sk-secret", "code": "invalid_api_key"},
    "policy": {"message": "refused by the policy", "code": "content_policy_violation"},
}


def printed():
    """Return the names that the page's first blocks define, from a new run of them."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names = {"__name__": "agent_loop_page"}
    for block in blocks[:2]:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def calling(name, arguments, number=1):
    """Return one call of a tool, in OpenAI's format."""
    arguments = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def gpt(text, *calls, usage=(1000, 100)):
    """An answer of OpenAI's: text, or calls of tools."""
    message = {
        "role": "assistant",
        "content": text,
        **({"tool_calls": list(calls)} if calls else {}),
    }
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "message": message}
    used = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-large",
        "choices": [choice],
    }
    return httpx2.Response(200, json={**body, "usage": used})


def claude(text, *calls, usage=(1000, 100)):
    """An answer of Anthropic's: text, then calls of tools, each (id, name, input)."""
    blocks = [{"type": "text", "text": text}] if text else []
    blocks += [
        {"type": "tool_use", "id": id_, "name": name, "input": received}
        for id_, name, received in calls
    ]
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-large",
        "content": blocks,
    }
    used = {"input_tokens": usage[0], "output_tokens": usage[1]}
    reason = "tool_use" if calls else "end_turn"
    return httpx2.Response(200, json={**body, "stop_reason": reason, "usage": used})


def refused(status, why=None, **headers):
    """A refusal; `why` is a key of PROVIDER_ERRORS, underscores in header names stand for dashes."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(
        status, json={"error": PROVIDER_ERRORS.get(why, {"message": "no"})}, headers=fields
    )


class Edge:
    """Both providers, with answers in order: a response, a function that returns one, or an httpx2 error to raise.

    `asked` are the requests as (provider, body); a request without a scripted answer gets 400.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    @property
    def who(self):
        """The providers asked, in order."""
        return [who for who, _ in self.asked]

    def __call__(self, request):
        """Answer one request."""
        who = "gpt" if request.url.path.endswith("/chat/completions") else "claude"
        self.asked.append((who, json.loads(request.content)))
        answer = self.answers.pop(0) if self.answers else refused(400)
        if not isinstance(answer, type):
            return answer if isinstance(answer, httpx2.Response) else answer()
        raise answer("broken", request=request)

    def clients(self):
        """The real SDKs, in front of this edge."""
        for kind in (openai.AsyncOpenAI, anthropic.AsyncAnthropic):
            http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
            yield kind(api_key="sk-secret", http_client=http)


class Board:
    """The `acknowledge` of a model switch: returns `answer`, and records the failures it was asked about."""

    def __init__(self, answer=True):
        self.answer = answer
        self.asked = []

    def __call__(self, failure):
        """Answer."""
        self.asked.append(failure)
        return self.answer


OFFERED = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name,
            "parameters": {
                "type": "object",
                "properties": {argument: {"type": "string"}},
                "required": [argument],
            },
        },
    }
    for name, argument in (("read_file", "path"), ("look_at", "url"))
]


class World:
    """A loop with an edge, a board, a budget, and two tools whose runs are in `ran`.

    `read_file` and `look_at` replace the functions of the tools; other options go to the page's `agent`.
    """

    def __init__(
        self, *answers, board=True, dollars="100", read_file=None, look_at=None, **options
    ):
        self.page = printed()
        self.edge, self.board, self.budget = (
            Edge(*answers),
            Board(board),
            rb.agent.SpendBudget(dollars),
        )
        self.toolbox, self.ran = rb.agent.Toolbox(), []

        @self.toolbox.tool(name="read_file")
        async def read(path: str) -> str:
            self.ran.append(path)
            return await read_file(path) if read_file else f"what is in {path}"

        @self.toolbox.tool(name="look_at", required=False, idempotent=True)
        async def look(url: str) -> str:
            self.ran.append(url)
            return await look_at(url) if look_at else f"what is at {url}"

        surroundings = {"budget": self.budget, "acknowledge": self.board, **options}
        self.run = self.page["agent"](*self.edge.clients(), self.toolbox, OFFERED, **surroundings)

    def tool_results(self):
        """Return the results of the tools in the last request to OpenAI."""
        messages = self.edge.asked[-1][1]["messages"]
        return [json.loads(each["content"]) for each in messages if each["role"] == "tool"]
