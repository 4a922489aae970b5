"""What may be sent again: by method, by key, by word of the caller, and because it provably did not run."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from tests.adapters.http_clients import KINDS, QUICK, each_kind, repeating, scripted
from tests.peers.faults import Fault
from tests.peers.http_fault import HttpFault


real = pytest.mark.real
URL = "https://a.example/"
METHODS = {
    "GET": 2,
    "HEAD": 2,
    "OPTIONS": 2,
    "PUT": 2,
    "DELETE": 2,
    "POST": 1,
    "PATCH": 1,
}  # and their calls


def mocked(kind, answer, policy=QUICK, **options):
    """A client over a mock that answers so."""
    return kind.client(rb.HTTPTransport(policy, kind.mock(answer), **options))


@each_kind
async def test_the_method_decides(kind):
    """After a 503, which may have run: GET, HEAD, OPTIONS, PUT and DELETE are repeated, POST and PATCH are not."""
    for method, calls in METHODS.items():
        answer = scripted(503, 200)
        async with mocked(kind, answer) as client:
            assert (await client.request(method, URL)).status_code == (200 if calls == 2 else 503)
        assert len(answer.seen) == calls, method


@real
@pytest.mark.requirement("S4")
@each_kind
async def test_a_post_that_did_not_run_is_repeated(kind):
    """Refused twice by a 429: it did not run. Reset after it was sent: nobody knows, so the caller's error comes out at once."""
    async with HttpFault() as server, kind.client() as client:
        server.strike(Fault.answer(429), times=2)
        assert (await client.post(server.url(), json={"n": 1})).status_code == 200
        assert (server.requests, server.executed) == (3, 1)
        server.strike(Fault.reset_after())
        with pytest.raises(kind.library.ReadError) as caught:
            await client.post(server.url(), json={"n": 2})
        assert (server.requests, server.executed) == (4, 2)
    assert any("may have run" in note for note in caught.value.__notes__)
    assert rb.classify(caught.value).stopped == "not_idempotent"


@real
@each_kind
async def test_a_connection_that_was_never_made_ran_nothing(kind):
    """A POST to a port where nobody listens yet is repeated, and runs once."""

    async with HttpFault() as server:
        await server.refuse()
        calls = 0

        def before() -> None:
            nonlocal calls
            calls += 1

        policy = repeating(rules={rb.Category.TRANSPORT: rb.Rule(attempts=3, before=before)})
        async with kind.client(rb.HTTPTransport(policy, kind.inner())) as client:
            with pytest.raises(kind.library.ConnectError):
                await client.post(server.url(), json={})
            await server.listen()
            assert (await client.post(server.url(), json={})).status_code == 200
    assert (calls, server.executed) == (2, 1)


@pytest.mark.requirement("V9")
@each_kind
async def test_what_has_an_effect_gets_one_key(kind):
    """POST, PATCH, PUT and DELETE carry a key, the same on each repeat, another for the next request; GET and HEAD carry none."""
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        answer = scripted(429, 429, 200)
        async with mocked(kind, answer) as client:
            await client.request(method, URL)
            await client.request(method, URL)
        keys = [request.headers["idempotency-key"] for request in answer.seen]
        assert len(keys[0]) == 36
        assert keys == [keys[0]] * 3 + [keys[3]]
        assert keys[0] != keys[3]
    for method in ("GET", "HEAD", "OPTIONS"):
        answer = scripted(503, 200)
        async with mocked(kind, answer) as client:
            await client.request(method, URL)
        assert ["idempotency-key" in request.headers for request in answer.seen] == [False, False]


@pytest.mark.requirement("V9")
@each_kind
async def test_the_callers_key_is_permission_and_ours_is_none(kind):
    """With a key of the caller's a POST is repeated after a 503, and the key stays; with one of ours it is not."""
    for headers, calls in (({"Idempotency-Key": "k-1"}, 2), ({}, 1)):
        answer = scripted(503, 200)
        async with mocked(kind, answer) as client:
            await client.post(URL, headers=headers)
        assert len(answer.seen) == calls
        if headers:
            assert [request.headers["idempotency-key"] for request in answer.seen] == ["k-1", "k-1"]


@each_kind
async def test_the_header_has_any_name_or_none(kind):
    """Another name is both written and read; None writes nothing, and still takes the caller's word; an empty key is no word."""
    for name, received, calls, sent in (
        ("X-Request-Key", {}, 1, True),
        ("X-Request-Key", {"x-request-key": "k"}, 2, True),
        ("X-Request-Key", {"idempotency-key": "k"}, 1, True),
        (None, {}, 1, False),
        (None, {"idempotency-key": "k"}, 2, False),
        (None, {"idempotency-key": ""}, 1, False),
    ):
        answer = scripted(503, 200)
        async with mocked(kind, answer, idempotency_header=name) as client:
            await client.post(URL, headers=received)
        assert len(answer.seen) == calls
        assert ("x-request-key" in answer.seen[0].headers) is sent
        assert answer.seen[0].headers.get("idempotency-key") == received.get("idempotency-key")


@pytest.mark.requirement("V9")
@each_kind
@pytest.mark.parametrize("status", [307, 308])
async def test_our_key_is_no_permission_after_a_redirect(kind, status):
    """The redirected POST carries our key on, the same one, and a 503 there is not repeated because of it."""
    seen = []

    def answer(request):
        seen.append(request)
        return (status, {"location": "/there"}) if request.url.path == "/" else (503,)

    async with mocked(kind, answer) as client:
        answered = await client.post(URL, json={}, follow_redirects=True)
    assert (answered.status_code, len(seen)) == (503, 2)
    assert seen[0].headers["idempotency-key"] == seen[1].headers["idempotency-key"]
    seen.clear()
    async with mocked(kind, answer) as client:
        await client.post(URL, json={}, follow_redirects=True, headers={"Idempotency-Key": "k"})
    assert len(seen) == 1 + 4


@each_kind
async def test_a_request_says_that_it_is_idempotent(kind):
    """`rb.idempotent` has the last word: True allows a POST, False forbids a GET and the caller's key."""
    for method, reported, headers, calls in (
        ("POST", True, {}, 2),
        ("GET", False, {}, 1),
        ("POST", False, {"idempotency-key": "k"}, 1),
    ):
        answer = scripted(503, 200)
        async with mocked(kind, answer) as client:
            await client.request(
                method, URL, headers=headers, extensions={"rb.idempotent": reported}
            )
        assert len(answer.seen) == calls


@each_kind
async def test_a_request_brings_its_own_policy(kind):
    """`rb.policy` is another Policy or BridgePolicy for this request, or None for none; the next one has the transport's again."""
    two = repeating(attempts=2)
    for reported, calls in ((two, 2), (None, 1), (rb.bridge.BridgePolicy(calls=two), 2)):
        answer = scripted(503)
        async with mocked(kind, answer) as client:
            await client.get(URL, extensions={"rb.policy": reported})
            assert len(answer.seen) == calls
            await client.get(URL)
            assert len(answer.seen) == calls + 4


@each_kind
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rb.policy", "none"),
        ("rb.policy", {}),
        ("rb.policy", False),
        ("rb.idempotent", "yes"),
        ("rb.idempotent", []),
        ("rb.idempotnet", True),
    ],
)
async def test_a_wrong_extension_is_named(kind, name, value):
    """A ConfigError that says which; nothing is sent; it is the library's RequestError, too; the request can be mended."""
    answer = scripted(200)
    async with mocked(kind, answer) as client:
        request = client.raw.build_request("GET", URL, extensions={name: value})
        with pytest.raises(
            rb.ConfigError, match=rf'^request\.extensions\["{name}"\]: wanted'
        ) as caught:
            await client.do(client.raw.send, request)
        assert isinstance(caught.value, kind.library.RequestError)
        assert not answer.seen
        del request.extensions[name]
        assert (await client.do(client.raw.send, request)).status_code == 200


async def test_one_request_is_sent_twice():
    """The same request object can be sent again, with the same key of ours, and is not taken for one transport in another."""
    kind, answer = KINDS[0], scripted(200)
    async with mocked(kind, answer) as client:
        request = client.raw.build_request("POST", URL)
        for _ in range(2):
            await client.do(client.raw.send, request)
    keys = {request.headers["idempotency-key"] for request in answer.seen}
    assert (len(answer.seen), len(keys)) == (2, 1)
