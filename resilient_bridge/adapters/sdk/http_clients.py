"""`wrap` around a client of httpx or httpx2: the policy under each of its transports.

Rule: the client itself is unchanged. Its copy has the same settings, cookies and connections, and
one HTTPTransport over each transport that the client has: its own, its proxies', its mounts'.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from ...failure import config_error
from ..http.transport import HTTPTransport
from .stream_proxies import Proxy


if TYPE_CHECKING:
    from typing import Self

    from ...calls import Policy


_LIBRARIES: Final = frozenset({"httpx", "httpx2"})
_NAMES: Final = frozenset({"Client", "AsyncClient"})
# It has no public names for them; a release without these is refused.
_OWN, _BY_URL = "_transport", "_mounts"


def is_http_client(client: object) -> bool:
    """Return whether an object is a Client or AsyncClient of httpx or httpx2, or of a subclass."""
    return any(
        base.__name__ in _NAMES and base.__module__.partition(".")[0] in _LIBRARIES
        for base in client.__class__.__mro__
    )


def wrapped_http_client(client: Any, policy: Policy, *, allow_plaintext_credentials: bool) -> Any:
    """Return the proxy of a copy of the client whose requests go through the policy.

    Raises ConfigError for one that has an HTTPTransport already.
    """
    own: Any = getattr(client, _OWN, None)
    by_url: dict[Any, Any] | None = getattr(client, _BY_URL, None)
    if (
        not (hasattr(own, "handle_request") or hasattr(own, "handle_async_request"))
        or by_url is None
    ):
        wanted = f"a release of {client.__class__.__module__.partition('.')[0]} whose transports can be found"
        raise config_error(
            "wrap.client", f"{wanted}; here: transport=rb.HTTPTransport()", "another one"
        )
    under: dict[int, HTTPTransport] = {}

    def protected(transport: Any) -> HTTPTransport:
        if isinstance(transport, HTTPTransport):
            raise config_error(
                "wrap.client", "a client without an HTTPTransport", "one with a policy already"
            )
        if id(transport) not in under:
            under[id(transport)] = HTTPTransport(
                policy, transport, allow_plaintext_credentials=allow_plaintext_credentials
            )
        return under[id(transport)]

    made: Any = copy.copy(client)
    mounts = {
        pattern: None if transport is None else protected(transport)
        for pattern, transport in by_url.items()
    }
    setattr(made, _OWN, protected(own))
    setattr(made, _BY_URL, mounts)
    return WrappedHTTPClient(made, policy)


class WrappedHTTPClient(Proxy):
    """The proxy of such a copy: it only says that it is one."""

    def __init__(self, client: Any, policy: Policy) -> None:
        super().__init__(client)
        self._self_policy = policy

    def __copy__(self) -> Self:
        return type(self)(copy.copy(self.__wrapped__), self._self_policy)

    def __repr__(self) -> str:
        kind: type = self.__wrapped__.__class__
        return (
            f"<wrapped {kind.__module__.partition('.')[0]}.{kind.__name__}, {self._self_policy!r}>"
        )
