"""What the user sends and expects on each connection, after auth and before the join: mostly
subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from .frames import message_from, raw_of


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .facts import Frame
    from .messages import Message
    from .policies.replay import Replay

    Expected = tuple[Callable[[Any], bool], Callable[[Message | Exception], None]]


class Held(NamedTuple):
    """A frame that no `expect` has matched so far: its type, its envelope, and itself."""

    type: str
    body: dict[str, Any]
    text: Frame


class Expectations:
    """The greeting of one connection.

    `is_open` from the end of auth until the user is done: the join waits for that.

    Meanwhile every frame is held, so that an answer is found even if it came before `expect` was
    called. Frames that are left go to the reader, in order, when the greeting is over.
    `overflowed`: more came than a side buffer may hold.
    """

    def __init__(self, policy: Replay) -> None:
        self.is_open = False
        self.overflowed = False
        self._policy = policy
        self._bytes = 0
        self._held: list[Held] = []
        self._expected: list[Expected] = []

    def expect(
        self, pattern: Any, take: Callable[[Message | Exception], None]
    ) -> Callable[[], None]:
        """Pass the first frame that matches `pattern` to `take`, instead of to the stream; return a
        function that ends the wait.

        `pattern`: field values, a whole frame of bytes, or a function of the frame; an exception of
        that function is passed to `take` instead.
        """
        matches: Any = pattern
        if not callable(pattern):
            matches = pattern.__eq__ if isinstance(pattern, bytes) else _holds(pattern)
        expected = (matches, take)
        for held in self._held:
            fits = self._fits(expected, held)
            if fits:
                self._held.remove(held)
                self._bytes -= len(held.text)
            if fits is not False:
                return lambda: None
        self._expected.append(expected)

        def forget() -> None:
            if expected in self._expected:
                self._expected.remove(expected)

        return forget

    def hold(self, held: Held) -> None:
        """A frame arrived: it matches a pending `expect`, or is held."""
        for expected in tuple(self._expected):
            fits = self._fits(expected, held)
            if fits is not False:
                self._expected.remove(expected)
            if fits:
                return
        self._held.append(held)
        self._bytes += len(held.text)
        self.overflowed |= (
            len(self._held) > self._policy.max_messages or self._bytes > self._policy.max_bytes
        )

    def close(self) -> list[Held]:
        """The greeting is over. Returns the frames that no `expect` has matched."""
        self.is_open = False
        held, self._held = self._held, []
        return held

    def _fits(self, expected: Expected, held: Held) -> bool | None:
        """Pass the frame over if it matches; None: the matching function has raised."""
        matches, take = expected
        try:
            if not matches(raw_of(held.body)):
                return False
        except Exception as error:  # noqa: BLE001 -- a function of the user's: its caller gets the error
            take(error)
            return None
        take(message_from(held.type, held.body))
        return True


def _holds(pattern: Mapping[str, Any]) -> Callable[[Any], bool]:
    def matches(raw: Any) -> bool:
        if not isinstance(raw, dict):
            return False
        body = cast("dict[str, Any]", raw)
        return all(name in body and body[name] == value for name, value in pattern.items())

    return matches
