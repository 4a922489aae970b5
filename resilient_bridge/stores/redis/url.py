"""The address of a Redis: what is accepted, and what may be shown of it.

Rule: a URL may hold a user and a password, so it is shown only through `public_url` and
`without_secrets`.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl, unquote, urlsplit

from ...failure import MASK
from ...values.fields import refuse


def check_url(path: str, url: object) -> None:
    """Raise the ConfigError of the field `path` unless this is the URL of a Redis."""
    wanted = "redis://host:6379/0, rediss:// or unix://"
    if not isinstance(url, str):
        refuse(path, wanted, type(url).__name__)
    scheme, mark, _ = url.partition("://")
    if not mark or scheme not in ("redis", "rediss", "unix") or not public_url(url):
        refuse(path, wanted, f"{scheme[:6]}..." if mark else "no url")


def public_url(url: str) -> str:
    """Scheme, host, port and path of a URL; empty if it cannot be parsed."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.port == 0:
            return ""
        port = "" if parts.port is None else f":{parts.port}"
        host = parts.hostname or ("" if parts.scheme == "unix" else "localhost")
        host = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{host}{port}{parts.path}"
    return ""


def without_secrets(url: str, text: str) -> str:
    """Return `text` with the user and password of `url` masked, as the URL has them and decoded."""
    parts = urlsplit(url)
    query = [value for name, value in parse_qsl(parts.query) if name.startswith(("pass", "user"))]
    user = parts.username if parts.username != "default" else None
    found = [part for part in (user, parts.password, *query) if part]
    for secret in sorted({*found, *map(unquote, found)}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text
