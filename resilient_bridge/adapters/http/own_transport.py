"""The transport below HTTPTransport where the user gives none: what the client's library would make.

Rule: a client that is given a transport reads no proxies from the environment. So they are read
here, by httpx's rules: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, and `NO_PROXY` with its patterns.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import attrs

from ...failure import config_error
from ...transports.loopback import is_loopback
from ...values.fields import check_flag
from .request_checks import PORTS


if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Self


_SCHEMES: Final = ("http", "https", "socks5", "socks5h")
_WANTED: Final = (
    "the URL of a proxy: http://, https://, socks5:// or socks5h://, or the library's Proxy"
)


@attrs.frozen(kw_only=True)
class Options:
    """The arguments of HTTPTransport for the transport below, with the meaning and the defaults of httpx."""

    verify: Any = True
    cert: Any = None
    http2: bool = False
    proxy: Any = None
    limits: Any = None
    trust_env: bool = True

    def check(self, owner: str, inner: object) -> None:
        """Raise ConfigError for a wrong one, and for any beside an `inner`, which has its own."""
        check_flag(f"{owner}.http2", self.http2)
        check_flag(f"{owner}.trust_env", self.trust_env)
        if self.http2 and find_spec("h2") is None:
            raise config_error(
                f"{owner}.http2", "the package h2 for it: pip install 'httpx[http2]'", True
            )
        if inner is not None:
            for field in attrs.fields(type(self)):
                if getattr(self, field.name) != field.default:
                    wanted = f"no transport beside it: give {field.name}= to that transport"
                    raise config_error(f"{owner}.{field.name}", wanted, type(inner).__name__)
        if self.proxy is not None and not _is_proxy(self.proxy):
            raise config_error(f"{owner}.proxy", _WANTED, type(self.proxy).__name__)
        if self.limits is not None and not hasattr(self.limits, "max_connections"):
            raise config_error(
                f"{owner}.limits", "an httpx.Limits or httpx2.Limits, or None", self.limits
            )


def _is_proxy(proxy: Any) -> bool:
    url = getattr(proxy, "url", proxy)
    scheme = _scheme_of(url) if isinstance(url, str) else getattr(url, "scheme", None)
    return scheme in _SCHEMES


def _scheme_of(url: str) -> str:
    """Return the scheme of a URL; empty for one that cannot be read, such as `http://[`."""
    with suppress(ValueError):
        return urlsplit(url).scheme
    return ""


def own_transport(library: ModuleType, options: Options, *, is_async: bool) -> Any:
    """Return the transport that a client of this library would have made for itself."""
    make: Any = library.AsyncHTTPTransport if is_async else library.HTTPTransport
    # one context for all: loading the authorities takes longer than the rest
    context = library.create_ssl_context(
        verify=options.verify, cert=options.cert, trust_env=options.trust_env
    )
    more = {} if options.limits is None else {"limits": options.limits}

    def made(proxy: Any = None) -> Any:
        return make(
            verify=context, http2=options.http2, trust_env=options.trust_env, proxy=proxy, **more
        )

    if options.proxy is not None:
        return made(options.proxy)
    proxies, direct = environment() if options.trust_env else ({}, ())
    return (
        Routes(made(), {scheme: made(url) for scheme, url in proxies.items()}, proxies, direct)
        if proxies
        else made()
    )


# ---- the environment -------------------------------------------------------------------------------------------------


class Direct(NamedTuple):
    """One entry of NO_PROXY. An empty scheme or host, and no port, fit every one.

    `is_domain`: the names below the host fit, too; `is_below`: only these.
    """

    scheme: str = ""
    host: str = ""
    port: int | None = None
    is_domain: bool = False
    is_below: bool = False
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None = None

    def fits(self, url: Any) -> bool:
        """Return whether requests to a URL of httpx go without a proxy."""
        if (self.scheme and self.scheme != url.scheme) or (
            self.port is not None and self.port != url.port
        ):
            return False
        host = url.host.lower()
        if self.network is not None:
            with suppress(ValueError):
                return ipaddress.ip_address(host) in self.network
            return False
        if self.is_domain and host.endswith(f".{self.host}"):
            return True
        return not self.host or (host == self.host and not self.is_below)


def environment() -> tuple[dict[str, str], tuple[Direct, ...]]:
    """Return the proxies by scheme ("all" for every other), and what goes without one."""
    from urllib.request import getproxies

    found = getproxies()
    # a name without a scheme is that of an HTTP proxy
    proxies = {
        scheme: url if "://" in url else f"http://{url}"
        for scheme in ("http", "https", "all")
        if (url := found.get(scheme))
    }
    names = [name for entry in found.get("no", "").split(",") if (name := entry.strip())]
    if "*" in names:
        return {}, ()
    for scheme, url in proxies.items():
        if not _is_proxy(url):
            raise config_error(f"{scheme.upper()}_PROXY", _WANTED, "another one")
    return proxies, tuple(entry for name in names if (entry := direct(name.lower())) is not None)


def direct(name: str) -> Direct | None:
    """Return what an entry of NO_PROXY means; None if it can be no host."""
    with suppress(ValueError):
        network = ipaddress.ip_network(name.strip("[]"), strict=False)
        return Direct(network=network)
    scheme, slashes, rest = name.rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if scheme == "all":
        scheme = ""
    bare = host.lstrip("*")
    is_below = bare.startswith(".")
    bare = bare.removeprefix(".")
    is_exact = bool(slashes and bare == host) or name == "localhost"
    port = None if port == PORTS.get(scheme) else port
    return Direct(scheme, bare, port, not is_exact, is_below) if bare or slashes else None


class Routes:
    """Transports by URL: a proxy of the environment, or none."""

    def __init__(
        self,
        straight: Any,
        through: Mapping[str, Any],
        proxies: Mapping[str, str],
        direct: tuple[Direct, ...],
    ) -> None:
        self._straight, self._through, self._direct = straight, through, direct
        self._far = {
            scheme
            for scheme, url in proxies.items()
            if not is_loopback(urlsplit(url).hostname or "")
        }
        # it has the one method that its transports have
        self._method = (
            "handle_async_request"
            if hasattr(straight, "handle_async_request")
            else "handle_request"
        )
        setattr(self, self._method, self._send)

    def _send(self, request: Any) -> Any:
        return getattr(self.transport_for(request.url), self._method)(request)

    def transport_for(self, url: Any) -> Any:
        """Return the transport of a URL.

        A proxy on another machine has another loopback, and would see what is meant for this one.
        """
        scheme = url.scheme if url.scheme in self._through else "all"
        transport = self._through.get(scheme)
        is_near = url.scheme == "http" and scheme in self._far and is_loopback(url.host)
        if transport is None or is_near or any(entry.fits(url) for entry in self._direct):
            return self._straight
        return transport

    def _all(self) -> list[Any]:
        return [self._straight, *self._through.values()]

    def close(self) -> None:
        for transport in self._all():
            transport.close()

    async def aclose(self) -> None:
        for transport in self._all():
            await transport.aclose()

    # Those of the libraries need not be entered, and are closed when they are left.

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
