"""Row 40: secrets that must never be printed. Every text of a client is collected, and searched for a canary.

Rule: the canary is searched in every form in which a program could print it, including the native causes of our errors.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import traceback
from urllib.parse import quote

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import BridgeError
from tests.internals.telemetry import MessageRejected
from tests.threats.watching import Watch, refuse_with, simulated


CANARY = "c4n4ry-S3CR3T-8f1e7a02b9d64c55"
ANOTHER = "4n0ther-T0K3N-77aa10c3e2f94b06"


@pytest.fixture
def everything(caplog):
    """Set all loggers to DEBUG, so that the logs of other libraries are searched, too."""
    caplog.set_level(logging.DEBUG)
    for name in (
        "websockets",
        "websockets.client",
        "asyncio",
        "resilient_bridge",
        "resilient_bridge.transports",
    ):
        caplog.set_level(logging.DEBUG, logger=name)
    # the bridge is the server of the test: its own logs of received data are not searched
    logging.getLogger("websockets.server").disabled = True
    yield caplog
    logging.getLogger("websockets.server").disabled = False


def forms_of(value):
    """Yield every text form of a value."""
    yield from (str(value), repr(value), f"{value!a}")
    if isinstance(value, BridgeError):
        yield from forms_of(value.failure)
        yield repr(value.args)
    if isinstance(value, BaseException):
        yield "".join(traceback.format_exception(value))
        yield "".join(
            traceback.TracebackException.from_exception(value, capture_locals=False).format()
        )
    if isinstance(value, rb.Failure):
        yield from (value.explain(), value.to_llm(), repr(value.to_dict()), repr(value.to_mcp()))
        yield json.dumps(value.to_dict())
        yield str(pickle.loads(pickle.dumps(value)))
    failure = getattr(value, "failure", None)
    if isinstance(failure, rb.Failure) and failure is not value:
        yield from forms_of(failure)


def all_texts(watch, log, *errors):
    """Yield reprs, events, health, errors with their causes, and logs."""
    client = watch.client
    health = client.health()
    for thing in (
        client,
        client.state,
        health,
        watch.error,
        *watch.events,
        *watch.gaps,
        *watch.messages,
        *errors,
    ):
        yield from forms_of(thing)
    for record in log.records:
        yield record.getMessage()
        yield logging.Formatter().format(record)
        yield repr(record.args)


def assert_no_canary(texts, canary=CANARY):
    """Assert that no spelling of the canary is in the texts."""
    spellings = {
        canary,
        quote(canary),
        canary.lower(),
        base64.b64encode(canary.encode()).decode(),
        base64.b64encode(f"user:{canary}".encode()).decode(),
        canary.encode().hex(),
    }
    found = [text for text in texts for spelling in spellings if spelling in text]
    assert not found, found[0][:2_000]


async def raised_by(use):
    """The error of an operation, or None."""
    try:
        await use
    except rb.BridgeError as error:
        return error
    return None


async def errors_of(client):
    """Return the errors that a user gets from the client in its current state."""
    uses = (
        client.wait_ready(0.1),
        client.send("note", {"token": CANARY}),
        client.request("ask_request", {"token": CANARY}, timeout=0.1),
    )
    return [await raised_by(use) for use in uses]


ECHOES = {
    "query": "no access for wss://host/ws?token=%s&x=1",
    "userinfo": "cannot reach wss://user:%s@host/ws",
    "header": "Authorization: Bearer %s",
    "json": '{"token": "%s", "x": 1}',
    "prose": "invalid token %s",
    "quoted": "token '%s' was revoked",
    "api_key": "X-Api-Key: %s",
    "assignment": "password=%s",
    "plain": "rejected: %s",
    "cookie": "Cookie: session=%s; path=/",
}


def secret_options(where, server):
    """Return URL and options of a client with its credential in the URL's user, its query, a header or the auth message."""
    host = server.url.removeprefix("ws://")
    return {
        "userinfo": (f"ws://user:{CANARY}@{host}", {}),
        "query": (f"ws://{host}?token={CANARY}&api_key={CANARY}", {}),
        "authorization": (server.url, {"headers": {"Authorization": f"Bearer {CANARY}"}}),
        "api_key": (server.url, {"headers": {"X-Api-Key": CANARY, "Cookie": f"sid={CANARY}"}}),
        "odd_header": (server.url, {"headers": {"X-Tenant": CANARY}}),
        "token": (server.url, {"token": CANARY}),
        "callable": (lambda: server.url, {"token": lambda: CANARY}),
    }[where]


PLACES = ["userinfo", "query", "authorization", "api_key", "odd_header", "token", "callable"]
TROUBLES = [
    "refused",
    "reset",
    "dns",
    "401",
    "403",
    "503",
    "4001",
    "connection_error",
    "1002",
    "garbage",
    "timeout",
]


async def trouble(server, kind):
    """Make every connection fail in one way."""
    network = asyncio.get_running_loop().network
    match kind:
        case "refused":
            network.shut("refuse", 1e6)
        case "reset":
            network.shut("accept_close", 1e6)
        case "dns":
            network.names["127.0.0.1"] = ()
            server.behave(accept_then_close=1006)
        case "401" | "403" | "503":
            server.behave(reject_upgrade=int(kind))
        case "4001" | "1002":
            server.behave(accept_then_close=int(kind), close_at="auth")
        case "connection_error":
            server.token = "another"
        case "timeout":
            network.shut("blackhole", 1e6)
        case _:
            server.behave(accept_then_close=1006, close_at="join")


@pytest.mark.parametrize("location", PLACES)
@pytest.mark.parametrize("kind", TROUBLES)
@simulated
async def test_row_40_a_credential_in_trouble(server, everything, location, kind):
    """A token in the URL, a header or the auth message is in no text of any failure, event, log or traceback."""
    await trouble(server, kind)
    url, options = secret_options(location, server)
    async with Watch(url, **options) as watch:
        await asyncio.sleep(45)
        assert watch.client.state != "READY"
        errors = await errors_of(watch.client)
        assert any(errors)
        parts = [*all_texts(watch, everything, *errors)]
        assert len(parts) > 20
        assert_no_canary(parts)
    assert_no_canary([*all_texts(watch, everything)])


@pytest.mark.parametrize("location", PLACES)
@simulated
async def test_row_40_a_credential_in_use(server, everything, location):
    """A healthy session with a lost connection does not print it either, at DEBUG level of every library."""
    url, options = secret_options(location, server)
    if "token" in options:
        server.token = CANARY
    async with Watch(url, **options) as watch:
        await watch.ready()
        receipt = await watch.client.send("note", {"token": CANARY, "password": CANARY})
        await receipt.confirmed(10)
        await server.push("tool_call", {"secret": CANARY})
        await server.push_raw(f'{{"type": "tool_call", "payload": {{"secret": "{CANARY}"')
        await watch.until(lambda: watch.of(MessageRejected))
        await server.cut("abort")
        await watch.recovered(2)
        await watch.until(lambda: watch.messages)
        waiting = await watch.client.send("note", {"token": CANARY})
        assert watch.of(MessageRejected)
        assert_no_canary([*all_texts(watch, everything), repr(receipt), repr(waiting)])


@pytest.mark.parametrize("whose", ["ours", "another"])
@pytest.mark.parametrize("form", ECHOES)
@pytest.mark.parametrize("way", ["connection_error", "error", "close", "body", "answer"])
@simulated
async def test_row_40_the_server_says_it(server, everything, form, way, whose):
    """The text of a server that echoes a token is shown without it, whichever way it arrives.

    Our own token is recognised by its value, in any wording; another's only by the words around it.
    """
    secret = CANARY if whose == "ours" or form == "plain" else ANOTHER
    text = ECHOES[form] % secret
    server.token = CANARY
    async with Watch(server.url, token=lambda: CANARY) as watch:
        await watch.ready()
        errors = []
        if way == "error":
            payload = {
                "code": "SYS_INTERNAL_ERROR",
                "message": text,
                "suggestions": [text],
                "details": {"x": text},
            }
            await server.push_raw(json.dumps({"type": "error", "payload": payload}))
            await watch.until(lambda: watch.messages)
        elif way == "answer":
            server.on_request = lambda _: (_ for _ in ()).throw(ValueError(text))
            errors = await errors_of(watch.client)
        elif way == "close":
            for link in tuple(server._listener.links):
                await link.close(1011, text[:120])
            await watch.recovered(2)
        else:
            await refuse_with(server, way, text)
            await watch.until(lambda: watch.client.state in {"FAILED", "BACKOFF", "SUSPENDED"})
            await asyncio.sleep(30)
            errors = await errors_of(watch.client)
        assert_no_canary([*all_texts(watch, everything, *errors)], secret)


@pytest.mark.parametrize("location", [location for location in PLACES if location != "odd_header"])
@simulated
async def test_row_40_every_credential_is_known_by_its_value(server, everything, location):
    """A credential of ours at any location is masked in a server's text, without any words around it."""
    url, options = secret_options(location, server)
    async with Watch(url, **options) as watch:
        await watch.ready()
        for link in tuple(server._listener.links):
            await link.close(1011, f"no: {CANARY}, sorry")
        await watch.recovered(2)
        parts = [*all_texts(watch, everything)]
        assert any("sorry" in text for text in parts)
        assert_no_canary(parts)


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": f"a={CANARY}"},
        {"Cookie": f'theme=dark; sid="{CANARY}"; b=1'},
        {"Authorization": f"Digest username=bob, response={CANARY}"},
        {"Authorization": "Basic " + base64.b64encode(f"bob:{CANARY}".encode()).decode()},
        {"Authorization": f"Negotiate {CANARY}"},
    ],
)
@simulated
async def test_row_40_g01_a_part_of_a_header_is_known_as_well(server, everything, headers):
    """The value of a cookie and a password alone are masked, in a text, as a key or in a list."""
    async with Watch(server.url, headers=headers) as watch:
        await watch.ready()
        details = {"list": [CANARY], CANARY: 1}
        payload = {"code": "SYS_INTERNAL_ERROR", "message": f"sorry, {CANARY}", "details": details}
        await server.push_raw(json.dumps({"type": "error", "payload": payload}))
        for link in tuple(server._listener.links):
            await link.close(1011, f"no: {CANARY}, sorry")
        await watch.recovered(2)
        parts = [*all_texts(watch, everything)]
        assert any("sorry" in text for text in parts)
        assert_no_canary(parts)


@pytest.mark.parametrize("what", ["url", "token", "headers"])
@simulated
async def test_row_40_a_callable_that_raises_it(server, everything, what):
    """A credential function may put the secret into its exception: our error has the class, not the text."""

    def helper():
        raise RuntimeError(f"vault said: token={CANARY} expired, {CANARY}")

    options = {} if what == "url" else {what: helper}
    async with Watch(helper if what == "url" else server.url, **options) as watch:
        await asyncio.sleep(20)
        errors = await errors_of(watch.client)
        texts = [
            text
            for error in (*errors, *(getattr(event, "failure", None) for event in watch.events))
            if error is not None
            for text in (str(error), repr(error))
        ]
        assert_no_canary([*texts, *(record.getMessage() for record in everything.records)])
        assert {
            event.failure.code for event in watch.events if getattr(event, "failure", None)
        } == {"AUTH_REFRESH_FAILED"}


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{CANARY}@host/",
        f"wss:/user:{CANARY}@host",
        f"{CANARY}",
        f"ws://user:{CANARY}@host:99999/ws",
        f"ws://ho st/?token={CANARY}",
        f"ws://[::1/?token={CANARY}",
        f"ws://host/ws#token={CANARY}",
        f"WS://user:{CANARY}@host/ws?token={CANARY}",
        f"ws://user:{CANARY}/@host/ws",
        f"ws://{CANARY}@host",
    ],
)
@simulated
async def test_row_40_a_url_that_cannot_be_used(server, everything, url):
    """A refused URL, at once or on the first attempt, is shown without its user and query."""
    try:
        watch = Watch(url)
    except rb.ConfigError as error:
        assert_no_canary([*forms_of(error)])
        return
    async with watch:
        await asyncio.sleep(15)
        errors = await errors_of(watch.client)
        assert any(errors)
        assert_no_canary([*all_texts(watch, everything, *errors)])


@pytest.mark.parametrize("pin", [CANARY, f"sha256:{CANARY}"])
def test_row_40_arguments_that_are_refused(pin):
    """Arguments of a wrong type that may hold a secret are shown by their type."""
    with pytest.raises(rb.ConfigError) as caught:
        rb.BridgeClient("wss://host/", headers=f"Authorization: Bearer {CANARY}", pin="sha256:zz")
    assert_no_canary([*forms_of(caught.value)])
    with pytest.raises(rb.ConfigError):
        rb.BridgeClient("wss://host/", pin=pin)  # a pin is not a secret
