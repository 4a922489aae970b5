"""The URL to write instead of one that was refused, without what may be secret in it."""

from __future__ import annotations

import re

from .foreign_words import EXAMPLES
from .redaction import redact
from .secret_values import has_mix


def is_host(text: str) -> bool:
    """Return whether a text looks like a host, with or without a port, and like no secret."""
    found = re.fullmatch(r"([A-Za-z0-9.-]{1,100})(:\d{1,5})?|\[[0-9a-fA-F:]+\](:\d+)?", text)
    if found is None or not found[1]:
        return found is not None
    return "." in found[1] or bool(found[2]) or _is_word(found[1])


def _is_word(text: str) -> bool:
    return text.isalpha() and len(text) <= 20 and not has_mix(text)


def url_for(_: str, received: object) -> str:
    """Return a ws:// or wss:// URL with the host of a wrong one, or an example.

    A path of plain words is kept; another one may be a secret, as those of webhooks are.
    """
    if not isinstance(received, str) or not received.strip():
        return EXAMPLES["url"]
    text = received.strip()
    if text.startswith("/"):
        return EXAMPLES["url"]
    scheme, slashes, rest = text.partition("://")
    if not slashes:
        rest, scheme = (
            re.sub(r"^(wss?|https?):?/*", "", text),
            "wss" if text.startswith(("wss", "https")) else "",
        )
    rest = rest.lstrip("/")
    host = re.split("[/?#]", rest, maxsplit=1)[0]
    if not is_host(host):
        return EXAMPLES["url"]
    is_near = bool(re.match(r"(localhost|127\.|\[::1\]|0\.0\.0\.0)", host)) or host.endswith(
        ".local"
    )
    secure = scheme in {"wss", "https"} or (scheme not in {"http", "ws"} and not is_near)
    path = rest[len(host) :].partition("?")[0].partition("#")[0]
    is_plain = all(_is_word(part) for part in path.split("/") if part)
    more = path if is_plain else "/..."
    shown = f"{'wss' if secure else 'ws'}://{host}{more}" + ("?..." if "?" in rest else "")
    return f'"{redact(shown)}"' if text != shown else EXAMPLES["url"]
