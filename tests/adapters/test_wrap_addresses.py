"""`wrap` and where a key is sent: not in clear text to another machine, unless that is allowed (threat 42)."""

from __future__ import annotations

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors, types

import resilient_bridge as rb
from resilient_bridge.failure import Category
from tests.rows import each_row


FAR = "http://user:c4n4ry@models.example:8000/v1"
NEAR = [
    "http://127.0.0.1:8000/v1",
    "http://localhost/v1",
    "http://[::1]:9/v1",
    "https://models.example/v1",
]


def _google(url):
    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))


KINDS = {
    "openai": (lambda url: openai.OpenAI(api_key="k", base_url=url), openai.OpenAIError),
    "openai async": (lambda url: openai.AsyncOpenAI(api_key="k", base_url=url), openai.OpenAIError),
    "openai's websocket": (
        lambda url: openai.OpenAI(api_key="k", websocket_base_url=url.replace("http", "ws")),
        openai.OpenAIError,
    ),
    "azure": (
        lambda url: openai.AzureOpenAI(api_key="k", base_url=url, api_version="v"),
        openai.OpenAIError,
    ),
    "anthropic": (
        lambda url: anthropic.Anthropic(api_key="k", base_url=url),
        anthropic.AnthropicError,
    ),
    "anthropic async": (
        lambda url: anthropic.AsyncAnthropic(auth_token="k", base_url=url),
        anthropic.AnthropicError,
    ),
    "google": (_google, errors.APIError),
    "google async": (lambda url: _google(url).aio, errors.APIError),
}


@each_row("kind", KINDS)
def test_a_key_does_not_go_to_another_machine_in_clear_text(kind):
    """Refused where it is wrapped, as ours and the SDK's error, which shows the place and no user or password."""
    make, base = KINDS[kind]
    with pytest.raises(
        base, match=r"wanted (http|ws)s://, got (http|ws)://models\.example:8000"
    ) as caught:
        rb.wrap(make(FAR))
    failure = rb.classify(caught.value)
    assert (failure.code, failure.category, failure.retryable) == (
        "CONN_INSECURE",
        Category.CONFIG,
        False,
    )
    assert "c4n4ry" not in failure.explain() + repr(caught.value) + str(caught.value)
    assert any("allow_plaintext_credentials" in each for each in failure.suggestions)
    own = make(FAR)
    assert isinstance(rb.wrap(own, allow_plaintext_credentials=True), type(own))


@each_row("url", NEAR)
@each_row("kind", KINDS)
def test_this_machine_and_tls_are_welcome(kind, url):
    """Loopback by name or address, and https."""
    make, _ = KINDS[kind]
    rb.wrap(make(url))


@each_row("kind", ["openai", "openai async", "anthropic", "anthropic async"])
@each_row("derive", ["with_options", "copy"])
def test_a_derived_client_is_looked_at_like_the_first_one(kind, derive):
    """`with_options(base_url=…)` and `copy` leave the rule where it is, and so does a permission."""
    make, base = KINDS[kind]
    client = rb.wrap(make(NEAR[0]))
    with pytest.raises(base) as caught:
        getattr(client, derive)(base_url=FAR)
    assert rb.classify(caught.value).code == "CONN_INSECURE"
    allowed = rb.wrap(make(NEAR[0]), allow_plaintext_credentials=True)
    assert getattr(allowed, derive)(base_url=FAR).max_retries == 0


@pytest.mark.parametrize("named", ["http_options", "httpOptions"])
async def test_one_call_of_google_cannot_go_there_either(named):
    """The options of a call may name another place; nothing is sent."""
    requests = []
    transport = httpx2.MockTransport(
        lambda request: requests.append(request) or httpx2.Response(200, json={})
    )
    http = types.HttpOptions(
        httpx_client=httpx2.Client(transport=transport),
        httpx_async_client=httpx2.AsyncClient(transport=transport),
    )
    own = genai.Client(api_key="k", http_options=http)
    config = {named: {"base_url" if "_" in named else "baseUrl": "http://models.example"}}
    ask = {"model": "m", "contents": "hi", "config": config}
    client = rb.wrap(own)
    for call in (client.models.generate_content, client.models.generate_content_stream):
        with pytest.raises(errors.APIError, match=r"got http://models\.example"):
            call(**ask)
    with pytest.raises(errors.APIError, match=r"got http://models\.example"):
        await client.aio.models.generate_content(**ask)
    assert requests == []
    await rb.wrap(own, allow_plaintext_credentials=True).aio.models.generate_content(**ask)
    assert [request.url.host for request in requests] == ["models.example"]


def test_a_permission_is_true_or_false():
    """Anything else is a mistake."""
    with pytest.raises(rb.ConfigError, match=r"wrap\.allow_plaintext_credentials"):
        rb.wrap(openai.OpenAI(api_key="k"), allow_plaintext_credentials="yes")
