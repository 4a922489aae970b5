"""Debug mode: connection states, circuits, polling, escalations and correlations, each with its own
logger.

Rule: the program switches debug mode on, or has it read from the environment; importing the package
reads no environment.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, cast, get_args

from ..failure import Category, config_error, redact
from ..locks import new_lock
from .event import name_in_words
from .hub import listen, log_fields


if TYPE_CHECKING:
    import logging
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    from .event import Event

DebugKind: TypeAlias = Literal["connection", "circuit", "polling", "escalation", "correlation"]
"""A kind of lines that `Debug` logs."""

KINDS: Final[tuple[DebugKind, ...]] = get_args(DebugKind)
VARIABLE: Final = "RESILIENT_BRIDGE_DEBUG"
_ALL: Final = frozenset({"*", "1", "true", "yes", "on", "all"})
_NONE: Final = frozenset({"", "0", "false", "no", "off", "none"})
_GASOLINE: Final = "gasoline:"


def kind_of(event: Event) -> DebugKind | None:
    """Return the debug kind of an event, or None for all others.

    A RetryScheduled or GaveUp after a timeout is an escalation.
    """
    kind = cast("DebugKind", event.__kind__)
    failure: Any = getattr(event, "failure", None)
    if kind == "escalation" and failure is not None and failure.category is not Category.TIMEOUT:
        return None
    return kind or None


class Debug:
    """Logs events of chosen kinds at debug level, inside `with rb.telemetry.Debug("circuit"):`.

        with rb.telemetry.Debug("circuit"):
            ...      # each change of a circuit is a line at debug level

    The kinds are connection, circuit, polling, escalation and correlation; without arguments all
    five. Each kind has the logger `resilient_bridge.<kind>`. Inside the block these loggers have
    the level DEBUG, until the last of several blocks ends; if logging is not configured, the lines go to stderr. Each record has the
    event's fields as `extra`, and `kind`; where something took time, `duration_ms`.

    Raises ConfigError for an unknown kind, and on entering a second time.
    """

    def __init__(self, *kinds: DebugKind) -> None:
        """Store the kinds; nothing is logged before the block is entered."""
        for kind in kinds:
            if kind not in KINDS:
                raise config_error("Debug", f"one of {', '.join(KINDS)}", kind)
        self._kinds: frozenset[str] = frozenset(kinds or KINDS)
        self._listening: AbstractContextManager[None] | None = None

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return the Debug that the environment asks for; without a request its block logs nothing.

        `RESILIENT_BRIDGE_DEBUG` holds kinds separated by commas, or `*`. `DEBUG=gasoline:*` means
        all, and `DEBUG=gasoline:circuit` one, as the Gasoline tools read it.

        Raises ConfigError for an unknown kind in the first variable. An unknown name in `DEBUG` is
        ignored, because other programs use that variable, too.
        """
        found = os.environ if environment is None else environment
        kinds = {*kinds_in(found.get(VARIABLE, "")), *_gasoline_kinds(found.get("DEBUG", ""))}
        self = cls(*cast("set[DebugKind]", kinds))
        self._kinds = frozenset(kinds)
        return self

    def __repr__(self) -> str:
        """Return the kinds, in their order."""
        return f"<Debug {' '.join(self.kinds) or 'off'}>"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that are logged; empty if debug mode is off."""
        return tuple(kind for kind in KINDS if kind in self._kinds)

    def __enter__(self) -> Self:
        """Start logging."""
        if self._listening is not None:
            raise config_error("Debug", "to be entered once at a time", "a second time")
        if self._kinds:
            _loggers.set_up(self._kinds)
            self._listening = listen(self._hear)
            self._listening.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop logging, restore the loggers' levels, and remove the handler if one was added."""
        listening, self._listening = self._listening, None
        if listening is None:
            return
        listening.__exit__(kind, error, trace)
        _loggers.take_down(self._kinds)

    def _hear(self, event: Event) -> None:
        kind = kind_of(event)
        if kind is None or kind not in self._kinds:
            return
        import logging

        fields = {**log_fields(event), "kind": kind}
        seconds = getattr(event, "seconds", None)
        if isinstance(seconds, int | float):
            fields["duration_ms"] = round(seconds * 1_000)
        logging.getLogger(f"resilient_bridge.{kind}").debug(
            _line(kind, event, fields), extra=fields
        )


class _Loggers:
    """The loggers of the kinds, which the blocks that overlap share: the last one restores them."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._blocks: Counter[str] = Counter()
        self._levels: dict[str, int] = {}  # before the first block
        self._handler: logging.Handler | None = None

    def set_up(self, kinds: frozenset[str]) -> None:
        import logging

        with self._lock:
            for kind in kinds:
                logger = logging.getLogger(f"resilient_bridge.{kind}")
                self._blocks[kind] += 1
                self._levels.setdefault(kind, logger.level)
                logger.setLevel(logging.DEBUG)
            parent = logging.getLogger("resilient_bridge")
            if not parent.hasHandlers():
                self._handler = logging.StreamHandler()
                self._handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
                parent.addHandler(self._handler)

    def take_down(self, kinds: frozenset[str]) -> None:
        import logging

        with self._lock:
            self._blocks -= Counter(kinds)
            for kind in kinds - self._blocks.keys():
                logging.getLogger(f"resilient_bridge.{kind}").setLevel(self._levels.pop(kind))
            if self._handler is not None and not self._blocks:
                logging.getLogger("resilient_bridge").removeHandler(self._handler)
                self._handler = None


_loggers: Final = _Loggers()


def _line(kind: DebugKind, event: Event, fields: Mapping[str, Any]) -> str:
    """Return the line: the kind, what happened in words, and the fields."""
    words = name_in_words(event)
    verb = "escalate: " if kind == "escalation" else ""
    in_words = {"event_name", "kind", "category", "severity", "retryable", event.__state__}
    shown = " ".join(f"{name}={value}" for name, value in fields.items() if name not in in_words)
    failure: Any = getattr(event, "failure", None)
    why = "" if failure is None else f": {failure.message}"
    return redact(f"{kind}: {verb}{words} {shown}{why}")


def kinds_in(text: str) -> set[str]:
    """Return the kinds that a text names, separated by commas or spaces.

    `*` and words such as `1`, `true` or `on` mean all kinds; an empty text, `0`, `false` or `off`
    means none. Raises ConfigError for any other word.
    """
    words = {word for word in re.split(r"[\s,]+", text.strip().lower()) if word}
    if words & _ALL:
        return set(KINDS)
    unknown = sorted(words - {*KINDS} - _NONE)
    if unknown:
        raise config_error(VARIABLE, f"kinds out of {', '.join(KINDS)}, or *", ", ".join(unknown))
    return words & {*KINDS}


def _gasoline_kinds(text: str) -> set[str]:
    found: set[str] = set()
    for word in re.split(r"[\s,]+", text.strip()):
        taken, is_taken_away = word.removeprefix("-"), word.startswith("-")
        if taken.startswith(_GASOLINE):
            named = taken.removeprefix(_GASOLINE)
            kinds = set(KINDS) if named == "*" else {named} & {*KINDS}
            found = found - kinds if is_taken_away else found | kinds
    return found
