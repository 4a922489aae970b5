"""EventSource over httpx and httpx2 against a server that cuts, refuses, repeats and forgets; waits are in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from itertools import pairwise

import anyio
import httpx
import httpx2
import pytest

import resilient_bridge as rb
from resilient_bridge.adapters import EventSource
from tests.adapters.event_servers import Server, answer, numbered, replay, silence, stream
from tests.peers.running import until


QUICK = rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.01), connect_burst=10_000)
pytestmark = [
    pytest.mark.real,
    pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"]),
]


@contextlib.asynccontextmanager
async def reading(library, *scripts, **options):
    """A source that reads from a server of these scripts; nothing is open when it was left."""
    before = asyncio.all_tasks()
    async with Server(*scripts).running() as server, library.AsyncClient(trust_env=False) as client:
        async with EventSource(client, server.url, **{"reconnect": QUICK} | options) as source:
            yield source, server
        pool = client._transport._pool
        await until(lambda: asyncio.all_tasks() == before)
        assert [
            each for each in pool.connections if not each.is_idle() and not each.is_closed()
        ] == []


def simulated(main, library, *scripts, **options):
    """Run `await main(source, server)` in virtual time, over a simulated network, which is left without a trace."""

    async def inside(_bridge):
        async with reading(library, *scripts, **options) as (source, server):
            return await main(source, server)

    return rb.testing.simulate(inside)


async def take(source, count):
    return [(await anext(source)).data for _ in range(count)]


async def test_events_come_as_the_server_sends_them(library):
    """The request is the user's, with the headers of a stream and the position of before; what comes is parsed, however it is cut."""
    options = {"method": "POST", "headers": {"X-A": "b"}, "content": "body", "params": {"q": "1"}}
    script = stream(b"id: 1\nevent: add\nda", b"ta: a\n\ndata: b", b"\n\nid: p\n\n")
    async with reading(library, script, **options, last_event_id="é41") as (source, server):
        first, second = await anext(source), await anext(source)
        assert (first.type, first.data, first.id) == ("add", "a", "1")
        assert (second.type, second.data, second.has_id) == ("message", "b", False)
        assert (source.state, source.last_event_id, source.health().ready) == ("READY", "1", True)
        assert repr(source) == f"<EventSource {server.url} READY last_event_id='1'>"
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(source), 0.02)
        assert source.last_event_id == "p"  # an id without an event counts
    (asked,) = server.asked
    assert asked[""] == "POST /events?q=1 HTTP/1.1"
    assert (asked["Accept"], asked["Cache-Control"]) == ("text/event-stream", "no-cache")
    assert (asked["Last-Event-ID"], asked["X-A"], asked["body"]) == ("é41", "b", b"body")
    assert (source.state, server.remaining) == ("CLOSED", 1)
    assert [each async for each in source] == []


@pytest.mark.parametrize("loss", ["end", "break", "reset"])
async def test_a_loss_is_followed_by_a_request_from_the_last_event(library, loss):
    """However it ends, the reader sees one stream: half an event is none, what comes again is dropped, no gap is claimed."""
    parts = []
    scripts = stream(numbered(1, 2), then=loss), stream(numbered(1, 2, 3))
    async with reading(library, *scripts, on_gap=parts.append) as (source, server):
        assert await take(source, 2) == ["n1", "n2"]
        server.go.set()
        assert await take(source, 1) == ["n3"]
        assert [each.get("Last-Event-ID") for each in server.asked] == [None, "2"]
        assert (source.health().duplicates, parts) == (2, [])


async def test_a_server_that_cuts_again_and_again_loses_and_repeats_nothing(library):
    """20 events over seven connections, each cut in the middle of an event: every one once, in order."""
    async with reading(library, replay) as (source, server):
        assert await take(source, 20) == [f"n{n}" for n in range(1, 21)]
        assert len(server.asked) == 7


HOLES = [
    (b"data: n3\n\n", b"data: n7\n\n", "no_event_id"),
    (numbered(1, 2, 3), numbered(7), "event_id_jump"),
]


@pytest.mark.parametrize(("before", "after", "reason"), HOLES)
async def test_a_gap_is_reported_in_its_position(library, before, after, reason):
    """No id, or ids that counted and skip: UNKNOWN, after the last event before the hole, before the first one behind it."""
    story = []
    async with reading(library, stream(before, then="end"), stream(after), on_gap=story.append) as (
        source,
        _,
    ):
        while "n7" not in story:
            story += await take(source, 1)
    assert story[-3:] == ["n3", rb.bridge.Gap(rb.bridge.Verdict.UNKNOWN, None, None, reason), "n7"]


async def test_a_gap_that_could_not_be_reported_is_reported_again(library):
    """What `on_gap` raises reaches the reader; a cancelled one as well is asked again, on the same connection."""
    calls = []

    async def on_gap(gap):
        calls.append(gap.reason)
        if len(calls) == 1:
            raise LookupError("reload failed")
        if len(calls) == 2:
            await asyncio.sleep(60)

    scripts = stream(numbered(1, 2, 3), then="end"), stream(numbered(7, 8))
    async with reading(library, *scripts, on_gap=on_gap) as (source, server):
        await take(source, 3)
        with pytest.raises(LookupError):
            await anext(source)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(source), 0.02)
        assert await take(source, 2) == ["n7", "n8"]
        assert (len(calls), len(server.asked)) == (3, 2)


@pytest.mark.parametrize("before", [(), (stream(numbered(1), then="end"),)])
async def test_no_content_ends_the_stream_for_good(library, before):
    """204, at the first request or a later one: the iteration ends and stays ended."""
    async with reading(library, *before, answer(204)) as (source, server):
        assert [each.data async for each in source] == ["n1"] * len(before)
        assert [each async for each in source] == []
        assert (source.state, len(server.asked)) == ("CLOSED", len(before) + 1)


NO_STREAM = rb.errors.ProtocolError, "PROTO_INVALID_FRAME"
REFUSALS = {
    "401": (answer(401), rb.errors.AuthError, "AUTH_TOKEN_EXPIRED", ""),
    "403": (answer(403), rb.errors.AuthError, "AUTH_FORBIDDEN", "access forbidden"),
    "404": (answer(404), rb.BridgeError, "SYS_UPSTREAM_REJECTED", ""),
    "404 with a code": (answer(404, body=b'{"code": "SESS_NOT_FOUND", "message": "s1"}'), rb.errors.SessionError, "SESS_NOT_FOUND", "s1"),
    "410": (answer(410), rb.BridgeError, "SYS_UPSTREAM_REJECTED", ""),
    "501": (answer(501), rb.BridgeError, "SYS_UPSTREAM_REJECTED", ""),
    "302": (answer(302, "Location: /"), *NO_STREAM, "got 302 with no content type"),
    "202": (answer(202, "Content-Type: text/event-stream"), *NO_STREAM, "got 202 with text/event-stream"),
    "html": (answer(200, "Content-Type: text/html; a=b"), *NO_STREAM, "wanted 200 with text/event-stream, got 200 with text/html"),
    "too big": (stream(b"data: " + b"x" * 100), rb.errors.ProtocolError, "PROTO_MESSAGE_TOO_BIG", "wanted at most 99 bytes, got more"),
}  # fmt: skip


OPEN_BEFORE = (stream(numbered(1), then="end"),)
ALWAYS_FINAL = (
    "401",
    "404 with a code",
    "too big",
)  # even after an open stream no portal is thought of


@pytest.mark.parametrize(
    ("refusal", "before"),
    [(name, ()) for name in REFUSALS] + [(name, OPEN_BEFORE) for name in ALWAYS_FINAL],
)
async def test_a_refusal_is_raised_and_not_repeated(library, refusal, before):
    """An answer that no repeat can change: a typed error, at once and on every later request, and no further connection."""
    script, kind, code, wanted = REFUSALS[refusal]
    async with reading(library, *before, script, max_event_bytes=99) as (source, server):
        await take(source, len(before))
        for _ in range(2):
            with pytest.raises(kind) as caught:
                await anext(source)
            assert caught.value.failure.code == code
            assert wanted in caught.value.failure.message
        assert (source.state, source.health().failure) == ("FAILED", caught.value.failure)
        assert len(server.asked) == len(before) + 1


@pytest.mark.parametrize("refusal", sorted({*REFUSALS, "511"} - {*ALWAYS_FINAL}))
def test_l09_a_portal_after_an_open_stream_is_waited_for(library, refusal):
    """The stream goes on at its position when the server answers again; a portal that stays is the error after the grace."""
    portal = answer(511, "Retry-After: 999999") if refusal == "511" else REFUSALS[refusal][0]

    async def comes_back(source, server):
        return await take(source, 2), server.asked[-1]["Last-Event-ID"], len(server.asked)

    scripts = [*OPEN_BEFORE, *[portal] * 6, stream(numbered(2))]
    assert simulated(comes_back, library, *scripts, reconnect=rb.presets.recursor) == (
        ["n1", "n2"],
        "1",
        8,
    )

    async def stays(source, server):
        await take(source, 1)
        with pytest.raises(rb.BridgeError) as caught:
            await anext(source)
        seconds = server.asked[-1]["time"] - server.asked[1]["time"]
        return caught.value.failure.code, 300 <= seconds < 331

    if refusal != "511":
        assert simulated(stays, library, *OPEN_BEFORE, portal, reconnect=rb.presets.recursor) == (
            REFUSALS[refusal][2],
            True,
        )


@pytest.mark.parametrize(
    "options",
    [{"headers": {"Authorization": "Bearer s3cret99"}}, {"params": {"api_key": "s3cret99"}}],
)
async def test_l09_a_token_in_clear_text_is_shown_to_a_portal_once(library, options):
    """By http no further request carries it: what answered is the end, as on a first request."""
    async with reading(library, *OPEN_BEFORE, answer(200), **options) as (source, server):
        await take(source, 1)
        with pytest.raises(rb.errors.ProtocolError):
            await anext(source)
        assert len(server.asked) == 2


async def test_a_cancelled_reader_closes_the_response_and_can_come_back(library):
    """Nothing stays open, although anyio cancels again and again, and the next request goes on after the last event."""
    async with reading(library, stream(numbered(1)), stream(numbered(2))) as (source, server):
        assert await take(source, 1) == ["n1"]
        with anyio.move_on_after(0.02):
            await anext(source)
        assert (source.state, source._answer) == ("BACKOFF", None)
        await until(lambda: server.remaining == 1)
        assert await take(source, 1) == ["n2"]
        assert server.asked[1]["Last-Event-ID"] == "1"


PLACES = [("READY", stream()), ("CONNECTING", silence), ("BACKOFF", answer(503, "Retry-After: 60"))]


@pytest.mark.parametrize(("state", "script"), PLACES)
async def test_a_reader_elsewhere_is_the_only_one_and_ends_with_the_source(library, state, script):
    """Reading, connecting or waiting: a second reader is refused; after `aclose` the first one's iteration is over, nothing is open."""
    async with reading(library, script) as (source, server):
        elsewhere = asyncio.create_task(take(source, 1))
        await until(lambda: server.asked and source.state == state)
        with pytest.raises(
            rb.ConfigError, match=r"wanted one reader at a time: .*, got 'a second one'"
        ):
            await anext(source)
        await source.aclose()
        with pytest.raises(StopAsyncIteration):
            await elsewhere


async def test_on_gap_may_leave(library):
    """`aclose` from within `on_gap` neither waits for itself nor cancels it."""

    async def on_gap(gap):
        await source.aclose()
        raise LookupError(gap.reason)

    async with reading(library, stream(b"data: a\n\n", then="end"), stream(), on_gap=on_gap) as (
        source,
        _,
    ):
        with pytest.raises(LookupError, match="no_event_id"):
            await take(source, 2)


async def test_what_was_sent_is_in_no_message(library):
    """User, password and query of the URL, and the values of headers, whoever repeats them."""
    echo = answer(
        403, body=b'{"code": "AUTH_FORBIDDEN", "message": "not for hunter22, swordfish or abc123"}'
    )
    async with Server(echo).running() as server, library.AsyncClient(trust_env=False) as client:
        url = server.url.replace("http://", "http://me:swordfish@") + "?key=abc123"
        async with EventSource(client, url, headers={"Authorization": "Bearer hunter22"}) as source:
            with pytest.raises(rb.errors.AuthError) as caught:
                await anext(source)
            reported = caught.value.failure.explain() + str(caught.value) + repr(source)
    assert "not for [redacted], [redacted] or [redacted]" in reported
    assert [
        secret for secret in ("hunter22", "swordfish", "abc123", "me:") if secret in reported
    ] == []


async def test_a_client_that_cannot_is_not_asked_again(library):
    """A closed client, a URL that is none: raised from the native error. A sync client is named. No loop."""
    closed, sync = library.AsyncClient(trust_env=False), library.Client(trust_env=False)
    await closed.aclose()
    for client, url in (closed, "http://x"), (library.AsyncClient(), "foo:x"), (sync, "http://x"):
        async with EventSource(client, url) as source:
            with pytest.raises(rb.BridgeError) as caught:
                await anext(source)
            assert caught.value.failure.category in {rb.Category.CONFIG, rb.Category.INTERNAL}
            assert (caught.value.__cause__ is None) is (client is sync)


@pytest.mark.parametrize(
    ("name", "value"),
    [("client", 1), ("content", iter([])), ("headers", {"last-event-id": "1"}), ("reconnect", 5), ("on_gap", 1)]
    + [("last_event_id", each) for each in (1, "a\0", "a\n")] + [("max_event_bytes", 0), ("reconnect", rb.Policy(rb.Retry()))]
    + [("read_timeout", each) for each in (0, -1, float("nan"), "1", 3601)],
)  # fmt: skip
async def test_what_cannot_work_is_refused_by_name(library, name, value):
    """Every argument is checked at once, and so is the use: entered, and once."""
    with pytest.raises(rb.ConfigError, match=f"EventSource.{name}: wanted "):
        EventSource(**{"client": library.AsyncClient(), "url": "http://x"} | {name: value})
    source = EventSource(library.AsyncClient(), "http://x")
    with pytest.raises(rb.ConfigError, match="never entered"):
        await anext(source)
    async with source:
        with pytest.raises(rb.ConfigError, match="not been entered"):
            await source.__aenter__()


def test_the_words_of_the_server_are_waited_for(library):
    """Retry-After of 503 and 429, `retry:` (500 ms: within 450 to 700), and the schedule between refused attempts."""

    async def main(source, server):
        assert await take(source, 2) == ["n1", "n2"]
        return [round(b["time"] - a["time"], 1) for a, b in pairwise(server.asked)]

    reported = stream(b"retry: 500\n" + numbered(1), then="end")
    busy = answer(503, "Retry-After: 7"), answer(429, "Retry-After: 90"), answer(408)
    assert simulated(main, library, *busy, reported, stream(numbered(2))) == [7, 90, 0.0, 0.5]


def test_a_quiet_stream_is_trusted_by_default(library):
    """Ten minutes without a word are no loss, whatever the client's own time limit; with `read_timeout=` they are."""

    async def main(source, server):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(anext(source), 600)
        return len(server.asked)

    assert simulated(main, library, stream(), stream(numbered(2))) == 1
    assert (
        simulated(main, library, stream(), stream(numbered(2)), read_timeout=timedelta(seconds=30))
        == 2
    )


def test_a_long_outage_is_reported_and_outlived(library):
    """No answer within the connect timeout, seven times over: SUSPENDED, said once in the events, and it goes on."""

    async def main(source, server):
        with rb.testing.record() as events:
            assert await take(source, 1) == ["n8"]
        assert {each.failure.code for each in events if hasattr(each, "wait")} == {"CONN_TIMEOUT"}
        return [
            type(each).__name__ for each in events if not isinstance(each, rb.events.StateChanged)
        ]

    reported = simulated(
        main, library, *[silence] * 7, stream(numbered(8)), reconnect=rb.presets.default
    )
    assert reported == ["ReconnectScheduled"] * 5 + ["Suspended"] + ["ReconnectScheduled"] * 2 + [
        "Connected"
    ]


ABANDONED = [
    (answer(503), {"attempts": 3, "on_exhausted": "raise"}, (4, "CONN_RECONNECT_EXHAUSTED")),
    (answer(503), {"first_connect": "raise"}, (1, "SYS_UNAVAILABLE")),
    (answer(403, body=b"{", length=99), {}, (1, "AUTH_FORBIDDEN")),  # whose body never comes
]


@pytest.mark.parametrize(("script", "policy", "wanted"), ABANDONED)
def test_giving_up_is_reported(library, script, policy, wanted):
    """When the policy has it so, or the server: a BridgeError with what happened, and GaveUp."""

    async def main(source, server):
        with rb.testing.record() as events, pytest.raises(rb.BridgeError) as caught:
            await anext(source)
        assert isinstance(events[-1], rb.events.GaveUp)
        return len(server.asked), caught.value.failure.code

    assert simulated(main, library, script, reconnect=rb.bridge.Reconnect(**policy)) == wanted


@pytest.mark.parametrize("script", [stream(), silence, answer(503)])
def test_impatience_is_no_storm(library, script):
    """A reader that gives up three times a second, for ten minutes, makes no more connections than the policy allows."""

    async def main(source, server):
        for _ in range(1_800):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(anext(source), 1 / 3)
        return len(server.asked)

    assert 10 <= simulated(main, library, script, reconnect=rb.bridge.Reconnect()) <= 45


def _redirecting(url, headers=()):
    return answer(302, f"Location: {url}", *headers)


async def test_g02_a_redirect_to_another_origin_carries_harmless_headers_only(library):
    """Of a client that follows redirects: others stay behind, one with the name of a secret ends the source in words."""
    async with (
        Server(stream(numbered(1))).running() as there,
        Server(_redirecting(there.url)).running() as here,
        library.AsyncClient(
            trust_env=False, follow_redirects=True, cookies={"s": "c4nary"}, auth=("u", "c4nary")
        ) as client,
    ):
        headers = {"X-Tenant": "c4nary", "Accept-Language": "de"}
        async with EventSource(client, here.url, headers=headers, reconnect=QUICK) as source:
            assert await take(source, 1) == ["n1"]
        assert "c4nary" in str(here.asked)
        (asked,) = there.asked
        assert "c4nary" not in str(asked)
        fields = {name.lower(): value for name, value in asked.items() if isinstance(value, str)}
        assert (fields["accept-language"], fields["accept"]) == ("de", "text/event-stream")
        async with EventSource(
            client, here.url, headers={"X-Functions-Key": "c4nary"}, reconnect=QUICK
        ) as source:
            with pytest.raises(rb.BridgeError) as caught:
                await take(source, 1)
        assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
        assert len(there.asked) == 1


async def test_g02_a_redirect_inside_the_origin_keeps_its_headers(library):
    """And the source goes on from the last event, over the redirect again."""
    async with Server(answer(500)).running() as server:
        server.scripts = [
            _redirecting("/other"),
            stream(numbered(1), then="end"),
            _redirecting("/other"),
            stream(numbered(2)),
        ]
        async with (
            library.AsyncClient(trust_env=False, follow_redirects=True) as client,
            EventSource(client, server.url, headers={"X-Api-Key": "k"}, reconnect=QUICK) as source,
        ):
            assert await take(source, 2) == ["n1", "n2"]
        sent = [
            {name.lower(): value for name, value in asked.items() if name} for asked in server.asked
        ]
        assert [headers.get("x-api-key") for headers in sent] == ["k"] * 4
        assert sent[-1]["last-event-id"] == "1"
