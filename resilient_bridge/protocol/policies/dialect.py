"""What differs between bridges, as one value: the names on the wire, the codec, the limits.

Rule: a server that names things otherwise, or cannot replay or acknowledge, is a configuration and
never a subclass.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import attrs

from ...values.fields import (
    Value,
    as_seconds,
    as_tuple,
    count,
    flag,
    function,
    instance_of,
    is_count,
    optional,
    path_of,
    refuse,
    short_seconds,
    tuple_of,
    wants,
    word,
)
from .ends import End
from .positions import Positions


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from ..facts import Fact, Frame, Intent, Record, Resume


Name: TypeAlias = "str | None"
"""The word that the server uses; None where it has none."""


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value != "" and " " not in value


def _is_token(value: object) -> bool:
    return (
        isinstance(value, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", value) is not None
    )


def _is_close_code(value: object) -> bool:
    return is_count(value, 1000) and not is_count(value, 5000)


def _close_code(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not _is_close_code(value):
        refuse(path_of(instance, attribute), "a close code from 1000 to 4999", value)


def _flag_or(word: str, wanted: str) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not (isinstance(value, bool) or (isinstance(value, str) and value == word)):
            refuse(path_of(instance, attribute), wanted, value)

    return check


def _needs(
    other: str, wanted: str, values: tuple[object, ...]
) -> Callable[[Any, attrs.Attribute[Any], object], None]:
    """A field that means nothing unless another one has one of these values."""

    def check(dialect: Dialect, attribute: attrs.Attribute[Any], value: object) -> None:
        if value not in {None, "first"} and getattr(dialect, other) not in values:
            refuse(path_of(dialect, attribute), f"{wanted} beside it", value)

    return check


def _has_barrier(dialect: Dialect, _: attrs.Attribute[Any], value: Positions | None) -> None:
    if value is not None and value.ends == "barrier" and not dialect.pings:
        refuse("Dialect.pings", 'pings, for positions that end by a "barrier"', dialect.pings)


@wants("a name without spaces")
def _word(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not _is_word(value):
        refuse(path_of(instance, attribute), "a name without spaces, or None", value)


def _pong(dialect: Dialect, _: attrs.Attribute[Any], value: str | None) -> None:
    # Without an answer, a ping would declare every healthy peer dead.
    if dialect.ping is not None and value is None:
        refuse("Dialect.pong", "a name while ping has one", value)


def _replay(dialect: Dialect, _: attrs.Attribute[Any], value: str | None) -> None:
    if dialect.request_replay is not None and value is None:
        refuse("Dialect.replay", "a name while request_replay has one", value)


def _with_functions(dialect: Dialect, attribute: attrs.Attribute[Any], value: object) -> None:
    if dialect.decode is None and value != attribute.default:
        refuse(path_of(dialect, attribute), "only beside encode and decode", value)


_OURS: Final = (
    "auth",
    "auth_ack",
    "auth_error",
    "join",
    "joined",
    "request_replay",
    "replay",
    "ping",
    "pong",
    "ack",
)
"""The messages of the protocol that the session speaks itself where a dialect has no frames of its own."""


def _both(dialect: Dialect, _: attrs.Attribute[Any], value: object) -> None:
    if (value is None) != (dialect.decode is None):
        refuse("Dialect.encode", "encode and decode, or neither", "one of them")
    named = next(
        (field for field in _OURS if value is not None and getattr(dialect, field) is not None),
        None,
    )
    if named is not None:
        refuse(
            f"Dialect.{named}",
            "None beside encode and decode, as in Dialect.envelopes(decode=, encode=)",
            getattr(dialect, named),
        )


@attrs.frozen(kw_only=True, repr=False, eq=False)
class Dialect(Value):
    """The names a bridge speaks; None switches one off. The defaults are ReCursor's (R rows).

        dialect = rb.bridge.Dialect(ping="ping", pong="pong", request_replay=None)
        bridge = rb.BridgeClient("wss://host/ws", dialect=dialect)

    `auth` is answered by `auth_ack` or `auth_error`, `join` by `joined`, `request_replay` by
    `replay`, `ping` by `pong`; `ack` confirms a message and `error` reports one. `epoch` is the
    field of `auth_ack` that identifies the server's life. `dedupes` says whether the server runs a
    message once that arrives twice with one id and key: True, False, or "stated": while it has
    stated it (`dedupes: true` in its answer to auth or join), or has answered one of ours as a
    duplicate. To a server that does not, nothing that was handed out is sent again.
    `session_from_join` takes the session id from the answer to the join instead of ours. A close
    code in `superseded` means that another client took the session. Types that begin with one of
    `unreplayed` are never replayed. `codec` "auto" takes orjson where it is installed. A frame
    above `max_frame_bytes` is refused. `subprotocols` are those of WebSocket that the client asks
    the server for, the best first; over a websocket of your own they are yours to ask for.
    ConfigError names a bad field.

    `bearer`: without an `auth` message the token goes into the header `Authorization: Bearer`;
    False: this dialect says nothing of tokens, and one is refused. `ends` are rules for how this
    server ends and refuses connections, before the general ones.

    A server with frames of its own has `decode`, from a frame to the facts in it, and `encode`,
    from an intent to a frame, text or bytes (all in `rb.dialects`); then `auth`, `join` and the other names are
    None, and these say what the server does: `positions`, its events have them; `resume`, how to
    ask for what was missed; `waits_for_hello`, it says `Hello` when it has accepted us; `login`, it
    is sent an `Auth`, as the "first" frame or when it has "asked" by a `Challenge`; `pings`, it
    answers pings ("in_order": behind what we sent before, so that a pong proves that this was
    read); `silence`, seconds without any frame that mean death; `answers`, it answers requests;
    `confirms`, it answers or acknowledges sends; `echo`, a function of a frame that we wrote,
    returns the text by which the server names it or sends it back; `acknowledges`, it waits for our
    acknowledgement of an event, when it was "received" or "taken" by the reader, and
    `acknowledge_within` so many seconds. `close_code` is sent when the client is closed.
    """

    @classmethod
    def envelopes(cls, **names: Any) -> Self:
        """Return the dialect of a server that exchanges JSON objects with `type` and `payload`, and
        knows nothing else of this protocol.

        No greeting, session, replay, ping or acknowledgement.

        A token goes into the header `Authorization: Bearer`. READY comes with the connection; each
        reconnection ends UNKNOWN; a send ends `written` when it was written, unless the server
        answers with its id. `names` switch single ones on again.
        """
        nothing: dict[str, Any] = dict.fromkeys((*_OURS, "epoch"))
        settings: dict[str, Any] = {**nothing, "unreplayed": (), **names}
        return cls(**settings)

    @property
    def sends_bearer(self) -> bool:
        """Whether a token goes into the header `Authorization`: no frame of this dialect takes it."""
        return self.bearer and self.auth is None and self.login is None

    auth: Name = attrs.field(default="auth", validator=optional(_word))
    auth_ack: Name = attrs.field(default="connection_ack", validator=optional(_word))
    auth_error: Name = attrs.field(default="connection_error", validator=optional(_word))
    join: Name = attrs.field(default="session_join", validator=optional(_word))
    joined: Name = attrs.field(default="session_joined", validator=optional(_word))
    request_replay: Name = attrs.field(default="request_replay", validator=optional(_word))
    replay: Name = attrs.field(default="replay_buffer", validator=[optional(_word), _replay])
    ping: Name = attrs.field(default="heartbeat_ping", validator=optional(_word))
    pong: Name = attrs.field(default="heartbeat_pong", validator=[optional(_word), _pong])
    ack: Name = attrs.field(default="message_ack", validator=optional(_word))
    error: Name = attrs.field(default="error", validator=optional(_word))
    epoch: Name = attrs.field(default="server_id", validator=optional(_word))
    dedupes: Literal[True, False, "stated"] = attrs.field(
        default="stated", validator=_flag_or("stated", 'True, False, or "stated"')
    )
    session_from_join: bool = attrs.field(default=False, validator=flag)
    superseded: tuple[int, ...] = attrs.field(
        default=(4409,),
        converter=as_tuple,
        validator=tuple_of("a close code from 1000 to 4999", _is_close_code),
    )
    unreplayed: tuple[str, ...] = attrs.field(
        default=("heartbeat_", "connection_"),
        converter=as_tuple,
        validator=tuple_of("the beginning of a message type", _is_word),
    )
    codec: Literal["auto", "json", "orjson"] = attrs.field(default="auto", validator=word)
    max_frame_bytes: int = attrs.field(default=16 * 1024 * 1024, validator=count)
    subprotocols: tuple[str, ...] = attrs.field(
        default=(),
        converter=as_tuple,
        validator=tuple_of("the name of a WebSocket sub-protocol", _is_token),
    )
    decode: Callable[[Frame], Iterable[Fact]] | None = attrs.field(
        default=None,
        validator=optional(function("a function of a frame that returns a tuple of facts")),
    )
    encode: Callable[[Intent], Frame | None] | None = attrs.field(
        default=None,
        validator=[optional(function("a function of an intent that returns a frame")), _both],
    )
    bearer: bool = attrs.field(default=True, validator=flag)
    positions: Positions | None = attrs.field(
        default=None, validator=[optional(instance_of(Positions)), _with_functions, _has_barrier]
    )
    resume: Callable[[Record], Resume] | None = attrs.field(
        default=None,
        validator=[
            optional(function("a function of a Record that returns a Resume")),
            _with_functions,
        ],
    )
    waits_for_hello: bool = attrs.field(default=False, validator=[flag, _with_functions])
    login: Literal["first", "asked"] | None = attrs.field(
        default=None,
        validator=[
            optional(word),
            _with_functions,
            _needs("waits_for_hello", "waits_for_hello=True", (True,)),
        ],
    )
    pings: Literal[False, True, "in_order"] = attrs.field(
        default=False,
        validator=[_flag_or("in_order", 'True, False, or "in_order"'), _with_functions],
    )
    silence: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=[optional(short_seconds), _with_functions],
    )
    answers: bool = attrs.field(default=False, validator=[flag, _with_functions])
    confirms: bool = attrs.field(default=False, validator=[flag, _with_functions])
    echo: Callable[[Any], str | None] | None = attrs.field(
        default=None,
        validator=[
            optional(function("a function of a frame that returns a text")),
            _with_functions,
            _needs("confirms", "confirms=True", (True,)),
        ],
    )
    acknowledges: Literal["received", "taken"] | None = attrs.field(
        default=None, validator=[optional(word), _with_functions]
    )
    acknowledge_within: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(as_seconds),
        validator=[
            optional(short_seconds),
            _with_functions,
            _needs("acknowledges", 'acknowledges="taken"', ("taken",)),
        ],
    )
    ends: tuple[End, ...] = attrs.field(
        default=(),
        converter=as_tuple,
        validator=tuple_of("an End", lambda value: isinstance(value, End)),
    )
    close_code: int = attrs.field(default=1000, validator=_close_code)
