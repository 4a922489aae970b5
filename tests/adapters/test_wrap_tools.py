"""`wrap` and tools: what google-genai runs inside of a call is never run twice by a repeat, nor what a provider runs on its side."""

from __future__ import annotations

import json
from types import SimpleNamespace

import anthropic
import httpx2
import mcp
import openai
import pytest
import wrapt
from google import genai
from google.genai import errors, types
from mcp import types as mcp_types

import resilient_bridge as rb
from resilient_bridge.errors import Executed
from tests.adapters import test_wrap_anthropic as claude
from tests.adapters import wrapped_openai as gpt
from tests.internals.adapters import google_runs_tools, openai_effect
from tests.rows import each_row


pytestmark = pytest.mark.requirement("S8")
FAST = rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.constant(1)))
ASKED = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [{"functionCall": {"name": "order", "args": {}}}],
            },
            "finishReason": "STOP",
        }
    ]
}
DONE = {
    "candidates": [
        {"content": {"role": "model", "parts": [{"text": "done"}]}, "finishReason": "STOP"}
    ]
}


def scripted(*answers, policy=FAST, **options):
    """A wrapped client that is answered in turn, whole or streamed as it asks, and at last told that it is done."""
    script, requests = list(answers), []

    def answer(request):
        requests.append(request)
        stated = script.pop(0) if script else DONE
        if isinstance(stated, int):
            return httpx2.Response(
                stated, json={"error": {"code": stated, "status": "X", "message": "no"}}
            )
        if not isinstance(stated, dict):
            raise stated("broken", request=request)
        if "stream" not in request.url.path:
            return httpx2.Response(200, json=stated)
        return httpx2.Response(
            200,
            text=f"data: {json.dumps(stated)}\n\n",
            headers={"content-type": "text/event-stream"},
        )

    transport = httpx2.MockTransport(answer)
    http = types.HttpOptions(
        httpx_client=httpx2.Client(transport=transport),
        httpx_async_client=httpx2.AsyncClient(transport=transport),
    )
    return rb.wrap(genai.Client(api_key="k", http_options=http), policy, **options), requests


class Session(mcp.ClientSession):
    """A session of MCP with one tool, without a connection."""

    def __init__(self, runs):
        self.runs = runs

    async def list_tools(self, *args, **kwargs):
        tool = mcp_types.Tool(
            name="order", description="Order.", inputSchema={"type": "object", "properties": {}}
        )
        return mcp_types.ListToolsResult(tools=[tool])

    async def call_tool(self, name=None, arguments=None, *args, **kwargs):
        self.runs.append(name)
        return mcp_types.CallToolResult(
            content=[mcp_types.TextContent(type="text", text="ordered")]
        )

    def __deepcopy__(self, memo):
        return self  # google-genai copies a config with everything in it


def function(runs):
    """A tool that is a function."""

    def order() -> str:
        """Order something."""
        runs.append("order")
        return "ordered"

    return order


async def plain(client, config):
    return await client.aio.models.generate_content(model="m", contents="hi", config=config)


async def stream(client, config):
    async for _ in await client.aio.models.generate_content_stream(
        model="m", contents="hi", config=config
    ):
        pass


async def chat(client, config):
    return await client.aio.chats.create(model="m", config=config).send_message("hi")


async def chat_by_call(client, config):
    return await client.aio.chats.create(model="m").send_message("hi", config)


async def chat_stream(client, config):
    async for _ in await client.aio.chats.create(model="m", config=config).send_message_stream(
        "hi"
    ):
        pass


async def sync_plain(client, config):
    return client.models.generate_content(model="m", contents="hi", config=config)


async def sync_stream(client, config):
    return list(client.models.generate_content_stream(model="m", contents="hi", config=config))


async def sync_chat(client, config):
    return client.chats.create(model="m", config=config).send_message("hi")


async def sync_chat_by_call(client, config):
    return client.chats.create(model="m").send_message("hi", config=config)


async def sync_chat_stream(client, config):
    return list(client.chats.create(model="m", config=config).send_message_stream("hi"))


ASYNC = [plain, stream, chat, chat_by_call, chat_stream]
FORMS = [*ASYNC, sync_plain, sync_stream, sync_chat, sync_chat_by_call, sync_chat_stream]
STREAMS = {stream, chat_stream, sync_stream, sync_chat_stream}
ENDS = [429, 500, httpx2.ConnectError]


# ---- tools that the SDK runs ------------------------------------------------------------------------------------------


@each_row("end", ENDS)
@each_row("form", FORMS)
async def test_a_function_runs_once_whatever_a_later_round_ends_in(form, end):
    """A 429 in the second round does not say that the first one did not run: the call is over, and may have run."""
    runs = []
    client, requests = scripted(ASKED, end, ASKED)
    with (
        rb.testing.virtual_time() as time,
        rb.testing.record() as seen,
        pytest.raises((errors.APIError, httpx2.ConnectError)) as caught,
    ):
        await form(client, {"tools": [function(runs)]})
    assert (len(requests), runs, time.slept) == (2, ["order"], [])
    if form not in STREAMS:  # of those, an item has been handed out
        assert [
            event.failure.executed for event in seen if isinstance(event, rb.events.GaveUp)
        ] == [Executed.MAYBE]
        assert any("it may have run" in note for note in caught.value.__notes__)
        assert rb.classify(caught.value).executed is Executed.MAYBE


@each_row("end", ENDS)
@each_row("form", ASYNC)
async def test_a_tool_of_an_mcp_session_runs_once(form, end):
    """A session is no function, and google-genai calls its tools all the same."""
    runs = []
    client, requests = scripted(ASKED, end, ASKED)
    with rb.testing.virtual_time(), pytest.raises((errors.APIError, httpx2.ConnectError)):
        await form(client, types.GenerateContentConfig(tools=[Session(runs)]))
    assert (len(requests), runs) == (2, ["order"])


@each_row("form", FORMS)
async def test_it_is_made_once_from_its_first_round_on(form):
    """Nobody counts rounds: a call with tools that is refused at once is not repeated either."""
    client, requests = scripted(429)
    with rb.testing.virtual_time(), pytest.raises(errors.ClientError):
        await form(client, types.GenerateContentConfig(tools=[function([])]))
    assert len(requests) == 1


@each_row(
    "idempotent",
    [True, {"aio.models.generate_content"}, lambda call: call.kwargs["contents"] == "hi"],
)
@each_row("end", ENDS)
async def test_who_declares_it_idempotent_has_it_repeated(idempotent, end):
    """All of them, by name, or by a predicate; tools included."""
    runs = []
    client, requests = scripted(ASKED, end, ASKED, idempotent=idempotent)
    with rb.testing.virtual_time() as time:
        answer = await plain(client, {"tools": [function(runs)]})
    assert (answer.text, len(requests), len(runs), time.slept) == ("done", 4, 2, [1.0])


async def test_the_class_of_its_error_is_no_permission():
    """`on=` names errors, and not what has run: the attempt is the last one."""
    runs = []
    policy = rb.Policy(rb.Retry(attempts=4, on=[errors.ClientError, errors.ServerError]))
    client, requests = scripted(ASKED, 500, policy=policy)
    with rb.testing.virtual_time(), pytest.raises(errors.ServerError):
        await plain(client, {"tools": [function(runs)]})
    assert (len(requests), len(runs)) == (2, 1)


@pytest.mark.parametrize("is_declared", [False, True])
async def test_a_policy_around_it_does_not_repeat_it_either(is_declared):
    """It sees a 429 and nothing else; it repeats only what its own function was declared to be."""
    runs = []
    client, requests = scripted(ASKED, 429, ASKED)

    @FAST(idempotent=is_declared)
    async def ask():
        return await plain(client, {"tools": [function(runs)]})

    with rb.testing.virtual_time():
        if is_declared:
            assert (await ask()).text == "done"
        else:
            with pytest.raises(errors.ClientError):
                await ask()
    assert (len(requests), len(runs)) == ((4, 2) if is_declared else (2, 1))


OFF = [
    {"automatic_function_calling": {"disable": True}},
    {"automaticFunctionCalling": {"disable": True}},
    {"automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True)},
    {"automatic_function_calling": {"maximum_remote_calls": 0}},
]


@each_row("end", [429, 500])
@each_row("off", OFF)
@each_row("form", FORMS)
async def test_a_call_that_runs_no_tools_is_repeated(form, off, end):
    """Automatic function calling switched off: the model's wish is handed out, and nothing has run."""
    runs = []
    client, requests = scripted(end, ASKED)
    with rb.testing.virtual_time():
        await form(client, {"tools": [function(runs)], **off})
    assert (len(requests), runs) == (2, [])


@pytest.mark.parametrize(
    "config",
    [
        None,
        {"tools": []},
        {"tools": [{"google_search": {}}]},
        types.GenerateContentConfig(
            tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="f")])]
        ),
    ],
)
async def test_tools_that_are_only_declared_run_nowhere(config):
    """Descriptions of functions, and the provider's own search: a 500 is repeated."""
    client, requests = scripted(500)
    with rb.testing.virtual_time():
        assert (await plain(client, config)).text == "done"
    assert len(requests) == 2


def test_what_is_taken_for_a_tool_that_runs():
    """A session behind a proxy, as a link gives one; servers of MCP on Vertex AI alone; what can be looked at once only; and a generator is not used up by the question."""
    ask = "aio.models.generate_content"
    vertex = SimpleNamespace(_modules=SimpleNamespace(_api_client=SimpleNamespace(vertexai=True)))
    servers = {"config": {"tools": [{"mcpServers": [{"name": "shop"}]}]}}
    assert google_runs_tools(ask, servers, vertex)
    assert not google_runs_tools(ask, servers, SimpleNamespace())
    assert google_runs_tools(ask, {"config": {"tools": [wrapt.ObjectProxy(Session([]))]}}, None)
    tools = iter([{"google_search": {}}])
    assert google_runs_tools(ask, {"config": {"tools": tools}}, None)
    assert openai_effect({"tools": tools}, None)
    assert len(list(tools)) == 1
    assert not google_runs_tools("aio.caches.create", {"config": {"tools": [print]}}, None)


# ---- tools that the provider runs -------------------------------------------------------------------------------------

SHOP = {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example/mcp"}
EFFECTS = [
    {"tools": [{**SHOP, "require_approval": "never"}]},
    {"tools": [{**SHOP, "require_approval": {"always": {"tool_names": ["order"]}}}]},
    {"tools": [SHOP]},
    {"tools": [{**SHOP, "require_approval": "always"}, {**SHOP, "require_approval": "never"}]},
    {"extra_body": {"tools": [{**SHOP, "require_approval": "never"}]}},
    {"conversation": "conv_1"},
]
NO_EFFECTS = [
    {"tools": [{**SHOP, "require_approval": "always"}]},
    {
        "tools": [
            {"type": "web_search"},
            {"type": "function", "name": "f", "parameters": {}, "strict": True},
        ]
    },
    {"background": True},
    {"tools": openai.omit, "conversation": openai.omit},
]


@each_row(
    ("stated", "is_repeated"), [*((e, False) for e in EFFECTS), *((e, True) for e in NO_EFFECTS)]
)
async def test_openai_runs_tools_of_mcp_servers_itself(stated, is_repeated):
    """Unless each of them asks first, a response may have ordered the book: it is repeated only if it did not run."""
    client, requests = gpt.scripted(500, 200, policy=FAST)
    with rb.testing.virtual_time():
        if is_repeated:
            await client.responses.create(model="m", input="hi", **stated)
        else:
            with pytest.raises(openai.InternalServerError):
                await client.responses.create(model="m", input="hi", **stated)
    assert len(requests) == 1 + is_repeated
    client, requests = gpt.scripted(httpx2.ConnectError, 429, 200, policy=FAST)
    with rb.testing.virtual_time():
        await client.responses.with_raw_response.create(model="m", input="hi", **stated)
    assert len(requests) == 3


@pytest.mark.parametrize("stated", EFFECTS)
async def test_who_declares_a_response_idempotent_has_it_repeated(stated):
    """By its name; a 500 is repeated."""
    client, requests = gpt.scripted(500, 200, policy=FAST, idempotent={"responses.create"})
    with rb.testing.virtual_time():
        await client.responses.create(model="m", input="hi", **stated)
    assert len(requests) == 2


@pytest.mark.parametrize("is_served", [False, True])
async def test_anthropic_runs_tools_of_mcp_servers_itself(is_served):
    """A message with `mcp_servers` is repeated only if it did not run."""
    servers = (
        [{"type": "url", "name": "shop", "url": "https://shop.example/mcp"}] if is_served else []
    )
    client, requests = claude.scripted(429, 500, policy=FAST)
    with rb.testing.virtual_time():
        if is_served:
            with pytest.raises(anthropic.InternalServerError):
                await client.beta.messages.create(**claude.ASK, mcp_servers=servers)
        else:
            await client.beta.messages.create(**claude.ASK, mcp_servers=servers)
    assert len(requests) == (2 if is_served else 3)


@pytest.mark.parametrize("form", [plain, chat, sync_plain, sync_chat])
async def test_google_runs_tools_of_mcp_servers_itself(form):
    """Outside of Vertex AI they are the provider's to call: after a 429 it is asked again, after a 500 it is not."""
    server = types.McpServer(
        name="shop",
        streamable_http_transport=types.StreamableHttpTransport(url="https://shop.example/mcp"),
    )
    client, requests = scripted(429, 500)
    with rb.testing.virtual_time(), pytest.raises(errors.ServerError):
        await form(client, types.GenerateContentConfig(tools=[types.Tool(mcp_servers=[server])]))
    assert len(requests) == 2
