"""The border to the functions of a dialect: what they return is checked where they are called.

Rule: no value of a user's function goes further than this file unless it has the type that the link
relies on. What is refused names the function, what was wanted, what was got and what to write. A
frame of which only a part can be read gives its readable facts, and `Unreadable` for the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from ..failure import Executed, Failure, ProtocolError, config_error, redact
from .facts import (
    Acked,
    Challenge,
    Closing,
    Finished,
    Hello,
    Moved,
    Ping,
    Pong,
    Received,
    Refused,
    Replayed,
    Reply,
    Resume,
    Unreadable,
)


if TYPE_CHECKING:
    from collections.abc import Callable

    from .facts import Fact, Frame, Intent, Record, Send
    from .policies.positions import Positions

    Check: TypeAlias = Callable[[Any], bool]
    Rule: TypeAlias = tuple[Check, str]


_SHOWN: Final = 100  # characters of what a dialect says about a frame
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # what servers and stores hold as a whole number


# ---- what decode returns -------------------------------------------------------------------------------------------


def facts_of(
    decode: Callable[[Frame], Iterable[Fact]], frame: Frame, positions: Positions | None
) -> Sequence[Fact]:
    """Return the facts of a frame, each with fields of the right types.

    In the place of what is none, and behind the last one if `decode` has raised, there is an
    `Unreadable`.
    """
    facts: Any = []
    try:
        found: Any = decode(frame)
        if type(found) is tuple:
            facts = cast("Any", found)
        else:
            for fact in _several(found):
                facts.append(fact)  # one by one: what came before an error counts
    except Exception as error:  # noqa: BLE001 -- a function of the user's, on input from any server
        why = redact(str(error), limit=_SHOWN)
        reason = f"expected a frame of this dialect, got one that its decode refused: {type(error).__name__}: {why}"
        facts = [*facts, Unreadable(reason, error)]
    order = None if positions is None else positions.order
    for fact in facts:
        # An event costs no call, as there is one for each message (P11). What is unusual here (text
        # that is not ASCII, an echo) may still be right.
        if (
            type(fact) is not Received
            or type(fact.payload) is not dict
            or type(fact.type) is not str
            or not fact.type.isascii()
            or ((name := fact.id) is not None and not (type(name) is str and name.isascii()))
            or ((name := fact.timestamp) is not None and not (type(name) is str and name.isascii()))
            or ((name := fact.channel) is not None and not (type(name) is str and name.isascii()))
            or fact.echo is not None
            or (
                (at := fact.position) is not None
                and not (type(at) is int and _SMALLEST <= at <= _LARGEST)
                and not (type(at) is str and order != "number" and at.isascii())
            )
        ):
            return [_checked(each, order) for each in facts]
    return cast("Sequence[Fact]", facts)


def _checked(fact: Any, order: str | None) -> Fact:
    wrong = _wrong(fact, order)
    return Unreadable(f"decode returned {wrong}") if wrong is not None else fact


def refusal_of(part: Unreadable) -> Failure:
    """Return the failure for a part of a frame that cannot be read."""
    return Failure.of("PROTO_INVALID_FRAME", part.why, cause=part.cause)


def _several(found: Any) -> Iterable[Any]:
    if _is(found, Iterable) and not _is(found, str, bytes, bytearray, Mapping):
        return cast("Iterable[Any]", found)
    instead = "() for a frame without any"
    if iscoroutine(found):
        found.close()
        instead = "def decode(frame), not async def"
    elif type(found) in _RULES:
        instead = f"({type(found).__name__}(…),)"
    raise TypeError(f"wanted a tuple of facts, got {_kind(found)}; write {instead}")


def _wrong(fact: object, order: str | None) -> str | None:
    """Return what is wrong with a fact, None if nothing is."""
    kind = type(fact)
    rules = _RULES.get(kind)
    if rules is None:
        return f"{_kind(fact)} among its facts: wanted facts of rb.dialects"
    for field, (holds, wanted) in rules.items():
        value = getattr(fact, field)
        if not holds(value):
            return _words(fact, field, value, wanted)
    for field in _POSITIONS.get(kind, ()):
        value = getattr(fact, field)
        if value is None or order is None:
            continue
        if order != "number" and type(value) is float and math.isfinite(value) and kind is Received:
            cast(
                "Received", fact
            ).position = (
                None  # a time in fractions of a second: it is read, and nothing is asked after it
            )
        elif not (is_whole(value) if order == "number" else is_whole(value) or is_text(value)):
            wanted = (
                "a whole number of 64 bits" if order == "number" else "a whole number or a text"
            )
            return _words(fact, field, value, f"{wanted}, as Positions.order is {order!r}")
    return None


def _words(fact: Any, field: str, value: object, wanted: str) -> str:
    return f"{type(fact).__name__}.{field} as {_kind(value)}: wanted {wanted}"


def _kind(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, str) and not _encodes(value):
        return "a text with a lone surrogate"
    if type(value) is int and not is_whole(value):
        return "an int above 64 bits"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def is_whole(value: object) -> bool:
    """Return whether this is a number of a log: whole, no bool, of 64 bits."""
    return type(value) is int and _SMALLEST <= value <= _LARGEST


def is_text(value: object) -> bool:
    """Return whether this is a text that a frame, a URL and a store can hold."""
    return isinstance(value, str) and _encodes(value)


def _is(value: object, *kinds: type[Any]) -> bool:
    return isinstance(value, kinds)


def _encodes(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are(holds: Check, values: Any) -> bool:
    is_sequence = _is(values, Sequence) and not _is(values, str, bytes, bytearray)
    return is_sequence and all(map(holds, values))


def _maps(holds: Check, values: Any) -> bool:
    """Return whether this is a dict of texts, each to a value that holds."""
    return _is(values, Mapping) and all(
        is_text(name) and holds(value) for name, value in values.items()
    )


def _or_none(rule: Rule) -> Rule:
    holds, wanted = rule
    return lambda value: value is None or holds(value), f"{wanted} or None"


_TEXT: Final[Rule] = is_text, "a text"
_TEXT_OR_NONE: Final = _or_none(_TEXT)
_MAPPING: Final[Rule] = lambda value: isinstance(value, Mapping), "a dict"
_SECONDS: Final = _or_none((_is_seconds, "seconds, 0 or more"))
_FLAG: Final[Rule] = lambda value: isinstance(value, bool), "True or False"

_RULES: Final[Mapping[type, Mapping[str, Rule]]] = {
    Received: {
        "type": _TEXT,
        "payload": _MAPPING,
        **dict.fromkeys(("id", "timestamp", "channel", "echo"), _TEXT_OR_NONE),
    },
    Hello: {
        **dict.fromkeys(("session", "epoch", "token", "url"), _TEXT_OR_NONE),
        "silence": _SECONDS,
    },
    Challenge: {"silence": _SECONDS},
    Moved: {"channel": _TEXT_OR_NONE, "position": (lambda value: value is not None, "a position")},
    Finished: {"channel": _TEXT_OR_NONE},
    Replayed: {"complete": _or_none(_FLAG), "channel": _TEXT_OR_NONE, "epoch": _TEXT_OR_NONE},
    Reply: {"type": _TEXT, "payload": _MAPPING, "duplicate": _FLAG},
    Acked: {
        "ids": (
            lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes),
            "a list of ids",
        ),
        "through": _or_none((is_whole, "a whole number")),
        "echo": _TEXT_OR_NONE,
    },
    Refused: {
        **dict.fromkeys(("code", "text", "severity"), _TEXT),
        **dict.fromkeys(("type", "echo"), _TEXT_OR_NONE),
        "retry_after": _SECONDS,
        "suggestions": (lambda value: _are(is_text, value), "a tuple of texts"),
    },
    Unreadable: {"why": _TEXT},
    Closing: {"within": _SECONDS},
    Ping: {"id": _TEXT},
    Pong: {"id": _TEXT_OR_NONE},
}
_POSITIONS: Final[Mapping[type, tuple[str, ...]]] = {
    Received: ("position",),
    Moved: ("position",),
    Replayed: ("first", "through"),
}


# ---- what encode and resume return ---------------------------------------------------------------------------------


class WrongFrameError(TypeError):
    """`encode` has returned what is no frame; the text names it, and what was wanted."""


def frame_of(encode: Callable[[Any], Any], intent: Intent) -> Frame | None:
    """Return the frame of an intent, None if there is none.

    Raises WrongFrameError for what is no frame, and what `encode` does.
    """
    frame: object = encode(intent)
    if frame is None or type(frame) is bytes:
        return frame
    if isinstance(frame, str) and (frame.isascii() or _encodes(frame)):
        return frame if type(frame) is str else str.__str__(frame)
    if iscoroutine(frame):
        frame.close()
    raise WrongFrameError(
        f"the dialect's encode returned {_kind(frame)} for {type(intent).__name__}: wanted a text, bytes, "
        "or None where this server has no frame for it"
    )


def own_frame(encode: Callable[[Any], Any], message: Send) -> Frame:
    """The frame of a dialect of its own.

    Raises ProtocolError (PROTO_INVALID_MESSAGE) for what it cannot write.
    """
    wanted, cause = "a message that the dialect can write", None
    try:
        frame = frame_of(encode, message)
        if type(frame) is str and message.body is None:
            return frame
        if frame is not None and (message.body is None or isinstance(frame, bytes)):
            return frame
        what = "None" if frame is None else "a text for a message of bytes"
        received = f"encode returned {what}: this dialect has no frame for it"
    except WrongFrameError as error:
        wanted = received = str(error)
    except Exception as error:  # noqa: BLE001 -- a function of the user's, on what a user of theirs wants sent
        received, cause = f"{type(error).__name__}: {error}", error
        wanted += f", its encode raised {redact(received, limit=_SHOWN)}"
    reason = {"field": "frame", "constraint": wanted, "received": redact(received, limit=_SHOWN)}
    text = f"message validation failed: frame ({wanted})"
    failure = Failure.of(
        "PROTO_INVALID_MESSAGE",
        text,
        cause=cause,
        details={"violations": (reason,)},
        executed=Executed.NO,
    )
    raise ProtocolError(failure) from cause


def named_by(echo: Callable[[Any], Any], frame: Frame) -> tuple[str | None, Failure | None]:
    """Return the text by which the server names a frame of ours, and what is wrong with `echo`.

    It may be wrong for a frame that an earlier process wrote, and right for the next.
    """
    wanted = "for a frame of ours: wanted a text or None"
    try:
        named: object = echo(frame)
    except Exception as error:  # noqa: BLE001 -- a function of the user's
        text = f"the dialect's echo raised {type(error).__name__} {wanted}"
        return None, Failure.of("SYS_CONFIG_INVALID", text, cause=error)
    if named is None or isinstance(named, str):
        return named, None
    if iscoroutine(named):
        named.close()
    return None, Failure.of(
        "SYS_CONFIG_INVALID", f"the dialect's echo returned {_kind(named)} {wanted}"
    )


_RESUME: Final[Mapping[str, Rule]] = {
    "query": (
        lambda value: _maps(lambda each: is_whole(each) or is_text(each), value),
        "a dict of texts and whole numbers",
    ),
    "headers": (lambda value: _maps(is_text, value), "a dict of texts"),
    "url": _TEXT_OR_NONE,
    "frames": (
        lambda value: _are(lambda frame: type(frame) is bytes or is_text(frame), value),
        "a tuple of frames, each a text or bytes",
    ),
    "channels": (lambda value: _are(is_text, value), "a tuple of texts"),
}


def resume_of(resume: Callable[[Record], Any], record: Record) -> Resume:
    """Return how a dialect asks for what was missed. Raises ConfigError for what is no Resume."""
    try:
        asked = resume(record)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise config_error("Dialect.resume", "a function that returns a Resume", text) from error
    if not isinstance(asked, Resume):
        if iscoroutine(asked):
            asked.close()
        wanted = "a Resume from resume(record), Resume() where there is nothing to ask for"
        raise config_error("Dialect.resume", wanted, _kind(asked))
    for field, (holds, wanted) in _RESUME.items():
        if not holds(getattr(asked, field)):
            raise config_error(
                f"Dialect.resume: Resume.{field}", wanted, _got(getattr(asked, field))
            )
    return asked


def _got(value: Any) -> str:
    """Name the kind of a value, and of what is in it; never the value, which may be secret."""
    if _is(value, Mapping):
        return f"a dict of {_kinds(value.values())}"
    return f"{_kind(value)} of {_kinds(value)}" if _is(value, list, tuple) else _kind(value)


def _kinds(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(type(value).__name__ for value in values)) or "nothing"
