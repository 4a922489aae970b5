"""The picture of an outage, drawn from a run of the package.

The run is simulated, so the picture is the same each time; `python -m tests.pages` writes it.
"""

from __future__ import annotations

import asyncio

import attrs

import resilient_bridge as rb


_END = 15.0  # seconds that are drawn
_CUT, _AWAY = 4.0, 5.0
_LEFT, _SCALE, _TOP, _ROW = 150, 38, 62, 34


@attrs.frozen
class Run:
    """What happened: seconds since the start, each for what a row of the picture shows."""

    accepted: list[float]
    done: list[float]
    pushed: list[float]
    read: list[float]
    states: list[tuple[float, str]]
    verdict: str


async def _main(server: rb.testing.BridgeServer) -> Run:
    loop = asyncio.get_running_loop()
    start = loop.time()
    run = Run([], [], [], [], [(0.0, "READY")], "")
    verdicts: list[str] = []
    order: list[int] = []

    def now() -> float:
        return loop.time() - start

    def see(event: rb.events.Event) -> None:
        if isinstance(event, rb.events.StateChanged):
            run.states.append((now(), str(event.state)))
        elif isinstance(event, rb.events.Resumed):
            verdicts.append(str(event.verdict))

    async def read(bridge: rb.BridgeClient) -> None:
        async for message in bridge:
            order.append(message.payload["number"])
            run.read.append(now())

    async def settle(receipt: rb.bridge.Receipt) -> None:
        await receipt.confirmed()
        run.done.append(now())

    async with rb.BridgeClient(server.url) as bridge, asyncio.TaskGroup() as tasks:
        await bridge.wait_ready()
        start = loop.time()
        with rb.listen(see):
            reader = tasks.create_task(read(bridge))
            for number in range(int(_END / 0.5)):
                await asyncio.sleep(max(start + 0.5 * number - loop.time(), 0))
                if number == _CUT * 2:
                    await server.cut("abort", seconds=_AWAY)
                if number <= (_END - 2) * 2:
                    tasks.create_task(settle(await bridge.send("work", {"number": number})))
                    run.accepted.append(now())
                    await server.push("event", {"number": number})
                    run.pushed.append(now())
            await asyncio.sleep(5)
            reader.cancel()
    every = list(range(len(run.accepted)))
    if not [message["payload"]["number"] for message in server.received] == order == every:
        raise RuntimeError("the picture says: none lost, none twice, in order")
    return attrs.evolve(run, verdict=" ".join(verdicts))


def run_of(seed: int = 6) -> Run:
    """Return the run that is drawn."""
    return rb.testing.simulate(_main, seed=seed)


def _x(seconds: float) -> float:
    return round(_LEFT + _SCALE * seconds, 1)


def _dots(row: int, times: list[float], kind: str) -> str:
    y = _TOP + _ROW * row
    return "".join(f'<circle class="{kind}" cx="{_x(at)}" cy="{y}" r="4"/>' for at in times)


def _link(row: int, states: list[tuple[float, str]]) -> str:
    y = _TOP + _ROW * row
    parts: list[str] = []
    for (start, state), (end, _) in zip(states, [*states[1:], (_END, "")], strict=True):
        kind = "up" if state == "READY" else "wait" if state == "RECONNECTING" else "try"
        width = max(round(_SCALE * (min(end, _END) - start), 1), 2)
        parts.append(
            f'<rect class="{kind}" x="{_x(start)}" y="{y - 7}" width="{width}" height="14"/>'
        )
    return "".join(parts)


def picture(run: Run) -> str:
    """Return the SVG of a run."""
    rows = (
        ("bridge.send()", _dots(0, run.accepted, "out")),
        ("the connection", _link(1, run.states)),
        ("done by the server", _dots(2, run.done, "out")),
        ("sent by the server", _dots(3, run.pushed, "in")),
        ("read by your code", _dots(4, run.read, "in")),
    )
    labels = "".join(
        f'<text x="{_LEFT - 12}" y="{_TOP + _ROW * row + 4}" text-anchor="end">{name}</text>{drawn}'
        for row, (name, drawn) in enumerate(rows)
    )
    high = _TOP + _ROW * len(rows)
    ticks = "".join(
        f'<text class="small" x="{_x(at)}" y="{high + 8}" text-anchor="middle">{at} s</text>'
        for at in range(0, int(_END) + 1, 3)
    )
    score = (
        f"{len(run.accepted)} sent, {len(run.done)} done, none twice · "
        f"{len(run.pushed)} came, {len(run.read)} read, in order · {run.verdict}"
    )
    band = f'<rect class="away" x="{_x(_CUT)}" y="{_TOP - 22}" width="{_SCALE * _AWAY}" height="{high - _TOP + 10}"/>'
    width = _x(_END) + 28
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {high + 20}" role="img" aria-label="A connection is cut for {_AWAY:g} seconds: {score}">
<style>
svg {{ font: 13px system-ui, sans-serif; fill: #24292f }}
.small, .note {{ font-size: 11px; fill: #6e7781 }}
.away {{ fill: #cf222e; opacity: .10 }}
.out {{ fill: #0969da }} .in {{ fill: #8250df }}
.up {{ fill: #2da44e }} .wait {{ fill: #d0d7de }} .try {{ fill: #bf8700 }}
@media (prefers-color-scheme: dark) {{
svg {{ fill: #e6edf3 }} .small, .note {{ fill: #9198a1 }}
.out {{ fill: #58a6ff }} .in {{ fill: #bc8cff }} .wait {{ fill: #3d444d }} .away {{ opacity: .22 }} }}
</style>
<text x="{_LEFT}" y="20">{score}</text>
{band}<text class="note" x="{_x(_CUT + _AWAY / 2)}" y="{_TOP - 10}" text-anchor="middle">cut for {_AWAY:g} s</text>
{labels}{ticks}
</svg>
"""
