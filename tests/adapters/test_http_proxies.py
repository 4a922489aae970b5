"""C02: the transport below HTTPTransport is the one that the client's library would have made, proxies of the environment included.

Rule: the proxy is nginx; the far end says through what each request came.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import httpx2
import pytest
from aiohttp import web

import resilient_bridge as rb
from tests.adapters.http_clients import KINDS, QUICK, each_kind
from tests.internals.adapters import Options, own_transport
from tests.peers.nginx import needs_nginx, nginx
from tests.rows import each_row


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
# a forward proxy for http://, and for what comes to itself the server behind it
FORWARD = "location ~ ^ {{ proxy_pass http://127.0.0.1:{port}$uri; proxy_set_header X-Via nginx; }}"


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    """None but those of the test."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Server:
    """A server that fails twice, then says through what the request came."""

    def __init__(self):
        """Nothing has come yet."""
        self.came, self.failures, self.port = [], 0, 0

    async def _handle(self, request):
        self.came.append(request.headers.get("X-Via", "direct"))
        self.failures -= 1
        return web.Response(status=503 if self.failures >= 0 else 200, text=self.came[-1])

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    @asynccontextmanager
    async def open(self):
        """While it listens."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            await runner.cleanup()


@asynccontextmanager
async def proxied(folder):
    """A server, and a proxy that leads to it."""
    async with (
        Server().open() as server,
        nginx(folder, server.port, server=FORWARD.format(port=server.port)) as proxy,
    ):
        yield server, proxy


@pytest.mark.parametrize("url", ["http://u:swordfish@[", "ftp://u:swordfish@host"])
def test_c02_a_variable_that_names_no_proxy_is_named(url, monkeypatch):
    """C02: which variable it is, and not its value; also for a URL that cannot be read."""
    monkeypatch.setenv("ALL_PROXY", url)
    with pytest.raises(rb.ConfigError, match="ALL_PROXY: wanted the URL of a proxy") as caught:
        own_transport(httpx, Options(), is_async=False)
    assert "swordfish" not in str(caught.value)


@needs_nginx
@each_kind
async def test_c02_the_line_of_the_readme_keeps_the_proxies_of_the_environment(
    kind, tmp_path, monkeypatch
):
    """C02: each attempt goes through HTTP_PROXY; without the policy as with it, and not where NO_PROXY names the host."""
    async with proxied(tmp_path / "nginx") as (server, proxy):
        monkeypatch.setenv("http_proxy", proxy.url())
        server.failures = 2
        async with kind.client(rb.HTTPTransport(QUICK)) as client:
            assert (await client.get(server.url)).text == "nginx"
        assert server.came == ["nginx"] * 3
        async with kind.client(rb.HTTPTransport(QUICK, trust_env=False)) as client:
            assert (await client.get(server.url)).text == "direct"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with kind.client(rb.HTTPTransport(QUICK)) as client:
            assert (await client.get(server.url)).text == "direct"
        async with kind.client(rb.HTTPTransport(QUICK, proxy=proxy.url())) as client:
            assert (await client.get(server.url)).text == "nginx"


@needs_nginx
@each_kind
async def test_c02_a_proxy_elsewhere_is_not_asked_for_this_machine(kind, monkeypatch):
    """C02: it has another loopback, and would see what is meant for ours; httpx itself would ask it."""
    async with Server().open() as server:
        monkeypatch.setenv("http_proxy", "http://192.0.2.1:9/")
        async with kind.client(rb.HTTPTransport(QUICK)) as client:
            assert (await client.get(server.url)).text == "direct"


@needs_nginx
@each_kind
async def test_c02_the_arguments_of_a_client_are_passed_on(kind, tmp_path):
    """C02: verify=, http2= and limits=, as the library has them."""
    async with Server().open() as server, nginx(tmp_path / "nginx", server.port) as front:
        limits = kind.library.Limits(max_connections=1)
        transport = rb.HTTPTransport(
            QUICK, verify=front.trust, http2=True, limits=limits, trust_env=False
        )
        async with kind.client(transport) as client:
            assert (await client.get(front.secure_url())).http_version == "HTTP/2"
        assert transport._inner._pool._max_connections == 1
        async with kind.client(rb.HTTPTransport(QUICK, trust_env=False)) as client:
            with pytest.raises(kind.library.ConnectError, match="certificate"):
                await client.get(front.secure_url())


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (
            {"inner": httpx.MockTransport(lambda _: httpx.Response(200)), "verify": False},
            r"HTTPTransport\.verify: wanted no transport beside it",
        ),
        (
            {"inner": httpx.MockTransport(lambda _: httpx.Response(200)), "trust_env": False},
            r"HTTPTransport\.trust_env",
        ),
        (
            {"proxy": "ftp://user:swordfish@host"},
            r"HTTPTransport\.proxy: wanted the URL of a proxy",
        ),
        ({"proxy": "http://u:swordfish@["}, r"HTTPTransport\.proxy: wanted the URL of a proxy"),
        ({"proxy": 7}, r"HTTPTransport\.proxy"),
        ({"limits": 7}, r"HTTPTransport\.limits"),
        ({"http2": 1}, r"HTTPTransport\.http2"),
    ],
)
def test_c02_what_cannot_be_is_refused_at_once(options, wanted):
    """C02: with the name of the argument, and without the proxy's password."""
    with pytest.raises(rb.ConfigError, match=wanted) as caught:
        rb.HTTPTransport(**options)
    assert "swordfish" not in str(caught.value)


NO_PROXIES = [
    "", "*", "localhost", "host.example", ".host.example", "example", "other.example,host.example", "a.host.example:8443",
    "host.example:8080", "127.0.0.1", "::1", "192.168.0.7", "http://host.example", "https://host.example:8443",
    "all://host.example", "http://", "HOST.example",
]  # fmt: skip
URLS = [
    "http://host.example/", "https://host.example/", "http://a.host.example/", "https://a.host.example:8443/",
    "http://nothost.example/", "http://host.example:8080/", "http://localhost/", "http://sub.localhost/",
    "https://127.0.0.1/", "http://192.168.0.7/", "https://[::1]/", "https://other.example/",
]  # fmt: skip
PROXIES = [
    {"http_proxy": "127.0.0.1:1"},
    {"https_proxy": "http://127.0.0.1:2"},
    {"all_proxy": "http://127.0.0.1:3"},
    {"http_proxy": "http://127.0.0.1:1", "all_proxy": "http://127.0.0.1:3"},
]


def _of_the_client(client, url):
    """The proxy that a client of the library chooses."""
    pool = client._transport_for_url(
        client._transport_for_url.__self__.build_request("GET", url).url
    )._pool
    return getattr(pool, "_proxy_url", None) and pool._proxy_url.port


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@each_row("no_proxy", NO_PROXIES)
def test_c02_a_route_is_the_one_of_the_library_s_own_client(library, no_proxy, monkeypatch):
    """C02: for each kind of entry in NO_PROXY, each scheme, and each proxy."""
    for proxies in PROXIES:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in {**proxies, "no_proxy": no_proxy}.items():
            monkeypatch.setenv(name, value)
        ours = own_transport(library, Options(), is_async=False)
        client = library.Client(verify=False)
        for url in URLS:
            chosen = (
                ours.transport_for(library.URL(url)) if hasattr(ours, "transport_for") else ours
            )
            pool = chosen._pool
            port = getattr(pool, "_proxy_url", None) and pool._proxy_url.port
            assert port == _of_the_client(client, url), (proxies, no_proxy, url)


def test_c02_a_network_in_no_proxy_goes_without(monkeypatch):
    """C02: as curl, requests and httpx2 have it; httpx 0.28 takes it for a name."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "10.0.0.0/8, fd00::/8, *.example")
    ours = own_transport(httpx, Options(), is_async=False)
    for url, is_direct in (
        ("http://10.1.2.3/", True),
        ("http://11.1.2.3/", False),
        ("http://[fd00::7]/", True),
        ("http://a.example/", True),
        ("http://example/", False),
    ):
        assert (ours.transport_for(httpx.URL(url)) is ours._straight) is is_direct, url


@needs_nginx
@each_kind
async def test_c02_wrap_puts_the_policy_under_each_mount(kind, tmp_path):
    """C02: also where the client has a proxy= of its own; the client itself repeats nothing, as before."""
    make = kind.library.AsyncClient if kind.is_async else kind.library.Client
    async with proxied(tmp_path / "nginx") as (server, proxy):
        bare = make(proxy=proxy.url(), trust_env=False)
        client = rb.wrap(bare, QUICK)
        assert isinstance(client, make)
        call = client.get if kind.is_async else lambda url: asyncio.to_thread(client.get, url)
        server.failures = 2
        assert (await call(server.url)).text == "nginx"
        assert server.came == ["nginx"] * 3
        server.failures = 1
        plain = (
            await bare.get(server.url)
            if kind.is_async
            else await asyncio.to_thread(bare.get, server.url)
        )
        assert plain.status_code == 503
        await (client.aclose() if kind.is_async else asyncio.to_thread(client.close))


def test_c02_a_wrapped_client_says_so_and_is_wrapped_once():
    """C02, C09: its repr names the policy; a second policy is refused, and so is what is for calls of other clients."""
    kind = KINDS[0]
    client = rb.wrap(httpx.Client(trust_env=False), QUICK)
    assert repr(client) == f"<wrapped httpx.Client, {QUICK!r}>"
    for again in (client, httpx.Client(transport=rb.HTTPTransport())):
        with pytest.raises(rb.ConfigError, match=r"wrap\.client: wanted a client"):
            rb.wrap(again)
    with pytest.raises(rb.ConfigError, match=r"wrap\.idempotent"):
        rb.wrap(kind.library.Client(trust_env=False), idempotent=True)
