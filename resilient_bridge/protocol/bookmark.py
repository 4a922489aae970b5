"""How far the channels of a session were read, in the server's positions.

Part of the watermark.

Each position exists twice: what was accepted counts for a reconnection, what the consumer has taken
counts for the next process. A position means nothing without the session and epoch that it belongs
to, so these move together with it. Rule: a position moves only forward, until the server's log is
another one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple


if TYPE_CHECKING:
    from .facts import Channel, Hello, Position


class Life(NamedTuple):
    """Identifies the log that the positions belong to: the server's names for our session and its
    log, and the data it gave us for reconnecting.
    """

    session: str | None = None
    epoch: str | None = None
    token: str | None = None
    url: str | None = None


class _Step(NamedTuple):
    """What becomes valid for the next process once the consumer has taken message `number`."""

    number: int
    life: Life
    channel: Channel = None
    position: Position | None = None
    epoch: str | None = None  # of this channel
    is_moved: bool = False
    is_end: bool = False  # the log of the channel is complete


class Bookmark:
    """`positions` is what was accepted. `changes` counts what a store has to write."""

    def __init__(self) -> None:
        self.positions: dict[Channel, Position] = {}
        self.epochs: dict[Channel, str] = {}  # of channels that have one of their own
        self.moved: set[Channel] = set()  # channels whose position was reached without an event
        self.changes = 0
        self.gone = ""  # why the earlier positions were forgotten, until that has been reported
        self.holes: dict[Channel, Position] = {}  # where a hole was found and is being requested
        self.life = self._taken_life = Life()  # the newest counts
        self._taken: dict[Channel, tuple[Position, str | None, bool]] = {}
        self._steps: deque[_Step] = deque()
        self._through = 0  # the number of the last message that was taken

    def contradicted(self, hello: Hello) -> Literal["", "new_session", "new_epoch"]:
        """Return whether the server names another session, or another log, than the one our
        positions belong to.
        """
        if None not in {hello.session, self.life.session} and hello.session != self.life.session:
            return "new_session"
        is_other = None not in {hello.epoch, self.life.epoch} and hello.epoch != self.life.epoch
        return "new_epoch" if is_other else ""

    def reach(
        self, channel: Channel, position: Position, number: int, *, is_moved: bool = False
    ) -> None:
        """Record that this position was accepted, with an event or without.

        For the next process it counts once message `number` was taken.
        """
        self.positions[channel] = position
        if is_moved:
            self.moved.add(channel)
        else:
            self.moved.discard(channel)
        self._step(_Step(number, self.life, channel, position, self.epochs.get(channel), is_moved))

    def greet(self, hello: Hello, number: int) -> None:
        """The server has named the session and its log.

        Before another name, `forget` must be called.
        """
        life = Life(
            hello.session or self.life.session,
            hello.epoch or self.life.epoch,
            hello.token or self.life.token,
            hello.url or self.life.url,
        )
        self._live(life, number)

    def forget(self, number: int) -> None:
        """The log is another one: earlier positions become invalid, for the next process once
        message `number` was taken.
        """
        self.positions.clear()
        self.epochs.clear()
        self.moved.clear()
        self.holes.clear()
        self._live(Life(), number)

    def forget_channel(self, channel: Channel) -> None:
        self.positions.pop(channel, None)
        self.epochs.pop(channel, None)
        self.moved.discard(channel)
        self.holes.pop(channel, None)

    def finish(self, channel: Channel, number: int) -> None:
        """Record that the log of this channel is complete.

        For the next process it counts once message `number` was taken.
        """
        self.forget_channel(channel)
        self._step(_Step(number, self.life, channel, is_end=True))

    def _live(self, life: Life, number: int) -> None:
        if life != self.life:
            self.life = life
            self._step(_Step(number, life))

    def _step(self, step: _Step) -> None:
        """What does not depend on the reader takes effect at once.

        A new log does depend on it: its gap is among the unread messages.
        """
        at_once = (
            step.number <= self._through
            and not self._steps
            and _continues(self._taken_life, step.life)
        )
        self._steps.append(step)
        if at_once:
            self.take(self._through)

    def take(self, taken: int) -> None:
        steps, self._through = self._steps, taken
        while steps and steps[0][0] <= taken:
            step = steps.popleft()
            self.changes += 1
            if step.life is not self._taken_life and step.life != self._taken_life:
                # A log that gets its first name is still the same log.
                if not _continues(self._taken_life, step.life):
                    self._taken.clear()
                self._taken_life = step.life
            if step.position is not None:
                self._taken[step.channel] = step.position, step.epoch, step.is_moved
            elif step.is_end:
                self._taken.pop(step.channel, None)

    def rollback(self, taken: int) -> None:
        """The process is new: only what was taken counts."""
        self._steps.clear()
        self._through = taken
        self.life = self._taken_life
        self._from_taken()

    def _from_taken(self) -> None:
        taken = self._taken.items()
        self.positions = {channel: position for channel, (position, _, _) in taken}
        self.epochs = {channel: epoch for channel, (_, epoch, _) in taken if epoch is not None}
        self.moved = {channel for channel, (_, _, is_moved) in taken if is_moved}

    def to_stored(self) -> dict[str, Any]:
        return {
            **self._taken_life._asdict(),
            "positions": [[channel, *reached] for channel, reached in self._taken.items()],
        }

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> Bookmark:
        """Read what `to_stored` wrote.

        Raises KeyError, TypeError or ValueError for anything else.
        """
        self = cls()
        self.life = self._taken_life = Life(*(stored[name] for name in Life._fields))
        self._taken = {
            channel: (position, epoch, moved)
            for channel, position, epoch, moved in stored["positions"]
        }
        self._from_taken()
        return self


def _continues(before: Life, after: Life) -> bool:
    return before.session in {None, after.session} and before.epoch in {None, after.epoch}
