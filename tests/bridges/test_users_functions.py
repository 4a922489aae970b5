"""The functions a user passes to a client, when they return what they must not: an error that names the function, and nothing lost.

Rule: what was queued stays in the store, no task and no coroutine is left, and no error holds a secret.
"""

from __future__ import annotations

import asyncio
import warnings
from contextlib import asynccontextmanager

import pytest

import resilient_bridge as rb
from tests.internals.telemetry import MessageRejected
from tests.protocol.frames_rig import d, dialect, event, events, spoken
from tests.protocol.frames_server import served
from tests.rows import each_row


NUMBERED = {"contiguous": True, "ends": "stated"}
SECRET = "hunter2-hunter2"


async def _awaited(value):
    return value


def refused(words, **options):
    """A client with these arguments ends with a ConfigError that holds the words; what it says, and what its store still has."""

    async def main(server):
        url = options.pop("url", str(server.url))
        texts = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            async with rb.BridgeClient(
                url, dialect=options.pop("dialect", dialect()), **options
            ) as bridge:
                receipt = await bridge.send("note", {"n": 1})
                with pytest.raises(rb.ConfigError) as error:
                    await bridge.wait_ready(timeout=60)
                texts.append(str(error.value))
                with pytest.raises((rb.BridgeError, rb.ConfigError)):
                    await receipt.confirmed(timeout=60)
        return texts[0]

    text = served(main)
    assert words in text
    assert SECRET not in text
    assert "defect" not in text
    return text


BEARER = dialect().evolve(bearer=True)


@each_row(
    "value",
    [7, b"hunter2-hunter2", ["hunter2-hunter2"], {"token": "hunter2-hunter2"}, True],
    ids=lambda value: type(value).__name__,
)
def test_l04_a_token_function_that_returns_no_text(value):
    """Plain or async: the type is named, and not the value."""
    for function in (lambda: value, lambda: _awaited(value)):
        text = refused(
            "BridgeClient.token(): wanted a text or None", token=function, dialect=BEARER
        )
        assert type(value).__name__ in text


@each_row(
    ("value", "got"),
    [
        ("X-Key: hunter2-hunter2", "str"),
        ([("X-Key", "hunter2-hunter2")], "list"),
        ({"X-Key": 7}, "a int as X-Key"),
        ({"X-Key": b"hunter2-hunter2"}, "a bytes as X-Key"),
        ({7: "hunter2-hunter2"}, "a name that is a int"),
        (7, "int"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_l04_a_headers_function_that_returns_no_headers(value, got):
    """The header is named, and not its value."""
    for function in (lambda: value, lambda: _awaited(value)):
        assert got in refused("BridgeClient.headers(): wanted a dict of texts", headers=function)


@each_row("value", [None, 7, b"ws://localhost", "http://localhost/", "localhost:80"], ids=repr)
def test_l04_a_url_function_that_returns_no_url(value):
    """A text that begins with ws:// or wss://, or an error that says so."""
    for function in (lambda: value, lambda: _awaited(value)):
        refused("BridgeClient.url(): wanted a", url=function)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"token": 7}, "BridgeClient.token"),
        ({"token": b"secret"}, "BridgeClient.token"),
        ({"headers": "X: y"}, "BridgeClient.headers"),
        ({"headers": {"X": 7}}, "BridgeClient.headers"),
    ],
)
def test_l04_a_value_of_the_wrong_type_is_refused_at_once(options, path):
    """Where it is no function, the constructor says so."""
    with pytest.raises(rb.ConfigError, match=path):
        rb.BridgeClient("ws://localhost", **options)


@each_row(
    ("options", "path"),
    [
        ({"coalesce": 5}, "send.coalesce"),
        ({"coalesce": b"state"}, "send.coalesce"),
        ({"volatile": "yes"}, "send.volatile"),
        ({"volatile": 0}, "send.volatile"),
        ({"ttl": "soon"}, "send.ttl"),
    ],
)
async def test_l04_an_option_of_a_send_is_checked_before_it_is_accepted(options, path):
    """Nothing is queued then."""
    async with rb.BridgeClient("ws://127.0.0.1:9/") as client:
        with pytest.raises(rb.ConfigError, match=path):
            await client.send("a", {}, **options)
        assert client.health().queued == 0


@each_row("value", ["hunter2-hunter2\n", "hunter2-hunter2\r\nX: y", "h\ud800", "ключ"], ids=ascii)
def test_l04_a_text_that_no_header_can_hold(value):
    """A token read from a file ends with a line break: an error of the user's that says what to write, at once if it is no function."""
    refused(
        "BridgeClient.token(): wanted a text that a header can hold",
        token=lambda: value,
        dialect=BEARER,
    )
    text = refused(
        "BridgeClient.headers(): wanted names and texts", headers=lambda: {"X-Key": value}
    )
    assert "X-Key" in text
    assert ".strip()" in text
    refused("BridgeClient.headers(): wanted names and texts", headers=lambda: {"X Key": "a"})
    for options in ({"token": value, "dialect": BEARER}, {"headers": {"X-Key": value}}):
        with pytest.raises(rb.ConfigError, match="that a header can hold"):
            rb.BridgeClient("ws://localhost", **options)


async def _cancelled(*_):
    waiting = asyncio.ensure_future(asyncio.sleep(60))
    waiting.cancel()
    await waiting


async def _cancelled_items(_):
    await _cancelled()
    yield ""


class _CancelledOnce:
    """A function that awaits something that is cancelled, the first time that it is called; then `after`."""

    def __init__(self, after):
        self.calls, self.after = 0, after

    async def __call__(self, *_):
        self.calls += 1
        if self.calls == 1:
            await _cancelled()
        return self.after


@pytest.mark.parametrize("argument", ["token", "headers", "url", "on_connect"])
def test_l04_a_function_that_was_cancelled_elsewhere(argument):
    """It awaited a task that somebody cancelled: this attempt fails, and the client is not stuck in it."""

    async def main(server):
        url = str(server.url)
        function = _CancelledOnce(
            {"token": "t", "headers": {}, "url": url, "on_connect": None}[argument]
        )
        options = {} if argument == "url" else {argument: function}
        reconnect = rb.bridge.Reconnect(
            backoff=rb.Backoff.constant(0.5), allow_plaintext_credentials=True
        )
        async with rb.BridgeClient(
            function if argument == "url" else url,
            dialect=BEARER,
            policy=rb.bridge.BridgePolicy(reconnect=reconnect),
            **options,
        ) as bridge:
            await bridge.wait_ready(timeout=60)
        assert function.calls == 2

    served(main)


def test_l04_a_factory_that_was_cancelled_elsewhere():
    """`BridgeClient.over`: the next attempt is made."""

    class Cancelled:
        async def __aenter__(self):
            await _cancelled()

        async def __aexit__(self, *_):
            pass

    async def main(server):
        made = []

        def factory():
            made.append(1)
            return Cancelled()

        policy = rb.bridge.BridgePolicy(
            reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.5))
        )
        async with rb.BridgeClient.over(
            factory, dialect=rb.dialects.plain, policy=policy
        ) as bridge:
            with pytest.raises(rb.errors.AttemptTimeoutError, match="was cancelled by something"):
                await bridge.wait_ready(timeout=5)
        assert len(made) > 2

    served(main)


@pytest.mark.parametrize("name", ["resume", "decode"])
def test_l04_a_function_of_a_dialect_that_was_cancelled(name):
    """It read the result of a cancelled future: this attempt fails and says why, and the client does not wait for ever."""

    def raising(_):
        raise asyncio.CancelledError

    async def main(server):
        server.first = (event(1),)
        speaks = dialect(NUMBERED).evolve(**{name: raising})
        async with rb.BridgeClient(str(server.url), dialect=speaks) as bridge:
            await asyncio.sleep(5)
            health = bridge.health()
            assert health.attempt > 1
            assert "it awaited" in str(health.failure)

    served(main)


@pytest.mark.parametrize("returned", [7, b"x", True, ["x"], "coroutine"], ids=repr)
def test_l04_an_echo_that_returns_no_text(returned):
    """It is text once for the frame, with what was wanted; no coroutine is left."""

    def echo(_):
        return _cancelled() if returned == "coroutine" else returned

    async def main(server):
        server.on_frame = lambda connection, frame: connection.say(spoken(d.Acked(echo="x")))
        speaks = dialect(confirms=True).evolve(echo=echo)
        async with server.client(speaks) as reader:
            await reader.bridge.send("note", {})
            await asyncio.sleep(5)
            return reader

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader = served(main)
    (text,) = [event.failure.message for event in reader.seen if isinstance(event, MessageRejected)]
    assert "the dialect's echo returned a" in text
    assert "wanted a text or None" in text


@pytest.mark.parametrize("returned", [None, 7, "x", {}, ()], ids=repr)
def test_l04_an_on_connect_that_is_no_async_function(returned):
    """Named, with what to write."""
    refused("BridgeClient.on_connect: wanted an async function", on_connect=lambda link: returned)


class _Lacking:
    async def send(self, frame):
        """Nothing is sent."""


@asynccontextmanager
async def _entering(what):
    yield what


async def _no_manager():
    return None


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (lambda: None, "NoneType"),
        (lambda: "ws://localhost", "str"),
        (_no_manager, "coroutine"),
        (lambda: _entering(None), "a NoneType without send, recv, close"),
        (lambda: _entering(_Lacking()), "a _Lacking without recv, close"),
    ],
    ids=["None", "text", "coroutine", "enters None", "enters half a websocket"],
)
def test_l04_a_factory_of_no_websockets(factory, words):
    """`BridgeClient.over`: the client ends with an error that names it and what was wanted."""

    async def main(server):
        del server
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            async with rb.BridgeClient.over(factory, dialect=rb.dialects.plain) as bridge:
                with pytest.raises(rb.ConfigError, match=r"BridgeClient\.over") as error:
                    await bridge.wait_ready(timeout=60)
                assert words in str(error.value)

    served(main)


async def _items(*frames):
    for frame in frames:
        yield frame


async def _list():
    return [spoken(event(4))]


WRONG_BACKFILLS = {
    "a dict": (lambda _: _items({"seq": 4}), "a frame that is a dict"),
    "None": (lambda _: _items(None), "a frame that is a NoneType"),
    "a number": (lambda _: _items(spoken(event(4)), 7), "a frame that is a int"),
    "no iterator": (lambda _: [spoken(event(4))], "a list"),
    "nothing": (lambda _: None, "a NoneType"),
    "a coroutine": (lambda _: _list(), "a coroutine"),
    "unreadable": (lambda _: _items("no JSON"), "decode refused: JSONDecodeError"),
}


@pytest.mark.parametrize("kind", WRONG_BACKFILLS)
def test_l04_a_backfill_of_no_frames(kind):
    """It is text once, with its name; the reader gets a gap, then what the server still has, and nothing twice."""
    backfill, words = WRONG_BACKFILLS[kind]

    async def main(server):
        async with server.client(dialect(NUMBERED), backfill=backfill) as reader:
            server.say(*events(1, 3))
            await asyncio.sleep(1)
            server.first = (event(6),)
            server.drop()
            await reader.verdict()
            server.say(event(7))
            await asyncio.sleep(5)
            assert str(reader.bridge.state) == "READY"
            return reader

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader = served(main)
    (text,) = [event.failure.message for event in reader.seen if isinstance(event, MessageRejected)]
    assert words in text
    assert reader.stream[:3] == ["e1", "e2", "e3"]
    assert reader.stream[-2:] == ["e6", "e7"]
    assert [item[0] for item in reader.stream[3:-2] if isinstance(item, tuple)] == ["GAP"]


@pytest.mark.parametrize("returned", [7, "x", [], True], ids=repr)
def test_l04_what_a_plain_on_gap_returns_means_nothing(returned):
    """Only what can be awaited is awaited."""
    seen = []

    async def main(server):
        def on_gap(gap):
            seen.append(gap.reason)
            return returned

        policy = rb.bridge.BridgePolicy(
            reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.5))
        )
        async with rb.BridgeClient(
            str(server.url), dialect=dialect(), policy=policy, on_gap=on_gap
        ) as bridge:
            messages = aiter(bridge)
            await bridge.wait_ready(60)
            server.say(event(None, "a"))
            await anext(messages)
            server.drop()
            server.first = (event(None, "b"),)
            assert (await anext(messages)).raw == "b"

    served(main)
    assert seen == ["no_replay"]


@pytest.mark.parametrize("returned", [None, 7, {"frames": ()}], ids=repr)
def test_l04_a_resume_of_another_type_ends_the_client(returned):
    """Before a connection is made: nothing was sent, and the queue is text."""
    refused(
        "Dialect.resume: wanted a Resume", dialect=dialect(NUMBERED, resume=lambda record: returned)
    )


def test_l04_the_store_keeps_what_was_queued(tmp_path):
    """A client that ends by a wrong function leaves its queue to the next one, which sends it once."""
    path = str(tmp_path / "bridge.db")

    async def main(server):
        async with rb.BridgeClient(
            str(server.url), token=lambda: 7, dialect=BEARER, store=path
        ) as bridge:
            await bridge.send("note", {"n": 1}, idempotency_key="one")
            with pytest.raises(rb.ConfigError):
                await bridge.wait_ready(timeout=60)
        async with rb.BridgeClient(str(server.url), dialect=BEARER, store=path) as bridge:
            assert len(bridge.pending()) == 1
            await bridge.wait_ready(timeout=60)
            while not server.heard:
                await asyncio.sleep(0.1)
        return server.heard

    (heard,) = served(main)
    assert heard["send"] == "note"


def test_l04_pings_without_a_frame_leave_the_link_alive():
    """An `encode` without a frame for Ping, in a client: 70 sends and an hour; the WebSocket's own pings notice a dead server."""

    def encode(intent):
        return None if not isinstance(intent, d.Send) else f'{{"send": "{intent.type}"}}'

    async def main(server):
        speaks = dialect(pings=True).evolve(encode=encode)
        async with server.client(speaks) as reader:
            for _ in range(70):
                receipt = await reader.bridge.send("note", {})
            await asyncio.sleep(600)
            assert str(reader.bridge.state) == "READY"
            assert len(server.heard) == 70
            assert str(receipt.state) == "written"
            assert reader.verdicts == []
            assert (
                len(
                    [
                        task
                        for task in asyncio.all_tasks()
                        if task.get_name() == "resilient_bridge keepalive"
                    ]
                )
                == 1
            )

    served(main)
