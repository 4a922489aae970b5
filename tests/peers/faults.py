"""What may happen to one HTTP request, as values, and schedules of them. Rule: a seed and a number decide, never chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

import attrs


Kind = Literal[
    "sound", "answer", "refuse", "reset_unread", "reset_before", "reset_after", "cut", "black_hole"
]


@attrs.frozen
class Fault:
    """What happens to one request. All but `sound`, `cut`, `reset_after` and `black_hole(executed=True)` execute nothing."""

    kind: Kind = "sound"
    seconds: float = 0.0  # waited before anything is done
    status: int = 0
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    after: int = 0
    reset: bool = False
    executed: bool = False

    @classmethod
    def answer(
        cls,
        status: int,
        body: bytes = b"",
        *,
        retry_after: float | str | None = None,
        **headers: str,
    ) -> Fault:
        """Answer with this status and do nothing; underscores in header names stand for dashes."""
        named = {"content-type": "text/plain"} | {
            k.replace("_", "-"): v for k, v in headers.items()
        }
        if retry_after is not None:
            named["retry-after"] = str(retry_after)
        return cls("answer", status=status, body=body, headers=tuple(named.items()))

    @classmethod
    def refuse(cls) -> Fault:
        """Reset this connection and stop listening, until `listen()`: the next connects are refused."""
        return cls("refuse")

    @classmethod
    def reset_unread(cls) -> Fault:
        """Reset with the body unread: not executed."""
        return cls("reset_unread")

    @classmethod
    def reset_before(cls) -> Fault:
        """Read the whole request, then reset: not executed, which the client cannot know."""
        return cls("reset_before")

    @classmethod
    def reset_after(cls) -> Fault:
        """Let the server answer to the end, say nothing of it, and reset: executed, outcome unknown to the client."""
        return cls("reset_after")

    @classmethod
    def cut(cls, after: int = 0, *, reset: bool = False) -> Fault:
        """Pass the head and so many bytes of the body on, and end the connection: by a plain close, or a reset.

        Counted on the wire, chunk sizes included. A reset takes along what the client has not taken: be exact below 64 KiB.
        """
        return cls("cut", after=after, reset=reset)

    @classmethod
    def black_hole(cls, *, executed: bool = False) -> Fault:
        """Never answer, and keep the connection until the client leaves; `executed`: the server did its work."""
        return cls("black_hole", executed=executed)

    def delayed(self, seconds: float) -> Fault:
        """The same, so much later."""
        return attrs.evolve(self, seconds=seconds)


SOUND = Fault()

Decide = Callable[[int, str, str], Fault]


def seeded(seed: int, faults: Sequence[Fault], *, rate: float, method: str = "") -> Decide:
    """A schedule: the n-th request fails with that probability, in one of these ways; of one method only, if named.

    The decision on a request depends on the seed and on n alone, so concurrent clients cannot reshuffle the rest.
    """

    def decide(n: int, verb: str, path: str) -> Fault:
        rng = random.Random(f"{seed}:{n}")
        is_struck = rng.random() < rate and method in {"", verb}
        return rng.choice(faults) if is_struck else SOUND

    return decide
