"""The site has every page, and every page leads on. What the generator makes of them is checked by `nox -s site`, with warnings as errors."""

from __future__ import annotations

import json
import re
import shutil
from operator import attrgetter
from pathlib import Path

import pytest
import yaml

import resilient_bridge as rb
from tests.internals.cli import parser
from website import api, links, navigation, search
from website.check import problems
from website.pages import ROOT, assets, site, title
from website.readme import packaged
from website.release_notes import CHANGELOG, notes


CODE = re.compile(
    r"^( *)```(?:python|bash|toml|yaml|console)\n(.*?)^\1```", re.MULTILINE | re.DOTALL
)
pytestmark = pytest.mark.requirement("X11")


@pytest.fixture(scope="module")
def pages():
    return site()


def test_every_document_is_a_page(pages):
    """Each file under docs/ but reports of trials, the README, the changelog and each example are there."""
    documents = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    trials = {name for name in documents if name.startswith("design/trials/")}
    assert trials
    assert not trials & set(pages)
    documents -= trials
    examples = {f"examples/{path.stem}.md" for path in (ROOT / "examples").glob("*.py")}
    assert documents | examples | {
        "index.md",
        "overview.md",
        "project/changelog.md",
        "project/contributing.md",
    } <= set(pages)


def test_every_page_is_in_the_navigation(pages):
    """And nothing else is."""
    shown = re.findall(r"'([\w/.-]+\.md)'", str(navigation.navigation(pages)))
    assert sorted(shown) == sorted(pages)


def test_a_guide_that_the_index_by_task_leaves_out_is_named(pages):
    """So that a new guide is not lost."""
    with pytest.raises(ValueError, match=r"how-to/new\.md"):
        navigation.navigation({**pages, "how-to/new.md": "# New"})


def test_every_public_name_is_on_an_api_page(pages):
    """The names of api.md are those that the package exports; the docstring of each is on one page."""
    text = (ROOT / "docs/reference/api.md").read_text()
    listed = api.anchors(text)
    assert set(listed) == set(re.findall(r"^\| \[`([\w.]+)`\]", text, re.MULTILINE))
    for name, goal in listed.items():
        page, _, anchor = goal.partition("#")
        assert f"::: {anchor}\n" in pages[page], name


def test_links_lead_to_pages_of_the_site(pages):
    """Whatever a page links to is a page, with its own path."""
    there = {*pages, *assets()}
    for name, text in pages.items():
        for is_prose, part in links.prose(text):
            for found in links.LINK.finditer(part) if is_prose else ():
                target = found["target"].partition("#")[0]
                if target and "://" not in target:
                    path = (Path("/") / name).parent / target
                    assert str(path.resolve()).removeprefix("/") in there, (name, target)


def test_a_link_out_of_the_site_is_refused():
    """It would work on a clone and lead nowhere in the site."""
    with pytest.raises(links.NoPageError, match=r"docs/a\.md.*\.\./LICENSE"):
        links.rewritten("[text](../LICENSE)", "docs/a.md", "a.md", lambda _path, _text: None)


def test_a_link_to_what_the_site_leaves_out_keeps_its_text():
    """An empty path says that a file is left out on purpose."""
    assert (
        links.rewritten("[a trial](t.md): 5", "docs/a.md", "a.md", lambda _path, _text: "")
        == "a trial: 5"
    )


def test_links_are_moved_and_code_is_not():
    """A source file leads to the docstring of the name that the link shows; a block of code stays as it is."""
    text = (
        "[`Gap`](../../p.py) [x](../b.md#here) [y](https://host/)\n```\n[`Gap`](../../p.py)\n```\n"
    )
    goals = {"p.py": "api/n.md#rb.bridge.Gap", "docs/b.md": "b.md"}
    moved = links.rewritten(
        text, "docs/reference/a.md", "reference/a.md", lambda path, _text: goals[path]
    )
    assert moved == (
        "[`Gap`](../api/n.md#rb.bridge.Gap) [x](../b.md#here) [y](https://host/)\n```\n[`Gap`](../../p.py)\n```\n"
    )


def test_code_fits_its_column():
    """88 columns are as much as the site shows without a bar below. What is printed, data, and sources of presets are as they are."""
    paths = [path for path in (ROOT / "docs").rglob("*.md") if "design" not in path.parts]
    long = [
        (str(path.relative_to(ROOT)), line)
        for path in [*paths, ROOT / "examples/README.md", ROOT / "CONTRIBUTING.md"]
        for indent, block in CODE.findall(path.read_text("utf-8"))
        for line in block.splitlines()
        if len(line.removeprefix(indent)) > 88
        and "/home/you/" not in line  # an entry, as it is printed
    ]
    long += [
        (path.name, line)
        for path in (ROOT / "examples").rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if len(line) > 88
    ]
    assert long == []


def test_llms_txt_names_every_page(pages):
    """With its title and what it is about, in the order of the navigation."""
    text = navigation.llms(pages, "What it is.")
    assert text.startswith("# resilient-bridge\n\n> What it is.\n")
    listed = re.findall(r"^- \[.+\]\(([\w/.-]+)\)", text, re.MULTILINE)
    assert sorted(path.replace(".html", ".md") for path in listed) == sorted(pages)
    assert {path.partition("/")[0] for path in listed if path.endswith(".html")} == {"api"}
    assert f"[{title(pages['strategies/breaker.md'])}](strategies/breaker.md): " in text


def test_the_first_page_is_a_picture_and_five_doors(pages):
    """One sentence, five links, a picture; it is no copy of the README, which is a page of its own."""
    first = pages["index.md"]
    doors = re.findall(r"^\[\*\*(.+?)\*\* .+?\]\(([\w./#-]+)\)\{ \.door", first, re.MULTILINE)
    assert len(doors) == 5
    assert doors[0][1] == "overview.md"
    assert len(re.findall(r"^!\[.{40,}\]\([\w./-]+\)", first, re.MULTILINE)) == 1
    assert len(first.split()) < 150
    assert pages["overview.md"].startswith("# ")


def test_the_search_is_for_users(pages):
    """Design notes are not in it, a docstring is listed under its full name, and guides come before what ranks the same."""
    order = navigation.order(pages)
    assert sorted(order) == sorted(pages)
    known = [
        {"location": "api/calls.html#resilient_bridge.Retry", "title": "Retry"},
        {"location": "design/0004-calls.html", "title": "4. One retry loop"},
        {"location": "strategies/retry.html", "title": "Retry"},
        {"location": "strategies/retry.html#usage", "title": "Usage"},
        {"location": "index.html", "title": "Home"},
    ]
    shown = search.for_users(known, order)
    assert [item["title"] for item in shown] == ["Home", "Retry", "Usage", "resilient_bridge.Retry"]


def test_what_people_search_is_on_a_page(pages):
    """Each page that has to be found first is one, and a user's."""
    assert {f"{page}.md" for page in search.FIRST.values()} <= set(pages)
    assert not [page for page in search.FIRST.values() if page.startswith(search.HIDDEN)]


@pytest.mark.skipif(not shutil.which("node"), reason="no node here")
def test_a_search_that_finds_another_page_first_is_a_problem(tmp_path):
    """The worker of the site is asked as a browser does; this one ranks by the order of the index."""
    index, worker = tmp_path / "search.json", tmp_path / "worker.js"
    index.write_text(
        json.dumps({"config": {}, "items": [{"location": "a.html#x"}, {"location": "b.html"}]}),
        "utf-8",
    )
    worker.write_text(
        "let items; self.onmessage = ({data: {type, data}}) => { if (type === 0) { items = data.items; self.postMessage({type: 1}) }"
        " else self.postMessage({type: 3, data: {items: data.input === 'none' ? [] : items.map((_, id) => ({id}))}}) }"
    )
    assert search.problems(index, worker, {"a": "a", "b": "b", "none": "a"}) == [
        "search for 'b': b expected first, got a.html#x, b.html",
        "search for 'none': a expected first, got nothing",
    ]


def test_the_check_finds_what_leads_nowhere(tmp_path):
    """A file that is not there, an anchor that is not there, a script of another site; and nothing else."""
    (tmp_path / "a.html").write_text(
        '<h1 id="top"><a href="b.html#x">1</a><a href="b.html#y">2</a><a href="c.html">3</a><a href="#top">4</a>'
        '<a href="https://host/">5</a><script src="https://host/s.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="x">')
    (tmp_path / "llms.txt").write_text("- [a](a.html)\n- [c](c.md): more\n")
    assert problems(tmp_path) == [
        "a.html: loads https://host/s.js",
        "a.html: b.html#y leads nowhere",
        "a.html: c.html leads nowhere",
        "llms.txt: c.md leads nowhere",
    ]


def test_no_link_of_the_packaged_readme_is_relative():
    """An index has no pages of this repository: without an address the links go, with one they are absolute."""
    text = (ROOT / "README.md").read_text()
    for shown in (packaged(text), packaged(text, "https://host/blob/v1/")):
        targets = [
            found["target"]
            for is_prose, part in links.prose(shown)
            if is_prose
            for found in links.LINK.finditer(part)
        ]
        assert [target for target in targets if not target.startswith("https://")] == []
    assert "(https://host/blob/v1/docs/tutorial.md)" in packaged(text, "https://host/blob/v1/")
    assert "in the source distribution" in packaged(text)
    assert "[The tutorial]" not in packaged(text)


def test_release_notes_are_the_part_of_the_changelog():
    """Of one version, without its heading; a version that is not there is named."""
    text = "# Changelog\n\n## Unreleased\n\n- new\n\n## 1.0.0 - 2026-12-01\n\n### Added\n\n- old\n"
    assert notes(text) == "- new\n"
    assert notes(text, "1.0.0") == "### Added\n\n- old\n"
    with pytest.raises(LookupError, match=r"Unreleased, 1\.0\.0"):
        notes(text, "2.0.0")
    assert "\n### Calls\n" in notes(CHANGELOG.read_text())


def test_the_changelog_is_that_of_a_first_release():
    """By subject and short; nothing was released, so nothing was changed; each name in it is public, each option and argument one that there is."""
    text = CHANGELOG.read_text()
    lines = text.splitlines()
    assert (len(lines) <= 150, [line for line in lines if len(line) > 110]) == (True, [])
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Unreleased"]
    assert not re.search(
        r"no longer|it was |before:|renamed|(?m:^### (?:Changed|Fixed|Removed))", text
    )
    code = re.findall(r"`([^`]+)`", text)
    names = {name for one in code for name in re.findall(r"\brb((?:\.\w+)+)", one)}
    names |= {f".{one}" for one in code if re.fullmatch(r"[A-Z]\w+[a-z]\w*", one)}
    assert len(names) > 30
    for name in sorted(names):
        assert attrgetter(name[1:])(rb)
    commands = parser()._subparsers._group_actions[0].choices
    for command in commands:
        assert re.search(rf"`(?:resilient-bridge )?{command}`", text), command


def test_the_workflow_runs_three_systems_and_four_pythons():
    """And sessions that there are."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    matrix = workflow["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert [name.partition("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    asked = re.findall(r'nox -s "?(\w+)', (ROOT / ".github/workflows/ci.yml").read_text())
    sessions = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    assert {"lowest", "package", "tests"} <= set(asked) <= set(sessions)
