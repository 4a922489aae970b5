"""Access control of an HTTP front: Host, Origin and the bearer token.

Rule: a request that a foreign web page makes a browser send is refused before its body is read.
All functions are pure, except `new_http_token` and `save_http_token`.
"""

from __future__ import annotations

import ipaddress
import os
import re
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

import attrs

from ...failure import config_error
from ...files.private_files import open_private, path_of, typed_errors
from ...world import current_world


if TYPE_CHECKING:
    from collections.abc import Mapping


_AUTHORITY: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:/@\s]+)(?::\d{1,5})?")
_ORIGIN: Final = re.compile(r"https?://(?P<authority>[^/@\s]+)")


@attrs.frozen(kw_only=True)
class HttpGuard:
    """The access rules.

    `hosts` and `origins` are allowed besides loopback; an origin has its scheme, and its port if it
    has one ("https://example.org").
    """

    token: str | None = attrs.field(repr=False)
    # whether only this machine can connect; if not, Host may be any IP address
    is_loopback: bool = True
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Return why Host or Origin of a request is refused; "" if both are allowed."""
        if not self._is_our_host(headers.get("host", "")):
            return "Invalid Host header"
        origin = headers.get("origin")
        is_allowed = origin is None or self._is_allowed_origin(origin)
        return "" if is_allowed else "Invalid Origin header"

    def has_token(self, headers: Mapping[str, str]) -> bool:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        if self.token is None or scheme.lower() != "bearer":
            return False
        return compare_digest(shown.strip().encode(), self.token.encode())

    def _is_our_host(self, authority: str) -> bool:
        name = _name_of(authority)
        if name is None:
            return False
        return (
            is_loopback(name)
            or name in self.hosts
            or (not self.is_loopback and _address_of(name) is not None)
        )

    def _is_allowed_origin(self, origin: str) -> bool:
        if origin in self.origins:
            return True
        found = _ORIGIN.fullmatch(origin)
        name = _name_of(found["authority"]) if found else None
        return name is not None and is_loopback(name)


def guard_of(
    host: str,
    *,
    token: str | None,
    hosts: frozenset[str] = frozenset(),
    origins: frozenset[str] = frozenset(),
) -> HttpGuard:
    """Return the guard of a front that listens on `host`.

    Raises ConfigError for a host other than loopback without a token, and for a token that is
    shorter than 16 characters or has other characters than printable ASCII without spaces.
    """
    if token is None and not is_loopback(host):
        raise config_error(
            "token", "a token where others than this machine can connect", f"none, on host {host}"
        )
    if token is not None and (
        len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token
    ):
        raise config_error(
            "token", "16 or more printable characters without spaces", f"{len(token)} characters"
        )
    own = [host.lower()] if _address_of(host) is None else []
    named = frozenset([*(name.lower() for name in hosts), *own])
    return HttpGuard(token=token, is_loopback=is_loopback(host), hosts=named, origins=origins)


def is_loopback(name: str) -> bool:
    """Return whether a host is this machine: `localhost`, or an address of the loopback network."""
    if name.lower() == "localhost":
        return True
    address = _address_of(name)
    return address is not None and (getattr(address, "ipv4_mapped", None) or address).is_loopback


def new_http_token() -> str:
    """Return a new random token of 256 bits."""
    world = current_world()
    return "".join(world.new_token() for _ in range(4))


def save_http_token(path: str | os.PathLike[str], token: str) -> None:
    """Write the token to a file that only its owner can read (mode 600), replacing an older token.

    Raises ConfigError for a path that is a link or a file of another user, StoreError if the file
    cannot be written.
    """
    file = path_of(path, "token_file")
    handle = open_private(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, "token_file")
    with typed_errors(file, "be written"), open(handle, "w", encoding="ascii") as opened:  # noqa: PTH123 -- a descriptor
        opened.write(token + "\n")


def _name_of(authority: str) -> str | None:
    found = _AUTHORITY.fullmatch(authority)
    return found["name"].strip("[]").lower() if found else None


def _address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
