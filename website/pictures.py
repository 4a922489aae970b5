"""Draws a run of `resilient-bridge demo` as a terminal in SVG: `python -m tests.pages --run demo` writes docs/images/demo.svg.

Rule: the text is what the program printed; only lines that are too long are wrapped, as on a terminal of 80 columns.
"""

from __future__ import annotations

import html
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from resilient_bridge.cli.demo_table import COLOURED, COLOURS, wrapped

from .pages import ROOT


PICTURE: Final = ROOT / "docs/images/demo.svg"
COLUMNS: Final = 80
_CHARACTER, _LINE, _MARGIN, _BAR = 8.4, 20, 20, 36  # pixels; a character of 14 px
_NAMES: Final = {31: "red", 32: "green", 35: "purple", 36: "blue"}  # of ANSI's colours
_STYLE: Final = """<style>
.frame { fill: #ffffff; stroke: #d0d7de }
text { fill: #1f2328; white-space: pre; font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.dim { fill: #656d76 } .green { fill: #1a7f37 } .purple { fill: #8250df } .blue { fill: #0969da } .red { fill: #cf222e }
.dot { fill: #d0d7de } .green, .purple, .blue, .red { font-weight: 600 }
@media (prefers-color-scheme: dark) {
.frame { fill: #0d1117; stroke: #30363d }
text { fill: #e6edf3 } .dim { fill: #8d96a0 } .dot { fill: #30363d }
.green { fill: #3fb950 } .purple { fill: #bc8cff } .blue { fill: #58a6ff } .red { fill: #ff7b72 }
}
</style>"""


def terminal(title: str, lines: Sequence[str]) -> str:
    """Return lines as a terminal in SVG, light or dark as its reader prefers. It loads nothing."""
    wide = round(2 * _MARGIN + COLUMNS * _CHARACTER)
    high = _BAR + len(lines) * _LINE + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}" role="img">',
            f"<title>{html.escape(title)}</title>",
            _STYLE,
            f'<rect class="frame" x="0.5" y="0.5" width="{wide - 1}" height="{high - 1}" rx="8"/>',
            *(f'<circle class="dot" cx="{_MARGIN + 18 * at}" cy="18" r="5"/>' for at in range(3)),
            *(
                _drawn(line, _BAR + (number + 0.8) * _LINE)
                for number, line in enumerate(lines)
                if line.strip()
            ),
            "</svg>\n",
        ]
    )


def _drawn(line: str, at: float) -> str:
    """Return one line of text; its length is given, so that columns stand below each other in any font."""
    kind = (
        ' class="dim"'
        if line.startswith("$ ") or line.split(maxsplit=1)[0] in {"what", "the"}
        else ""
    )
    shown = COLOURED.sub(
        lambda found: f'<tspan class="{_NAMES[COLOURS[found[0]]]}">{found[0]}</tspan>',
        html.escape(line, quote=False),
    )
    long = f'textLength="{len(line) * _CHARACTER:.1f}"'
    return f'<text x="{_MARGIN}" y="{at:g}" {long} xml:space="preserve"{kind}>{shown}</text>'


def main() -> None:
    """Run the demo, draw what it printed, and print it."""
    command = (sys.executable, "-m", "resilient_bridge", "demo")
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 -- our own program
    PICTURE.parent.mkdir(exist_ok=True)
    lines = "\n".join(wrapped(line, COLUMNS) for line in output.splitlines()).split("\n")
    title = "resilient-bridge demo: a line for each fault, and the score"
    PICTURE.write_text(terminal(title, ["$ resilient-bridge demo", *lines]), "utf-8")
    sys.stdout.write(output)
