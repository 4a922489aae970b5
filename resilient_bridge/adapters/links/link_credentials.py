"""Checks on the credentials that websockets' `connect` sends, and on its redirects.

No credentials are sent in clear text to another machine, and none after a redirect to another
origin; of the other headers only those that may follow are sent there. Rule: the checks run on the
factory's object before a byte is sent. Of other libraries, only an mcp `Client` is changed (see
`watched`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from ...failure import Failure, error_for, is_sensitive, sends_secret
from ...transports.following import may_follow
from ...transports.loopback import is_loopback
from ..arguments import plaintext_refused
from ..http.bodies import look_async
from ..mcp_wire import watched


if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from websockets.asyncio.client import connect
    from websockets.uri import WebSocketURI

    from ...failure import BridgeError


def guarded(
    factory: Callable[[], AbstractAsyncContextManager[Any]], *, allow_plaintext_credentials: bool
) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Return the factory with these checks on the objects that it makes (threats 41 and 42)."""

    def make() -> AbstractAsyncContextManager[Any]:
        made = factory()
        library = sys.modules.get("websockets.asyncio.client")  # a user of it has imported it
        if library is not None and isinstance(made, library.connect):
            _guard(cast("connect", made), allow_plaintext_credentials=allow_plaintext_credentials)
        return watched(made, look_async)

    return make


def _guard(made: connect, *, allow_plaintext_credentials: bool) -> None:
    from websockets.datastructures import Headers
    from websockets.exceptions import InvalidURI, SecurityError
    from websockets.uri import parse_uri

    from ...transports.origin import origin_of
    from ...transports.websockets_releases import target_of

    if made.additional_headers is not None:
        made.additional_headers = Headers(made.additional_headers)  # it may be an iterator
    carries = _carries_credentials(made)
    if (carries or sends_secret(target_of(made).query)) and not allow_plaintext_credentials:
        _check_plaintext(made)
    follow = made.process_redirect
    if follow.__module__ == __name__:  # for a factory that returns the same object again
        return

    def process_redirect(error: Exception) -> Exception | str:
        here = target_of(made)
        _as_websocket(error)
        try:
            found = follow(error)
        except InvalidURI as wrong:  # https:// for one
            return _refused("redirect to what is no ws:// or wss:// url", wrong)
        if found is error:
            return found
        if isinstance(found, SecurityError):
            return _refused("redirect from wss to ws", found)
        if isinstance(found, Exception) or _stays(here, found):
            return found
        # websockets removes Authorization and Cookie before it follows, but not X-Api-Key.
        if carries:
            return _refused(
                f"redirect with credentials to another origin, {origin_of(parse_uri(found))},"
            )
        headers = Headers(made.additional_headers or ())
        made.additional_headers = Headers(
            [pair for pair in headers.raw_items() if may_follow(pair[0])]
        )
        return found

    cast("Any", made).process_redirect = process_redirect


def sends_in_clear(made: object) -> bool:
    """Return whether this `connect` of websockets would show credentials to whatever answers it."""
    library = sys.modules.get("websockets.asyncio.client")
    if library is None or not isinstance(made, library.connect):
        return False
    from ...transports.websockets_releases import target_of

    dialled = cast("connect", made)
    return not target_of(dialled).secure and _carries_credentials(dialled)


def _carries_credentials(made: connect) -> bool:
    """Return whether there are credentials before the @ of its url, or in its headers."""
    from ...transports.websockets_releases import target_of

    names = cast("Any", made.additional_headers or ())
    return target_of(made).user_info is not None or any(is_sensitive(name) for name in names)


def _as_websocket(error: Exception) -> None:
    """Rewrite http and https in a redirect's Location to ws and wss, for proxies such as nginx."""
    from websockets.exceptions import InvalidStatus

    if not isinstance(error, InvalidStatus):
        return
    headers = error.response.headers
    location = headers.get_all("Location")
    scheme = (
        {"http": "ws", "https": "wss"}.get(location[0].partition(":")[0].lower())
        if location
        else None
    )
    if scheme is not None:
        del headers["Location"]
        headers["Location"] = scheme + ":" + location[0].partition(":")[2]


def _check_plaintext(made: connect) -> None:
    """Refuse credentials over ws:// to another machine (threat 42)."""
    from ...transports.origin import origin_of
    from ...transports.websockets_releases import options_of, target_of

    options, target = options_of(made), target_of(made)
    host = options.get("host") or target.host  # the host that it connects to
    if target.secure or options.get("unix") or is_loopback(str(host)):
        return
    raise plaintext_refused("wss", origin_of(target), "reconnecting")


def _stays(here: WebSocketURI, found: str) -> bool:
    """Return whether a url has the same origin, or upgrades it from ws to wss (default ports)."""
    from websockets.uri import parse_uri

    there = parse_uri(found)
    is_upgrade = here.host == there.host and (here.port, there.port, there.secure) == (
        80,
        443,
        True,
    )
    return is_upgrade or (here.secure, here.host, here.port) == (
        there.secure,
        there.host,
        there.port,
    )


def _refused(what: str, cause: Exception | None = None) -> BridgeError:
    return error_for(Failure.of("CONN_REDIRECT_REFUSED", f"{what} refused", cause=cause))
