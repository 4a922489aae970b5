"""The API pages: one for each section of docs/reference/api.md, with the docstring of each name in it.

Rule: api.md says which names are public and in what order; what they do is read from their docstrings.
"""

from __future__ import annotations

import re


HEAD = re.compile(r"^## (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| \[`([\w.]+)`\]\(", re.MULTILINE)
NAMESPACES = {
    "agent",
    "errors",
    "events",
    "presets",
    "stores",
    "testing",
    "dialects",
    "agent.degradations",
}


def slug(head: str) -> str:
    """Return the file name of a section, without its ending."""
    return re.sub(r"[^a-z0-9]+", "-", head.lower()).strip("-")


def sections(text: str) -> dict[str, list[str]]:
    """Return the public names of each section, by its heading, in the order of api.md; a name counts where it stands first."""
    parts = HEAD.split(text)
    found: dict[str, list[str]] = {}
    seen: set[str] = set()
    for head, body in zip(parts[1::2], parts[2::2], strict=True):
        names = [name for name in dict.fromkeys(ROW.findall(body)) if name not in seen]
        seen.update(names)
        if names:
            found[head] = names
    return found


def anchors(text: str) -> dict[str, str]:
    """Return the page and anchor of each public name."""
    return {
        name: f"api/{slug(head)}.md#resilient_bridge.{name}"
        for head, names in sections(text).items()
        for name in names
    }


def page(head: str, names: list[str]) -> str:
    """Return the text of an API page."""
    lines = [f"# {head.replace('`', '')}", ""]
    for name in names:
        lines += [f"::: resilient_bridge.{name}"]
        if name in NAMESPACES:
            lines += ["    options:", "      members: false"]
        lines += [""]
    return "\n".join(lines)


def pages(text: str) -> dict[str, str]:
    """Return the API pages by their path in the site."""
    return {f"api/{slug(head)}.md": page(head, names) for head, names in sections(text).items()}
