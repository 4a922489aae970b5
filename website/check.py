"""Follows the links of the built site: every one leads to a file of it and, with an anchor, to an element there.

Rule: the generator is not trusted to have warned of all; this reads what a browser would.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The links, the anchors and what is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to, and what it is called."""
        found = {name: value or "" for name, value in attrs}
        self.anchors.update(value for value in (found.get("id"), found.get("name")) if value)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        loaded = found.get("src") or (
            found.get("href") if tag == "link" and found.get("rel") == "stylesheet" else ""
        )
        if loaded and urlsplit(loaded).netloc:
            self.loaded.append(loaded)


def problems(directory: Path) -> list[str]:
    """Return each link that leads nowhere, and each thing that is loaded from another site."""
    pages: dict[Path, _Page] = {}
    for path in sorted(directory.rglob("*.html")):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text())
    found = []
    for path, page in pages.items():
        name = path.relative_to(directory.resolve())
        found += [f"{name}: loads {url}" for url in page.loaded]
        if path.name == "404.html":  # its links start at the root of a server
            continue
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            goal = goal / "index.html" if goal.is_dir() else goal
            anchor = unquote(parts.fragment)
            if not goal.exists() or (
                anchor and goal in pages and anchor not in pages[goal].anchors
            ):
                found.append(f"{name}: {link} leads nowhere")
    listing = directory / "llms.txt"
    for link in re.findall(r"\]\(([^)]+)\)", listing.read_text()) if listing.exists() else ():
        if not (directory / link).exists():
            found.append(f"llms.txt: {link} leads nowhere")
    return found
