"""A wrapped SDK's stream that hangs after its first item, on a real socket."""

from __future__ import annotations

import asyncio

import openai
import pytest

import resilient_bridge as rb
from tests.adapters.wrapped_openai import ASK


async def _hanging(reader, writer):
    """Answer as a provider that streams does: one chunk, and then nothing."""
    await reader.readuntil(b"\r\n\r\n")
    chunk = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head + b"%x\r\n%b\r\n" % (len(chunk), chunk))
    await reader.read()
    writer.close()


@pytest.mark.real
@pytest.mark.parametrize(
    ("policy", "error"),
    [
        (rb.Policy(rb.Deadline(0.5), rb.Retry()), rb.DeadlineExceededError),
        (rb.Policy(rb.Retry(), rb.Timeout(20, idle=0.5)), rb.errors.AttemptTimeoutError),
    ],
    ids=["deadline", "idle"],
)
async def test_e05_a_stream_that_hangs_is_ended(policy, error):
    """By the Deadline, or by the time it may be idle: an error of ours and of openai's, the chunk that came was handed out."""
    server = await asyncio.start_server(_hanging, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    own = openai.AsyncOpenAI(base_url=url, api_key="k", timeout=30)
    got = []
    async with server, rb.wrap(own, policy) as client:
        with pytest.raises(error) as raised:
            async for chunk in await client.chat.completions.create(**ASK, stream=True):
                got += [chunk.choices[0].delta.content]
    assert got == ["hi"]
    assert isinstance(raised.value, openai.OpenAIError)
