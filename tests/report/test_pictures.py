"""The page as a browser draws it: light, dark, narrow and on paper, with 1, 20 and 500 links. Debian's chromium, nothing from a network.

Run by `nox -s campaigns`; skipped where /usr/bin/chromium is not there (`apt-get install chromium`).
"""

from __future__ import annotations

import html
import json
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from resilient_bridge.report import Incident, page
from tests.report.made_logs import log
from tests.report.reading_pages import Page


BROWSER = shutil.which("chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --hide-scrollbars"
).split()
LIGHT, DARK = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"
GOOD = {LIGHT: (0x5F, 0xAE, 0x98), DARK: (0x3D, 0x8C, 0x78)}
LOOK = """<script>addEventListener('load', function () { setTimeout(function () {
var wide = Array.prototype.filter.call(document.querySelectorAll('body *'), function (one) {
  return !one.closest('.scroll') && one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('svg') });
parent.document.title = JSON.stringify({inner: innerWidth, whole: document.documentElement.scrollWidth, filter: !!document.querySelector('.filter input'),
  background: getComputedStyle(document.body).backgroundColor, wide: wide.map(function (one) { return one.outerHTML.slice(0, 80) })}) }, 50) })</script>"""

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(300),
    pytest.mark.requirement("X10"),
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium"),
]


def browse(tmp_path: Path, file: Path, *options: str) -> str:
    """Open a file in a browser that has never run before; what it prints."""
    profile = tmp_path / f"profile-{len(list(tmp_path.iterdir()))}"
    done = subprocess.run(
        [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--enable-logging=stderr", *options, file.as_uri()],
        capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    assert not re.search(r"CONSOLE.*", done.stderr), re.search(r"CONSOLE.*", done.stderr)
    return done.stdout


@pytest.fixture(params=[1, 20, 500])
def shown(request, tmp_path) -> Path:
    """A page with so many links."""
    incident = Incident()
    incident.source("session.jsonl")
    for one in log(request.param, seconds=1200, mcp=True):
        incident.take(one)
    incident.finish()
    path = tmp_path / "page.html"
    path.write_text(page(incident), "utf-8")
    return path


def colours(png: bytes) -> dict[tuple[int, ...], int]:
    """How many pixels have which colour: PNG, 8 bits, not interlaced, as chromium writes it."""
    width, _, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    size = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        data += png[at + 8 : at + 8 + length] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    raw, stride, found = zlib.decompress(data), width * size, dict[tuple[int, ...], int]()
    before = bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        row = bytearray(raw[start + 1 : start + 1 + stride])
        for i in range(stride):
            before_it, up, corner = (
                row[i - size] if i >= size else 0,
                before[i],
                before[i - size] if i >= size else 0,
            )
            row[i] = (row[i] + _predicted(raw[start], before_it, up, corner)) & 255
        for i in range(0, stride, size):
            pixel = tuple(row[i : i + 3])
            found[pixel] = found.get(pixel, 0) + 1
        before = row
    return found


def _predicted(sort: int, before_it: int, up: int, corner: int) -> int:
    if sort < 4:
        return (0, before_it, up, (before_it + up) // 2)[sort]
    near = before_it + up - corner
    return min((before_it, up, corner), key=lambda one: abs(near - one))


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_it_is_drawn_in_the_colours_of_the_screen(shown, tmp_path, scheme):
    """The background is the scheme's, and the lanes are there, in its green; nothing is written to the console."""
    picture = tmp_path / "page.png"
    browse(tmp_path, shown, scheme, "--window-size=760,1300", f"--screenshot={picture}")
    found = colours(picture.read_bytes())
    background = max(found, key=lambda colour: found[colour])
    assert (sum(background) > 600) == (scheme == LIGHT)
    assert found.get(GOOD[scheme], 0) > 500


@pytest.mark.parametrize("width", [360, 400, 1280])
def test_it_fits_the_window(shown, tmp_path, width):
    """Only tables scroll, each in its own frame; the filter is made by the page's own script, so its policy lets that run."""
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy.[^>]*>", "", shown.read_text("utf-8"))
    framed = tmp_path / "framed.html"
    srcdoc = html.escape(text.replace("</body>", f"{LOOK}</body>"), quote=True)
    framed.write_text(
        f'<!DOCTYPE html><title></title><iframe width={width} height=900 srcdoc="{srcdoc}"></iframe>',
        "utf-8",
    )
    seen = browse(
        tmp_path, framed, "--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom"
    )
    measured = json.loads(html.unescape(re.search("<title>(.*?)</title>", seen, re.DOTALL)[1]))
    assert measured["inner"] in (width, width - 15)
    assert measured["wide"] == []
    assert measured["whole"] <= measured["inner"]
    assert measured["filter"]


def test_every_row_is_in_the_document_and_the_script_runs_under_the_policy(shown, tmp_path):
    """What the browser has is what was written, and the filter."""
    seen = Page(browse(tmp_path, shown, "--dump-dom", "--virtual-time-budget=5000"))
    assert [row for row in seen.rows if row] == Page(shown.read_text("utf-8")).rows
    assert seen.all("input")


def test_it_prints_on_paper(shown, tmp_path):
    """A PDF of some pages: tables are not cut off at the right."""
    paper = tmp_path / "page.pdf"
    browse(tmp_path, shown, DARK, "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    pages = len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))
    assert 3 <= pages <= 40
