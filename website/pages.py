"""Which pages the site has, and the text of each.

Rule: what stands under docs/ has the same path in the site; everything else is listed here, the first page (landing.md) too.
Reports of trials are for those who work on the package: a clone has them, the site does not.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from . import api, links


ROOT = Path(__file__).parents[1]
OTHERS = {  # files of the repository outside of docs/, and their paths in the site
    "website/landing.md": "index.md",
    "README.md": "overview.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "examples/index.md",
}
TRIALS = "docs/design/trials/"


def title(text: str) -> str:
    """Return the first heading of a page, without its marks."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    if not found:
        msg = "a page with a heading expected, got one without"
        raise ValueError(msg)
    return found[1].replace("`", "")


def example(path: Path) -> str:
    """Return the page of a program in examples/: its docstring, then its source."""
    text = path.read_text()
    head, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
    parts = [f"# {head.rstrip('.')}", rest.strip(), f"`examples/{path.name}`:", f"```python\n{text}```"]
    return "\n\n".join(part for part in parts if part) + "\n"


def sources() -> dict[str, str]:
    """Return the paths in the site of the files that become pages, by their paths in the repository."""
    documents = {
        str(path.relative_to(ROOT)): str(path.relative_to(ROOT / "docs"))
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not str(path.relative_to(ROOT)).startswith(TRIALS)
    }
    programs = {
        str(path.relative_to(ROOT)): str(path.relative_to(ROOT).with_suffix(".md"))
        for path in sorted((ROOT / "examples").rglob("*.py"))
    }
    return {name: page for name, page in OTHERS.items() if (ROOT / name).exists()} | documents | programs


def assets() -> dict[str, Path]:
    """Return the style, and the other files under docs/, pictures above all, by their paths in the site."""
    others = [path for path in (ROOT / "docs").rglob("*") if path.is_file() and path.suffix != ".md"]
    return {"site.css": ROOT / "website/site.css"} | {
        str(path.relative_to(ROOT / "docs")): path for path in sorted(others)
    }


def site() -> dict[str, str]:
    """Return every page of the site, by its path. Raises NoPageError for a link that would lead out of it."""
    page_of_file, files = sources(), assets()
    names = (ROOT / "docs/reference/api.md").read_text()
    page_of_name = api.anchors(names)

    def page_of(target: str, text: str) -> str | None:
        if target.startswith("resilient_bridge/"):
            return page_of_name.get(text.strip("`"))
        if target.startswith(TRIALS):
            return ""
        moved = target.removeprefix("docs/")
        return page_of_file.get(target) or (moved if moved in files else None)

    texts = {}
    for source, page in page_of_file.items():
        path = ROOT / source
        if path.suffix == ".py":
            texts[page] = example(path)
        else:
            texts[page] = links.rewritten(path.read_text(), source, page, page_of)
    return texts | api.pages(names)
