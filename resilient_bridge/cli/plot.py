"""Charts of a schedule: bars of ASCII characters for a terminal, SVG for a document.

Rule: the functions return text, and do no I/O.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias


Spread: TypeAlias = Sequence[tuple[float, float, float]]
"""The shortest, mean and longest of each wait, in seconds."""
_Axis: TypeAlias = Callable[[float], float]

_NARROWEST: Final = 20
_WIDE, _HIGH = 720, 400
_WEST, _EAST, _NORTH, _SOUTH = 72, 24, 56, 56
_TICKS: Final = 5
_DOTS: Final = 40  # with more waits, the line of means has no dots


def bars(spread: Spread, width: int) -> str:
    """Return one bar per wait, in ASCII and at most `width` columns, 20 at least."""
    top = max((longest for _, _, longest in spread), default=0.0)
    margin = max(4, len(str(len(spread))))
    longest_bar = max(width, _NARROWEST) - margin - 3
    end = f"{_number(top)} s"
    lines = [
        f"{'wait':>{margin}}  0 s{end:>{longest_bar - 2}}",
        *(
            f"{number:>{margin}} |{_bar(one, top, longest_bar)}".rstrip()
            for number, one in enumerate(spread, 1)
        ),
        f"{'':>{margin}}  = at least   - by chance   o mean",
    ]
    return "\n".join(lines)


def _bar(waits: tuple[float, float, float], top: float, room: int) -> str:
    shortest, mean, longest = (round(seconds / top * room) if top else 0 for seconds in waits)
    cells = ["="] * shortest + ["-"] * (longest - shortest) + [" "]
    cells[min(mean, len(cells) - 1)] = "o"
    return "".join(cells)


def svg(spread: Spread, title: str) -> str:
    """Return an SVG chart: the range of each wait as an area, the mean as a line.

    It is well-formed XML, without scripts or fonts.
    """
    top = max((longest for _, _, longest in spread), default=0.0) or 1.0
    step = _step(top)
    top = step * math.ceil(top / step - 1e-9)
    wide, high = _WIDE - _WEST - _EAST, _HIGH - _NORTH - _SOUTH
    count = len(spread)

    def x(number: float) -> float:
        return _WEST + wide * ((number - 1) / (count - 1) if count > 1 else 0.5)

    def y(seconds: float) -> float:
        return _NORTH + high * (1 - seconds / top)

    def line(which: int) -> list[str]:
        return [f"{x(number):.1f},{y(one[which]):.1f}" for number, one in enumerate(spread, 1)]

    shortest, mean, longest = line(0), line(1), line(2)
    name = html.escape(title)
    size = f'viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" height="{_HIGH}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif" font-size="12">',
        f"<title>{name}</title>",
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="#ffffff"/>',
        f'<text x="{_WEST}" y="28" font-size="14" fill="#222222">{html.escape(_cut(title))}</text>',
        *_grid(top, step, y),
        *_numbers(count, x),
        f'<polygon points="{" ".join(longest + shortest[::-1])}" fill="#9ecae9" fill-opacity="0.6"/>',
        f'<polyline points="{" ".join(shortest)}" fill="none" stroke="#4c78a8" stroke-dasharray="4 3"/>',
        f'<polyline points="{" ".join(longest)}" fill="none" stroke="#4c78a8"/>',
        f'<polyline points="{" ".join(mean)}" fill="none" stroke="#c03d3e" stroke-width="2"/>',
        *(_dots(mean) if count <= _DOTS else ()),
        f'<text x="{_WEST}" y="46" fill="#555555">seconds: longest (line), mean (red), shortest (dashed)</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _grid(top: float, step: float, y: _Axis) -> list[str]:
    parts: list[str] = []
    for tick in range(round(top / step) + 1):
        at = y(tick * step)
        parts += [
            f'<line x1="{_WEST}" y1="{at:.1f}" x2="{_WIDE - _EAST}" y2="{at:.1f}" stroke="#dddddd"/>',
            f'<text x="{_WEST - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#222222">{_number(tick * step)}</text>',
        ]
    return parts


def _numbers(count: int, x: _Axis) -> list[str]:
    every = max(1, round(_step(count)))
    shown = [1, *(number for number in range(every, count + 1, every) if number > 1)]
    at_bottom = f'y="{_HIGH - _SOUTH + 20}" text-anchor="middle" fill="#222222"'
    parts = [f'<text x="{x(number):.1f}" {at_bottom}>{number}</text>' for number in shown]
    return [
        *parts,
        f'<text x="{_WIDE / 2:.1f}" y="{_HIGH - 12}" text-anchor="middle" fill="#555555">wait</text>',
    ]


def _dots(points: list[str]) -> list[str]:
    pairs = [point.split(",") for point in points]
    return [f'<circle cx="{at}" cy="{height}" r="3" fill="#c03d3e"/>' for at, height in pairs]


def _step(top: float) -> float:
    """Return the distance between about five ticks up to `top`: 1, 2 or 5 times a power of ten."""
    rough = top / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    return next((part * power for part in (1, 2, 5) if part * power >= rough * 0.999), 10 * power)


def _number(value: float) -> str:
    return f"{value:,.6g}"


def _cut(title: str) -> str:
    return title if len(title) <= 90 else title[:89] + "…"
