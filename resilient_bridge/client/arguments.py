"""Checks of the arguments of BridgeClient: each names the argument and the expected value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from ..calls import Policy
from ..failure import config_error, has_mix, hides
from ..lazy_names import public
from ..presets import default
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies.dialect import Dialect


if TYPE_CHECKING:
    from collections.abc import Container

    from ..calls.ports import EnvironmentSource, SettingsSource


_LONGEST_NAME: Final = 100
PIN: Final = "the text 'sha256', a colon and 64 hexadecimal digits, or a list of such texts"


def check_url(url: object) -> None:
    """Check a ws:// or wss:// URL, or a callable that returns one."""
    if isinstance(url, str):
        check_url_text("BridgeClient.url", url)
    elif not callable(url):
        raise config_error(
            "BridgeClient.url", "a ws:// or wss:// URL, or a callable that returns one", url
        )


def check_url_text(path: str, url: object) -> None:
    """Check a ws:// or wss:// URL."""
    if not isinstance(url, str):
        raise config_error(path, "a text: a ws:// or wss:// URL", type(url).__name__)
    if not url.startswith(("ws://", "wss://")):
        from ..failure.wrong_values import line_for_value

        write = line_for_value("BridgeClient.url", url)
        raise config_error(
            path, "a URL that begins with ws:// or wss://", _as_written(url), write=write
        )
    if url.partition("://")[2][:1] in {"", "/", "?", "#"}:
        from ..failure.wrong_values import line_for_value

        write = line_for_value("BridgeClient.url", None)
        raise config_error(path, "a URL with a host", _as_written(url), write=write)


def check_token(path: str, token: object) -> None:
    """Check a token, or what its function has returned; an error names its type alone."""
    if token is not None and not isinstance(token, str):
        hint = ": write .decode()" if isinstance(token, bytes) else ""
        raise config_error(path, f"a text or None{hint}", type(token).__name__)


def check_bearer(path: str, token: object) -> None:
    """Check a token that goes into a header."""
    check_token(path, token)
    if isinstance(token, str) and token:
        _check_header(path, "Authorization", token, "a text")


def _check_header(path: str, name: str, value: str, wanted: str) -> None:
    """Refuse what no header can hold, such as the line break at the end of a file; show no value."""
    from ..transports.origin import checked_headers  # imported here: it loads the WebSocket library

    try:
        checked_headers({name: value})
    except ValueError:
        wanted = f"{wanted} that a header can hold: printable, in one line (write .strip() for a text of a file)"
        raise config_error(path, wanted, f"another character in {name[:_LONGEST_NAME]!r}") from None


def check_headers(path: str, headers: object) -> None:
    """Check headers, or what their function has returned; an error names no value."""
    if headers is None:
        return
    wanted = "a dict of texts, such as {'X-Tenant': 'a'}"
    if not isinstance(headers, Mapping):
        raise config_error(path, wanted, type(headers).__name__)
    for name, value in cast("Mapping[object, object]", headers).items():
        if not isinstance(name, str) or not isinstance(value, str):
            shown = f"a name that is a {type(name).__name__}"
            if isinstance(name, str):
                shown = f"a {type(value).__name__} as {name[:_LONGEST_NAME]}"
            raise config_error(path, wanted, shown)
        _check_header(path, name, value, "names and texts")


def check_callable(argument: str, wanted: str, value: object) -> None:
    """Check that an argument of a client is callable."""
    if not callable(value):
        raise config_error(f"BridgeClient.{argument}", wanted, value)


def check_pin(pin: object) -> None:
    """Check the SHA-256 of a certificate, or a list of them."""
    if pin is None:
        return
    from ..transports.tls import pins_of

    if isinstance(pin, bytes) or not isinstance(pin, Sequence):
        raise config_error("BridgeClient.pin", PIN, pin)
    pins = cast("Sequence[str]", pin)
    try:
        pins_of(pins)
    except (ValueError, AttributeError) as error:
        raise config_error("BridgeClient.pin", PIN, pins) from error


def check_ssl(ssl: object) -> None:
    """Check that `ssl` is a context; True and False, as other libraries take them, are none."""
    if ssl is not None and not hasattr(ssl, "wrap_bio"):
        raise config_error(
            "BridgeClient.ssl", "an ssl.SSLContext, or None for the usual checks of wss://", ssl
        )


def check_session(session_id: object, on_gap: object, on_doubt: object = None) -> None:
    """Check the arguments that describe the session, and what it reports to."""
    if session_id is not None and (not isinstance(session_id, str) or not session_id):
        raise config_error("BridgeClient.session_id", "a non-empty string", session_id)
    if session_id is not None and any(
        "\ud800" <= character <= "\udfff" for character in session_id
    ):
        raise config_error("BridgeClient.session_id", "text that UTF-8 can write", session_id)
    if on_gap is not None:
        check_callable("on_gap", "a callable that takes a Gap", on_gap)
    if on_doubt is not None:
        check_callable("on_doubt", "a callable that takes an events.OutboundInDoubt", on_doubt)


def check_health_check(check: object, dialect: Dialect) -> None:
    """Check that it is callable, and that the dialect has a ping to verify its answer."""
    if check is None:
        return
    check_callable(
        "health_check", "a callable, async or not, that returns whether the bridge is well", check
    )
    if dialect.ping is None and not dialect.pings:
        wanted = (
            "a dialect with a ping (ping= or pings=), which is the second opinion; leave health_check out: "
            "here pings of the WebSocket watch the connection, each Heartbeat.every seconds"
        )
        raise config_error("BridgeClient.health_check", wanted, "one without")


def checked_name(name: object, path: str = "BridgeClient.name") -> str:
    """Check a name for events, metrics and health: one line of text, at most 100 characters.

    Empty: no name.
    """
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not name.isprintable():
        raise config_error(path, f"text in one line, {_LONGEST_NAME} characters at most", name)
    return name


def checked_policy(
    policy: object, dialect: object = None, path: str = "BridgeClient.policy"
) -> BridgePolicy:
    """Return a BridgePolicy with `dialect` instead of its own.

    A Policy, which is for calls, is put into the recommended one.
    """
    if isinstance(policy, Policy):
        policy = default.evolve(calls=policy)
    if not isinstance(policy, BridgePolicy):
        raise config_error(path, "a Policy or a BridgePolicy", policy)
    if dialect is None:
        return policy
    if not isinstance(dialect, Dialect):
        raise config_error("BridgeClient.dialect", "a Dialect, such as rb.dialects.plain", dialect)
    return policy.evolve(dialect=dialect)


def from_settings(
    source: SettingsSource,
    names: Mapping[str, Any] | None,
    env: EnvironmentSource,
    overrides: Mapping[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """Return the URL and the options of a client from settings; `overrides` win."""
    config = public("load")(source, names=names, env=env)
    options = {"policy": config.bridge, **config.client.arguments(), **overrides}
    if "url" not in options:
        raise config_error("bridge.url", "a ws:// or wss:// URL", None)
    return options.pop("url"), options


def message_of(
    dialect: Dialect, type_: str | Mapping[str, Any] | bytes, payload: Any
) -> tuple[str, Mapping[str, Any] | bytes]:
    """Return type and payload of the arguments of `send`.

    `send({…})` and `send(b"…")` where the dialect has no types, `send(type, payload)` elsewhere.
    """
    if dialect.encode is None:
        if type(type_) is not str and isinstance(type_, Mapping | bytes):
            raise config_error(
                "send", "send(type, payload), as this dialect has types", "a frame alone"
            )
        if isinstance(payload, bytes):
            wanted = "send(type, {…}), as this dialect speaks JSON; bytes need frames of your own (decode=, encode=)"
            raise config_error("send", wanted, "bytes")
        if payload is None:
            write = f'await bridge.send({type_!r}, {{"key": "value"}})'
            raise config_error(
                "send",
                "send(type, payload), as this dialect has types",
                "a type alone",
                write=write,
            )
        return type_, payload  # anything else is refused as a message
    if payload is None and isinstance(type_, Mapping | bytes):
        return "", type_
    if payload is not None and isinstance(type_, str):
        return type_, payload
    raise config_error("send", 'send({…}) or send(b"…"), your own frame', type(type_).__name__)


def check_request(dialect: Dialect) -> None:
    """Refuse a request where the dialect cannot tell which frame is the answer."""
    if dialect.encode is not None and not dialect.answers:
        wanted = "a dialect that matches answers; here: send({…}), and look for the answer among the messages"
        raise config_error("request", wanted, "one whose frames are its own")


def check_dialect(dialect: Dialect, on_connect: object, token: object, backfill: object) -> None:
    """Check the dialect, `on_connect`, and whether the dialect defines what a token means."""
    if on_connect is not None:
        wanted = "an async function of the connection that has just been made"
        check_callable("on_connect", wanted, on_connect)
    if backfill is not None:
        check_callable(
            "backfill", "an async iterator of frames, as a function of a Record", backfill
        )
        if dialect.positions is None:
            wanted = "a dialect with positions, which say from where to fetch"
            raise config_error("BridgeClient.backfill", wanted, "one without")
    if not callable(token):
        (check_bearer if dialect.sends_bearer else check_token)("BridgeClient.token", token)
    if token is not None and dialect.auth is None and not dialect.bearer and dialect.login is None:
        wanted = "a dialect that says where a token goes; here: headers= with an Authorization, or a frame in on_connect"
        raise config_error("BridgeClient.token", wanted, "one that does not")


def shown(url: str, schemes: Container[str] = ("ws", "wss")) -> str:
    """Return scheme, host and path of a URL of one of these schemes, for reprs and messages.

    "<url>" for what cannot be parsed with certainty.
    """
    try:
        parts = urlsplit(url)
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return "<url>"
    if (
        parts.scheme not in schemes
        or not parts.hostname
        or "@" in parts.path
        or not url.isprintable()
    ):
        return "<url>"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}{parts.path}"


def _as_written(text: str) -> str:
    """Return the scheme and the host of a wrong URL, so that a mistake is seen.

    All the rest may be a secret, and so may a text that does not look like a host.
    """
    from ..failure.wrong_values import is_host

    scheme, slashes, rest = text.partition("://")
    host = re.split("[/?#]", rest if slashes else text, maxsplit=1)[0].rpartition("@")[2]
    if not slashes and not is_host(host):
        return f"text of {len(text)} characters without ://"
    shown = f"{scheme}://{host}" if slashes else host
    return shown if len(shown) <= _LONGEST_NAME else shown[:_LONGEST_NAME] + "…"


_LONG: Final = 16  # characters of a parameter that is no word


def _is_secret(name: str, value: str) -> bool:
    return hides(name, value) or has_mix(value) or len(value) >= _LONG or name.lower() == "key"


def secrets_of(url: str) -> list[str]:
    """Return the secret parts of a URL: user, password, values of the query that a name or their form
    tells to be secrets. `format=json` is none, and masked, it would blank out a word of every error.
    """
    try:
        parts = urlsplit(url)
        values = [value for name, value in parse_qsl(parts.query) if _is_secret(name, value)]
    except ValueError:
        return []
    return [unquote(part) for part in (parts.username, parts.password) if part] + values
