"""Charts over time, lanes of states and bars of counts, as inline SVG. Pure.

Rule: positions on the time axis are in percent and letters in pixels, so letters keep their size at
any width. A state has a colour and a pattern; each chart has a title and a description, and a table
beside it has the same facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from .escaping import esc
from .series import MIXED, Span
from .wording import clock, duration, moment


PATTERN_OF: Final = {
    "ready": "good", "within": "good", "quiet": "none",
    "connecting": "busy", "half-open": "busy", "starting": "busy", "warned": "busy",
    "waiting": "wait", "lost": "wait", "warning": "wait", "limited": "wait",
    "down": "bad", "open": "bad", "paused": "bad", "cancelled": "bad", "critical": "bad", "exhausted": "bad",
    "closed": "none", "not limited": "none", MIXED: "mixed",
}  # fmt: skip
"""The look of each state. `looks` of `lane` overrides it: a closed circuit is good, a link not."""
_STEPS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 432_000, 864_000),
    *(2_592_000, 7_776_000, 31_536_000),
)
"""The possible distances between two labels of the axis, in seconds."""
_TICKS: Final = 6
_SMALLEST: Final = 0.01
PARTS: Final = 120
"""The number of bars in a chart."""

DEFS: Final = """<svg class="defs" width="0" height="0" aria-hidden="true" focusable="false"><defs>
<pattern id="p-busy" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="busy" width="6" height="6"/><rect class="over" width="2" height="6"/></pattern>
<pattern id="p-wait" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="wait" width="6" height="6"/><circle class="over" cx="3" cy="3" r="1.3"/></pattern>
<pattern id="p-bad" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="bad" width="7" height="7"/><rect class="over" width="1.4" height="7"/><rect class="over" width="7" height="1.4"/></pattern>
<pattern id="p-mixed" width="8" height="8" patternUnits="userSpaceOnUse"><rect class="wait" width="4" height="8"/><rect class="bad" x="4" width="4" height="8"/></pattern>
</defs></svg>"""


@attrs.frozen
class Window:
    """The time that charts show, in seconds since 1970."""

    begin: float
    end: float

    @property
    def span(self) -> float:
        return self.end - self.begin

    def stamp(self, at: float | None) -> str:
        """Return a moment in UTC, with its date unless the whole window is on that day."""
        if at is None:
            return "unknown"
        text = moment(at)
        return text[11:] if moment(self.begin)[:10] == moment(self.end)[:10] == text[:10] else text

    def x(self, at: float) -> float:
        """Return the position of a moment, in percent."""
        return min(100.0, max(0.0, 100 * (at - self.begin) / self.span))


@attrs.frozen
class Mark:
    """A letter on a lane at a moment."""

    at: float
    letter: str
    text: str


def axis(window: Window) -> str:
    """Return the time axis above a group of charts.

    On narrow screens, every second label is hidden.
    """
    step = next((one for one in _STEPS if window.span / one <= _TICKS), _STEPS[-1])
    first = math.ceil(window.begin / step) * step
    parts = ['<svg class="axis" height="20" aria-hidden="true" focusable="false">']
    number = 0
    while (at := first + number * step) <= window.end and number <= 2 * _TICKS:
        x = window.x(at)
        anchor = "start" if x < 4 else "end" if x > 96 else "middle"
        minor = ' class="minor"' if number % 2 else ""
        parts.append(f'<line x1="{x:.2f}%" x2="{x:.2f}%" y1="15" y2="20"/>')
        parts.append(
            f'<text x="{x:.2f}%" y="11" text-anchor="{anchor}"{minor}>{clock(at, window.span)}</text>'
        )
        number += 1
    return f'<div class="row ruler" aria-hidden="true"><span></span>{"".join(parts)}</svg></div>'


def lane(
    window: Window,
    name: str,
    spans: Iterable[Span],
    note: str,
    marks: Iterable[Mark] = (),
    *,
    looks: Mapping[str, str] | None = None,
) -> str:
    """Return the row of one link, server or guard: its name, and its states as rectangles."""
    look_of = {**PATTERN_OF, **(looks or {})}
    boxes = "".join(_box(window, span, look_of.get(span.state, "busy")) for span in spans)
    letters = "".join(
        f'<text class="mark" x="{window.x(mark.at):.2f}%" y="13" text-anchor="middle">{mark.letter}<title>{esc(mark.text)}</title></text>'
        for mark in marks
    )
    picture = f'<svg class="lane" height="18" role="img" aria-label="{esc(name)}: {esc(note)}"><title>{esc(name)}: {esc(note)}</title>'
    return f'<div class="row"><span class="name">{esc(name)} <small>{esc(note)}</small></span>{picture}{boxes}{letters}</svg></div>'


def _box(window: Window, span: Span, look: str) -> str:
    x, end = window.x(span.start), window.x(span.end)
    words = f"{span.state} for {duration(span.end - span.start)} from {clock(span.start, 10)}"
    if span.folded:
        words += f", {span.folded} changes folded"
    return f'<rect class="s-{look}" x="{x:.3f}%" width="{max(end - x, 0.05):.3f}%" y="1" height="16"><title>{esc(words)}</title></rect>'


def bars(name: str, note: str, stacks: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Return a row of stacked bars; "" if all sums are below 0.01.

    `stacks` are looks, each with a value for each part of the time.
    """
    boxes: list[str] = []
    columns = [sum(column) for column in zip(*(values for _, values in stacks), strict=True)]
    # 0.98: the edges of bins may add a little to a sum
    top, count = math.ceil(0.98 * max(columns)), len(columns)
    if max(columns) < _SMALLEST:
        return ""
    base = [0.0] * count
    for look, values in stacks:
        for index, value in enumerate(values):
            height = 60 * value / top
            if height > 0:
                y = 64 - base[index] - max(height, 1.5)
                boxes.append(
                    f'<rect class="s-{look} bar" x="{100 * index / count:.3f}%" width="{100 / count:.3f}%" y="{y:.1f}" '
                    f'height="{max(height, 1.5):.1f}"/>'
                )
                base[index] += max(height, 1.5)
    label = f"{top:,.0f}"
    grid = '<line class="grid" x1="0" x2="100%" y1="4" y2="4"/><line class="base" x1="0" x2="100%" y1="64" y2="64"/>'
    picture = f'<svg class="bars" height="66" role="img" aria-label="{esc(name)}: {esc(note)}"><title>{esc(name)}: {esc(note)}</title>{grid}'
    scale = f'<span class="scale" aria-hidden="true"><i>{label}</i><i>0</i></span>'
    return f'<div class="row tall"><span class="name">{esc(name)} <small>{esc(note)}</small></span>{picture}{"".join(boxes)}</svg>{scale}</div>'


def legend(looks: str) -> str:
    """Return the legend of looks and letters, from a text such as `good: ready, G: a gap`.

    Each item is a swatch or a letter, and words.
    """
    items: list[str] = []
    for look, _, words in (part.partition(": ") for part in looks.split(", ")):
        swatch = f'<svg width="22" height="12" aria-hidden="true" focusable="false"><rect class="s-{look}" width="22" height="12"/></svg>'
        items.append(
            f"<li>{swatch if len(look) > 1 else f'<b class=letter>{look}</b>'} {esc(words)}</li>"
        )
    return f'<ul class="legend">{"".join(items)}</ul>'
