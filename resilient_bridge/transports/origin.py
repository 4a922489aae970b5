"""Security checks of a WebSocket URL: its origin, redirects, unencrypted credentials, and the URL
parts that no error may show.

Rule: each check uses the text alone, before a name is resolved or a byte is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from websockets.exceptions import InvalidURI
from websockets.uri import WebSocketURI, parse_uri

from ..failure import is_sensitive, sends_secret


_HEADER_NAME: Final = re.compile(r"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class RedirectRefusedError(ConnectionError):
    """The server redirects to another origin, from wss to ws, or too often; it was not followed."""


class InsecureURLError(ValueError):
    """Credentials would cross a network unencrypted: ws:// to a host that is not this machine."""


def parse_url(url: str) -> WebSocketURI:
    """Return the parts of a WebSocket URL, or raise `InvalidURI`, which shows no user, password or
    query.
    """
    try:
        target = parse_uri(url)
        target.host.encode("idna")
    except InvalidURI as error:
        raise InvalidURI(_shown(url), error.msg) from None
    except ValueError:
        raise InvalidURI(_shown(url), "host or port cannot be read") from None
    return target


def _shown(url: str) -> str:
    """Return scheme and host of a URL that could not be parsed, which are certainly no secret."""
    found = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(?:[^/?#]*@)?([a-zA-Z0-9.-]*)(?=[:/?#]|$)", url)
    return f"{found[1]}://{found[2]}" if found and "@" not in url[found.end() :] else "the url"


def origin_of(target: WebSocketURI) -> str:
    """Return scheme, host and port, which hold no secret."""
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{'wss' if target.secure else 'ws'}://{host}:{target.port}"


def checked_headers(
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Return the headers as pairs; raise `ValueError`, which shows no value, if a name or value is
    invalid.

    The usual cause is the line break at the end of a token that was read from a file.
    """
    received: Any = headers
    pairs: list[tuple[str, str]] = list(
        received.items() if hasattr(received, "items") else received
    )
    for name, value in pairs:
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(
                "headers: wanted names of letters, digits and hyphens, got another character"
            )
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(
                f"headers: wanted printable characters, got another one in the value of {name}"
            )
    return pairs


def refuse_credentials(
    target: WebSocketURI, headers: Iterable[tuple[str, str]], *, has_credentials: bool
) -> None:
    """Raise `InsecureURLError` if there is a credential: stated by the caller, in the URL (a user, or
    a parameter such as `token`), or by a header's name.
    """
    in_url = target.username is not None or sends_secret(target.query)
    if has_credentials or in_url or any(is_sensitive(name) for name, _ in headers):
        raise InsecureURLError(f"url: wanted wss:// to carry credentials, got {origin_of(target)}")


def redirect_within(url: str, location: str) -> str:
    """Return the URL a redirect leads to; raise `RedirectRefusedError` unless it stays inside the
    origin of `url`.

    User and password are those of `url`, whatever the location contains; http and https are read as
    ws and wss.
    """
    here = parse_url(url)
    wanted = f"redirect refused: wanted a url inside {origin_of(here)}"
    try:
        new = urlsplit(urljoin(url, location))
        scheme = {"http": "ws", "https": "wss"}.get(new.scheme, new.scheme)
        there = parse_url(
            new._replace(scheme=scheme, netloc=new.netloc.rpartition("@")[2], fragment="").geturl()
        )
    except (ValueError, InvalidURI):
        raise RedirectRefusedError(f"{wanted}, got an unreadable one") from None
    if (there.secure, there.host, there.port) != (here.secure, here.host, here.port):
        raise RedirectRefusedError(f"{wanted}, got {origin_of(there)}")
    return urlsplit(url)._replace(path=new.path, query=new.query, fragment="").geturl()
