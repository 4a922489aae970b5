"""Checks a run: compares what the client reported with what the bridge recorded.

It is Jepsen's total-queue checker, with order. Rule: the bridge's own record is the reference. The
client is judged by its public objects (messages, gaps, receipts, events), which are read by
attribute name and never by class, so that a mistake of ours cannot hide itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, Protocol

import attrs


_VERDICTS: Final = ("RECOVERED", "GAP", "UNKNOWN")
_NOT_DELIVERED: Final = frozenset({"expired", "dropped", "withdrawn"})
_SHOWN: Final = 10  # serials named in one finding


class _Message(Protocol):
    @property
    def payload(self) -> Mapping[str, Any]: ...
    @property
    def maybe_duplicate(self) -> bool: ...
    @property
    def redelivered(self) -> bool: ...


class _Receipt(Protocol):
    @property
    def state(self) -> str: ...


@attrs.frozen(kw_only=True)
class Judgement:
    """The serials that broke each promise; all empty if every promise was kept.

        ledger = rb.testing.Ledger()
        ledger.pushed(1)
        print(ledger.judge().lost)      # (1,)

    Inbound: `lost` (pushed, never delivered, under no gap), `duplicated` (delivered again without a
    flag), `reordered` (delivered after a later one, without a flag, and not in a replay after a gap
    marker), `unexpected` (never pushed). Outbound: `unapplied` (confirmed, but not applied in that
    life of the server), `reapplied` (twice), `disordered`, `unsent` (applied, never sent), `ghosts`
    (reported as never delivered, yet applied), `untold` (still queued at the end), `unknown_unsent`
    (UNKNOWN although never handed out). `unjudged`: re-joins without exactly one verdict.
    """

    lost: tuple[int, ...] = ()
    duplicated: tuple[int, ...] = ()
    reordered: tuple[int, ...] = ()
    unexpected: tuple[int, ...] = ()
    unapplied: tuple[int, ...] = ()
    reapplied: tuple[int, ...] = ()
    disordered: tuple[int, ...] = ()
    unsent: tuple[int, ...] = ()
    ghosts: tuple[int, ...] = ()
    untold: tuple[int, ...] = ()
    unknown_unsent: tuple[int, ...] = ()
    unjudged: int = 0

    @property
    def passed(self) -> bool:
        """Whether no promise was broken."""
        return not self.findings()

    def findings(self) -> list[str]:
        """One line per broken promise, with the first serials; empty if all were kept."""
        lines: list[str] = []
        for name, text in _FINDINGS.items():
            serials: tuple[int, ...] = getattr(self, name)
            if serials:
                more = "" if len(serials) <= _SHOWN else f" and {len(serials) - _SHOWN} more"
                lines.append(f"{name}: {text}: {', '.join(map(str, serials[:_SHOWN]))}{more}")
        if self.unjudged:
            lines.append(
                f"unjudged: re-joins that ended without exactly one verdict: {self.unjudged}"
            )
        return lines


_FINDINGS: Final[Mapping[str, str]] = {
    "lost": "pushed and never delivered, and no gap covers them",
    "duplicated": "delivered again without a flag",
    "reordered": "delivered after a later one without a flag",
    "unexpected": "delivered and never pushed",
    "unapplied": "confirmed, and not applied in that life of the bridge",
    "reapplied": "applied twice by the bridge",
    "disordered": "applied after a later one",
    "unsent": "applied and never sent",
    "ghosts": "reported as never delivered, and applied",
    "untold": "ended without an outcome",
    "unknown_unsent": "reported as unknown although never handed out",
}


class Ledger:
    """Records both directions of one client while it runs.

        ledger = rb.testing.Ledger()
        with rb.listen(ledger.saw):
            ...      # `pushed`, `delivered`, `sent` and `applied` as it happens
        print(ledger.judge().passed)      # True

    `judge()` and `totals()` may be called at any time. Every message carries a growing serial
    number in `payload[serial]`. `life` names the current run of the bridge (for example its
    `server_id`): what is confirmed or deduplicated in one run says nothing about another.
    `may_resend`: the client is set to repeat sends of unknown outcome (`on_unknown="resend"`), so
    another run may apply a message again.
    """

    def __init__(
        self,
        life: Callable[[], Hashable] = lambda: None,
        *,
        serial: str = "n",
        may_resend: bool = False,
    ) -> None:
        self._may_resend = may_resend
        self._life = life
        self._serial = serial
        self._pushed: dict[int, None] = {}
        # first deliveries in rising order, and the gap markers seen before each
        self._records: list[int] = []
        self._markers_before: list[int] = []
        self._markers = 0
        self._delivered: dict[int, None] = {}
        self._deliveries = 0
        self._duplicated: list[int] = []
        self._reordered: list[int] = []
        self._unexpected: list[int] = []
        self._receipts: dict[int, _Receipt] = {}
        self._open: dict[int, _Receipt] = {}
        self._confirmed: dict[int, Hashable] = {}
        self._link_life: Hashable = None
        self._waiting: set[int] | None = set()  # sends queued while the link was down
        self._unknown_unsent: list[int] = []
        self._applied: list[tuple[int, Hashable]] = []
        self._joins = 0
        self._verdicts: Counter[str] = Counter()

    # ---- inbound
    def pushed(self, n: int) -> None:
        """Record that the bridge pushed serial `n`; to be called before it can be delivered."""
        self._pushed[n] = None

    def delivered(self, message: _Message) -> None:
        """Record that the consumer received this message."""
        n: int = message.payload[self._serial]
        flagged = message.maybe_duplicate or message.redelivered
        self._deliveries += 1
        if n not in self._pushed:
            self._unexpected.append(n)
        elif n in self._delivered:
            if not flagged:
                self._duplicated.append(n)
        else:
            self._delivered[n] = None
            if not self._records or n > self._records[-1]:
                self._records.append(n)
                self._markers_before.append(self._markers)
            else:
                # A replay in another order comes after a gap marker: UNKNOWN (order).
                is_announced = (
                    getattr(message, "replayed", False) and self._markers > self._markers_before[-1]
                )
                if not (flagged or is_announced):
                    self._reordered.append(n)

    def marked(self) -> None:
        """Record that the client reported a gap (GAP or UNKNOWN) at this point of its stream."""
        self._markers += 1

    # ---- outbound
    def sent(self, n: int, receipt: _Receipt) -> None:
        """Record that the client accepted serial `n`; its receipt is read from now on."""
        self._receipts[n] = self._open[n] = receipt
        if self._waiting is not None:
            self._waiting.add(n)

    def applied(self, n: int, life: Hashable = None) -> None:
        """Record that this run of the bridge applied `n`, after all that was recorded before."""
        self._applied.append((n, life))

    # ---- events of the client
    def saw(self, event: object) -> None:
        """Record a client's event when it is emitted (`rb.listen`): losses, joins, verdicts."""
        name = type(event).__name__
        if name == "Disconnected":
            self._look()
            self._waiting = {n for n, receipt in self._open.items() if receipt.state == "queued"}
        elif name == "Connected":
            self._look()
            self._link_life = self._life()
        elif name == "StateChanged" and getattr(event, "state", None) == "FLUSHING":
            self._joins += 1
            self._judge_waiting()
        elif name == "Joined":
            self._joins -= 1  # the first join resumes nothing
        elif name == "Resumed":
            self._verdicts[str(getattr(event, "verdict", ""))] += 1

    def _judge_waiting(self) -> None:
        # called before the first frame of the new connection is handed out
        waiting, self._waiting = self._waiting or set(), None
        self._unknown_unsent += sorted(n for n in waiting if self._receipts[n].state == "unknown")

    def _look(self) -> None:
        for n, receipt in list(self._open.items()):
            state = receipt.state
            if state == "confirmed":
                self._confirmed[n] = self._link_life
            if state not in {"queued", "written"}:
                del self._open[n]

    # ---- the verdict
    def judge(self) -> Judgement:
        """Return the broken promises.

        Call it at the end of a run: after the client has closed and everything that the bridge
        applied is recorded.
        """
        self._look()
        reapplied, disordered = self._applications()
        applied, ever = set(self._applied), {n for n, _ in self._applied}
        return Judgement(
            lost=tuple(
                n for n in self._pushed if n not in self._delivered and not self._is_covered(n)
            ),
            duplicated=tuple(self._duplicated),
            reordered=tuple(self._reordered),
            unexpected=tuple(self._unexpected),
            unapplied=tuple(n for n, life in self._confirmed.items() if (n, life) not in applied),
            reapplied=reapplied,
            disordered=disordered,
            unsent=tuple(sorted(ever - self._receipts.keys())),
            ghosts=tuple(
                sorted(
                    n
                    for n in ever & self._receipts.keys()
                    if self._receipts[n].state in _NOT_DELIVERED
                )
            ),
            untold=tuple(n for n, receipt in self._open.items() if receipt.state == "queued"),
            unknown_unsent=tuple(self._unknown_unsent),
            unjudged=abs(self._joins - sum(self._verdicts.values())),
        )

    def _is_covered(self, n: int) -> bool:
        at = bisect_left(self._records, n)
        before = self._markers_before[at - 1] if at else 0
        after = self._markers_before[at] if at < len(self._records) else self._markers
        return after > before

    def _applications(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        seen: set[tuple[int, Hashable]] = set()
        latest: dict[Hashable, int] = {}
        twice: list[int] = []
        late: list[int] = []
        for n, life in self._applied:
            # A send that ended UNKNOWN may still arrive, late or again: it cannot be withdrawn.
            one = (n, life if self._may_resend else None)
            if one in seen:
                if not self._is_unknown(n):
                    twice.append(n)
                continue
            seen.add(one)
            if n < latest.get(life, n) and not self._is_unknown(n):
                late.append(n)
            latest[life] = max(n, latest.get(life, n))
        return tuple(twice), tuple(late)

    def _is_unknown(self, n: int) -> bool:
        receipt = self._receipts.get(n)
        return receipt is not None and receipt.state == "unknown"

    def totals(self) -> dict[str, Any]:
        """Return the sums of both directions, ready for JSON.

        `sent confirmed unknown not_delivered dead` count sends, `pushed received covered` what came
        (`covered`: missing under a gap), `lost duplicated reordered unexpected` broken promises of
        either direction, `reconnects` completed re-joins, `verdicts` how each of them ended;
        `broken` is one line per broken promise.
        """
        judged = self.judge()
        states = Counter(receipt.state for receipt in self._receipts.values())
        missing = len(self._pushed) - len(self._delivered)
        return {
            "sent": len(self._receipts),
            "confirmed": states["confirmed"],
            "unknown": states["unknown"] + states["written"],
            "not_delivered": sum(states[name] for name in _NOT_DELIVERED),
            "dead": states["dead"],
            "pushed": len(self._pushed),
            "received": self._deliveries,
            "covered": missing - len(judged.lost),
            "lost": len(judged.lost) + len(judged.unapplied),
            "duplicated": len(judged.duplicated) + len(judged.reapplied),
            "reordered": len(judged.reordered) + len(judged.disordered),
            "unexpected": len(judged.unexpected) + len(judged.unsent) + len(judged.ghosts),
            "reconnects": self._joins,
            "verdicts": {name: self._verdicts[name] for name in _VERDICTS},
            "broken": judged.findings(),
        }
