"""What all lives of a client have said, held against what the bridge has seen. Rule: the bridge's log is the truth."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import attrs


if TYPE_CHECKING:
    from collections.abc import Iterable

    from resilient_bridge.testing import BridgeServer

    from .lives import Life

REPEATED: Final = 64  # messages that a crash may repeat; with the promise "machine", one more: it is in hand while these are written
NEVER: Final = frozenset({"StateSetAside", "StoreChanged.failed", "GaveUp", "MessageUndelivered.dropped", "MessageUndelivered.quarantined", "DuplicateConflict"})  # fmt: skip


class BrokenError(AssertionError):
    """A promise was broken."""


@attrs.define
class Accounts:
    """The books of one campaign. `forgets`: the bridge loses sessions and keys now and then; `is_quick`: outcomes are kept at once."""

    forgets: bool = False
    is_quick: bool = True
    lives: list[Life] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)

    # ---- what is known while it runs --------------------------------------------------------------------------

    def proven(self) -> int:
        """The last number that was accepted, and all before it."""
        accepted = {n for life in self.lives for n in life.accepted}
        n = 0
        while n + 1 in accepted:
            n += 1
        return n

    def consumed(self) -> set[int]:
        """What any life has consumed."""
        return {n for life in self.lives for n, _ in life.consumed}

    @property
    def kills(self) -> int:
        """Lives that ended by SIGKILL, or by a write that was cut off."""
        return sum(life.over is not None and life.over < 0 for life in self.lives)

    def totals(self) -> dict[str, int]:
        """What this campaign has seen."""
        repeated = sum(flagged for life in self.lives for _, flagged in life.consumed)
        return {
            "lives": len(self.lives),
            "kills": self.kills,
            "accepted": len({n for life in self.lives for n in life.accepted}),
            "unknown": len(self._unknown()),
            "consumed": len(self.consumed()),
            "redelivered": repeated,
            "pending_at_start": sum(len(life.pending or ()) for life in self.lives),
        }

    # ---- the verdict ------------------------------------------------------------------------------------------

    def judge(self, server: BridgeServer) -> None:
        """Raise BrokenError with all that does not hold."""
        self._judge_lives()
        self._judge_sends(server)
        if not self.forgets:
            self._judge_inbound([message["payload"]["n"] for message in server.pushed])
        if self.problems:
            raise BrokenError("; ".join(self.problems[:8]))

    def _say(self, what: str, numbers: Iterable[Any]) -> None:
        found = list(numbers)
        if found:
            self.problems.append(
                f"{what}: {found[:8]}{f' and {len(found) - 8} more' if len(found) > 8 else ''}"
            )

    def _judge_lives(self) -> None:
        for life in self.lives:
            self._say(f"life {life.number} failed", life.failures)
            self._say(f"events of life {life.number}", [e for e in life.events if e[0] in NEVER])
            verdicts = [e[1:3] for e in life.events if e[0] == "Resumed"]
            if not self.forgets:
                self._say(
                    f"verdicts of life {life.number} although the bridge held everything",
                    [v for v in verdicts if v[0] != "RECOVERED" and v != ["UNKNOWN", "no_anchor"]],
                )
            if life.over is not None and life.over not in {0, -9, -25}:
                self.problems.append(f"life {life.number} ended with {life.over}")

    def _unknown(self) -> set[int]:
        return {
            int(e[1][1:])
            for life in self.lives
            for e in life.events
            if e[0] == "MessageUndelivered.unknown"
        }

    def _judge_sends(self, server: BridgeServer) -> None:
        accepted = {n for life in self.lives for n in life.accepted}
        unknown = self._unknown()
        applied = [
            message["payload"]["n"] for message in server.received if message["type"] == "note"
        ]
        times = Counter(applied)
        self._say("accepted and lost", sorted(accepted - set(applied) - unknown))
        self._say("applied twice", sorted(n for n, count in times.items() if count > 1))
        firsts = list(dict.fromkeys(applied))
        self._say("applied after a later one", [b for a, b in pairwise(firsts) if b < a])
        self._say(
            "applied and never attempted",
            sorted(set(applied) - set(range(1, self._attempted() + 1))),
        )
        if not self.forgets:
            self._say("unknown within the window", sorted(unknown))
        self._judge_arrivals(server)
        self._judge_outcomes()

    def _attempted(self) -> int:
        return max((life.accepted[-1] for life in self.lives if life.accepted), default=0) + max(
            life.order.get("width", 1) for life in self.lives
        )

    def _judge_arrivals(self, server: BridgeServer) -> None:
        names: dict[int, set[tuple[str, str]]] = {}
        for frame in server.frames:
            if frame.get("type") == "note":
                name = frame["id"], frame["payload"]["idempotency_key"]
                names.setdefault(frame["payload"]["n"], set()).add(name)
        self._say("arrived under two names", [n for n, all_ in names.items() if len(all_) > 1])
        wrong = [n for n, all_ in names.items() if {key for _, key in all_} != {f"m{n}"}]
        self._say("arrived without the caller's key", wrong)

    def _judge_outcomes(self) -> None:
        confirmed: set[int] = set()
        for life in self.lives:
            if self.is_quick:
                again = [n for n in life.pending or () if n in confirmed]
                self._say(f"confirmed, and pending again in life {life.number}", again)
            confirmed |= life.confirmed.keys()
            odd = [(n, state) for n, state in life.receipts.items() if state != "confirmed"]
            if not self.forgets:
                self._say(f"not confirmed in the end, says life {life.number}", odd)

    def _judge_inbound(self, pushed: list[int]) -> None:
        consumed = self.consumed()
        self._say("pushed and never consumed", [n for n in pushed if n not in consumed])
        self._say("consumed and never pushed", sorted(consumed - set(pushed)))
        before: set[int] = set()
        closed: set[int] = set()  # what the life before has consumed, if it was closed
        for life in self.lives:
            where, numbers = f"in life {life.number}", [n for n, _ in life.consumed]
            self._say(f"out of order or twice {where}", [b for a, b in pairwise(numbers) if b <= a])
            again = [n for n in numbers if n in before]
            unflagged = [n for n, flagged in life.consumed if n in before and not flagged]
            self._say(f"repeated without a flag {where}", unflagged)
            if len(again) > REPEATED:
                self.problems.append(f"{len(again)} repeated {where}")
            self._say(f"repeated after a close {where}", [n for n in numbers if n in closed][1:])
            before |= set(numbers)
            closed = set(numbers) if life.over == 0 else set()
