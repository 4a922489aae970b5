"""Rewrites the links of a page for its path in the site. Pure: text in, text out.

Rule: a link is found as tests/test_docs.py finds it; one whose target has no page in the site is an error.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator


CODE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\[(?P<text>[^\]]*(?:\[[^\]]*\])?[^\]]*)\])\((?P<target>[^)\s]+)\)")


class NoPageError(ValueError):
    """A link whose target is not part of the site."""


def prose(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts of a page, each with whether it is prose (and not a block of code)."""
    end = 0
    for block in CODE.finditer(text):
        yield True, text[end : block.start()]
        yield False, block.group()
        end = block.end()
    yield True, text[end:]


def rewritten(text: str, source: str, page: str, page_of: Callable[[str, str], str | None]) -> str:
    """Return the text with each relative link pointing from `page` to the page of its target.

    `source` is the file's path in the repository, `page` its path in the site. `page_of(target, text)` returns the path in the
    site, with an anchor if need be, of a file of the repository that is linked under this text, or an empty text for one that is left out of
    the site on purpose: the text of such a link stays, and the link goes. Raises NoPageError where it returns None.
    """

    def link(found: re.Match[str]) -> str:
        target, _, anchor = found["target"].partition("#")
        if "://" in found["target"] or not target:
            return found.group()
        name = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        goal = page_of(name, found["text"])
        if goal is None:
            msg = f"{source}: a link to a page of the site expected, got {found['target']!r}"
            raise NoPageError(msg)
        if not goal:
            return found["text"]
        goal, _, own = goal.partition("#")
        relative = posixpath.relpath(goal, posixpath.dirname(page) or ".")
        return f"{found[1]}({relative}{'#' if own or anchor else ''}{own or anchor})"

    return "".join(LINK.sub(link, part) if is_prose else part for is_prose, part in prose(text))
