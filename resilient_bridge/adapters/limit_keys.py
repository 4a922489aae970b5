"""Which calls share an adaptive limit: those of one credential, method, route and model.

A provider counts by key and by model, and by route; one limit for a whole origin would let the quota
of one route stop all others. Three limits for one quota cost little.

Rule: a credential is in no key, only a digest of it. What is new with each request (a signature of
AWS, a proof of DPoP) says nothing about who is counted, so there the origin alone is the key. An id
or a number in a path is none of the route.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, cast


_API_KEYS: Final = ("x-api-key", "api-key", "x-goog-api-key", "apikey")
_SCHEMES: Final = frozenset({"bearer", "basic", "token", "key", "apikey"})
"""Schemes of Authorization whose value is the same with each request."""
_SOME: Final = 65_536  # bytes at the beginning of a body that are searched for its model
_END: Final = 4_096  # and at its end, where some SDKs write it
_MODEL: Final = re.compile(rb'"model"\s*:\s*"([^"\\]{1,200})"')
_VERSION: Final = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]*)?")
_NUMBER: Final = re.compile(r"[0-9][0-9._:,-]*")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORDS: Final = re.compile(r"[-_.:@~+]")
_LONG: Final = 12  # characters of a word with digits in it, from which it is an id
_LONGEST: Final = 200  # characters of a route


def credential_of(headers: Mapping[str, str]) -> str:
    """Return a digest of the credential of a request, empty if it has none that lasts."""
    value = headers.get("authorization")
    if value:
        scheme, _, secret = value.partition(" ")
        return digest(secret or scheme) if not secret or scheme.lower() in _SCHEMES else ""
    for name in _API_KEYS:
        value = headers.get(name)
        if value:
            return digest(value)
    return ""


def digest(secret: str) -> str:
    """Return eight characters that are the same for the same secret, and say nothing of it."""
    return blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def route_of(path: str) -> str:
    """Return a path without its ids and numbers: `/v1/users/17/files` is `/v1/users/*/files`."""
    path = path.partition("?")[0][: 4 * _LONGEST]
    return "/".join(_part(part) for part in path.split("/"))[:_LONGEST]


def _part(part: str) -> str:
    if _VERSION.fullmatch(part):
        return part
    if _NUMBER.fullmatch(part) or _UUID.fullmatch(part):
        return "*"
    return "*" if any(_is_id(word) for word in _WORDS.split(part)) else part


def _is_id(word: str) -> bool:
    return len(word) >= _LONG and any(character.isdigit() for character in word)


def model_in(body: object) -> str:
    """Return the model that a body in JSON names; empty if it names none, or is no text."""
    if isinstance(body, str):
        body = body[:_SOME].encode("utf-8", "surrogatepass")
    if not isinstance(body, bytes | bytearray):
        return ""
    found = _MODEL.search(body[:_SOME])
    if found is None and len(body) > _SOME:
        found = _MODEL.search(body[-_END:])
    return "" if found is None else found[1].decode("utf-8", "replace")


def key_of_request(args: tuple[Any, ...], _kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of a request of an HTTP client, as HTTPTransport sends it."""
    request = args[0]
    url = request.url
    return (
        credential_of(request.headers),
        request.method,
        route_of(url.path),
        model_in(_body_of(request)),
    )


def _body_of(request: Any) -> object:
    """Return the body of a request, if it is in memory: of httpx, requests or aiohttp."""
    body: object = getattr(request, "_content", None)  # httpx: `content` raises for a stream
    if body is None:
        body = getattr(getattr(request, "native", None), "body", None)
        body = getattr(body, "_value", body)  # aiohttp keeps the bytes of a payload there
    return body


def key_of_call(args: tuple[Any, ...], _kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the key of a call of an SDK's client, as `wrap` makes it."""
    step, _, passed = args
    method: Any = getattr(step, "__wrapped__", None)
    if method is None:
        made = _prepared(getattr(step, "__self__", None))
        method, passed = getattr(made, "func", None), getattr(made, "keywords", {})
    owner = getattr(method, "__self__", None)
    model = cast("Mapping[str, Any]", passed).get("model")
    return (
        _credential_of_client(owner),
        getattr(method, "__qualname__", ""),
        model[:_LONGEST] if isinstance(model, str) else "",
    )


def _prepared(entry: Any) -> Any:
    """Return what makes a call that entering or awaiting its object makes (`wrapping.Prepared`)."""
    call = getattr(entry, "_self_call", None) or getattr(entry, "_call", None)
    return getattr(call, "make", None)


def _credential_of_client(part: object) -> str:
    """Return a digest of the key of an SDK's client, of which this is a part."""
    client: Any = getattr(part, "_client", part)
    for holder in (client, getattr(client, "_api_client", None)):
        for name in ("api_key", "auth_token"):
            secret = getattr(holder, name, None)
            if isinstance(secret, str) and secret:
                return digest(secret)
    return ""
