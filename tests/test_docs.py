"""The documents lead where they say, and none of them is lost. Their Python blocks are tests of their own (Sybil)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from resilient_bridge import cli
from tests.rows import each_row


ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def _named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _links(page: Path) -> list[str]:
    """The targets of a page's links, without those to other sites."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in target]


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@each_row("page", PAGES, ids=_named)
def test_every_link_leads_somewhere(page):
    """Each link to a file of this repository names one that is there, and a heading of it."""
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_every_page_is_reached_from_the_readme():
    """Whoever follows links from README.md finds every document."""
    seen: set[Path] = set()
    ahead = {ROOT / "README.md"}
    while ahead:
        page = ahead.pop()
        seen.add(page)
        found = {(page.parent / link.partition("#")[0]).resolve() for link in _links(page)}
        ahead |= {path for path in found if path.suffix == ".md"} - seen
    assert [_named(page) for page in PAGES if page not in seen] == []


def _commands() -> list[tuple[str, str]]:
    """Every call of `resilient-bridge` in a shell block of a page, up to the end of its pipe."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
            calls = re.findall(
                r"(?:^|[\s/])resilient-bridge ([^\n|;&<>]+)", block.replace("\\\n", " ")
            )
            found += [(_named(page), call.strip()) for call in calls]
    return found


@each_row(("page", "call"), _commands())
def test_every_command_shown_is_one_that_exists(page, call):
    """The command line of each shell block is one that the parser takes."""
    assert cli._parsed(shlex.split(call)).run
