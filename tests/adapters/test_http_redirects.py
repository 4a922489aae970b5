"""Where credentials go: not to another origin, not from https to http, and not in the clear to another machine."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from tests.adapters.http_clients import QUICK, each_kind
from tests.peers.http_fault import HttpFault
from tests.peers.http_wire import Answer


KEY = {"X-Api-Key": "k-1"}


def sending(kind, start, location, status=302, **options):
    """A client over a mock that redirects from one URL to another, and the URLs that were asked."""
    asked = []

    def answer(request):
        asked.append(request)
        return (status, {"location": location}) if str(request.url) == start else (200,)

    transport = rb.HTTPTransport(QUICK, kind.mock(answer), **options)
    return kind.client(transport, follow_redirects=True), asked


@each_kind
@pytest.mark.parametrize(
    "location",
    [
        "https://b.example/",
        "https://a.example:8443/",
        "https://sub.a.example/",
        "//b.example/x",
        "https://a.example.b.example/",
    ],
)
async def test_credentials_do_not_follow_to_another_origin(kind, location):
    """What the client does not know for a credential would be sent on: refused, typed, and nothing reaches the other origin."""
    client, asked = sending(kind, "https://a.example/", location)
    async with client as caller:
        for header in ("X-Api-Key", "X-Auth-Token", "Api-Key", "X-Amz-Security-Token"):
            asked.clear()
            with pytest.raises(kind.library.RequestError) as caught:
                await caller.get("https://a.example/", headers={header: "k-1"})
            assert isinstance(caught.value, rb.BridgeError)
            failure = caught.value.failure
            assert (failure.code, failure.executed) == (
                "CONN_REDIRECT_REFUSED",
                rb.errors.Executed.NO,
            )
            assert [request.url.host for request in asked] == ["a.example"]


@each_kind
async def test_a_refused_redirect_proves_nothing_of_the_request_before_it(kind):
    """The POST was answered with 307; what was refused is the one behind it."""
    client, asked = sending(kind, "https://a.example/", "https://b.example/", 307)
    async with client as caller:
        with pytest.raises(kind.library.RequestError) as caught:
            await caller.request("POST", "https://a.example/", headers={"X-Api-Key": "k-1"})
    assert rb.classify(caught.value).executed is rb.errors.Executed.MAYBE
    assert [request.url.host for request in asked] == ["a.example"]


@each_kind
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_without_credentials_any_origin_is_followed(kind, status):
    """And so it is with those that the client itself takes away: Authorization, and cookies of another host."""
    for headers in ({}, {"Authorization": "Bearer k"}, {"Cookie": "a=b"}):
        client, asked = sending(kind, "https://a.example/", "https://b.example/", status)
        async with client as caller:
            assert (await caller.post("https://a.example/", headers=headers)).status_code == 200
        assert [request.url.host for request in asked] == ["a.example", "b.example"]
        assert not {"authorization", "cookie"} & set(asked[1].headers)


@each_kind
async def test_a_cookie_of_the_other_origin_goes_there(kind):
    """The client's jar knows whose a cookie is: one of the target's own is no reason to refuse."""
    client, asked = sending(kind, "https://a.example/", "https://b.example/")
    async with client as caller:
        caller.raw.cookies.set("session", "of-b", domain="b.example")
        assert (await caller.get("https://a.example/")).status_code == 200
    assert [request.headers.get("cookie") for request in asked] == [None, "session=of-b"]


@each_kind
async def test_the_same_origin_keeps_its_credentials(kind):
    """A redirect on one origin is followed with the key, also where the port is said in full."""
    for location in ("/x", "https://a.example:443/x", "https://A.example/x"):
        client, asked = sending(kind, "https://a.example/", location)
        async with client as caller:
            assert (await caller.get("https://a.example/", headers=KEY)).status_code == 200
        assert [request.headers["x-api-key"] for request in asked] == ["k-1", "k-1"]


@each_kind
async def test_nothing_goes_from_https_to_http(kind):
    """A downgrade is refused, with credentials or without, on the same host and on this machine."""
    for location in ("http://a.example/", "http://127.0.0.1/"):
        for headers in (KEY, {}):
            client, asked = sending(
                kind, "https://a.example/", location, allow_plaintext_credentials=True
            )
            async with client as caller:
                with pytest.raises(
                    kind.library.RequestError, match="redirect from https to http refused"
                ):
                    await caller.get("https://a.example/", headers=headers)
            assert len(asked) == 1


@each_kind
async def test_an_upgrade_keeps_its_credentials(kind):
    """From http to https on the same host is how it should be; with another host it is another origin."""
    for location, allowed in (("https://a.example/", True), ("https://b.example/", False)):
        client, asked = sending(
            kind, "http://a.example/", location, allow_plaintext_credentials=True
        )
        async with client as caller:
            if allowed:
                assert (await caller.get("http://a.example/", headers=KEY)).status_code == 200
                assert asked[1].headers["x-api-key"] == "k-1"
            else:
                with pytest.raises(rb.BridgeError) as caught:
                    await caller.get("http://a.example/", headers=KEY)
                assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
                assert len(asked) == 1


@each_kind
async def test_it_holds_for_each_hop_and_without_a_policy(kind):
    """The second hop is as refused as the first, and `rb.policy: None` does not switch it off."""
    hops = {"/": "/second", "/second": "https://b.example/"}
    asked = []

    def answer(request):
        asked.append(request.url.path)
        return 302, {"location": hops[request.url.path]}

    async with kind.client(
        rb.HTTPTransport(QUICK, kind.mock(answer)), follow_redirects=True
    ) as caller:
        for extensions in ({}, {"rb.policy": None}):
            asked.clear()
            with pytest.raises(rb.BridgeError) as caught:
                await caller.get("https://a.example/", headers=KEY, extensions=extensions)
            assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
            assert asked == ["/", "/second"]


@each_kind
async def test_a_redirect_that_is_followed_by_hand_is_checked(kind):
    """`next_request` of a response knows where it comes from, however often it is sent."""
    client, asked = sending(kind, "https://a.example/", "https://b.example/")
    async with client as caller:
        answer = await caller.get("https://a.example/", headers=KEY, follow_redirects=False)
        assert answer.status_code == 302
        for _ in range(2):
            with pytest.raises(rb.BridgeError) as caught:
                await caller.do(caller.raw.send, answer.next_request)
            assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
    assert len(asked) == 1


# ---- in the clear ------------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/",
        "http://10.0.0.1/",
        "http://localhost.a.example/",
        "http://[2001:db8::1]:8080/",
        "http://0.0.0.0/",
    ],
)
async def test_credentials_do_not_go_in_the_clear(kind, url):
    """Over http:// to another machine nothing is sent: not a key, not a token, not a cookie, not a password of the URL."""
    asked = []
    transport = rb.HTTPTransport(QUICK, kind.mock(lambda request: asked.append(request) or (200,)))
    variants = [
        {"headers": KEY},
        {"headers": {"Authorization": "Bearer k"}},
        {"headers": {"Cookie": "a=b"}},
        {"auth": ("u", "p")},
    ]
    async with kind.client(transport) as caller:
        for way in variants:
            with pytest.raises(
                rb.ConfigError, match="credentials over plaintext refused: wanted https://"
            ) as caught:
                await caller.get(url, **way)
            assert isinstance(caught.value, kind.library.RequestError)
            assert caught.value.failure.code == "CONN_INSECURE"
        assert not asked
        assert (await caller.get(url)).status_code == 200


@each_kind
async def test_who_allows_it_may(kind):
    """`allow_plaintext_credentials=True` is for networks of one's own."""
    client, asked = sending(kind, "", "", allow_plaintext_credentials=True)
    async with client as caller:
        assert (await caller.get("http://a.example/", headers=KEY)).status_code == 200
    assert asked[0].headers["x-api-key"] == "k-1"


@each_kind
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.9.9.9", "localhost", "api.localhost", "[::1]", "[::ffff:127.0.0.1]"]
)
async def test_this_machine_is_no_other(kind, host):
    """Loopback, by number or by name, takes credentials over http://."""
    client, asked = sending(kind, "", "")
    async with client as caller:
        assert (await caller.get(f"http://{host}:8080/", headers=KEY)).status_code == 200
    assert len(asked) == 1


@pytest.mark.real
@each_kind
async def test_two_servers_on_this_machine_are_two_origins(kind):
    """Over real sockets: the key reaches the first port, and no request reaches the second."""
    async with (
        HttpFault() as second,
        HttpFault(lambda request: Answer(302, headers={"location": second.url()})) as first,
        kind.client(follow_redirects=True) as caller,
    ):
        with pytest.raises(rb.BridgeError) as caught:
            await caller.get(first.url(), headers=KEY)
        assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
        assert first.log[0].request.headers["x-api-key"] == "k-1"
        assert (second.connections, first.requests) == (0, 1)
        assert (await caller.get(first.url())).status_code == 200


# ---- what may follow --------------------------------------------------------------------------------------------------

ABANDONED = {
    "X-Tenant": "acme",
    "X-Custom-Thing": "canary",
    "Referer": "https://a.example/?x=canary",
    "From": "canary@x",
}
REFUSED = [
    "Ocp-Apim-Subscription-Key",
    "x-functions-key",
    "X-Session",
    "X-Goog-Api-Key",
    "Private-Token",
    "X-Vault-Token",
]
FOLLOWING = {
    "Accept-Language": "de",
    "Range": "bytes=0-",
    "Traceparent": "00-1",
    "Cache-Control": "no-cache",
    "If-None-Match": "x",
}


def _elsewhere(server, where):
    """Another origin on this machine: the same server by another name, or another port."""
    return server.url().replace("127.0.0.1", "localhost") if where == "name" else server.url()


@pytest.mark.real
@each_kind
@pytest.mark.parametrize("where", ["name", "port"])
async def test_g02_only_a_short_list_of_headers_follows_to_another_origin(kind, where):
    """What is not on the list stays behind, what has the name of a secret is refused, what is harmless arrives."""
    async with HttpFault() as second:
        target = _elsewhere(second, where)
        redirecting = HttpFault(lambda request: Answer(302, headers={"location": target}))
        async with redirecting as first, kind.client(follow_redirects=True) as caller:
            answer = await caller.get(
                first.url(), headers={**ABANDONED, **FOLLOWING, "Authorization": "Bearer canary"}
            )
            assert answer.status_code == 200
            for name in REFUSED:
                with pytest.raises(rb.BridgeError) as caught:
                    await caller.get(first.url(), headers={name: "canary"})
                assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
        (arrived,) = [exchange.request.headers for exchange in second.log]
        assert "canary" not in str(arrived)
        assert "acme" not in str(arrived)
        assert {name: arrived[name.lower()] for name in FOLLOWING} == FOLLOWING


@pytest.mark.real
@each_kind
@pytest.mark.parametrize("where", ["name", "port"])
async def test_g02_a_cookie_without_a_domain_stays_behind(kind, where):
    """A jar gives it to every host; here it goes to the first one only, on no later hop either, and to the first one again."""
    async with HttpFault() as second, HttpFault() as first:
        there = _elsewhere(second, where)
        first.target = lambda request: (
            Answer(302, headers={"location": there}) if request.path == "/" else Answer(200)
        )
        second.target = lambda request: Answer(
            302, headers={"location": there + "more" if request.path == "/" else first.url("/end")}
        )
        async with kind.client(follow_redirects=True) as caller:
            caller.raw.cookies.set("s", "c-canary")
            assert (await caller.get(first.url())).status_code == 200
        assert [exchange.request.headers.get("cookie") for exchange in first.log] == [
            "s=c-canary"
        ] * 2
        assert len(second.log) == 2
        assert "canary" not in str([exchange.request.headers for exchange in second.log])


@each_kind
async def test_g02_a_cookie_that_a_server_set_for_the_domain_goes_on(kind):
    """A session of a whole domain survives a redirect between its hosts; it goes to no host outside."""
    asked = []
    hops = {
        "https://login.a.example/": (
            302,
            {
                "location": "https://shop.a.example/",
                "set-cookie": "sid=1; Domain=.a.example; Path=/",
            },
        ),
        "https://shop.a.example/": (302, {"location": "https://b.example/"}),
    }

    def answer(request):
        asked.append((request.url.host, request.headers.get("cookie")))
        return hops.get(str(request.url), (200,))

    async with kind.client(
        rb.HTTPTransport(QUICK, kind.mock(answer)), follow_redirects=True
    ) as caller:
        for _ in range(2):
            await caller.get("https://login.a.example/")
    assert asked[1:3] == [("shop.a.example", "sid=1"), ("b.example", None)]
    assert asked[3:] == [
        ("login.a.example", "sid=1"),
        ("shop.a.example", "sid=1"),
        ("b.example", None),
    ]


# ---- secrets in a body and in a query ------------------------------------------------------------------------------

BODIES = [
    {"data": {"user": "bob", "password": "hunter2"}},
    {"json": {"grant_type": "client_credentials", "client_secret": "s-1"}},
    {"content": b'{"token": "abc123"}'},
    {"data": {"password": "hunter2"}, "files": {"f": ("a.txt", b"text")}},
]


@each_kind
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("body", BODIES, ids=["form", "json", "text", "multipart"])
async def test_sec5_a_body_with_a_secret_is_not_sent_to_another_origin(kind, status, body):
    """307 and 308 send the body again: refused and told, and the other origin hears nothing."""
    client, asked = sending(kind, "https://a.example/", "https://b.example/", status)
    async with client as caller:
        with pytest.raises(
            kind.library.RequestError, match="it would send a body with a secret there"
        ) as caught:
            await caller.post("https://a.example/", **body)
    assert caught.value.failure.code == "CONN_REDIRECT_REFUSED"
    assert [request.url.host for request in asked] == ["a.example"]


@each_kind
@pytest.mark.parametrize("status", [307, 308])
async def test_sec5_any_other_body_is_sent_again(kind, status):
    """A body without a secret follows anywhere, and any body on its own origin."""
    for location, body in (
        ("https://b.example/", {"name": "x"}),
        ("https://a.example/x", {"password": "pw-1"}),
    ):
        client, asked = sending(kind, "https://a.example/", location, status)
        async with client as caller:
            assert (await caller.post("https://a.example/", json=body)).status_code == 200
        assert len(asked) == 2


@each_kind
@pytest.mark.parametrize(
    "query", ["token=abc", "api_key=abc", "access_token=abc", "x=1&client_secret=abc"]
)
async def test_sec5_a_secret_in_a_query_does_not_cross_the_network_in_clear(kind, query):
    """It is refused like a header: not to this machine, not over https, and not where the user allows it."""
    transport = rb.HTTPTransport(QUICK, kind.mock(lambda _: (200,)))
    async with kind.client(transport) as caller:
        with pytest.raises(rb.BridgeError) as caught:
            await caller.get(f"http://a.example/?{query}")
        assert caught.value.failure.code == "CONN_INSECURE"
        for url in (
            f"https://a.example/?{query}",
            f"http://127.0.0.1/?{query}",
            "http://a.example/?format=json&page=2",
        ):
            assert (await caller.get(url)).status_code == 200
    allowed = rb.HTTPTransport(QUICK, kind.mock(lambda _: (200,)), allow_plaintext_credentials=True)
    async with kind.client(allowed) as caller:
        assert (await caller.get(f"http://a.example/?{query}")).status_code == 200
