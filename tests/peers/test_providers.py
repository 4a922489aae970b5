"""The local OpenAI, Anthropic and Google, with their real SDKs without retries: what the caller of a plain SDK gets."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager

import anthropic
import httpx2
import openai
import pytest
from anyio.from_thread import start_blocking_portal
from google import genai
from google.genai import types

from tests.peers.faults import Fault
from tests.peers.providers import Providers
from tests.peers.scripted_answers import Turn


pytestmark = pytest.mark.real

ALL = ("openai", "anthropic", "google")
WORDS = [{"role": "user", "content": "hi"}]


class OpenAI:
    """The bare openai SDK."""

    def __init__(self, server):
        self.client = openai.AsyncOpenAI(base_url=server.openai, api_key="k", max_retries=0)

    async def whole(self, timeout):
        answer = await self.client.chat.completions.create(
            model="m", messages=WORDS, timeout=timeout
        )
        return answer.choices[0].message.content

    async def stream(self, timeout):
        async with await self.client.chat.completions.create(
            model="m", messages=WORDS, stream=True, timeout=timeout
        ) as chunks:
            async for chunk in chunks:
                yield chunk.choices[0].delta.content


class Anthropic:
    """The bare anthropic SDK."""

    def __init__(self, server):
        self.client = anthropic.AsyncAnthropic(
            base_url=server.anthropic, api_key="k", max_retries=0
        )

    async def whole(self, timeout):
        answer = await self.client.messages.create(
            model="m", messages=WORDS, max_tokens=9, timeout=timeout
        )
        return answer.content[0].text

    async def stream(self, timeout):
        async with await self.client.messages.create(
            model="m", messages=WORDS, max_tokens=9, timeout=timeout, stream=True
        ) as events:
            async for event in events:
                if event.type == "content_block_delta":
                    yield event.delta.text


class Google:
    """The bare google-genai SDK."""

    def __init__(self, server):
        # Always over httpx2: if aiohttp is installed, the SDK would use that.
        options = types.HttpOptions(
            base_url=server.google, async_client_args={"transport": httpx2.AsyncHTTPTransport()}
        )
        self.client = genai.Client(api_key="k", http_options=options).aio

    async def whole(self, timeout):
        return (await self.client.models.generate_content(**_google(timeout))).text

    async def stream(self, timeout):
        async with aclosing(
            await self.client.models.generate_content_stream(**_google(timeout))
        ) as chunks:
            async for chunk in chunks:
                yield chunk.text


def _google(timeout):
    options = types.HttpOptions(timeout=int(timeout * 1000))
    return {
        "model": "m",
        "contents": "hi",
        "config": types.GenerateContentConfig(http_options=options),
    }


SDKS = {"openai": OpenAI, "anthropic": Anthropic, "google": Google}


@asynccontextmanager
async def sdk(provider, server):
    """The SDK of that provider, its client closed afterwards."""
    bare = SDKS[provider](server)
    async with bare.client:
        yield bare


async def ask(bare, *, stream=False, timeout=20.0):
    """Return the words of the answer, and the error's package, class and status (or code), if there was one."""
    parts = []
    try:
        if stream:
            async with aclosing(bare.stream(timeout)) as words:
                async for word in words:
                    parts.append(word)  # noqa: PERF401  # what came before an error counts
        else:
            parts.append(await bare.whole(timeout))
    except Exception as error:  # noqa: BLE001  # the table says which
        kind = type(error)
        code = getattr(error, "status_code", getattr(error, "code", None))
        return [
            word for word in parts if word
        ], f"{kind.__module__.partition('.')[0]}.{kind.__name__} {code}"
    return [word for word in parts if word], None


def rows(table, provider):
    """The rows of one provider."""
    return [row.split()[1:] for row in table.strip().splitlines() if row.split()[0] == provider]


@pytest.mark.parametrize("provider", ALL)
async def test_they_answer_and_stream(provider):
    """Each SDK reads the answer and every item of the stream; each request is counted, and the connection is kept."""
    async with Providers() as server, sdk(provider, server) as bare:
        assert await ask(bare) == (["one two three"], None)
        assert await ask(bare, stream=True) == (["one", " two", " three"], None)
        server.script(Turn.answered("other"))
        assert await ask(bare) == (["other"], None)
        assert (server.requests, server.executed, server.connections) == (3, 3, 1)


REFUSALS = """
openai    unauthorized   openai.AuthenticationError 401
openai    rate_limited   openai.RateLimitError 429
openai    quota          openai.RateLimitError 429
openai    server_error   openai.InternalServerError 500
openai    unavailable    openai.InternalServerError 503
openai    context_length openai.BadRequestError 400
anthropic unauthorized   anthropic.AuthenticationError 401
anthropic rate_limited   anthropic.RateLimitError 429
anthropic quota          anthropic.BadRequestError 400
anthropic server_error   anthropic.InternalServerError 500
anthropic unavailable    anthropic.ServiceUnavailableError 503
anthropic overloaded     anthropic.OverloadedError 529
anthropic context_length anthropic.BadRequestError 400
google    unauthorized   google.ClientError 400
google    rate_limited   google.ClientError 429
google    quota          google.ClientError 429
google    server_error   google.ServerError 500
google    unavailable    google.ServerError 503
google    context_length google.ClientError 400
"""


@pytest.mark.parametrize("provider", ALL)
async def test_they_refuse_as_the_real_ones_do(provider):
    """Status and body give the SDK's own class of error, for an answer and for a stream alike; no SDK retried."""
    async with Providers() as server, sdk(provider, server) as bare:
        seen = []
        for failing, *_ in (expected := rows(REFUSALS, provider)):
            server.script(Turn.refused(failing), Turn.refused(failing))
            refused = await ask(bare)
            assert await ask(bare, stream=True) == refused
            seen.append([failing, *refused[1].split()])
        assert seen == expected
        assert server.requests == 2 * len(expected)


async def test_what_openai_tells_besides_the_status_arrives():
    """Retry-After, retry-after-ms, x-should-retry, the code of the body, and a status of one's own."""
    async with Providers() as server, sdk("openai", server) as bare:
        server.script(
            Turn.refused(
                "quota", retry_after=7, retry_after_ms=7000, should_retry=False, status=529
            )
        )
        with pytest.raises(openai.InternalServerError) as caught:
            await bare.whole(20)
        headers = caught.value.response.headers
        assert (headers["retry-after"], headers["retry-after-ms"]) == ("7", "7000")
        assert (headers["x-should-retry"], caught.value.code) == ("false", "insufficient_quota")
        assert caught.value.status_code == 529


async def test_what_the_others_tell_in_the_body_arrives():
    """Google's RetryInfo and the quota that ended, Anthropic's type of error: also in a stream, whose status is 200."""
    async with (
        Providers() as server,
        sdk("google", server) as google,
        sdk("anthropic", server) as bare,
    ):
        server.script(
            Turn.refused("quota", retry_after=7), Turn.refused("overloaded"), Turn.failed()
        )
        with pytest.raises(genai.errors.ClientError) as limited:
            await google.whole(20)
        quota, delay = limited.value.details["error"]["details"]
        assert ("PerDay" in str(quota), delay["retryDelay"]) == (True, "7s")
        for stream, status in ((False, 529), (True, 200)):
            with pytest.raises(anthropic.APIStatusError) as overloaded:
                await (anext(bare.stream(20)) if stream else bare.whole(20))
            assert (overloaded.value.type, overloaded.value.status_code) == (
                "overloaded_error",
                status,
            )


BROKEN = """
openai    error openai.APIError server_is_overloaded
openai    cut   openai.APIConnectionError None
openai    reset openai.APIConnectionError None
openai    stall openai.APITimeoutError None
anthropic error anthropic.APIStatusError 200
anthropic cut   httpx2.RemoteProtocolError None
anthropic reset httpx2.ReadError None
anthropic stall httpx2.ReadTimeout None
google    error google.ServerError 503
google    cut   httpx2.RemoteProtocolError None
google    reset httpx2.ReadError None
google    stall httpx2.ReadTimeout None
"""
BROKEN_STREAMS = {
    "error": Turn.failed,
    "cut": Turn.cut,
    "reset": lambda after: Turn.cut(after=after, reset=True),
    "stall": Turn.stalled,
}


@pytest.mark.parametrize("provider", ALL)
async def test_they_break_streams(provider):
    """At the first event or after some items the error is the same, and no item is lost or added."""
    async with Providers() as server, sdk(provider, server) as bare:
        for ending, *words in rows(BROKEN, provider):
            patience = 0.2 if ending == "stall" else 20
            server.script(BROKEN_STREAMS[ending](after=0), BROKEN_STREAMS[ending](after=2))
            assert await ask(bare, stream=True, timeout=patience) == ([], " ".join(words))
            assert await ask(bare, stream=True, timeout=patience) == (
                ["one", " two"],
                " ".join(words),
            )


@pytest.mark.parametrize("provider", ALL)
async def test_the_faults_of_http_strike_here_too(provider):
    """A request reset before it runs is not executed, one reset afterwards is; the SDK's error is the same."""
    async with Providers() as server, sdk(provider, server) as bare:
        server.strike(Fault.reset_before())
        _, before = await ask(bare)
        assert (before is not None, server.executed) == (True, 0)
        server.strike(Fault.reset_after())
        assert (await ask(bare), server.executed) == (([], before), 1)


def test_a_sync_client_meets_them_on_a_loop_in_a_thread():
    """Without a loop of one's own, anyio's portal runs the server; the SDK's own retries are seen in the count."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Providers()) as server,
        openai.OpenAI(base_url=server.openai, api_key="k", max_retries=2) as client,
    ):
        server.script(*[Turn.refused("rate_limited", retry_after_ms=1)] * 2)
        answer = client.chat.completions.create(model="m", messages=WORDS)
        assert answer.choices[0].message.content == "one two three"
        assert server.requests == 3


async def test_a_mistake_of_the_peer_itself_is_raised():
    """A script that does not fit the request fails its test, whatever the client does with the broken answer."""
    with pytest.raises(ExceptionGroup) as caught:
        async with Providers() as server, sdk("openai", server) as bare:
            server.script(Turn.stalled())
            assert (await ask(bare))[1] == "openai.APIConnectionError None"
    assert "wanted a request for a stream" in str(caught.value.exceptions[0])
