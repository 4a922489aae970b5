"""Writes the site's pages for the generator: `python -m website DIRECTORY`, then `zensical build --strict` in it.

`python -m website finish DIRECTORY` puts the text of each page beside the built one, where llms.txt says that it is, follows every link, and asks the search.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from . import search
from .check import problems
from .navigation import has_text, llms, navigation, order
from .pages import ROOT, assets, site


def write(directory: Path) -> None:
    """Write the pages, llms.txt and the generator's configuration."""
    pages = site()
    for name, text in pages.items():
        path = directory / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name, source in assets().items():
        path = directory / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())
    summary = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["description"]
    (directory / "docs/llms.txt").write_text(llms(pages, summary))
    drawing = (
        directory / "package/dist/mermaid.min.js"
    )  # where `npm pack` has put it, if it was asked to
    extra = f"extra_javascript: [{drawing.name}]\n" if drawing.exists() else ""
    if drawing.exists():
        drawing.replace(directory / "docs" / drawing.name)
    settings = (ROOT / "website/mkdocs.yml").read_text().replace("SOURCE", json.dumps(str(ROOT)))
    (directory / "mkdocs.yml").write_text(
        f"{settings}{extra}nav: {json.dumps(navigation(pages))}\n"
    )


def finish(directory: Path) -> list[str]:
    """Copy the pages as they were written into the built site, narrow its search, and return the links that lead nowhere and the pages that are not found."""
    pages, built, index = directory / "docs", directory / "site", directory / "site/search.json"
    for source in sorted(pages.rglob("*.md")):
        name = source.relative_to(pages)
        if has_text(str(name)):
            (built / name).write_text(source.read_text())
    known = json.loads(index.read_text())
    known["items"] = search.for_users(known["items"], order(site()))
    index.write_text(json.dumps(known, ensure_ascii=False))
    searched = {search.page_of(item) for item in known["items"]}
    unknown = [
        page
        for page in site()
        if page.removesuffix(".md") not in searched and not page.startswith(search.HIDDEN)
    ]
    (worker,) = (built / "assets/javascripts/workers").glob("search.*.js")
    return [
        *problems(built),
        *(f"{page}: the search does not know it" for page in unknown),
        *search.problems(index, worker, search.FIRST),
    ]


def main(arguments: list[str]) -> int:
    """Write the pages, or finish what was built; return 1 if a link is broken."""
    if arguments[0] == "finish":
        found = finish(Path(arguments[1]))
        sys.stdout.writelines(f"{problem}\n" for problem in found)
        return bool(found)
    write(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
