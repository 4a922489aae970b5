"""Checks of the arguments of an EventSource, and the secrets in them.

Rule: a wrong argument raises ConfigError with its name before anything is connected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from ...client.arguments import secrets_of
from ...client.secrets import Secrets
from ...failure import is_sensitive, mapping_of
from ...protocol.policies.reconnect import Reconnect
from ...values.fields import LONGEST_TIMEOUT, as_seconds, is_count, is_number, refuse


_HARMLESS: Final = frozenset({"accept", "accept-encoding", "accept-language", "cache-control", "content-type", "user-agent"})  # fmt: skip


def _wanted(is_right: object, field: str, wanted: str, received: object) -> None:
    if not is_right:
        refuse(f"EventSource.{field}", wanted, received)


def check_arguments(
    client: object, content: object, on_gap: object, last_event_id: object, limit: object
) -> None:
    wanted = "an httpx.AsyncClient or httpx2.AsyncClient"
    _wanted(callable(getattr(client, "stream", None)), "client", wanted, type(client).__name__)
    wanted = "text or bytes, which can be sent again"
    _wanted(isinstance(content, str | bytes | None), "content", wanted, type(content).__name__)
    _wanted(on_gap is None or callable(on_gap), "on_gap", "a callable that takes a Gap", on_gap)
    is_id = isinstance(last_event_id, str | None) and set("\0\r\n").isdisjoint(last_event_id or "")
    _wanted(is_id, "last_event_id", "text in one line, or None", last_event_id)
    _wanted(is_count(limit), "max_event_bytes", "a count of at least 1", limit)


def checked_policy(reconnect: object) -> Reconnect:
    """Return the Reconnect, or that of a BridgePolicy, or the default."""
    chosen: object = (
        Reconnect() if reconnect is None else getattr(reconnect, "reconnect", reconnect)
    )
    if not isinstance(chosen, Reconnect):
        refuse("EventSource.reconnect", "a Reconnect, a BridgePolicy or None", reconnect)
    return chosen


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers, with Accept and Cache-Control added where they are not set."""
    received = dict(headers or {})
    names = {name.lower() for name in received}
    _wanted(
        "last-event-id" not in names,
        "headers",
        "no Last-Event-ID (last_event_id= is its place)",
        "one",
    )
    ours = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
    return {
        **{name: value for name, value in ours.items() if name.lower() not in names},
        **received,
    }


def timeouts(client: object, policy: Reconnect, read_timeout: Any) -> tuple[float | None, ...]:
    """Return the timeouts of the request: connect, read, write, pool.

    They are the client's own, or `connect_timeout`. For reading it is `read_timeout`, because a
    stream may be quiet longer than any response.
    """
    read = None if read_timeout is None else as_seconds(read_timeout)
    is_limit = read is None or (is_number(read) and 0 < read <= LONGEST_TIMEOUT)
    _wanted(
        is_limit, "read_timeout", f"seconds above 0 to {LONGEST_TIMEOUT:.0f}, or None", read_timeout
    )
    own, limit = getattr(client, "timeout", None), policy.connect_timeout
    connect, write, pool = (getattr(own, name, limit) for name in ("connect", "write", "pool"))
    return connect, read, write, pool


def secrets_in(client: object, url: str, headers: Mapping[str, str]) -> Secrets:
    """Return the secrets of a request, to mask in errors in case an answer echoes them.

    Of "Bearer X", X alone is one as well.
    """
    own: Mapping[str, str] = getattr(client, "headers", {})
    secrets = Secrets()
    learn_headers(secrets, headers)
    learn_headers(secrets, {name: value for name, value in own.items() if is_sensitive(name)})
    secrets.learn(*secrets_of(url))
    return secrets


def learn_headers(secrets: Secrets, headers: Mapping[str, str]) -> None:
    """Add the headers that were sent to the secrets, but for those that everybody sends."""
    sent = [value for name, value in headers.items() if name.lower() not in _HARMLESS]
    secrets.learn(*sent, *(value.rpartition(" ")[2] for value in sent))


def sends_in_clear(client: object, url: str, headers: Mapping[str, str], params: object) -> bool:
    """Return whether a request shows credentials to whatever answers it: by http, not https."""
    base = str(getattr(client, "base_url", "") or "")
    where = url if urlsplit(url).scheme else base
    if urlsplit(where).scheme.lower() != "http":
        return False
    names = [*headers, *getattr(client, "headers", ()), *_names_of(url, params)]
    has_login = any(getattr(client, name, None) for name in ("auth", "cookies"))
    return has_login or "@" in urlsplit(where).netloc or any(is_sensitive(name) for name in names)


def _names_of(url: str, params: Any) -> list[str]:
    """Return the names in the query of a request; `params` of other forms than a mapping have none."""
    own: Mapping[object, object] = mapping_of(params)
    return [str(name) for name in own] + [
        name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)
    ]
