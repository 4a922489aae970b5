"""The built site as a browser draws it: its first page and a guide, light and narrow. Debian's chromium, nothing from a network.

Run by `nox -s site_pictures` after `nox -s site`; skipped where /usr/bin/chromium is not there, or site/ was not built.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path

import pytest

from tests.report.test_pictures import BROWSER, LIGHT, browse, colours


SITE = Path(__file__).parents[1] / "site"
PAGES = {
    "index.html": "Calls and connections that survive",
    "how-to/alerts.html": "Alerts on failure rates",
    "api/calls.html": "Calls",
}
LOOK = """<script>addEventListener('load', function () { setTimeout(function () {
parent.postMessage(JSON.stringify({inner: innerWidth, whole: document.documentElement.scrollWidth,
header: getComputedStyle(document.querySelector('.md-header')).position}), '*') }, 50) })</script>"""
FRAME = "<!DOCTYPE html><title></title><script>onmessage = function (one) { document.title = one.data }</script>"

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(300),
    pytest.mark.requirement("X11"),
    pytest.mark.skipif(BROWSER is None, reason="no chromium here: apt-get install chromium"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site/ here: nox -s site"),
]


@pytest.fixture
def site(tmp_path) -> Path:
    """A copy, to write into."""
    return Path(shutil.copytree(SITE, tmp_path / "site"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_drawn(site, tmp_path, page):
    """A light page with text in dark, in more than two colours, and its heading."""
    picture = tmp_path / "page.png"
    browse(tmp_path, site / page, LIGHT, "--window-size=1280,1000", f"--screenshot={picture}")
    found = colours(picture.read_bytes())
    background = max(found, key=lambda colour: found[colour])
    assert sum(background) > 700
    assert sum(count for colour, count in found.items() if sum(colour) < 300) > 1_000
    assert len(found) > 50
    seen = browse(tmp_path, site / page, "--dump-dom", "--virtual-time-budget=5000")
    assert PAGES[page] in re.sub("<.*?>", "", re.search("<h1.*?</h1>", seen, re.DOTALL)[0])


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_the_window(site, tmp_path, page, width):
    """In its style it does not scroll sideways: tables and code do, each in its own frame."""
    looked = (site / page).with_name("looked.html")
    looked.write_text(
        (site / page).read_text("utf-8").replace("</body>", f"{LOOK}</body>"), "utf-8"
    )
    framed = (site / page).with_name("framed.html")
    framed.write_text(f"{FRAME}<iframe width={width} height=900 src=looked.html></iframe>", "utf-8")
    seen = browse(
        tmp_path, framed, "--window-size=1400,1000", "--virtual-time-budget=5000", "--dump-dom"
    )
    measured = json.loads(html.unescape(re.search("<title>(.*?)</title>", seen, re.DOTALL)[1]))
    assert measured["whole"] <= measured["inner"] <= width
    assert measured["header"] == "sticky"  # its style was read
