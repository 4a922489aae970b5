"""Faults: a seeded plan of what fails in the network and the bridge, and when.

Rule: a plan is a value, and its one-line repr recreates the same faults. Half of the faults on
links wait for progress instead of an instant, because bugs are found there. After `heals_at` the
network works without faults.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, Literal, get_args

import attrs

from ..failure import config_error
from .link import Link, Way
from .loop import SimulatedLoop
from .timeline import stream


LinkFault = Literal["abort", "fin", "blackhole", "vanish", "garbage"]
NetworkFault = Literal["delay", "throttle", "refuse", "syn_blackhole", "accept_close"]
ServerFault = Literal[
    "restart", "lose_sessions", "expire_sessions", "truncate_replay", "step_clock"
]
Kind = LinkFault | NetworkFault | ServerFault
"""What a fault does."""

GARBAGE: Final = b"\xff\xfe\x00 garbage \xff"
"""The injected bytes: no WebSocket frame begins with 0xff, and no text contains it."""

_LINK: Final = get_args(LinkFault)
_SERVER: Final = get_args(ServerFault)
_WEIGHTS: Final[dict[Kind, int]] = {
    "abort": 6, "fin": 5, "blackhole": 4, "vanish": 2, "garbage": 2,
    "delay": 2, "throttle": 1, "refuse": 2, "syn_blackhole": 1, "accept_close": 1,
    "restart": 2, "lose_sessions": 1, "expire_sessions": 1, "truncate_replay": 1, "step_clock": 1,
}  # fmt: skip
# seconds: the bridge's clock stays this close to the real time, so that no step is longer than
# twice this
_CLOCK_ERROR: Final = 120.0


@attrs.frozen(repr=False)
class ScriptedFault:
    """One fault: at an instant, or after `after` chunks or bytes on one side of a link.

        fault = rb.testing.ScriptedFault("abort", link=1, after=2)
        faults = rb.testing.Faults(script=(fault,))

    `link` counts connections from 1. `way` is where a black hole or garbage goes. `seconds` is how
    long it lasts; `amount` is seconds of delay, bytes/s of throttle, messages kept of the replay,
    or seconds of the clock step.
    """

    kind: Kind
    at: float | None = attrs.field(default=None, kw_only=True)
    link: int = attrs.field(default=0, kw_only=True)
    side: Way = attrs.field(default="down", kw_only=True)
    after: int = attrs.field(default=0, kw_only=True)
    unit: Literal["chunk", "byte"] = attrs.field(default="chunk", kw_only=True)
    way: Way | Literal["both"] = attrs.field(default="both", kw_only=True)
    seconds: float = attrs.field(default=0.0, kw_only=True)
    amount: float = attrs.field(default=0.0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Refuse an unknown kind, and a fault with both an instant and a link, or with neither."""
        if self.kind not in _WEIGHTS:
            raise config_error("kind", f"one of {', '.join(_WEIGHTS)}", self.kind)
        if (self.at is None) == (self.link < 1):
            raise config_error("at", "an instant or a link, and not both", self.at)

    def __repr__(self) -> str:
        """Return what differs from the defaults: `ScriptedFault('abort', link=2, after=5)`."""
        fields = attrs.fields(type(self))[1:]
        parts = [
            (field.name, getattr(self, field.name))
            for field in fields
            if getattr(self, field.name) != field.default
        ]
        return f"ScriptedFault({', '.join([repr(self.kind), *(f'{name}={value!r}' for name, value in parts)])})"


@attrs.frozen(kw_only=True, repr=False)
class Faults:
    """A plan of faults, the same for the same arguments.

        async def main(server: rb.testing.BridgeServer) -> None: ...

        rb.testing.simulate(main, faults=rb.testing.Faults(seed=7, rate=0.2))

    `rate` is the number per virtual second, from 0 until `until` seconds. Network faults are reset,
    end of stream, black hole, half-open, garbage, delay, throttle, and refused, unanswered and
    dropped connects. Faults of the bridge are restart, sessions lost or expired, replay cut short,
    and clock stepped. With `script` it is exactly those faults. Used with `simulate(main,
    faults=Faults(seed=7))`.
    """

    seed: int = 0
    rate: float = 0.1
    until: float = 60.0
    script: tuple[ScriptedFault, ...] | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse numbers that do not make a plan."""
        for index, fault in enumerate(self.script or ()):
            if not isinstance(fault, ScriptedFault):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise config_error(
                    f"script[{index}]", "a fault of resilient_bridge.testing.faults", fault
                )
        for name in ("rate", "until"):
            if not 0 <= getattr(self, name) < math.inf:
                raise config_error(name, "a finite number of at least 0", getattr(self, name))

    def __repr__(self) -> str:
        """Return the one line that recreates the plan."""
        parts = [f"seed={self.seed}", f"rate={self.rate}"]
        if self.until != attrs.fields(Faults).until.default:
            parts.append(f"until={self.until}")
        if self.script is not None:
            parts[1:2] = [f"script={self.script!r}"]
        return f"Faults({', '.join(parts)})"

    @property
    def heals_at(self) -> float:
        """The instant after which no fault starts or continues; vanished links stay vanished."""
        return self.until

    @property
    def plan(self) -> tuple[ScriptedFault, ...]:
        """The faults, in the order of the script, or in the order in which they were drawn."""
        if self.script is not None:
            return self.script
        rng = stream(self.seed, "faults")
        clock = 0.0
        plan: list[ScriptedFault] = []
        for _ in range(int(self.rate * self.until + rng.random())):
            # always nine draws, so that what one kind needs does not change the draws of later
            # faults
            fault = _draw([rng.random() for _ in range(9)], self.until)
            if fault.kind == "step_clock":
                fault = attrs.evolve(fault, amount=round(fault.amount - clock, 3))
                clock += fault.amount
            plan.append(fault)
        return tuple(plan)


def _draw(draws: list[float], until: float) -> ScriptedFault:
    kind = _pick(draws[0])
    directions: tuple[Way | Literal["both"], ...] = (
        ("up", "down") if kind == "garbage" else ("up", "down", "both")
    )
    seconds = _spread(draws[2], 0.5, 40.0)
    fault = ScriptedFault(
        kind,
        at=0.0,
        way=directions[int(draws[1] * len(directions))],
        amount=_amount(kind, draws[3]),
    )
    is_coin = [draw < 0.5 for draw in draws]
    if kind not in _LINK or is_coin[4]:
        at = round(draws[5] * until * 0.9, 3)
        return attrs.evolve(fault, at=at, seconds=min(seconds, round(until - at, 3)))
    by_byte = kind in {"abort", "fin"} and is_coin[6]
    return attrs.evolve(
        fault,
        at=None,
        link=1 + int(draws[5] * 4),
        side="up" if is_coin[7] else "down",
        unit="byte" if by_byte else "chunk",
        after=int(_spread(draws[8], 1.0, 8_000.0 if by_byte else 100.0)),
        seconds=seconds,
    )


def _amount(kind: Kind, draw: float) -> float:
    match kind:
        case "delay":
            return _spread(draw, 0.05, 5.0)
        case "throttle":
            return _spread(draw, 200.0, 20_000.0)
        case "truncate_replay":
            return float(int(draw * 8))
        case "step_clock":
            return (draw * 2 - 1) * _CLOCK_ERROR
        case _:
            return 0.0


def _pick(draw: float) -> Kind:
    remaining = draw * sum(_WEIGHTS.values())
    for kind, weight in _WEIGHTS.items():
        remaining -= weight
        if remaining < 0:
            return kind
    return "abort"


def _spread(draw: float, low: float, high: float) -> float:
    """Return a log-uniform number, so that the first chunks, bytes and seconds, in which handshakes
    are, are drawn often.
    """
    return round(low * math.pow(high / low, draw), 3)


class FaultRun:
    """A plan in use in one run; `fired` counts the faults that happened, by kind."""

    def __init__(self, faults: Faults, loop: SimulatedLoop, server: object) -> None:
        self.fired: Counter[str] = Counter()
        self._loop = loop
        self._server = server
        self._context = copy_context()
        self._waiting = [fault for fault in faults.plan if fault.at is None]
        self._timers = [
            loop.call_at(fault.at, self._fire, fault)
            for fault in faults.plan
            if fault.at is not None
        ]
        # without a plan the faults come from the program itself, which may have made some already
        if faults.plan:
            self._timers.append(loop.call_at(faults.heals_at, self._heal))
        self._orders: list[Callable[[], object]] = []
        self._clerk: asyncio.Task[None] | None = None
        loop.network.on_link.append(self._watch)

    def _watch(self, link: Link) -> None:
        for fault in self._waiting:
            if fault.link == link.number:
                (direction,) = link.directions(fault.side)
                direction.when(fault.unit, fault.after, lambda fault=fault: self._fire(fault, link))  # type: ignore[misc]

    def _heal(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._waiting.clear()
        self._loop.network.heal()

    async def finish(self) -> None:
        """End every fault now, and wait until the bridge has carried out the faults that were
        requested.
        """
        self._heal()
        if self._clerk is not None:
            await self._clerk

    def _fire(self, fault: ScriptedFault, link: Link | None = None) -> None:
        if fault.kind in _LINK:
            links = [link] if link is not None else self._loop.network.links
            for each in links:
                self._strike(fault, each)
            happened = bool(links)
        elif fault.kind in _SERVER:
            happened = self._order(fault)
        else:
            happened = True
            self._spoil(fault)
        if happened:
            self.fired[fault.kind] += 1
            self._loop.note(f"fault {fault!r}")

    def _strike(self, fault: ScriptedFault, link: Link) -> None:
        match fault.kind:
            case "abort":
                link.abort()
            case "fin":
                link.fin(lose=fault.unit == "byte")
            case "blackhole":
                link.blackhole(fault.seconds, fault.way)
            case "vanish":
                link.vanish()
            case _:
                link.inject(GARBAGE, "up" if fault.way == "up" else "down")

    def _spoil(self, fault: ScriptedFault) -> None:
        network, seconds = self._loop.network, fault.seconds
        match fault.kind:
            case "delay":
                network.slow(seconds, lag=fault.amount)
            case "throttle":
                network.slow(seconds, rate=fault.amount)
            case "syn_blackhole":
                network.shut("blackhole", seconds)
            case "refuse" | "accept_close":
                network.shut(fault.kind, seconds)
            case _:
                raise AssertionError(fault)

    def _order(self, fault: ScriptedFault) -> bool:
        """Make the bridge fail, if it can; one fault at a time, because a restart takes time."""
        name = "restart" if fault.kind == "lose_sessions" else fault.kind
        method = getattr(self._server, name, None)
        if method is None:
            return False
        match fault.kind:
            case "restart" | "lose_sessions":
                self._orders.append(lambda: method(lose_sessions=fault.kind == "lose_sessions"))
            case "truncate_replay":
                self._orders += [lambda: method(int(fault.amount)), lambda: method(None)]
            case "step_clock":
                self._orders.append(lambda: method(fault.amount))
            case _:
                self._orders.append(method)
        if self._clerk is None or self._clerk.done():
            self._clerk = self._loop.create_task(
                self._carry_out(), name="faults", context=self._context
            )
        return True

    async def _carry_out(self) -> None:
        while self._orders:
            done = self._orders.pop(0)()
            if inspect.isawaitable(done):
                await done
